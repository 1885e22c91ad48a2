/*===- encast.h - load and run Encast artifacts -----------------*- C -*-===*/
/*
 * An artifact (model.so, made by `encast compile`) holds one transformer
 * encoder. This header is all that an embedder needs:
 *
 *   encast_model *model;
 *   encast_session *session;
 *   encast_error error = ENCAST_ERROR_INIT;
 *   encast_model_open("model.so", NULL, &model, &error);
 *   encast_session_create(model, NULL, &session, &error);
 *   encast_session_reserve(session, 4096, 32, 0, &error);
 *
 *   int64_t ids[] = {101, 7592, 102, 101, 2088, 102};
 *   int64_t offsets[] = {0, 3, 6};   // two sequences, back to back
 *   float embedding[2 * 384];
 *   encast_input inputs[] = {{sizeof(encast_input), "ids", ids, 6},
 *                            {sizeof(encast_input), "offsets", offsets, 3}};
 *   encast_output outputs[] = {{sizeof(encast_output), "sentence_embedding",
 *                               embedding, 2 * 384}};
 *   encast_run(session, inputs, 2, outputs, 1, &error);
 *
 * An artifact is code: load only what you trust.
 *
 * Conventions. Every function but encast_status_name returns an encast_status
 * and takes a caller-owned encast_error last, which may be NULL. Each answers
 * INVALID_ARGUMENT to a NULL that it does not allow, to a `size` that is too
 * small, and, of a session, to a call in a child of fork(). Public structs
 * start with `size`, set by the caller to sizeof of the struct it was compiled
 * with; fields that a shorter size leaves out take their defaults. Strings are
 * UTF-8 and NUL-terminated. Shapes are written [rows, columns]; T is the number
 * of tokens of a batch, B the number of its sequences.
 *
 * Threads. A model may be used by many sessions and threads at once; a session
 * serves one call at a time and answers ENCAST_BUSY otherwise. encast_cancel
 * may come from any thread at any time before encast_session_destroy. Callbacks
 * run on the thread that called (progress, with an executor: on that of task
 * 0). After fork() models are usable in the child, sessions are not.
 *
 * Determinism. The bits of a sequence's results do not depend on the other
 * sequences of the batch, its place, the number of threads or the other outputs
 * asked. No environment variable changes results; ENCAST_THREADS and ENCAST_LOG
 * (error, warning, info) only set defaults.
 */
#ifndef ENCAST_H
#define ENCAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENCAST_VERSION_MAJOR 0
#define ENCAST_VERSION_MINOR 1

#if defined(__GNUC__)
#define ENCAST_API __attribute__((visibility("default")))
#else
#define ENCAST_API
#endif

/* Numbers never change; new ones are appended. */
typedef enum encast_status {
  ENCAST_OK = 0,
  ENCAST_INVALID_ARGUMENT = 1, /* null pointer, wrong size, bad option */
  ENCAST_OUT_OF_MEMORY = 2,    /* the system refused memory */
  ENCAST_IO_ERROR = 3,         /* a file cannot be opened, read or mapped */
  ENCAST_BAD_ARTIFACT = 4,     /* not an artifact, truncated or altered */
  ENCAST_ABI_MISMATCH = 5,     /* artifact of another ABI version */
  ENCAST_CPU_UNSUPPORTED = 6,  /* no variant runs on this CPU */
  ENCAST_UNKNOWN_NAME = 7,     /* input, output or variant that is not there */
  ENCAST_BAD_SHAPE = 8,        /* offsets or counts that do not fit */
  ENCAST_TOKEN_OUT_OF_RANGE = 9, /* id or token type outside of its table */
  ENCAST_SEQUENCE_TOO_LONG = 10, /* over the model's limit */
  ENCAST_TOO_SMALL = 11,         /* reservation or output buffer too small */
  ENCAST_MEMORY_CAP = 12,        /* needs more than the session's cap */
  ENCAST_BUSY = 13,              /* the session or model is in use */
  ENCAST_CANCELLED = 14,         /* encast_cancel was called */
  ENCAST_NOT_FINITE = 15,        /* an output holds a NaN or infinity */
  ENCAST_INTERNAL = 16           /* a fault of the library; not in use */
} encast_status;

