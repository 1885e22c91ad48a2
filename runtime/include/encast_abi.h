/*===- encast_abi.h - layout of an Encast artifact --------------*- C -*-===*/
/*
 * The one contract between the compiler, which writes artifacts, and the
 * runtime, which loads them. Plain C, no dependency. Nothing here is public:
 * users of the library include encast.h.
 *
 *   model.so
 *   +--------------------------+
 *   | ELF header, segments     |  lld's output: step functions (LLVM), kernels
 *   | .text .rodata            |  (Xbyak) and the descriptor, no NEEDED entry,
 *   | .encast.descriptor       |  no undefined symbol, one exported function
 *   +--------------------------+
 *   | .encast.weights          |  appended, page aligned, not ALLOC: blobs
 *   |                          |  at multiples of 64 bytes, mapped read-only
 *   +--------------------------+
 *   | .shstrtab, section table |  the file ends with the section table
 *   +--------------------------+
 *
 * The weights may lie in a file of their own beside it, which since version 4
 * ends with a copy of the table of blobs: hashes and all, it says whose weights
 * these are.
 *
 * The descriptor is one block of bytes without pointers: a table is an offset
 * from the descriptor's first byte and a count, a string an offset of
 * NUL-terminated UTF-8 (0 means none), a function the signed distance from the
 * descriptor's first byte to its entry. So it reads the same in the file and
 * in memory, and needs no dynamic relocation.
 *
 * All integers are little endian. Structs hold no padding that matters: every
 * field sits at a multiple of its size.
 */
#ifndef ENCAST_ABI_H
#define ENCAST_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENCAST_ABI_VERSION 4u
/* The oldest version that this runtime still reads. */
#define ENCAST_ABI_OLDEST 1u
#define ENCAST_ABI_MAGIC 0x54534143u /* "CAST" */
#define ENCAST_ABI_BYTE_ORDER 0x01020304u

#define ENCAST_DESCRIPTOR_SECTION ".encast.descriptor"
#define ENCAST_WEIGHTS_SECTION ".encast.weights"
#define ENCAST_QUERY_SYMBOL "encast_artifact_query"

/* Slots, blobs and scratch start at multiples of this. */
#define ENCAST_ALIGNMENT 64

/* A table inside the descriptor. */
typedef struct encast_abi_table {
  uint64_t offset; /* from the descriptor's first byte, a multiple of 8 */
  uint64_t count;
} encast_abi_table;

/*
 * CPU features a variant needs; a variant with a bit that the runtime does not
 * know is not chosen. Numbers are part of the ABI; names are those of targets.
 * AVX2 is with FMA, F16C and BMI2: x86-64-v3. AVX512 is F, CD, BW, DQ and VL:
 * x86-64-v4. AMX_BF16 is with AVX512-VBMI.
 */
#define ENCAST_CPU_FEATURES(FEATURE)                                           \
  FEATURE(AVX2, 0, "avx2")                                                     \
  FEATURE(AVX512, 1, "avx512")                                                 \
  FEATURE(AVX512_VNNI, 2, "avx512vnni")                                        \
  FEATURE(AVX512_BF16, 3, "avx512bf16")                                        \
  FEATURE(AVX_VNNI, 4, "avxvnni")                                              \
  FEATURE(AMX_INT8, 5, "amx-int8")                                             \
  FEATURE(AMX_BF16, 6, "amx-bf16")

#define ENCAST_CPU_BIT(feature, number, name)                                  \
  ENCAST_CPU_##feature = 1u << number,
#define ENCAST_CPU_OR(feature, number, name) | 1u << number
enum { ENCAST_CPU_FEATURES(ENCAST_CPU_BIT) };
enum { ENCAST_CPU_KNOWN = 0u ENCAST_CPU_FEATURES(ENCAST_CPU_OR) };
#undef ENCAST_CPU_BIT
#undef ENCAST_CPU_OR

