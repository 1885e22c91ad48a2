/*===- TestModel.h - what the test artifact computes ------------*- C -*-===*/
/*
 * A model whose outputs tell how the runtime walked its step table. Shared by
 * TestModel.c, the code of the artifact, and the tests.
 *
 * A row of every output is made from one token:
 *   [0] id, [1] type, [2] position in its sequence
 *   [3] times that the two calls of the second step came by (2)
 *   [4] sum over the panels p of (id + p), through block-local memory
 *   [5] depends on the id if the type is 1, see below; else 0
 *   [6] 1 if another thread wrote to this one's workspace, or the position
 *       behind the token is neither the next one nor 0
 *   [7] times that the tail came by (1)
 *   [8 + 5 * head ...] of attention over tokens: visits (1), key, keys,
 *       position, packed row
 *   [23 + 5 * head ...] the same of attention over the tail's rows
 */
#ifndef ENCAST_TEST_SUPPORT_TESTMODEL_H
#define ENCAST_TEST_SUPPORT_TESTMODEL_H

enum {
  TEST_HEADS = 3,
  TEST_PANELS = 7,
  TEST_HIDDEN = 8,
  TEST_ATTENTION_OF_HEAD = 5,
  TEST_ATTENTION = TEST_ATTENTION_OF_HEAD * TEST_HEADS,
  TEST_COLUMNS = TEST_HIDDEN + 2 * TEST_ATTENTION,
  TEST_VOCABULARY = 100,
  TEST_MAX_TOKENS = 300,
  TEST_TYPES = 2
};

/* Ids with a meaning, in column 5, if their token type is 1. */
enum {
  TEST_ID_NAN = 13,
  TEST_ID_INFINITY = 14,
  TEST_ID_DENORMAL = 15, /* a denormal product: 0 if those are flushed */
  TEST_ID_WAIT = 16,     /* sets the int32 two places before the output "tokens"
                            to 1, then waits while the one before it is 0, for
                            some seconds at most */
  TEST_ID_WEIGHT = 17,   /* the last float of weight 0, whose number of floats
                            is the int64 in weight 1 */
  TEST_ID_TILES = 18     /* 1 more in the first step and in the tail if AMX
                            tiles are configured as kernels expect it */
};

enum {
  TEST_SLOT_HIDDEN,
  TEST_SLOT_ATTENTION,
  TEST_SLOT_TAIL,
  TEST_SLOT_TAIL_ATTENTION,
  TEST_SLOT_TOKENS, /* outputs */
  TEST_SLOT_FIRST,
  TEST_SLOT_ALL,
  TEST_SLOT_IDS,
  TEST_SLOT_TYPES,
  TEST_SLOT_POSITIONS,
  TEST_SLOT_SELECTED,
  TEST_SLOT_FIRST_ROWS,
  TEST_SLOT_PICK,
  TEST_SLOTS
};

#define TEST_DESCRIPTOR_BYTES 12288

#endif
