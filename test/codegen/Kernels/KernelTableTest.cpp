//===- KernelTableTest.cpp - Kernels.def and the refusals of shapes -------===//

#include "KernelTest.h"

#include "encast_abi.h"

#include <limits>
#include <set>

using namespace encast;

namespace {

TEST(KernelTable, HasUniqueNamesThatAreFound) {
  std::set<std::string> names;
  for (const KernelRow &row : kernelRows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(findKernelRow(row.name), &row);
  }
  EXPECT_EQ(findKernelRow("linear_f32_0x0"), nullptr);
}

TEST(KernelTable, SelectsTheBestRowThatTheCpuCanRun) {
  const uint32_t avx2 = ENCAST_CPU_AVX2;
  const uint32_t avx512 = ENCAST_CPU_AVX2 | ENCAST_CPU_AVX512;
  EXPECT_STREQ(
      selectKernelRow(KernelFamily::Linear, Arithmetic::F32, avx2)->name,
      "linear_f32_6x16_avx2");
  EXPECT_STREQ(
      selectKernelRow(KernelFamily::Linear, Arithmetic::F32, avx512)->name,
      "linear_f32_8x48_avx512");
  EXPECT_STREQ(selectKernelRow(KernelFamily::Linear, Arithmetic::F32,
                               avx512 | ENCAST_CPU_AMX_BF16)
                   ->name,
               "linear_f32_8x48_avx512");
  EXPECT_EQ(selectKernelRow(KernelFamily::Linear, Arithmetic::F32, 0), nullptr);
  EXPECT_STREQ(
      selectKernelRow(KernelFamily::Attention, Arithmetic::F32, avx2)->name,
      "attention_f32_24_avx2");
  EXPECT_STREQ(
      selectKernelRow(KernelFamily::Attention, Arithmetic::F32, avx512)->name,
      "attention_f32_48_avx512");
}

TEST(KernelTable, GroupsWholeTilesOfQueries) {
  for (const KernelRow &row : rowsOfFamily(KernelFamily::Attention))
    EXPECT_EQ(kAttentionQueryGroup % row.rowTile, 0) << row.name;
}

std::string linearError(const LinearShape &shape) {
  std::vector<uint8_t> code;
  std::string error;
  EXPECT_FALSE(generateLinear(*findKernelRow("linear_f32_6x16_avx2"), shape,
                              code, error));
  EXPECT_TRUE(code.empty());
  return error;
}

TEST(LinearShapes, OutOfRangeAreRefusedWithNameLimitAndValue) {
  LinearShape shape;
  shape.k = 0;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: k is 0, expected 1 to 1048576");
  shape.k = 1048577;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: k is 1048577, expected 1 to 1048576");
  shape.k = 8;
  shape.lda = 7;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: lda is 7, expected 8 to 16777216");
  shape.lda = 8;
  shape.ldc = 15;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: ldc is 15, expected 16 to 16777216");
  shape.ldc = 16777217;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: ldc is 16777217, expected 16 to 16777216");
  shape.ldc = 16;
  shape.residual = true;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: ldr is 0, expected 16 to 16777216");
}

TEST(LinearShapes, OfGatesTakeHalfAsManyColumns) {
  LinearShape shape;
  shape.gated = shape.residual = true;
  shape.ldc = 7;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: ldc is 7, expected 8 to 16777216");
  shape.ldc = 8;
  shape.ldr = 7;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: ldr is 7, expected 8 to 16777216");
}

TEST(LinearShapes, ThatTheKernelDoesNotHaveAreRefused) {
  LinearShape shape;
  shape.gated = shape.accumulate = true;
  EXPECT_EQ(linearError(shape), "linear_f32_6x16_avx2: c of a gated linear "
                                "holds no sums to accumulate");
  shape = {};
  shape.cPlanes = 2;
  EXPECT_EQ(linearError(shape), "linear_f32_6x16_avx2: has no planes of c");
  shape = {};
  shape.arithmetic = Arithmetic::Bf16x3;
  EXPECT_EQ(linearError(shape),
            "linear_f32_6x16_avx2: arithmetic is bf16x3, expected f32");
}

TEST(Generators, RefuseARowOfTheOtherFamily) {
  std::vector<uint8_t> code;
  std::string error;
  EXPECT_FALSE(
      generateLinear(*findKernelRow("attention_f32_24_avx2"), {}, code, error));
  EXPECT_EQ(error, "attention_f32_24_avx2 is not a linear kernel");
  EXPECT_FALSE(generateAttention(*findKernelRow("linear_f32_6x16_avx2"), {},
                                 code, error));
  EXPECT_EQ(error, "linear_f32_6x16_avx2 is not an attention kernel");
}

TEST(LinearShapes, AtTheLimitsAreGenerated) {
  LinearShape shape;
  shape.k = 1048576;
  shape.lda = shape.ldc = shape.ldr = 16777216;
  shape.bias = shape.residual = true;
  shape.activation = Activation::GeluTanh;
  for (bool gated : {false, true})
    for (const KernelRow &row : rowsOfFamily(KernelFamily::Linear)) {
      shape.gated = gated;
      shape.accumulate = !gated;
      std::vector<uint8_t> code;
      std::string error;
      EXPECT_TRUE(generateLinear(row, shape, code, error)) << error;
      EXPECT_FALSE(code.empty());
      EXPECT_EQ(linearWorkspaceBytes(row, shape), 0);
    }
}

std::string attentionError(const AttentionShape &shape) {
  std::vector<uint8_t> code;
  std::string error;
  EXPECT_FALSE(generateAttention(*findKernelRow("attention_f32_24_avx2"), shape,
                                 code, error));
  EXPECT_TRUE(code.empty());
  return error;
}

TEST(AttentionShapes, OutOfRangeAreRefusedWithNameLimitAndValue) {
  AttentionShape shape;
  shape.headSize = 0;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: head size is 0, expected 1 to 256");
  shape.headSize = 257;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: head size is 257, expected 1 to 256");
  shape.headSize = 64;
  shape.ldo = 63;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: ldo is 63, expected 64 to 4194304");
  shape.ldo = 64;
  shape.scale = std::numeric_limits<float>::infinity();
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: scale is inf, expected a finite number");
  shape.scale = 1;
  shape.queryHeads = 0;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: query heads is 0, expected 1 to 1024");
  shape.queryHeads = 1025;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: query heads is 1025, expected 1 to 1024");
  shape.queryHeads = 2;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: ldo is 64, expected 128 to 4194304");
  shape.ldo = 128;
  shape.window = -2;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: window is -2, expected -1 to 1073741824");
  shape.window = 1073741825;
  EXPECT_EQ(attentionError(shape), "attention_f32_24_avx2: window is "
                                   "1073741825, expected -1 to 1073741824");
}

TEST(AttentionShapes, ThatTheKernelDoesNotHaveAreRefused) {
  AttentionShape shape;
  shape.arithmetic = Arithmetic::Bf16;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: arithmetic is bf16, expected f32");
  shape = {};
  shape.ldq = 1;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: has no row stride of q");
  shape = {};
  shape.qPlaneStride = 1;
  EXPECT_EQ(attentionError(shape), "attention_f32_24_avx2: has no planes of q");
  for (int option = 0; option < 2; ++option) {
    shape = {};
    (option == 0 ? shape.outPlaneStride : shape.ldkv) = 1;
    EXPECT_EQ(attentionError(shape),
              option == 0
                  ? "attention_f32_24_avx2: has no planes of out"
                  : "attention_f32_24_avx2: has no keys and values to pack");
  }
  shape = {};
  shape.outPlanes = 2;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: has no planes of out");
  shape = {};
  shape.kvPlaneStride = 1;
  EXPECT_EQ(attentionError(shape),
            "attention_f32_24_avx2: has no keys and values to pack");
}

std::string attentionError(const char *row, const AttentionShape &shape) {
  std::vector<uint8_t> code;
  std::string error;
  EXPECT_FALSE(generateAttention(*findKernelRow(row), shape, code, error));
  EXPECT_TRUE(code.empty());
  return error;
}

TEST(TileAttentionShapes, OutOfRangeAreRefusedWithNameLimitAndValue) {
  const char *const row = "attention_bf16x3_32_amx";
  AttentionShape shape;
  EXPECT_EQ(attentionError(row, shape),
            "attention_bf16x3_32_amx: arithmetic is f32, expected bf16x3");
  shape.arithmetic = Arithmetic::Bf16x3;
  shape.headSize = 40;
  shape.queryHeads = 2;
  shape.qPlaneStride = 127;
  EXPECT_EQ(attentionError(row, shape), "attention_bf16x3_32_amx: plane stride "
                                        "of q is 127, expected 128 to 1048576");
  shape.qPlaneStride = 128;
  shape.ldq = 255;
  EXPECT_EQ(attentionError(row, shape), "attention_bf16x3_32_amx: row stride "
                                        "of q is 255, expected 256 to 1048576");
  shape.ldq = 256;
  shape.ldo = 79;
  EXPECT_EQ(attentionError(row, shape), "attention_bf16x3_32_amx: row stride "
                                        "of out is 79, expected 80 to 1048576");
  shape.outPlanes = 4;
  EXPECT_EQ(attentionError(row, shape),
            "attention_bf16x3_32_amx: planes of out is 4, expected 0 to 3");
  shape.outPlanes = 2;
  shape.outPlaneStride = 79;
  EXPECT_EQ(attentionError(row, shape), "attention_bf16x3_32_amx: plane stride "
                                        "of out is 79, expected 80 to 1048576");
  shape.outPlaneStride = 80;
  EXPECT_EQ(attentionError(row, shape),
            "attention_bf16x3_32_amx: row stride of out is 79, expected 160 to "
            "1048576");
  shape.ldo = 160;
  shape.scale = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(attentionError(row, shape),
            "attention_bf16x3_32_amx: scale is nan, expected a finite number");
}

TEST(AttentionPackShapes, OutOfRangeAreRefusedWithNameLimitAndValue) {
  const char *const row = "attention_pack_bf16x3_avx512";
  AttentionShape shape;
  shape.arithmetic = Arithmetic::Bf16x3;
  shape.headSize = 40;
  shape.kvPlaneStride = 63;
  EXPECT_EQ(attentionError(row, shape),
            "attention_pack_bf16x3_avx512: plane stride of k and v is 63, "
            "expected 64 to 1048576");
  shape.kvPlaneStride = 64;
  shape.ldkv = 127;
  EXPECT_EQ(attentionError(row, shape),
            "attention_pack_bf16x3_avx512: row stride of k and v is 127, "
            "expected 128 to 1048576");
}

TEST(TileAttentionShapes, AtTheLimitsAreGenerated) {
  for (KernelFamily family :
       {KernelFamily::TileAttention, KernelFamily::AttentionPack})
    for (Arithmetic arithmetic :
         {Arithmetic::Bf16, Arithmetic::Bf16x3, Arithmetic::Bf16x6})
      for (int64_t window : {-1, 1 << 30})
        for (const KernelRow &row : rowsOfFamily(family, arithmetic)) {
          AttentionShape shape;
          shape.arithmetic = arithmetic;
          shape.headSize = 256;
          shape.queryHeads = 1024;
          shape.window = window;
          shape.ldq = shape.ldo = shape.ldkv = 1048576;
          shape.qPlaneStride = shape.outPlaneStride = 262144;
          shape.kvPlaneStride = 262144;
          shape.outPlanes = 3;
          std::vector<uint8_t> code;
          std::string error;
          EXPECT_TRUE(generateAttention(row, shape, code, error)) << error;
          EXPECT_FALSE(code.empty());
          EXPECT_EQ(attentionWorkspaceBytes(row, shape) % 64, 0);
        }
}

TEST(AttentionShapes, AtTheLimitsAreGenerated) {
  AttentionShape shape;
  shape.ldo = 4194304;
  for (shape.headSize = 1; shape.headSize <= 256; shape.headSize += 17)
    for (const KernelRow &row : rowsOfFamily(KernelFamily::Attention)) {
      std::vector<uint8_t> code;
      std::string error;
      EXPECT_TRUE(generateAttention(row, shape, code, error)) << error;
      EXPECT_EQ(attentionWorkspaceBytes(row, shape) % 64, 0);
      shape.queryHeads = 1024;
      shape.window = 1073741824;
      EXPECT_TRUE(generateAttention(row, shape, code, error)) << error;
      shape.queryHeads = 1;
      shape.window = -1;
    }
}

} // namespace
