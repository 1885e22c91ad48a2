/*===- embed.c - embed sentences with an artifact -------------------------===*/
/*
 * usage: embed MODEL.so ID,ID,... [ID,ID,...]...
 *
 * Each further argument is a sentence as token ids. Prints a row of the model's
 * default output for each, and the cosine similarity of the first two.
 *
 *   embed minilm.so 101,7592,2088,102 101,8667,2088,102
 */
#include <encast.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Appends the numbers of "1,2,3" to ids and returns the new count, or -1. */
static int64_t append_ids(const char *text, int64_t *ids, int64_t count,
                          int64_t room) {
  for (;;) {
    char *end;
    if (count == room)
      return -1;
    ids[count++] = strtoll(text, &end, 10);
    if (end == text || (*end && *end != ','))
      return -1;
    if (!*end)
      return count;
    text = end + 1;
  }
}

static double cosine(const float *a, const float *b, int64_t columns) {
  double dot = 0, a_norm = 0, b_norm = 0;
  for (int64_t i = 0; i < columns; ++i) {
    dot += (double)a[i] * b[i];
    a_norm += (double)a[i] * a[i];
    b_norm += (double)b[i] * b[i];
  }
  return dot / sqrt(a_norm * b_norm);
}

int main(int argc, char **argv) {
  enum { MOST_TOKENS = 8192, MOST_SENTENCES = 64 };
  static int64_t ids[MOST_TOKENS], offsets[MOST_SENTENCES + 1];
  encast_error error = ENCAST_ERROR_INIT;
  encast_model *model = NULL;
  encast_session *session = NULL;
  float *rows = NULL;
  int failed = 1;

  int64_t sentences = argc - 2;
  if (sentences < 1 || sentences > MOST_SENTENCES) {
    fprintf(stderr, "usage: embed MODEL.so ID,ID,... [ID,ID,...]...\n");
    return 1;
  }
  for (int64_t i = 0; i < sentences; ++i) {
    offsets[i + 1] = append_ids(argv[i + 2], ids, offsets[i], MOST_TOKENS);
    if (offsets[i + 1] < 0) {
      fprintf(stderr, "embed: '%s' is no list of ids\n", argv[i + 2]);
      return 1;
    }
  }
  int64_t tokens = offsets[sentences];

  /* Open once, and reserve the memory of the largest batch once. */
  if (encast_model_open(argv[1], NULL, &model, &error) ||
      encast_session_create(model, NULL, &session, &error) ||
      encast_session_reserve(session, tokens, sentences, 0, &error))
    goto done;

  encast_model_info_t info = {.size = sizeof info};
  encast_output_info output = {.size = sizeof output};
  if (encast_model_info(model, &info, &error) ||
      encast_model_output(model, info.default_output, &output, &error))
    goto done;
  int64_t count = (output.per_token ? tokens : sentences) * output.columns;
  rows = malloc((size_t)count * sizeof *rows);
  if (!rows) {
    snprintf(error.message, sizeof error.message, "out of memory");
    goto done;
  }

  /* Any number of runs; none of them allocates. */
  encast_input inputs[] = {
      {sizeof inputs[0], "ids", ids, tokens},
      {sizeof inputs[0], "offsets", offsets, sentences + 1}};
  encast_output outputs[] = {{sizeof outputs[0], output.name, rows, count}};
  if (encast_run(session, inputs, 2, outputs, 1, &error))
    goto done;

  for (int64_t row = 0; row < count / output.columns; ++row) {
    printf("%s[%" PRId64 "] =", output.name, row);
    for (int64_t i = 0; i < output.columns && i < 6; ++i)
      printf(" % .6f", rows[row * output.columns + i]);
    if (output.columns > 6)
      printf(" ... (%" PRId64 ")", output.columns);
    printf("\n");
  }
  if (sentences > 1 && !output.per_token)
    printf("similarity of 0 and 1: %.4f\n",
           cosine(rows, rows + output.columns, output.columns));
  failed = 0;

done:
  if (failed)
    fprintf(stderr, "embed: %s\n", error.message);
  free(rows);
  encast_session_destroy(session, NULL);
  encast_model_close(model, NULL);
  return failed;
}