/* The name of a status, "ENCAST_OK"; "ENCAST_UNKNOWN" for other numbers. */
ENCAST_API const char *encast_status_name(encast_status status);

/* Filled by the function that fails; untouched on success. */
typedef struct encast_error {
  size_t size;
  encast_status code;
  char message[512]; /* names the thing, the limit and the value */
} encast_error;

#define ENCAST_ERROR_INIT {sizeof(encast_error), ENCAST_OK, {0}}

typedef struct encast_model encast_model;
typedef struct encast_session encast_session;

typedef enum encast_log_level {
  ENCAST_LOG_ERROR = 0,
  ENCAST_LOG_WARNING = 1,
  ENCAST_LOG_INFO = 2
} encast_log_level;

typedef void (*encast_log_function)(void *data, encast_log_level level,
                                    const char *message);

/*===- models -------------------------------------------------------------===*/

typedef struct encast_model_options {
  size_t size;
  /* Takes this variant, e.g. "znver3"; NULL: the best that this CPU runs. */
  const char *variant;
  /* 1: the first encast_session_reserve does not read the weights into the page
     tables; runs do, where they touch them. */
  int lazy_weights;
  encast_log_function log; /* NULL: silent */
  void *log_data;
  /* 1: copies the weights that kernels stream into huge pages, once for all
     sessions: short texts run some percent faster, and the process takes as
     much memory more (copied_weights_bytes of encast_model_info_t), which it
     does not share. 0: maps them only. */
  int huge_page_weights;
} encast_model_options;

/*
 * Opens the artifact at `path`: checks it without running it, loads it and maps
 * its weights, which all processes share. `options` may be NULL. The model
 * belongs to the caller until encast_model_close.
 * A variant that uses AMX tiles asks the system for the right to, once and for
 * the process: from then on Linux refuses alternate signal stacks that have no
 * room for them, as it refuses the right where such a stack exists (Java, Go).
 * Then another variant is taken, with a warning, if the artifact has one.
 * Errors: IO_ERROR, BAD_ARTIFACT, ABI_MISMATCH, CPU_UNSUPPORTED (names the
 * instructions), UNKNOWN_NAME (variant), OUT_OF_MEMORY, INVALID_ARGUMENT.
 */
ENCAST_API encast_status encast_model_open(const char *path,
                                           const encast_model_options *options,
                                           encast_model **model,
                                           encast_error *error);

/*
 * Closes a model whose sessions are all destroyed; NULL is fine.
 * Errors: BUSY if a session is left.
 */
ENCAST_API encast_status encast_model_close(encast_model *model,
                                            encast_error *error);

/* Strings belong to the model. The caller sets `size` before the call. */
typedef struct encast_model_info_t {
  size_t size;
  const char *family;      /* "bert" */
  const char *variant;     /* the variant in use */
  const char *artifact_id; /* 32 hexadecimal digits */
  const char *metadata;    /* JSON: labels, prompts, licence, sources */
  int64_t vocabulary;      /* ids are in [0, vocabulary) */
  int64_t max_tokens;      /* longest sequence */
  int64_t token_types;     /* token type ids are in [0, token_types) */
  int64_t pad_id;          /* -1: none */
  int64_t hidden;          /* H */
  int64_t layers;
  int64_t output_count;
  int64_t default_output; /* index of the output that tools take */
  int64_t weights_bytes;
  int64_t attended_length; /* 1: the input attended_length may be less than the
                              ids of a sequence; 0: it must be all of them */
  int64_t copied_weights_bytes; /* of memory, with huge_page_weights; else 0 */
} encast_model_info_t;

ENCAST_API encast_status encast_model_info(const encast_model *model,
                                           encast_model_info_t *info,
                                           encast_error *error);

