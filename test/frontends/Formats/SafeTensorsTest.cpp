//===- SafeTensorsTest.cpp - what the safetensors reader refuses ----------===//

#include "frontends/Formats/SafeTensors.h"
#include "test/support/ModelFolder.h"

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

using namespace encast;
using encast::test::safeTensorsBytes;

namespace {

/// The error of reading `bytes`; empty if they are accepted.
std::string errorOfBytes(const std::string &bytes) {
  // A copy of exact size, so that ASan sees a read past the end.
  std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  SafeTensors file;
  std::string error;
  if (file.parse(exact.data(), exact.size(), error))
    return "";
  EXPECT_NE(error, "");
  return error;
}

/// The error of a file with this header and `dataBytes` of data.
std::string errorOf(const std::string &header, size_t dataBytes = 8) {
  return errorOfBytes(safeTensorsBytes(header, std::string(dataBytes, 'x')));
}

std::string entry(const std::string &name, const std::string &type,
                  const std::string &shape, const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(SafeTensors, ReadsTensorsInTheOrderOfTheirNames) {
  std::string bytes =
      safeTensorsBytes("{\"__metadata__\":{\"format\":\"pt\"}," +
                           entry("b", "F32", "[1,2]", "[0,8]") + "," +
                           entry("a", "BF16", "[]", "[8,10]") + "," +
                           entry("empty", "I64", "[0,3]", "[8,8]") + "}   ",
                       "12345678ab");
  SafeTensors file;
  std::string error;
  ASSERT_TRUE(file.parse(reinterpret_cast<const uint8_t *>(bytes.data()),
                         bytes.size(), error))
      << error;
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "b");
  const TensorView *b = file.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->type, "F32");
  EXPECT_EQ(b->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(b->sizeBytes, 8u);
  EXPECT_EQ(std::memcmp(b->data, "12345678", 8), 0);
  EXPECT_EQ(std::memcmp(file.find("a")->data, "ab", 2), 0);
  EXPECT_EQ(file.find("empty")->sizeBytes, 0u);
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.metadata()[0].second, "pt");
}

