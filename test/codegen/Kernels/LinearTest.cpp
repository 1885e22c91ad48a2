//===- LinearTest.cpp - every linear kernel against plain loops -----------===//

#include "KernelTest.h"

#include <cmath>
#include <cstring>

#ifdef ENCAST_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

using namespace encast;

namespace {

class Linear : public KernelTest {
protected:
  /// A shape with dense rows of A and of C.
  static LinearShape denseShape(int64_t k, int64_t panels) {
    LinearShape shape;
    shape.k = shape.lda = k;
    shape.ldc = shape.ldr = panels * kPanelColumns;
    return shape;
  }

  /// Every element of C has the bits that the contract says, and nothing else
  /// was written.
  static void expectBits(const LinearProblem &problem) {
    for (int64_t row = 0; row < problem.size.rows; ++row)
      for (int64_t column = 0; column < problem.columns(); ++column)
        ASSERT_EQ(problem.c[problem.cIndex(row, column)],
                  problem.expectedBits(row, column))
            << problem.size.rows << " rows, " << problem.size.panels
            << " panels, k = " << problem.shape.k << ": row " << row
            << ", column " << column;
    expectGuardsUntouched(problem);
  }

  static void expectGuardsUntouched(const LinearProblem &problem) {
    std::vector<bool> written(problem.c.size());
    for (int64_t row = 0; row < problem.size.rows; ++row)
      for (int64_t column = 0; column < problem.columns(); ++column)
        written[problem.cIndex(row, column)] = true;
    for (int64_t i = 0; i < problem.c.size(); ++i)
      ASSERT_TRUE(written[i] || problem.c.untouched(i)) << "float " << i;
    for (const GuardedFloats *operand :
         {&problem.a, &problem.packedB, &problem.c, &problem.bias,
          &problem.residual})
      ASSERT_TRUE(operand->frontUntouched());
  }

