//===- CheckpointTest.cpp - finding tensors in files and shards -----------===//

#include "frontends/Formats/Checkpoint.h"
#include "frontends/Formats/Sha256.h"
#include "test/support/ModelFolder.h"

#include <gtest/gtest.h>

using namespace encast;
using encast::test::safeTensorsBytes;
using encast::test::TemporaryFolder;

namespace {

TEST(Sha256, MatchesThePublishedExamples) {
  auto hash = [](const std::string &text) {
    return sha256Hex(reinterpret_cast<const uint8_t *>(text.data()),
                     text.size());
  };
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223"
                         "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb924"
                      "27ae41e4649b934ca495991b7852b855");
}

TEST(PlainRelativePath, StaysInsideTheFolder) {
  for (const char *path : {"a", "a/b", "1_Dense/model.safetensors", "..a"})
    EXPECT_TRUE(isPlainRelativePath(path)) << path;
  for (const char *path :
       {"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a"})
    EXPECT_FALSE(isPlainRelativePath(path)) << path;
}

class Checkpoint : public ::testing::Test {
protected:
  TemporaryFolder folder;
  std::string error;

  /// The names listed in `sub`; empty, with `error` set, on failure.
  std::vector<std::string> list(const std::string &sub = "") {
    CheckpointReader reader(folder.path());
    std::vector<CheckpointTensor> tensors;
    error.clear();
    std::vector<std::string> names;
    if (reader.list(sub, tensors, error))
      for (const CheckpointTensor &tensor : tensors)
        names.push_back(tensor.file + ":" + tensor.view->name);
    return names;
  }
  void writeIndex(const std::string &weightMap) {
    folder.write("model.safetensors.index.json",
                 "{\"metadata\": {\"total_size\": 8}, \"weight_map\": " +
                     weightMap + "}");
  }
  bool errorHas(const std::string &text) const {
    return error.find(text) != std::string::npos;
  }
};

TEST_F(Checkpoint, ListsASingleFile) {
  folder.write(
      "sub/model.safetensors",
      safeTensorsBytes({{"b", {"F32", {1}, ""}}, {"a", {"F32", {1}, ""}}}));
  EXPECT_EQ(list("sub"), (std::vector<std::string>{"sub/model.safetensors:a",
                                                   "sub/model.safetensors:b"}));
}

TEST_F(Checkpoint, ListsShardsInTheOrderOfNames) {
  folder.write("x.safetensors", safeTensorsBytes({{"b", {"F32", {1}, ""}}}));
  folder.write("y.safetensors", safeTensorsBytes({{"a", {"F32", {1}, ""}},
                                                  {"c", {"F32", {1}, ""}}}));
  writeIndex(R"({"a":"y.safetensors","b":"x.safetensors",
                 "c":"y.safetensors"})");
  EXPECT_EQ(list(),
            (std::vector<std::string>{"y.safetensors:a", "x.safetensors:b",
                                      "y.safetensors:c"}));
}

TEST_F(Checkpoint, RefusesShardNamesThatLeaveTheFolder) {
  for (const char *name :
       {"../x.safetensors", "/x.safetensors", "sub/x.safetensors", "", ".",
        "..", "sub\\\\x.safetensors", "x\\u0000"}) {
    writeIndex("{\"a\":\"" + std::string(name) + "\"}");
    EXPECT_TRUE(list().empty());
    EXPECT_TRUE(errorHas("index.json: weight_map: a: expected a plain file"))
        << error;
  }
}

TEST_F(Checkpoint, RefusesAnIndexThatDisagreesWithItsShards) {
  folder.write("x.safetensors", safeTensorsBytes({{"a", {"F32", {1}, ""}},
                                                  {"b", {"F32", {1}, ""}}}));
  writeIndex(R"({"a":"x.safetensors","c":"x.safetensors"})");
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("x.safetensors: has no tensor 'c'")) << error;
  writeIndex(R"({"a":"x.safetensors"})");
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("does not place 'b' in x.safetensors")) << error;
  writeIndex(R"({"a":"missing.safetensors"})");
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("missing.safetensors: cannot open")) << error;
  writeIndex(R"({"a":1})");
  EXPECT_TRUE(list().empty());
  writeIndex("[]");
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("weight_map: expected an object")) << error;
  folder.write("model.safetensors.index.json", "{}");
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("weight_map: is missing")) << error;
  writeIndex(R"({"a":"x.safetensors","a":"x.safetensors"})");
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("given twice")) << error;
}

TEST_F(Checkpoint, ATensorInTwoShardsIsRefused) {
  std::string bytes = safeTensorsBytes({{"a", {"F32", {1}, ""}}});
  folder.write("x.safetensors", bytes);
  folder.write("y.safetensors", safeTensorsBytes({{"a", {"F32", {1}, ""}},
                                                  {"b", {"F32", {1}, ""}}}));
  writeIndex(R"({"a":"x.safetensors","b":"y.safetensors"})");
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("does not place 'a' in y.safetensors")) << error;
}

TEST_F(Checkpoint, APickledCheckpointIsToBeConverted) {
  folder.write("pytorch_model.bin", "PK");
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("pytorch_model.bin: pickled checkpoints are not read; "
                       "convert it"))
      << error;
}

TEST_F(Checkpoint, AFolderWithoutCheckpointSaysWhatIsMissing) {
  EXPECT_TRUE(list().empty());
  EXPECT_TRUE(errorHas("has neither model.safetensors nor")) << error;
}

TEST_F(Checkpoint, FindsATensorByFileAndName) {
  folder.write("a/m.safetensors",
               safeTensorsBytes({{"t", {"F32", {1}, "abcd"}}}));
  CheckpointReader reader(folder.path());
  const TensorView *view = nullptr;
  ASSERT_TRUE(reader.tensor("a/m.safetensors", "t", view, error)) << error;
  EXPECT_EQ(view->data[0], 'a');
  EXPECT_FALSE(reader.tensor("a/m.safetensors", "u", view, error));
  EXPECT_TRUE(errorHas("m.safetensors: has no tensor 'u'"));
  EXPECT_FALSE(reader.tensor("../m.safetensors", "t", view, error));
  EXPECT_TRUE(errorHas("expected a path inside the model's folder"));
}

TEST_F(Checkpoint, AFileWithAnotherHashIsRefused) {
  std::string bytes = safeTensorsBytes({{"t", {"F32", {1}, "abcd"}}});
  folder.write("m.safetensors", bytes);
  std::string right =
      sha256Hex(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  const TensorView *view = nullptr;
  CheckpointReader good(folder.path());
  good.expectSha256("m.safetensors", right);
  EXPECT_TRUE(good.tensor("m.safetensors", "t", view, error)) << error;

  CheckpointReader bad(folder.path());
  std::string wrong(64, '0');
  bad.expectSha256("m.safetensors", wrong);
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_FALSE(bad.tensor("m.safetensors", "t", view, error));
    EXPECT_EQ(error, folder.path("m.safetensors") + ": expected SHA-256 " +
                         wrong + ", but the file has " + right);
  }
}

} // namespace