/* What an artifact asks of the runtime: bits of required_features. */
enum {
  /* Callers may give attended_length: item.keys may be less than the tokens of
     the sequence. */
  ENCAST_FEATURE_ATTENDED_LENGTH = 1u << 0,
  ENCAST_FEATURES_KNOWN = (1u << 1) - 1
};

/*
 * What one run computes the last layer's tail for. SELECTED is taken if no
 * asked output needs all rows: per-sequence outputs with all_rows = 0 read the
 * first token of each sequence, per-token outputs need all rows unless `rows`
 * is given.
 */
enum {
  ENCAST_MODE_ALL = 1u << 0,     /* all token rows */
  ENCAST_MODE_SELECTED = 1u << 1 /* only rows that an output asks for */
};

/*
 * What a step walks over. With T tokens, B sequences and R given `rows`:
 *   TOKENS    T rows
 *   SELECTED  the token rows that the tail is computed for: first the R given
 *             rows (if any asked output is per token), then the first token of
 *             each sequence (if any asked output is per sequence); in mode ALL
 *             the same as TOKENS
 *   PICKED    rows of per-token outputs: R where rows are given, else T; none
 *             if no per-token output is asked
 *   SEQUENCES B rows
 *   ATTENTION_* tiles of queries that lie in one sequence, times heads: `row`,
 *             `rows` are queries, `panel` is the head, `key`, `keys` the tokens
 *             of the sequence. Query rows are TOKENS, or SELECTED rows that
 *             follow each other and lie in one sequence; ATTENTION_RUNS the
 *             same, of which each is also the token behind the one before. They
 *             are cut at multiples of row_tile, counted from the first, into
 *             tiles of at most max_rows.
 */
typedef enum encast_abi_domain {
  ENCAST_DOMAIN_TOKENS = 0,
  ENCAST_DOMAIN_SELECTED = 1,
  ENCAST_DOMAIN_PICKED = 2,
  ENCAST_DOMAIN_SEQUENCES = 3,
  ENCAST_DOMAIN_ATTENTION_TOKENS = 4,
  ENCAST_DOMAIN_ATTENTION_SELECTED = 5,
  ENCAST_DOMAIN_ATTENTION_RUNS = 6
} encast_abi_domain;

/* What the address of a slot is. Index slots hold int32 values. */
typedef enum encast_abi_slot_kind {
  ENCAST_SLOT_ARENA = 0,     /* rows of the arena; `index` is the colour */
  ENCAST_SLOT_OUTPUT = 1,    /* the caller's memory; `index` is the output */
  ENCAST_SLOT_IDS = 2,       /* [T] token ids */
  ENCAST_SLOT_TYPES = 3,     /* [T] token type ids, zeros if not given */
  ENCAST_SLOT_POSITIONS = 4, /* [T + 1] position in the sequence, from 0; at T
                                stands 0, so that a token is the last of its
                                sequence if 0 follows */
  ENCAST_SLOT_SELECTED = 5,  /* token row of each SELECTED row */
  ENCAST_SLOT_FIRST = 6,     /* [B] row of each sequence's first token, in the
                                rows that this run's tail is computed for:
                                token row (mode ALL) or SELECTED row */
  ENCAST_SLOT_PICK = 7       /* same for each PICKED row */
} encast_abi_slot_kind;

typedef struct encast_abi_slot {
  uint64_t name; /* string */
  uint32_t kind;
  uint32_t index;
} encast_abi_slot;

/*
 * One request for arena memory:
 *   bytes_per_token * T + bytes_per_sequence * B + bytes
 * counted if the run asks for any of `outputs`. The size of a colour is the
 * maximum of its forms, rounded up to ENCAST_ALIGNMENT; colours follow each
 * other in the arena in the order of their number. Each colour has a form, no
 * field is negative. SELECTED rows are at most T + B.
 */