TEST(SafeTensors, KnowsEveryType) {
  for (const auto &[type, bytes] : std::vector<std::pair<std::string, int>>{
           {"BOOL", 8},        {"U8", 8},          {"I8", 8},
           {"F8_E4M3", 8},     {"F8_E5M2", 8},     {"F8_E8M0", 8},
           {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
           {"U16", 16},        {"F16", 16},        {"BF16", 16},
           {"I32", 32},        {"U32", 32},        {"F32", 32},
           {"I64", 64},        {"U64", 64},        {"F64", 64},
           {"C64", 64},        {"F4", 4},          {"F6_E2M3", 6},
           {"F6_E3M2", 6}}) {
    EXPECT_EQ(
        errorOf(
            "{" + entry("t", type, "[8]", "[0," + std::to_string(bytes) + "]") +
                "}",
            bytes),
        "");
  }
}

TEST(SafeTensors, AFileWithoutTensorsIsValid) {
  EXPECT_EQ(errorOf("{}", 0), "");
  EXPECT_EQ(errorOf("{}    ", 0), "");
}

TEST(SafeTensors, RefusesTheFileTruncatedAtEveryByte) {
  std::string bytes =
      safeTensorsBytes({{"a", {"F32", {2, 3}, ""}}, {"b", {"F16", {5}, ""}}});
  ASSERT_EQ(errorOfBytes(bytes), "");
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(errorOfBytes(bytes.substr(0, size)), "") << size;
  EXPECT_EQ(errorOfBytes(bytes + "x"),
            "1 bytes behind the last tensor belong to none");
}

TEST(SafeTensors, RefusesALyingHeaderSize) {
  std::string bytes = safeTensorsBytes({{"a", {"F32", {2}, ""}}});
  auto withSize = [&](uint64_t size) {
    std::string changed = bytes;
    for (int i = 0; i < 8; ++i)
      changed[i] = static_cast<char>(size >> 8 * i & 255);
    return errorOfBytes(changed);
  };
  uint64_t right = bytes.size() - 8 - 8;
  EXPECT_EQ(withSize(right), "");
  for (uint64_t wrong : {uint64_t(0), uint64_t(1), right - 1, right + 1,
                         right + 8, right + 9, uint64_t(99'999'999)})
    EXPECT_NE(withSize(wrong), "") << wrong;
  EXPECT_EQ(withSize(UINT64_MAX),
            "claims a header of 18446744073709551615 bytes, the limit is "
            "100000000");
  EXPECT_EQ(withSize(UINT64_MAX - 7).substr(0, 6), "claims");
}

TEST(SafeTensors, RefusesAHeaderThatIsNoPaddedObject) {
  EXPECT_NE(errorOf("", 0), "");
  EXPECT_NE(errorOf("    ", 0), "");
  EXPECT_NE(errorOf(" {}", 0), "");
  EXPECT_NE(errorOf("{}\n", 0), "");
  EXPECT_NE(errorOf("[]", 0), "");
  EXPECT_NE(errorOf("{} {}", 0), "");
  EXPECT_NE(errorOf(std::string("{}\0", 3), 0), "");
  EXPECT_NE(errorOf("{\"a\":1}", 0), "");
}

TEST(SafeTensors, RefusesATensorGivenTwice) {
  std::string t = entry("t", "F32", "[2]", "[0,8]");
  EXPECT_NE(errorOf("{" + t + "," + t + "}").find("given twice"),
            std::string::npos);
}

TEST(SafeTensors, ErrorsNameTheTensor) {
  EXPECT_EQ(errorOf("{" + entry("t", "F99", "[2]", "[0,8]") + "}"),
            "tensor 't': unknown dtype \"F99\"");
}

TEST(SafeTensors, RefusesBadEntries) {
  for (const std::string &header : std::vector<std::string>{
           "{\"t\":{\"dtype\":\"F32\",\"shape\":[2]}}",
           "{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}",
           "{\"t\":{\"shape\":[2],\"data_offsets\":[0,8]}}",
           "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],"
           "\"more\":1}}",
           "{\"t\":[1]}",
           "{\"t\":null}",
           "{" + entry("t", "F32", "2", "[0,8]") + "}",
           "{" + entry("t", "F32", "[2.0]", "[0,8]") + "}",
           "{" + entry("t", "F32", "[-2]", "[0,8]") + "}",
           "{" + entry("t", "F32", "[\"2\"]", "[0,8]") + "}",
           "{" + entry("t", "F32", "[[2]]", "[0,8]") + "}",
           "{" + entry("t", "F32", "[2]", "[0]") + "}",
           "{" + entry("t", "F32", "[2]", "[0,4,8]") + "}",
           "{" + entry("t", "F32", "[2]", "[0,8.0]") + "}",
           "{" + entry("t", "F32", "[2]", "[-8,0]") + "}",
           "{" + entry("t", "F32", "[2]", "{}") + "}",
           "{" + entry("t", "F32", "[2]", "[8,0]") + "}",
           "{\"t\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}}",
           "{\"__metadata__\":{\"a\":1}," + entry("t", "F32", "[2]", "[0,8]") +
               "}",
           "{\"__metadata__\":[]," + entry("t", "F32", "[2]", "[0,8]") + "}"})
    EXPECT_NE(errorOf(header), "") << header;
}

TEST(SafeTensors, RefusesSizesThatDisagreeWithOffsets) {
  EXPECT_EQ(errorOf("{" + entry("t", "F32", "[3]", "[0,8]") + "}"),
            "tensor 't': data_offsets [0, 8] hold 8 bytes, but F32 [3] needs "
            "12");
  EXPECT_NE(errorOf("{" + entry("t", "F32", "[1]", "[0,8]") + "}"), "");
  EXPECT_NE(errorOf("{" + entry("t", "F4", "[3]", "[0,1]") + "}", 1)
                .find("12 bits are not whole bytes"),
            std::string::npos);
}

TEST(SafeTensors, RefusesShapesWhoseSizeOverflows) {
  for (const char *shape :
       {"[9223372036854775807]", "[4294967296,4294967296]",
        "[2305843009213693952,1]", "[4611686018427387904,4]",
        "[4294967296,4294967296,0]", "[9223372036854775808]"})
    EXPECT_NE(errorOf("{" + entry("t", "F32", shape, "[0,8]") + "}"), "")
        << shape;
}

TEST(SafeTensors, RefusesOffsetsBeyondTheFile) {
  EXPECT_EQ(errorOf("{" + entry("t", "F32", "[3]", "[0,12]") + "}"),
            "tensor 't': data_offsets [0, 12] exceed the 8 bytes of data in "
            "the file");
  EXPECT_NE(errorOf("{" +
                    entry("t", "F32", "[0]",
                          "[9223372036854775807,9223372036854775807]") +
                    "}"),
            "");
}

TEST(SafeTensors, RefusesGapsOverlapsAndLeftOvers) {
  auto two = [](const char *a, const char *b) {
    return errorOf("{" + entry("a", "F32", "[1]", a) + "," +
                   entry("b", "F32", "[1]", b) + "}");
  };
  EXPECT_EQ(two("[0,4]", "[4,8]"), "");
  EXPECT_EQ(two("[4,8]", "[0,4]"), "");
  EXPECT_NE(two("[0,4]", "[0,4]").find("overlaps"), std::string::npos);
  EXPECT_NE(two("[0,4]", "[2,6]").find("overlaps"), std::string::npos);
  EXPECT_NE(errorOf("{" + entry("a", "F32", "[1]", "[4,8]") + "}")
                .find("leaves a gap"),
            std::string::npos);
  EXPECT_NE(errorOf("{" + entry("a", "F32", "[1]", "[0,4]") + "}")
                .find("4 bytes behind the last tensor"),
            std::string::npos);
  EXPECT_NE(errorOf("{}"), "");
}

TEST(SafeTensors, AnEmptyTensorMayStandAnywhereWithoutOverlap) {
  std::string rest = "," + entry("a", "F32", "[2]", "[0,8]") + "}";
  EXPECT_EQ(errorOf("{" + entry("e", "F32", "[0]", "[0,0]") + rest), "");
  EXPECT_EQ(errorOf("{" + entry("e", "F32", "[0]", "[8,8]") + rest), "");
  EXPECT_NE(errorOf("{" + entry("e", "F32", "[0]", "[4,4]") + rest), "");
}

TEST(SafeTensors, ReadsTensorsBehindTheFirst4GB) {
  test::TemporaryFolder folder;
  int64_t big = (int64_t(5) << 30) + 4;
  folder.write(
      "big",
      safeTensorsBytes("{" +
                           entry("big", "U8", "[" + std::to_string(big) + "]",
                                 "[0," + std::to_string(big) + "]") +
                           "," +
                           entry("last", "F32", "[1]",
                                 "[" + std::to_string(big) + "," +
                                     std::to_string(big + 4) + "]") +
                           "}",
                       ""));
  // The file is sparse: only its header takes space.
  auto headerBytes = std::filesystem::file_size(folder.path("big"));
  std::filesystem::resize_file(folder.path("big"), headerBytes + big + 4);
  SafeTensors file;
  std::string error;
  ASSERT_TRUE(file.open(folder.path("big"), error)) << error;
  const TensorView *last = file.find("last");
  EXPECT_EQ(last->data - file.file().bytes(),
            static_cast<int64_t>(headerBytes) + big);
  EXPECT_EQ(last->data[3], 0);
}

TEST(SafeTensors, FileErrorsNameTheFile) {
  test::TemporaryFolder folder;
  SafeTensors file;
  std::string error;
  EXPECT_FALSE(file.open(folder.path("none"), error));
  EXPECT_NE(error.find("none: cannot open"), std::string::npos);
  folder.write("empty", "");
  EXPECT_FALSE(file.open(folder.path("empty"), error));
  EXPECT_EQ(error, folder.path("empty") +
                       ": is truncated: has 0 bytes, the header's size alone "
                       "needs 8");
}

} // namespace