  static bool sameBits(const GuardedFloats &x, const GuardedFloats &y) {
    return x.size() == y.size() &&
           std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  }
};

// Up to two full tiles and a row: every tail, every way to split it.
TEST_P(Linear, ComputesEveryNumberOfRows) {
  for (int64_t panels : {1, 5}) {
    const LinearShape shape = denseShape(19, panels);
    auto kernel = linearKernel(GetParam(), shape);
    for (int64_t rows = 1; rows <= 3 * GetParam().rowTile + 1; ++rows) {
      LinearProblem problem({rows, panels}, shape, rows);
      problem.run(*kernel);
      expectBits(problem);
    }
  }
}

// Few rows take wider groups of panels, so their remainders differ.
TEST_P(Linear, ComputesEveryNumberOfPanels) {
  for (int64_t panels = 1; panels <= 20; ++panels) {
    const LinearShape shape = denseShape(9, panels);
    auto kernel = linearKernel(GetParam(), shape);
    for (int64_t rows : {1, 2, 3, 4, GetParam().rowTile + 3}) {
      LinearProblem problem({rows, panels}, shape, panels);
      problem.run(*kernel);
      expectBits(problem);
    }
  }
}

// From 1152 on, k is cut into chunks.
TEST_P(Linear, ComputesEveryK) {
  std::vector<int64_t> sizes = {63,   64,   65,   127,  384,  1000,
                                1151, 1152, 1153, 1159, 1536, 1541,
                                1919, 1920, 2047, 2303, 2304, 3072};
  for (int64_t k = 1; k <= 35; ++k)
    sizes.push_back(k);
  for (int64_t k : sizes) {
    const LinearShape shape = denseShape(k, 4);
    auto kernel = linearKernel(GetParam(), shape);
    for (int64_t rows : {1, 2 * GetParam().rowTile + 5}) {
      LinearProblem problem({rows, 4}, shape, k);
      problem.run(*kernel);
      expectBits(problem);
    }
  }
}

TEST_P(Linear, LeavesTheGapsOfWideStridesUntouched) {
  for (int64_t k : {21, 1300}) {
    LinearShape shape = denseShape(k, 3);
    shape.lda += 7;
    shape.ldc += 5;
    shape.ldr += 3;
    shape.bias = shape.residual = true;
    auto kernel = linearKernel(GetParam(), shape);
    LinearProblem problem({GetParam().rowTile + 3, 3}, shape, 1);
    problem.run(*kernel);
    expectBits(problem);
  }
}

TEST_P(Linear, WritesPanelsApart) {
  for (int64_t panels : {1, 2, 4, 7}) {
    LinearShape shape = denseShape(panels == 7 ? 1170 : 17, panels);
    shape.ldc = kPanelColumns;
    shape.bias = true;
    auto kernel = linearKernel(GetParam(), shape);
    for (int64_t rows : {1, GetParam().rowTile + 5}) {
      LinearProblem problem({rows, panels, /*panelMajor=*/true}, shape, panels);
      problem.run(*kernel);
      expectBits(problem);
    }
  }
}

TEST_P(Linear, AddsBiasThenResidual) {
  for (bool bias : {false, true})
    for (bool residual : {false, true}) {
      LinearShape shape = denseShape(40, 4);
      shape.bias = bias;
      shape.residual = residual;
      auto kernel = linearKernel(GetParam(), shape);
      for (int64_t rows = 1; rows <= GetParam().rowTile + 1; ++rows) {
        LinearProblem problem({rows, 4}, shape, rows);
        problem.run(*kernel);
        expectBits(problem);
      }
    }
}

// The bias comes before the activation and the residual behind it.
TEST_P(Linear, AppliesTheActivationBetweenBiasAndResidual) {
  LinearShape shape = denseShape(12, 2);
  shape.bias = shape.residual = true;
  shape.activation = Activation::Relu;
  auto kernel = linearKernel(GetParam(), shape);
  LinearProblem problem({GetParam().rowTile + 1, 2}, shape, 3);
  problem.run(*kernel);
  for (int64_t row = 0; row < problem.size.rows; ++row)
    for (int64_t column = 0; column < problem.columns(); ++column) {
      float sum = 0;
      for (int64_t k = 0; k < shape.k; ++k)
        sum =
            std::fma(problem.a[row * shape.lda + k], problem.b(k, column), sum);
      sum = std::fmax(sum + problem.bias[column], 0.0f);
      EXPECT_EQ(problem.c[problem.cIndex(row, column)],
                sum + problem.residual[row * shape.ldr + column]);
    }
}

// gamma(k) * sum |a b| is the classical bound of a sum of k products.
TEST_P(Linear, StaysWithinTheBoundOfASumInDouble) {
  for (int64_t k : {1, 64, 777, 4096}) {
    const LinearShape shape = denseShape(k, 3);
    auto kernel = linearKernel(GetParam(), shape);
    LinearProblem problem({GetParam().rowTile + 2, 3}, shape, k);
    problem.run(*kernel);
    const double unit = 0x1p-24 * double(k);
    for (int64_t row = 0; row < problem.size.rows; ++row)
      for (int64_t column = 0; column < problem.columns(); ++column)
        ASSERT_NEAR(problem.c[problem.cIndex(row, column)],
                    problem.exactSum(row, column),
                    unit / (1 - unit) * problem.absoluteSum(row, column));
  }
}

// Every partial sum is an integer below 2^24, so f32 is exact.
TEST_P(Linear, IsExactOnSmallIntegers) {
  LinearShape shape = denseShape(300, 5);
  shape.bias = shape.residual = true;
  auto kernel = linearKernel(GetParam(), shape);
  LinearProblem problem({2 * GetParam().rowTile + 1, 5}, shape, 1);
  for (GuardedFloats *operand :
       {&problem.a, &problem.packedB, &problem.bias, &problem.residual})
    for (int64_t i = 0; i < operand->size(); ++i)
      (*operand)[i] = std::rint((*operand)[i] * 15);
  problem.run(*kernel);
  for (int64_t row = 0; row < problem.size.rows; ++row)
    for (int64_t column = 0; column < problem.columns(); ++column)
      ASSERT_EQ(double(problem.c[problem.cIndex(row, column)]),
                problem.exactSum(row, column) + problem.bias[column] +
                    problem.residual[row * shape.ldr + column]);
}

#ifdef ENCAST_HAVE_ONEDNN
// A second oracle, written by others. Both sums stay within the bound.
TEST_P(Linear, AgreesWithOneDnn) {
  const LinearShape shape = denseShape(500, 6);
  LinearProblem problem({37, 6}, shape, 8);
  problem.run(*linearKernel(GetParam(), shape));
  const int64_t n = problem.columns();
  std::vector<float> b(shape.k * n), c(problem.size.rows * n);
  for (int64_t k = 0; k < shape.k; ++k)
    for (int64_t column = 0; column < n; ++column)
      b[k * n + column] = problem.b(k, column);
  ASSERT_EQ(dnnl_sgemm('N', 'N', problem.size.rows, n, shape.k, 1,
                       problem.a.data(), shape.lda, b.data(), n, 0, c.data(),
                       n),
            dnnl_success);
  const double unit = 0x1p-24 * double(shape.k);
  for (int64_t row = 0; row < problem.size.rows; ++row)
    for (int64_t column = 0; column < n; ++column)
      ASSERT_NEAR(problem.c[problem.cIndex(row, column)], c[row * n + column],
                  2 * unit / (1 - unit) * problem.absoluteSum(row, column));
}
#endif

TEST_P(Linear, GivesTheSameBitsForEverySplitOfRowsAndPanels) {
  LinearShape shape = denseShape(1200, 11);
  shape.bias = shape.residual = true;
  shape.activation = Activation::Gelu;
  auto kernel = linearKernel(GetParam(), shape);
  const int64_t rows = 3 * GetParam().rowTile + 2, panels = 11;
  LinearProblem whole({rows, panels}, shape, 5);
  whole.run(*kernel);
  LinearProblem parts({rows, panels}, shape, 5);
  Random random(9);
  for (int trial = 0; trial < 40; ++trial) {
    parts.c.reset();
    const int64_t maxRows = 1 + random.next() % rows;
    const int64_t maxPanels = 1 + random.next() % panels;
    for (int64_t row = 0; row < rows; row += maxRows)
      for (int64_t panel = 0; panel < panels; panel += maxPanels)
        parts.run(*kernel, row, std::min(maxRows, rows - row), panel,
                  std::min(maxPanels, panels - panel));
    ASSERT_TRUE(sameBits(whole.c, parts.c))
        << "at most " << maxRows << " rows and " << maxPanels << " panels";
  }
}

TEST_P(Linear, GivesTheSameBitsAsTheOtherRowsOfItsFamily) {
  for (Activation activation :
       {Activation::None, Activation::Gelu, Activation::GeluTanh,
        Activation::Relu, Activation::Silu, Activation::QuickGelu,
        Activation::Tanh, Activation::Sigmoid}) {
    LinearShape shape = denseShape(77, 7);
    shape.bias = shape.residual = true;
    shape.activation = activation;
    LinearProblem expected({29, 7}, shape, 2), actual({29, 7}, shape, 2);
    // Large enough to reach the ends of every function.
    for (int64_t i = 0; i < expected.bias.size(); ++i)
      expected.bias[i] = actual.bias[i] = 120 * expected.bias[i];
    expected.run(*linearKernel(GetParam(), shape));
    for (const KernelRow &other : rowsOfFamily(KernelFamily::Linear)) {
      if (other.cpuFeatures & ~hostFeatures())
        continue;
      actual.run(*linearKernel(other, shape));
      EXPECT_TRUE(sameBits(expected.c, actual.c))
          << other.name << " with " << activationName(activation);
    }
  }
}

TEST_P(Linear, IsAssembledToEqualBytesTwice) {
  LinearShape shape = denseShape(100, 5);
  shape.bias = true;
  shape.activation = Activation::Silu;
  std::vector<uint8_t> first, second;
  std::string error;
  ASSERT_TRUE(generateLinear(GetParam(), shape, first, error)) << error;
  ASSERT_TRUE(generateLinear(GetParam(), shape, second, error)) << error;
  EXPECT_EQ(first, second);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Linear,
                         testing::ValuesIn(rowsOfFamily(KernelFamily::Linear)),
                         rowName);

} // namespace
