/*===- TestModel.c - code of the test artifact ----------------------------===*/
/*
 * Built without any library. The descriptor is an empty section that
 * TestArtifact fills; it finds the functions in the symbol table.
 */
#include "test/support/TestModel.h"
#include "encast_abi.h"

__attribute__((
    section(ENCAST_DESCRIPTOR_SECTION), aligned(64),
    used)) static const unsigned char descriptor[TEST_DESCRIPTOR_BYTES] = {1};

__attribute__((visibility("default"))) const encast_abi_descriptor *
encast_artifact_query(uint32_t abi_version) {
  const encast_abi_descriptor *found = (const void *)descriptor;
  /* The compiler must not know what the section holds. */
  __asm__("" : "+r"(found));
  return found->abi_version <= abi_version ? found : 0;
}

typedef const encast_abi_context *Context;
typedef const encast_abi_item *Item;

static float *floats(Context context, int slot) { return context->slots[slot]; }
static const int32_t *indices(Context context, int slot) {
  return context->slots[slot];
}

/* Whether tiles can be used, all of 16 rows of 64 bytes. */
static float tilesAreConfigured(void) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } found;
  __asm__ volatile("sttilecfg %0" : "=m"(found));
  for (int i = 0; i < 8; ++i)
    if (found.palette != 1 || found.row_bytes[i] != 64 || found.rows[i] != 16)
      return 0;
  __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm7" ::: "memory");
  return 1;
}

static float specialValue(Context context, int32_t id) {
  volatile float tiny = 1.0e-38f, half = 0.5f, zero = 0.0f;
  switch (id) {
  case TEST_ID_NAN:
    return zero / zero;
  case TEST_ID_INFINITY:
    return 1.0f / zero;
  case TEST_ID_DENORMAL:
    return tiny * half * 1.0e10f;
  case TEST_ID_WAIT: {
    int32_t *gate = (int32_t *)floats(context, TEST_SLOT_TOKENS) - 2;
    __atomic_store_n(&gate[0], 1, __ATOMIC_SEQ_CST);
    for (uint64_t begin = __builtin_ia32_rdtsc();
         !__atomic_load_n(&gate[1], __ATOMIC_SEQ_CST) &&
         __builtin_ia32_rdtsc() - begin < 20000000000u;)
      __builtin_ia32_pause();
    return 0;
  }
  case TEST_ID_WEIGHT:
    return ((const float *)
                context->weights[0])[*(const int64_t *)context->weights[1] - 1];
  case TEST_ID_TILES:
    return tilesAreConfigured();
  default:
    return 0;
  }
}

void test_embed(Context context, Item item) {
  for (int64_t r = item->row; r < item->row + item->rows; ++r) {
    float *hidden = floats(context, TEST_SLOT_HIDDEN) + r * TEST_HIDDEN;
    float *attention =
        floats(context, TEST_SLOT_ATTENTION) + r * TEST_ATTENTION;
    int32_t id = indices(context, TEST_SLOT_IDS)[r];
    hidden[0] = (float)id;
    hidden[1] = (float)indices(context, TEST_SLOT_TYPES)[r];
    const int32_t *position = indices(context, TEST_SLOT_POSITIONS) + r;
    hidden[2] = (float)position[0];
    for (int i = 3; i < TEST_HIDDEN; ++i)
      hidden[i] = 0;
    if (position[1] != 0 &&
        (position[1] != position[0] + 1 || r + 1 == context->tokens))
      hidden[6] = 1;
    if (hidden[1] == 1.0f)
      hidden[5] = specialValue(context, id);
    for (int i = 0; i < TEST_ATTENTION; ++i)
      attention[i] = 0;
  }
}

static float *blockRow(Context context, Item item, int64_t row) {
  return (float *)context->block + (row - item->block) * TEST_PANELS;
}

void test_to_block(Context context, Item item) {
  for (int64_t r = item->row; r < item->row + item->rows; ++r) {
    float *hidden = floats(context, TEST_SLOT_HIDDEN) + r * TEST_HIDDEN;
    for (int64_t p = item->panel; p < item->panel + item->panels; ++p) {
      blockRow(context, item, r)[p] = hidden[0] + (float)p;
      if (p == 0)
        hidden[3] += 1;
    }
  }
}

