//===- IdsReaderTest.cpp - lines of token ids -----------------------------===//

#include "runtime/tools/IdsReader.h"
#include <gtest/gtest.h>

using namespace encast::tools;

namespace {

constexpr IdsLimits kLimits = {100, 2, 5};

IdsFile read(std::string_view text, const IdsLimits &limits = kLimits) {
  IdsFile file;
  std::string error;
  EXPECT_TRUE(readIds(text, limits, file, error)) << error;
  return file;
}

using Numbers = std::vector<int64_t>;

struct BadLine {
  const char *name;
  std::string text;
  const char *message; ///< The whole of it.
};
void PrintTo(const BadLine &line, std::ostream *stream) {
  *stream << line.name;
}

class RefusedLine : public testing::TestWithParam<BadLine> {};

} // namespace

TEST(IdsReader, takes_arrays_and_objects) {
  IdsFile file = read("[1, 2]\n"
                      "{\"token_type_ids\": [1, 0, 1], \"ids\": [3, 4, 5]}\n"
                      "  {\"ids\":[6],\"attended_length\":1}  \n");
  EXPECT_EQ(file.ids, (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(file.types, (Numbers{0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(file.offsets, (Numbers{0, 2, 5, 6}));
  EXPECT_TRUE(file.givesTypes);
  EXPECT_FALSE(read("[1]\n").givesTypes);
}

TEST(IdsReader, takes_the_attended_length_of_models_that_have_one) {
  constexpr IdsLimits limits = {100, 2, 5, true};
  IdsFile file = read("{\"attended_length\": 2, \"ids\": [1, 2, 3]}\n[4, 5]\n"
                      "{\"ids\": [6], \"attended_length\": 1}",
                      limits);
  EXPECT_EQ(file.attended, (Numbers{2, 2, 1}));
  EXPECT_TRUE(file.givesAttended);
  EXPECT_FALSE(read("[1]\n", limits).givesAttended);
  for (int64_t length : {0, 4}) {
    std::string error;
    EXPECT_FALSE(readIds("[9]\n{\"ids\": [1, 2, 3], \"attended_length\": " +
                             std::to_string(length) + "}",
                         limits, file, error));
    EXPECT_EQ(error, "line 2: attended_length is " + std::to_string(length) +
                         ", expected 1 to 3, the number of ids");
  }
}

TEST(IdsReader, takes_crlf_and_a_missing_last_newline) {
  EXPECT_EQ(read("[1]\r\n[2]\r\n").offsets, (Numbers{0, 1, 2}));
  EXPECT_EQ(read("[1]\n[2]").offsets, (Numbers{0, 1, 2}));
  EXPECT_EQ(read("").offsets, (Numbers{0}));
}

TEST(IdsReader, takes_the_largest_values) {
  EXPECT_EQ(read("[0, 99]\n").ids, (Numbers{0, 99}));
  EXPECT_EQ(read("[1,1,1,1,1]\n").ids.size(), 5u);
  EXPECT_EQ(read("[9223372036854775806]", {INT64_MAX, 0, 5}).ids[0],
            INT64_MAX - 1);
}

TEST_P(RefusedLine, says_where_and_why) {
  IdsFile file;
  std::string error;
  EXPECT_FALSE(readIds(GetParam().text, kLimits, file, error));
  EXPECT_EQ(error, GetParam().message);
}

static const BadLine badLines[] = {
    {"blank", "[1]\n \n[2]\n",
     "line 2: blank, expected an array of ids or an object with ids"},
    {"empty_line_at_the_end", "[1]\n\n",
     "line 2: blank, expected an array of ids or an object with ids"},
    {"empty_array", "[]",
     "line 1: the sequence is empty, expected at least one id"},
    {"object_with_empty_ids", "{\"ids\": []}",
     "line 1: the sequence is empty, expected at least one id"},
    {"fraction", "[1, 1.0]",
     "line 1, position 1: 1.0 is not an integer from 0 to "
     "9223372036854775807"},
    {"exponent", "[1e1]",
     "line 1, position 0: 1e1 is not an integer from 0 to "
     "9223372036854775807"},
    {"negative", "[3]\n[4, -1]",
     "line 2, position 1: -1 is not an integer from 0 to "
     "9223372036854775807"},
    {"negative_zero", "[-0]",
     "line 1, position 0: -0 is not an integer from 0 to "
     "9223372036854775807"},
    {"over_64_bits", "[18446744073709551617]",
     "line 1, position 0: 18446744073709551617 is not an integer from 0 to "
     "9223372036854775807"},
    {"out_of_vocabulary", "[1, 2, 100]",
     "line 1, position 2: id 100 is outside of the vocabulary, 0 to 99"},
    {"too_long", "[1,2,3,4,5,6]",
     "line 1: 6 tokens, but the model's limit is 5"},
    {"type_out_of_range", "{\"ids\": [1], \"token_type_ids\": [2]}",
     "line 1, position 0: token type 2 is outside of 0 to 1"},
    {"lengths_differ", "{\"ids\": [1, 2], \"token_type_ids\": [0]}",
     "line 1: token_type_ids has 1 elements, but ids has 2"},
    {"partly_attended", "{\"ids\": [1, 2], \"attended_length\": 1}",
     "line 1: attended_length is 1, but this model attends to all 2 ids"},
    {"negative_length", "{\"ids\": [1], \"attended_length\": -1}",
     "line 1: -1 is not an integer from 0 to 9223372036854775807"},
    {"unknown_key", "{\"ids\": [1], \"mask\": [1]}",
     "line 1: key 'mask' is unknown; keys are ids, token_type_ids, "
     "attended_length"},
    {"key_twice", "{\"ids\": [1], \"ids\": [2]}",
     "line 1: key 'ids' is given twice"},
    {"no_ids", "{\"token_type_ids\": [0]}",
     "line 1: no ids, expected an array of ids or an object with ids"},
    {"empty_object", "{}",
     "line 1: no ids, expected an array of ids or an object with ids"},
    {"nested_array", "[[1]]",
     "line 1: an array stands where an integer is expected"},
    {"string", "[\"1\"]",
     "line 1: a string stands where an integer is expected"},
    {"null", "null",
     "line 1: null stands where an array or an object is expected"},
    {"number", "7",
     "line 1: a number stands where an array or an object is expected"},
    {"number_for_ids", "{\"ids\": 7}",
     "line 1: a number stands where an array of integers is expected"},
    {"array_for_length", "{\"ids\": [7], \"attended_length\": [1]}",
     "line 1: an array stands where an integer is expected"},
    {"object_for_ids", "{\"ids\": {}}",
     "line 1: an object stands where an array of integers is expected"},
    {"leading_zero", "[01]",
     "line 1: byte 2: not JSON: Missing a comma or ']' after an array "
     "element."},
    {"not_json", "hello", "line 1: byte 0: not JSON: Invalid value."},
    {"two_values", "[1] [2]",
     "line 1: byte 4: not JSON: The document root must not be followed by "
     "other values."},
    {"unfinished", "[1, 2",
     "line 1: byte 5: not JSON: Missing a comma or ']' after an array "
     "element."},
    {"nul_character", std::string("[1]\0[2]", 7),
     "line 1: byte 3: not JSON: a NUL character"},
    {"not_utf8", "{\"\xff\": [1]}",
     "line 1: byte 2: not JSON: Invalid encoding in string."},
    {"deep", std::string(1000000, '['),
     "line 1: an array stands where an integer is expected"},
};
INSTANTIATE_TEST_SUITE_P(IdsReader, RefusedLine, testing::ValuesIn(badLines),
                         [](const testing::TestParamInfo<BadLine> &info) {
                           return std::string(info.param.name);
                         });

TEST(IdsReader, refuses_types_of_a_model_without_them) {
  IdsFile file;
  std::string error;
  EXPECT_FALSE(readIds("{\"ids\": [1], \"token_type_ids\": [0]}", {100, 0, 5},
                       file, error));
  EXPECT_EQ(error, "line 1: token_type_ids is given, but the model has no "
                   "token types");
}