/* One output of a model. `name` belongs to the model. */
typedef struct encast_output_info {
  size_t size;
  const char *name; /* "sentence_embedding" */
  int64_t columns;
  int per_token; /* 1: a row per token [T, columns], or per given row;
                    0: a row per sequence [B, columns] */
} encast_output_info;

/* Output `index`, 0 <= index < output_count. Errors: UNKNOWN_NAME. */
ENCAST_API encast_status encast_model_output(const encast_model *model,
                                             int64_t index,
                                             encast_output_info *info,
                                             encast_error *error);

/*===- sessions -----------------------------------------------------------===*/

/* Calls task(data, i) once for each i in [0, count), at best at the same time,
   and returns when all have returned. Task 0 does what is left; tasks do not
   wait for tasks that have not begun. */
typedef void (*encast_executor_function)(void *executor_data,
                                         void (*task)(void *data, int64_t i),
                                         void *data, int64_t count);

/* Returns `bytes` of memory aligned to 64, or NULL; free gets the same size. */
typedef void *(*encast_allocate_function)(void *data, size_t bytes);
typedef void (*encast_free_function)(void *data, void *memory, size_t bytes);

/* Called after each layer with the share of steps done, in [0, 1]. */
typedef void (*encast_progress_function)(void *data, double done);

typedef struct encast_session_options {
  size_t size;
  /* 0: physical cores within the affinity mask and the cgroup's quota, or
     ENCAST_THREADS. More than allowed is honoured with a warning. */
  int threads;
  int pin;            /* 1: pins each worker to a core; failing is a warning */
  int numa_node;      /* own workers and arena rather on this node; -1:
                         anywhere */
  int huge_pages;     /* of the arena: 1 ask for (default), 0 never */
  int64_t memory_cap; /* most bytes of the arena and of the model's copied
                         weights; 0: none */
  encast_executor_function executor; /* instead of own threads */
  void *executor_data;
  encast_allocate_function allocate; /* instead of own mapping */
  encast_free_function free;
  void *allocate_data;
  encast_log_function log; /* NULL: the model's */
  void *log_data;
  encast_progress_function progress;
  void *progress_data;
} encast_session_options;