void test_from_block(Context context, Item item) {
  volatile float *own = (volatile float *)context->workspace;
  for (int64_t r = item->row; r < item->row + item->rows; ++r) {
    float *hidden = floats(context, TEST_SLOT_HIDDEN) + r * TEST_HIDDEN;
    own[0] = (float)r;
    for (int p = 0; p < TEST_PANELS; ++p)
      hidden[4] += blockRow(context, item, r)[p];
    hidden[3] += 1;
    if (own[0] != (float)r)
      hidden[6] = 1;
  }
}

static void attend(Context context, Item item, int64_t r, int64_t position,
                   int slot) {
  float *row = floats(context, slot) + r * TEST_ATTENTION +
               TEST_ATTENTION_OF_HEAD * item->panel;
  row[0] += 1;
  row[1] = (float)item->key;
  row[2] = (float)item->keys;
  row[3] = (float)position;
  row[4] = (float)item->packed;
}

void test_attention(Context context, Item item) {
  for (int64_t i = 0; i < item->rows; ++i)
    attend(context, item, item->row + i, item->position + i,
           TEST_SLOT_ATTENTION);
}

/* Queries that are neighbours. */
void test_tail_runs(Context context, Item item) {
  for (int64_t i = 0; i < item->rows; ++i)
    attend(context, item, item->row + i, item->position + i,
           TEST_SLOT_TAIL_ATTENTION);
}

/* The item has the position of the first query only. */
void test_tail_attention(Context context, Item item) {
  for (int64_t r = item->row; r < item->row + item->rows; ++r) {
    int32_t token = indices(context, TEST_SLOT_SELECTED)[r];
    int64_t position = r == item->row
                           ? item->position
                           : indices(context, TEST_SLOT_POSITIONS)[token];
    attend(context, item, r, position, TEST_SLOT_TAIL_ATTENTION);
  }
}

/* Copies a token row to a row of the tail. */
static void copyToTail(Context context, int64_t token, int64_t row) {
  enum { WIDTH = TEST_HIDDEN + TEST_ATTENTION };
  float *tail = floats(context, TEST_SLOT_TAIL) + row * WIDTH;
  for (int i = 0; i < TEST_HIDDEN; ++i)
    tail[i] = floats(context, TEST_SLOT_HIDDEN)[token * TEST_HIDDEN + i];
  for (int i = 0; i < TEST_ATTENTION; ++i) {
    tail[TEST_HIDDEN + i] =
        floats(context, TEST_SLOT_ATTENTION)[token * TEST_ATTENTION + i];
    floats(context, TEST_SLOT_TAIL_ATTENTION)[row * TEST_ATTENTION + i] = 0;
  }
  if (tail[1] == 1.0f && tail[0] == (float)TEST_ID_TILES)
    tail[5] += tilesAreConfigured();
  tail[7] = 0;
}

void test_tail_all(Context context, Item item) {
  for (int64_t r = item->row; r < item->row + item->rows; ++r)
    copyToTail(context, r, r);
}

void test_tail_selected(Context context, Item item) {
  for (int64_t r = item->row; r < item->row + item->rows; ++r)
    copyToTail(context, indices(context, TEST_SLOT_SELECTED)[r], r);
}

void test_tail_count(Context context, Item item) {
  enum { WIDTH = TEST_HIDDEN + TEST_ATTENTION };
  for (int64_t r = item->row; r < item->row + item->rows; ++r)
    floats(context, TEST_SLOT_TAIL)[r * WIDTH + 7] += 1;
}

static void copyOut(Context context, Item item, int rows, int slot) {
  enum { WIDTH = TEST_HIDDEN + TEST_ATTENTION };
  for (int64_t r = item->row; r < item->row + item->rows; ++r) {
    float *out = floats(context, slot) + r * TEST_COLUMNS;
    int64_t row = indices(context, rows)[r];
    for (int i = 0; i < WIDTH; ++i)
      out[i] = floats(context, TEST_SLOT_TAIL)[row * WIDTH + i];
    for (int i = 0; i < TEST_ATTENTION; ++i)
      out[WIDTH + i] =
          floats(context, TEST_SLOT_TAIL_ATTENTION)[row * TEST_ATTENTION + i];
  }
}

void test_pick(Context context, Item item) {
  copyOut(context, item, TEST_SLOT_PICK, TEST_SLOT_TOKENS);
}

void test_first(Context context, Item item) {
  copyOut(context, item, TEST_SLOT_FIRST_ROWS, TEST_SLOT_FIRST);
}

void test_first_all(Context context, Item item) {
  copyOut(context, item, TEST_SLOT_FIRST_ROWS, TEST_SLOT_ALL);
}
