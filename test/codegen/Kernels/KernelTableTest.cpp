//===- KernelTableTest.cpp - Kernels.def and the refusals of shapes -------===//

#include "KernelTest.h"

#include "encast_abi.h"

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
  EXPECT_STREQ(selectKernelRow(KernelFamily::Linear, avx2)->name,
               "linear_f32_6x16_avx2");
  EXPECT_STREQ(selectKernelRow(KernelFamily::Linear, avx512)->name,
               "linear_f32_8x48_avx512");
  EXPECT_STREQ(
      selectKernelRow(KernelFamily::Linear, avx512 | ENCAST_CPU_AMX_BF16)->name,
      "linear_f32_8x48_avx512");
  EXPECT_EQ(selectKernelRow(KernelFamily::Linear, 0), nullptr);
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

TEST(LinearShapes, AtTheLimitsAreGenerated) {
  LinearShape shape;
  shape.k = 1048576;
  shape.lda = shape.ldc = shape.ldr = 16777216;
  shape.bias = shape.residual = true;
  shape.activation = Activation::GeluTanh;
  for (const KernelRow &row : rowsOfFamily(KernelFamily::Linear)) {
    std::vector<uint8_t> code;
    std::string error;
    EXPECT_TRUE(generateLinear(row, shape, code, error)) << error;
    EXPECT_FALSE(code.empty());
  }
}

} // namespace