typedef struct encast_abi_form {
  uint32_t colour;
  uint32_t reserved;
  uint64_t outputs; /* bit i: output i */
  int64_t bytes_per_token;
  int64_t bytes_per_sequence;
  int64_t bytes;
} encast_abi_form;

/* What generated code sees of a run; one per thread. */
typedef struct encast_abi_context {
  void *const *slots;         /* base address of each slot */
  const void *const *weights; /* base address of each weight of the variant */
  char *block;     /* rows local to the row block: a thread's own, or shared
                      by all threads when they split a step by panels */
  char *workspace; /* this thread's own */
  const int64_t *offsets; /* [B + 1] first token row of each sequence */
  int64_t tokens;         /* T */
  int64_t sequences;      /* B */
  int64_t selected;       /* number of SELECTED rows */
  int64_t picked;         /* number of PICKED rows */
} encast_abi_context;

/* The part of a step that one call computes. */
typedef struct encast_abi_item {
  int64_t row;    /* first row in the domain */
  int64_t rows;   /* > 0 */
  int64_t block;  /* first row of the row block: row r of a block-local value
                     lies (r - block) strides behind its offset in `block` */
  int64_t panel;  /* first panel of 16 columns, or the head */
  int64_t panels; /* number of panels; 0 where the call has none or per_head */
  /* Of ATTENTION_* domains and calls per_head: */
  int64_t key;      /* first token row of the sequence */
  int64_t keys;     /* tokens of the sequence that are attended */
  int64_t position; /* of query `row` in its sequence */
  int64_t packed;   /* packed row of the sequence's first token */
} encast_abi_item;

/*
 * Packed rows: where attention wants keys in blocks of 32 that belong to one
 * sequence, sequence b with first token row r starts at packed row
 * ENCAST_PACKED_ROW(r, b), and T tokens in B sequences take
 * ENCAST_PACKED_ROWS(T, B) rows.
 */
#define ENCAST_PACKED_ROW(row, sequence) (((row) + 31 * (sequence)) / 32 * 32)
#define ENCAST_PACKED_ROWS(tokens, sequences) ((tokens) + 31 * (sequences))

typedef void (*encast_abi_function)(const encast_abi_context *context,
                                    const encast_abi_item *item);

/*
 * One call in the body of a step. Its result depends on rows of the same row
 * block only, or on what earlier steps wrote.
 */
typedef struct encast_abi_call {
  uint64_t name;       /* string, e.g. "encoder.layer.0.attention.self.qkv" */
  uint64_t kernel;     /* string: kernel or row program */
  int64_t function;    /* distance of an encast_abi_function */
  uint16_t modes;      /* runs in these modes only */
  uint16_t per_head;   /* 1: `panels` are heads. Part of a step over TOKENS, it
                          is made for each head and each sequence of which the
                          item has rows, those rows alone. From version 3 on */
  uint32_t panels;     /* panels in all; 0: can be split by rows only */
  uint32_t panel_tile; /* a split by panels happens at multiples of this */
  uint32_t window;     /* attention: flops_per_row_and_key counts keys at most
                          this far from the query; 0: all */
  uint64_t outputs;    /* runs if any of these outputs is asked; not 0 */
  int64_t flops_per_row; /* 2 per multiply-add of matrix products, for a row of
                            the domain over all panels and heads */
  int64_t flops_per_row_and_key; /* the same, times the attended keys of the
                                    sequence that lie within the window */
} encast_abi_call;

/*
 * A step begins when the one before is complete. A step over rows is cut into
 * row blocks of at most max_rows rows, and a thread runs all calls on its
 * block. When all rows fit one block and they are at most split_rows, threads
 * share the block: each call is split by panels (or by rows where it has none),
 * and begins when the one before is complete.
 */
