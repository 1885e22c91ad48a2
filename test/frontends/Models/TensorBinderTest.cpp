//===- TensorBinderTest.cpp - checkpoint tensors against a config ---------===//

#include "frontends/Models/TensorBinder.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace encast;

namespace {

/// Tensors in memory as a checkpoint.
class Binder : public ::testing::Test {
protected:
  std::map<std::string, std::vector<uint8_t>> bytes;
  std::vector<TensorView> views;

  template <typename Word>
  void add(const std::string &name, const std::string_view type,
           const std::vector<int64_t> &shape, const std::vector<Word> &words) {
    std::vector<uint8_t> &data = bytes[name];
    data.resize(words.size() * sizeof(Word) + 1);
    // Tensors may stand at any alignment.
    std::memcpy(data.data() + 1, words.data(), words.size() * sizeof(Word));
    views.push_back(
        {name, type, shape, data.data() + 1, words.size() * sizeof(Word)});
  }
  TensorBinder binder() const {
    std::vector<CheckpointTensor> tensors;
    for (const TensorView &view : views)
      tensors.push_back({"model.safetensors", &view});
    return TensorBinder(tensors, "folder");
  }
  bool isExactlyBf16(const std::string &name, int64_t rows, int64_t columns) {
    TensorRef ref = binder().take(name, {{rows, "rows"}, {columns, "columns"}});
    EXPECT_TRUE(ref.present());
    return ref.exactlyBf16;
  }
  std::string problems(const TensorBinder &tensors) {
    std::vector<std::string> notes;
    std::string error;
    tensors.finish([](const std::string &) { return true; }, false, notes,
                   error);
    return error;
  }
};

TEST_F(Binder, FindsTheOneValueThatIsNotBf16) {
  // Larger than the blocks that are looked at, and not a multiple of them.
  constexpr int64_t rows = 67, columns = 93;
  for (size_t at : {size_t(0), size_t(1023), size_t(1024), size_t(3000),
                    size_t(rows * columns - 1)})
    for (uint32_t bits : {1u, 0x8000u}) {
      views.clear();
      std::vector<uint32_t> words(rows * columns, 0x3f810000);
      add("exact", "F32", {rows, columns}, words);
      words[at] |= bits;
      add("inexact", "F32", {rows, columns}, words);
      EXPECT_TRUE(isExactlyBf16("exact", rows, columns));
      EXPECT_FALSE(isExactlyBf16("inexact", rows, columns)) << at;
    }
}

TEST_F(Binder, JudgesEachTypeAndOnlyMatrices) {
  add<uint16_t>("bf16", "BF16", {1, 2}, {0x3f81, 0xffff});
  add<uint16_t>("f16", "F16", {1, 2}, {0x3c08, 0xc3f8});
  add<uint16_t>("f16 with 10 bits", "F16", {1, 2}, {0x3c08, 0x3c04});
  add<uint32_t>("vector", "F32", {2}, {0, 0});
  EXPECT_TRUE(isExactlyBf16("bf16", 1, 2));
  EXPECT_TRUE(isExactlyBf16("f16", 1, 2));
  EXPECT_FALSE(isExactlyBf16("f16 with 10 bits", 1, 2));
  EXPECT_FALSE(binder().take("vector", {{2, "size"}}).exactlyBf16);
}

TEST_F(Binder, TakesRowsOfALinear) {
  add<uint32_t>("Wqkv.weight", "F32", {6, 2}, std::vector<uint32_t>(12));
  add<uint32_t>("Wqkv.bias", "F32", {6}, std::vector<uint32_t>(6));
  TensorBinder tensors = binder();
  LinearSpec key =
      tensors.linearRows("key", "Wqkv", {6, "all"}, {2, "hidden"}, true, 2, 2);
  EXPECT_EQ(key.weight.name, "Wqkv.weight");
  EXPECT_EQ(key.weight.shape, (std::vector<int64_t>{6, 2}));
  for (const TensorRef *ref : {&key.weight, &key.bias}) {
    EXPECT_EQ(ref->firstRow, 2);
    EXPECT_EQ(ref->rows, 2);
  }
  EXPECT_EQ(problems(tensors), "");
}

TEST_F(Binder, ReadsScalarsOfEveryType) {
  add<uint32_t>("f32", "F32", {}, {0x3fc00000});
  add<uint16_t>("bf16", "BF16", {1}, {0xbfc0});
  add<uint16_t>("f16", "F16", {}, {0xc200});
  add<uint16_t>("f16 subnormal", "F16", {}, {3});
  TensorBinder tensors = binder();
  EXPECT_EQ(tensors.takeScalar("f32"), 1.5);
  EXPECT_EQ(tensors.takeScalar("bf16"), -1.5);
  EXPECT_EQ(tensors.takeScalar("f16"), -3.0);
  EXPECT_EQ(tensors.takeScalar("f16 subnormal"), 3 * 0x1p-24);
  EXPECT_EQ(problems(tensors), "");
}

TEST_F(Binder, RefusesScalarsThatAreNone) {
  add<uint32_t>("infinite", "F32", {}, {0x7f800000});
  add<uint16_t>("not a number", "F16", {}, {0x7e00});
  add<uint32_t>("two", "F32", {2}, {0, 0});
  add<uint32_t>("matrix", "F32", {1, 1}, {0});
  for (const auto &[name, problem] :
       std::vector<std::pair<std::string, std::string>>{
           {"infinite", "infinite: expected a finite number, but got inf"},
           {"not a number", "expected a finite number, but got nan"},
           {"two", "two: expected shape [elements 1], but got [2]"},
           {"matrix", "matrix: expected shape [], but got [1, 1]"},
           {"absent", "missing tensors: absent"}}) {
    TensorBinder tensors = binder();
    tensors.takeScalar(name);
    EXPECT_NE(problems(tensors).find(problem), std::string::npos)
        << problems(tensors);
  }
}

TEST_F(Binder, CountsLayersByTheHighestNumber) {
  for (const char *name : {"layers.0.a", "layers.11.a", "layers.2", "layers.x",
                           "layers.99999999999.a", "layer.30.a", "layers..a"})
    add<uint32_t>(name, "F32", {}, {0});
  EXPECT_EQ(binder().countNumbered("layers."), 12);
  EXPECT_EQ(binder().countNumbered("blocks."), 0);
}

} // namespace