#define ENCAST_SESSION_OPTIONS_INIT                                            \
  {sizeof(encast_session_options), 0, 0, -1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/*
 * Creates a session with its threads; no arena yet. `options` may be NULL.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
ENCAST_API encast_status encast_session_create(
    encast_model *model, const encast_session_options *options,
    encast_session **session, encast_error *error);

/* Ends the threads and frees the arena; NULL is fine. Errors: BUSY. */
ENCAST_API encast_status encast_session_destroy(encast_session *session,
                                                encast_error *error);

/*
 * The bytes of arena that a run of T tokens in B sequences takes when it asks
 * for `outputs` (bit i: output i of encast_model_output; 0: all). Exact: it is
 * what encast_session_reserve maps. Beside it a model holds its
 * copied_weights_bytes, once. Errors: BAD_SHAPE, UNKNOWN_NAME, BUSY.
 */
ENCAST_API encast_status encast_memory_needed(const encast_session *session,
                                              int64_t tokens, int64_t sequences,
                                              uint64_t outputs, int64_t *bytes,
                                              encast_error *error);

/*
 * The bytes of memory that this process can still take: what the system has
 * free, and what the memory limits of its control groups leave. Of other
 * processes nobody knows: a moment later it may be less. Errors:
 * INVALID_ARGUMENT.
 */
ENCAST_API encast_status encast_memory_available(int64_t *bytes,
                                                 encast_error *error);

/*
 * Maps and touches the arena for runs of up to T tokens in B sequences with
 * these outputs (as above); a second call replaces the first. The first one of
 * a model also reads its weights into the page tables. A session that never
 * reserved returns TOO_SMALL from encast_run, and so does one whose last call
 * ended in OUT_OF_MEMORY or in memory that is not aligned: there is not room
 * for two arenas. Other errors leave the arena that there was. Errors:
 * MEMORY_CAP (with needed and allowed bytes), OUT_OF_MEMORY, BAD_SHAPE,
 * UNKNOWN_NAME, INVALID_ARGUMENT (memory that is not aligned, from the caller),
 * BUSY.
 */
ENCAST_API encast_status encast_session_reserve(encast_session *session,
                                                int64_t tokens,
                                                int64_t sequences,
                                                uint64_t outputs,
                                                encast_error *error);

/* clang-format off */
/*
 * Named input; data belongs to the caller. All are int64:
 *   ids             [T]      token ids of all sequences, back to back
 *   offsets         [B + 1]  first token of each sequence, then T; each
 *                            sequence has at least one token. Optional: one
 *                            sequence
 *   token_type_ids  [T]      optional: zeros
 *   attended_length [B]      optional: how many ids of each sequence, from its
 *                            first, are attended: at least one; all of them,
 *                            but for models whose info says otherwise. The
 *                            others have rows and attend, and nothing attends
 *                            to them
 *   rows            [R]      optional, R <= T: the token rows, counted over the
 *                            batch, for which per-token outputs are computed, in
 *                            any order, also more than once
 * No sequence (count 0 of ids, offsets = {0}) is valid and writes nothing.
 */
/* clang-format on */
typedef struct encast_input {
  size_t size;
  const char *name;
  const int64_t *data;
  int64_t count; /* of elements */
} encast_input;

/* Named output; data belongs to the caller: rows * columns floats, row-major.
   A per-token output has T rows, or R if `rows` is given. */
typedef struct encast_output {
  size_t size;
  const char *name;
  float *data;
  int64_t count; /* of floats that data has room for */
} encast_output;

/*
 * Runs the model and writes the outputs asked, and computes nothing that only
 * other outputs need. Allocates nothing. After an error or cancel the outputs'
 * contents are unspecified and the session is usable.
 * Errors: BUSY, INVALID_ARGUMENT (ids are missing, an input stands twice),
 * UNKNOWN_NAME, BAD_SHAPE, TOKEN_OUT_OF_RANGE, SEQUENCE_TOO_LONG, TOO_SMALL,
 * CANCELLED, NOT_FINITE. A run on AMX tiles leaves those of the calling thread
 * released.
 */
ENCAST_API encast_status encast_run(encast_session *session,
                                    const encast_input *inputs,
                                    int64_t input_count,
                                    const encast_output *outputs,
                                    int64_t output_count, encast_error *error);

/* Makes the run that is in flight, if any, return CANCELLED soon. From any
   thread. Errors: none but INVALID_ARGUMENT. */
ENCAST_API encast_status encast_cancel(encast_session *session,
                                       encast_error *error);

/*===- statistics ---------------------------------------------------------===*/

/* Of the last run. Strings belong to the model. The caller sets `size`. */
typedef struct encast_session_stats_t {
  size_t size;
  const char *variant;
  int threads;
  int64_t tokens, sequences;
  int64_t arena_bytes; /* reserved */
  int64_t nanoseconds; /* of the run */
  int64_t step_count;  /* rows that encast_session_step answers */
  int64_t runs;        /* since creation */
} encast_session_stats_t;

/* Errors: BUSY. */
ENCAST_API encast_status encast_session_stats(const encast_session *session,
                                              encast_session_stats_t *stats,
                                              encast_error *error);

/* One call of a step in the last run. Strings belong to the model. */
typedef struct encast_step_stats {
  size_t size;
  const char *step; /* the step, all between two barriers */
  const char *name; /* the layer or operation */
  const char *kernel;
  int64_t layer;       /* 1-based; 0: outside of layers */
  int64_t nanoseconds; /* summed over threads; 0 if it did not run */
  int64_t flops;       /* of matrix products */
} encast_step_stats;

/* Row `index`, 0 <= index < step_count. Errors: UNKNOWN_NAME, BUSY. */
ENCAST_API encast_status encast_session_step(const encast_session *session,
                                             int64_t index,
                                             encast_step_stats *stats,
                                             encast_error *error);

#ifdef __cplusplus
}
#endif

#endif /* ENCAST_H */