typedef struct encast_abi_step {
  uint64_t name;     /* string */
  uint32_t domain;   /* encast_abi_domain */
  uint32_t layer;    /* 1-based, for progress; 0: outside of layers */
  uint32_t max_rows; /* most rows of a block or tile */
  uint32_t row_tile; /* blocks are cut at multiples of this */
  uint32_t split_rows;
  uint32_t heads;      /* ATTENTION_*: heads; else 0 */
  uint32_t first_call; /* in the variant's calls, where the calls of all steps
                          follow each other in order */
  uint32_t call_count;
} encast_abi_step;

/* Bytes in the weights section. */
typedef struct encast_abi_blob {
  uint64_t offset; /* from the section's first byte, a multiple of 64 */
  uint64_t size;   /* bytes */
  uint64_t hash_low, hash_high; /* XXH3, 128 bits, of the bytes */
} encast_abi_blob;

/* What is known of a weight; other bits mean nothing to this runtime. */
enum {
  /* Kernels read all of it, in their own order: a copy in huge pages pays. */
  ENCAST_WEIGHT_STREAMED = 1u << 0
};

/* A weight of a variant: `context->weights[i]` is the address of its blob. */
typedef struct encast_abi_weight {
  uint64_t name; /* string */
  uint32_t blob;
  uint32_t flags; /* ENCAST_WEIGHT_* */
} encast_abi_weight;

typedef struct encast_abi_variant {
  uint64_t name; /* string: the target as resolved, e.g. "sapphirerapids" */
  uint64_t cpu_features;
  uint64_t rank;           /* of the fitting variants the highest is taken */
  int64_t block_bytes;     /* per thread */
  int64_t workspace_bytes; /* per thread */
  uint64_t colours;
  encast_abi_table slots;   /* encast_abi_slot */
  encast_abi_table forms;   /* encast_abi_form */
  encast_abi_table weights; /* encast_abi_weight */
  encast_abi_table steps;   /* encast_abi_step */
  encast_abi_table calls;   /* encast_abi_call */
} encast_abi_variant;

typedef struct encast_abi_output {
  uint64_t name; /* string */
  int64_t columns;
  uint32_t per_token; /* 1: [PICKED, columns], 0: [B, columns] */
  uint32_t all_rows;  /* 1: needs mode ALL even if rows are given */
} encast_abi_output;

typedef struct encast_abi_descriptor {
  uint32_t magic;
  uint32_t byte_order;
  uint32_t abi_version;
  uint32_t header_bytes;      /* sizeof(encast_abi_descriptor) */
  uint64_t required_features; /* ENCAST_FEATURE_*; an unknown bit refuses */
  uint64_t descriptor_bytes;
  /*
   * XXH3 (128 bits: low, high) over the contents of all SHF_ALLOC sections that
   * have contents in the file (all types but NOBITS: an altered .dynamic or
   * .dynsym kills dlopen just as altered code does), in the order of their
   * addresses, with these 16 bytes as zero. `strip` keeps it.
   */
  uint64_t artifact_id[2];
  int64_t vocabulary;  /* ids are in [0, vocabulary) */
  int64_t max_tokens;  /* per sequence */
  int64_t token_types; /* token type ids are in [0, token_types); 0: none */
  int64_t pad_id;      /* -1: none */
  int64_t hidden;      /* H, for tools */
  int64_t layers;
  uint64_t model;          /* string: family */
  uint64_t metadata;       /* string: JSON for tools; see encast-inspect */
  uint64_t default_output; /* index */
  uint64_t weights_bytes;  /* size of the weights section */
  uint64_t weights_file;   /* string: name, without a folder, of the file beside
                              the artifact that is the weights section; 0: in
                              the artifact */
  encast_abi_table outputs;  /* encast_abi_output, at most 64 */
  encast_abi_table blobs;    /* encast_abi_blob */
  encast_abi_table variants; /* encast_abi_variant */
} encast_abi_descriptor;

/* Returns the descriptor, or NULL if it needs more than abi_version. */
typedef const encast_abi_descriptor *(*encast_abi_query)(uint32_t abi_version);

#ifdef __cplusplus
}
#endif

#endif /* ENCAST_ABI_H */
