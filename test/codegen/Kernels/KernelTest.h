//===- KernelTest.h - fixtures over the rows of Kernels.def -----*- C++ -*-===//

#ifndef ENCAST_TEST_CODEGEN_KERNELS_KERNELTEST_H
#define ENCAST_TEST_CODEGEN_KERNELS_KERNELTEST_H

#include "KernelTesting.h"
#include "codegen/Target/TargetCpu.h"

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace encast {

/// Shown in the names and messages of tests.
inline void PrintTo(const KernelRow &row, std::ostream *os) { *os << row.name; }

/// The rows whose results are compared with each other.
inline std::vector<KernelRow>
rowsOfFamily(KernelFamily family, Arithmetic arithmetic = Arithmetic::F32) {
  std::vector<KernelRow> rows;
  for (const KernelRow &row : kernelRows())
    if (row.family == family && row.arithmetic == arithmetic)
      rows.push_back(row);
  return rows;
}

inline std::string rowName(const testing::TestParamInfo<KernelRow> &info) {
  return info.param.name;
}

/// Skips a test that runs a kernel where the host cannot.
class KernelTest : public testing::TestWithParam<KernelRow> {
protected:
  void SetUp() override {
    if (uint32_t missing = GetParam().cpuFeatures & ~hostFeatures())
      GTEST_SKIP() << "host lacks " << featureNames(missing);
  }
};

inline std::unique_ptr<ExecutableCode> linearKernel(const KernelRow &row,
                                                    const LinearShape &shape) {
  std::vector<uint8_t> code;
  std::string error;
  EXPECT_TRUE(generateLinear(row, shape, code, error)) << error;
  return std::make_unique<ExecutableCode>(code);
}

inline std::unique_ptr<ExecutableCode>
attentionKernel(const KernelRow &row, const AttentionShape &shape) {
  std::vector<uint8_t> code;
  std::string error;
  EXPECT_TRUE(generateAttention(row, shape, code, error)) << error;
  return std::make_unique<ExecutableCode>(code);
}

} // namespace encast

#endif // ENCAST_TEST_CODEGEN_KERNELS_KERNELTEST_H
