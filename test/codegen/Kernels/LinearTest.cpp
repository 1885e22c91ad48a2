//===- LinearTest.cpp - every linear kernel against plain loops -----------===//

#include "KernelTest.h"

#include <cmath>
#include <cstring>
#include <tuple>

#ifdef ENCAST_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

using namespace encast;

namespace {

/// A row, and whether weights are in bf16.
using LinearParam = std::tuple<KernelRow, bool>;

class Linear : public testing::TestWithParam<LinearParam> {
protected:
  void SetUp() override {
    if (uint32_t missing = kernelRow().cpuFeatures & ~hostFeatures())
      GTEST_SKIP() << "host lacks " << featureNames(missing);
  }

  static const KernelRow &kernelRow() { return std::get<0>(GetParam()); }

  /// A shape with dense rows of A and of C.
  static LinearShape denseShape(int64_t k, int64_t panels) {
    LinearShape shape;
    shape.bf16Weights = std::get<1>(GetParam());
    shape.k = shape.lda = k;
    shape.ldc = shape.ldr = panels * kPanelColumns;
    return shape;
  }

  /// The same with bias and residual, gated.
  static LinearShape gatedShape(int64_t k, int64_t panels) {
    LinearShape shape = denseShape(k, panels);
    shape.gated = shape.bias = shape.residual = true;
    shape.ldc = shape.ldr = panels * kPanelColumns / 2;
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
    auto kernel = linearKernel(kernelRow(), shape);
    for (int64_t rows = 1; rows <= 3 * kernelRow().rowTile + 1; ++rows) {
      LinearProblem problem({rows, panels}, shape, rows);
      problem.run(kernelRow(), *kernel);
      expectBits(problem);
    }
  }
}

// Few rows take wider groups of panels, so their remainders differ.
TEST_P(Linear, ComputesEveryNumberOfPanels) {
  for (int64_t panels = 1; panels <= 20; ++panels) {
    const LinearShape shape = denseShape(9, panels);
    auto kernel = linearKernel(kernelRow(), shape);
    for (int64_t rows : {1, 2, 3, 4, kernelRow().rowTile + 3}) {
      LinearProblem problem({rows, panels}, shape, panels);
      problem.run(kernelRow(), *kernel);
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
    auto kernel = linearKernel(kernelRow(), shape);
    for (int64_t rows : {1, 2 * kernelRow().rowTile + 5}) {
      LinearProblem problem({rows, 4}, shape, k);
      problem.run(kernelRow(), *kernel);
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
    auto kernel = linearKernel(kernelRow(), shape);
    LinearProblem problem({kernelRow().rowTile + 3, 3}, shape, 1);
    problem.run(kernelRow(), *kernel);
    expectBits(problem);
  }
}

TEST_P(Linear, WritesPanelsApart) {
  for (int64_t panels : {1, 2, 4, 7}) {
    LinearShape shape = denseShape(panels == 7 ? 1170 : 17, panels);
    shape.ldc = kPanelColumns;
    shape.bias = true;
    auto kernel = linearKernel(kernelRow(), shape);
    for (int64_t rows : {1, kernelRow().rowTile + 5}) {
      LinearProblem problem({rows, panels, /*panelMajor=*/true}, shape, panels);
      problem.run(kernelRow(), *kernel);
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
      auto kernel = linearKernel(kernelRow(), shape);
      for (int64_t rows = 1; rows <= kernelRow().rowTile + 1; ++rows) {
        LinearProblem problem({rows, 4}, shape, rows);
        problem.run(kernelRow(), *kernel);
        expectBits(problem);
      }
    }
}

// Every tail and every number of panels, which leaves pairs of panels and
// panels alone; from 1152 on, a k that is cut elsewhere.
TEST_P(Linear, MultipliesGatesByTheOtherColumns) {
  for (int64_t k : {5, 19, 1300})
    for (int64_t panels : {1, 2, 3, 4, 5, 11}) {
      LinearShape shape = gatedShape(k, panels);
      auto kernel = linearKernel(kernelRow(), shape);
      for (int64_t rows = 1; rows <= 2 * kernelRow().rowTile + 1; ++rows) {
        LinearProblem problem({rows, panels}, shape, rows);
        problem.run(kernelRow(), *kernel);
        expectBits(problem);
      }
    }
}

TEST_P(Linear, LeavesTheGapsOfGatedRowsUntouched) {
  for (bool bias : {false, true})
    for (bool residual : {false, true}) {
      LinearShape shape = gatedShape(21, 3);
      shape.lda += 7;
      shape.ldc += 5;
      shape.ldr += 3;
      shape.bias = bias;
      shape.residual = residual;
      auto kernel = linearKernel(kernelRow(), shape);
      for (int64_t rows : {1, 2, kernelRow().rowTile + 3}) {
        LinearProblem problem({rows, 3}, shape, 1);
        problem.run(kernelRow(), *kernel);
        expectBits(problem);
      }
    }
}

// The same kernel, not gated, says what its activation makes of the gates.
TEST_P(Linear, AppliesTheActivationToTheGatesAlone) {
  for (Activation activation :
       {Activation::Silu, Activation::Gelu, Activation::GeluTanh,
        Activation::Relu, Activation::Sigmoid}) {
    for (int64_t rows : {1, 3, kernelRow().rowTile + 5}) {
      LinearShape shape = gatedShape(33, 5);
      shape.activation = activation;
      LinearShape plain = denseShape(33, 5);
      plain.bias = true;
      plain.activation = activation;
      LinearProblem problem({rows, 5}, shape, 4), gates({rows, 5}, plain, 4);
      problem.run(kernelRow(), *linearKernel(kernelRow(), shape));
      gates.run(kernelRow(), *linearKernel(kernelRow(), plain));
      const int64_t half = problem.resultColumns();
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < problem.columns(); ++column) {
          const int64_t gate = column / half * kPanelColumns + column % half;
          const float product = gates.c[gates.cIndex(row, gate)] *
                                problem.expectedSum(row, gate + half);
          ASSERT_EQ(problem.c[problem.cIndex(row, column)],
                    product + problem.residual[row * shape.ldr + column])
              << activationName(activation);
        }
    }
  }
}

TEST_P(Linear, AccumulatesOntoWhatCHolds) {
  for (int64_t k : {1, 19, 1300}) {
    LinearShape shape = denseShape(k, 5);
    shape.accumulate = true;
    shape.ldc += 3;
    shape.bias = shape.residual = k == 19;
    auto kernel = linearKernel(kernelRow(), shape);
    for (int64_t rows = 1; rows <= kernelRow().rowTile + 1; ++rows) {
      LinearProblem problem({rows, 5}, shape, rows);
      problem.run(kernelRow(), *kernel);
      expectBits(problem);
    }
  }
}

// The first part leaves sums in c, the second goes on from them.
TEST_P(Linear, GivesTheSameBitsWhenKIsSplitByAccumulating) {
  const int64_t k = 500, first = 123, rows = 13, panels = 7;
  LinearShape whole = denseShape(k, panels);
  whole.bias = whole.residual = true;
  whole.activation = Activation::Gelu;
  LinearShape begin = denseShape(first, panels);
  begin.lda = k;
  LinearShape end = whole;
  end.k = k - first;
  end.accumulate = true;
  LinearProblem expected({rows, panels}, whole, 6),
      head({rows, panels}, begin, 1), tail({rows, panels}, end, 6);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < first; ++i)
      head.a[row * k + i] = expected.a[row * k + i];
    for (int64_t i = first; i < k; ++i)
      tail.a[row * k + i - first] = expected.a[row * k + i];
  }
  for (int64_t column = 0; column < expected.columns(); ++column) {
    for (int64_t i = 0; i < first; ++i)
      head.setB(i, column, expected.b(i, column));
    for (int64_t i = first; i < k; ++i)
      tail.setB(i - first, column, expected.b(i, column));
    tail.bias[column] = expected.bias[column];
    for (int64_t row = 0; row < rows; ++row)
      tail.residual[row * end.ldr + column] =
          expected.residual[row * whole.ldr + column];
  }
  expected.run(kernelRow(), *linearKernel(kernelRow(), whole));
  head.run(kernelRow(), *linearKernel(kernelRow(), begin));
  for (int64_t i = 0; i < head.c.size(); ++i)
    tail.c[i] = head.c[i];
  tail.run(kernelRow(), *linearKernel(kernelRow(), end));
  EXPECT_TRUE(sameBits(expected.c, tail.c));
}

// The bias comes before the activation and the residual behind it.
TEST_P(Linear, AppliesTheActivationBetweenBiasAndResidual) {
  LinearShape shape = denseShape(12, 2);
  shape.bias = shape.residual = true;
  shape.activation = Activation::Relu;
  auto kernel = linearKernel(kernelRow(), shape);
  LinearProblem problem({kernelRow().rowTile + 1, 2}, shape, 3);
  problem.run(kernelRow(), *kernel);
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
    auto kernel = linearKernel(kernelRow(), shape);
    LinearProblem problem({kernelRow().rowTile + 2, 3}, shape, k);
    problem.run(kernelRow(), *kernel);
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
  auto kernel = linearKernel(kernelRow(), shape);
  LinearProblem problem({2 * kernelRow().rowTile + 1, 5}, shape, 1);
  for (GuardedFloats *operand : {&problem.a, &problem.bias, &problem.residual})
    for (int64_t i = 0; i < operand->size(); ++i)
      (*operand)[i] = std::rint((*operand)[i] * 15);
  for (int64_t k = 0; k < shape.k; ++k)
    for (int64_t column = 0; column < problem.columns(); ++column)
      problem.setB(k, column, std::rint(problem.b(k, column) * 15));
  problem.run(kernelRow(), *kernel);
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
  problem.run(kernelRow(), *linearKernel(kernelRow(), shape));
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
  LinearShape plain = denseShape(1200, 11);
  plain.bias = plain.residual = true;
  LinearShape accumulating = plain;
  accumulating.accumulate = true;
  for (LinearShape shape : {plain, accumulating, gatedShape(1200, 11)}) {
    shape.activation = Activation::Gelu;
    auto kernel = linearKernel(kernelRow(), shape);
    const int64_t rows = 3 * kernelRow().rowTile + 2, panels = 11;
    LinearProblem whole({rows, panels}, shape, 5);
    whole.run(kernelRow(), *kernel);
    LinearProblem parts({rows, panels}, shape, 5);
    Random random(9);
    for (int trial = 0; trial < 40; ++trial) {
      parts.resetC();
      const int64_t maxRows = 1 + random.next() % rows;
      const int64_t maxPanels = 1 + random.next() % panels;
      for (int64_t row = 0; row < rows; row += maxRows)
        for (int64_t panel = 0; panel < panels; panel += maxPanels)
          parts.run(kernelRow(), *kernel, row, std::min(maxRows, rows - row),
                    panel, std::min(maxPanels, panels - panel));
      ASSERT_TRUE(sameBits(whole.c, parts.c))
          << "at most " << maxRows << " rows and " << maxPanels << " panels"
          << (shape.gated ? ", gated" : "");
    }
  }
}

TEST_P(Linear, GivesTheSameBitsAsTheOtherRowsOfItsFamily) {
  for (Activation activation :
       {Activation::None, Activation::Gelu, Activation::GeluTanh,
        Activation::Relu, Activation::Silu, Activation::QuickGelu,
        Activation::Tanh, Activation::Sigmoid}) {
    LinearShape plain = denseShape(77, 7);
    plain.bias = plain.residual = true;
    for (LinearShape shape : {plain, gatedShape(77, 7)}) {
      shape.activation = activation;
      LinearProblem expected({29, 7}, shape, 2), actual({29, 7}, shape, 2);
      // Large enough to reach the ends of every function.
      for (int64_t i = 0; i < expected.bias.size(); ++i)
        expected.bias[i] = actual.bias[i] = 120 * expected.bias[i];
      expected.run(kernelRow(), *linearKernel(kernelRow(), shape));
      for (const KernelRow &other : rowsOfFamily(KernelFamily::Linear)) {
        if (other.cpuFeatures & ~hostFeatures())
          continue;
        actual.run(other, *linearKernel(other, shape));
        EXPECT_TRUE(sameBits(expected.c, actual.c))
            << other.name << " with " << activationName(activation)
            << (shape.gated ? ", gated" : "");
      }
    }
  }
}

// Widening is exact, so nothing tells where a weight was stored.
TEST_P(Linear, GivesTheSameBitsAsTheSameWeightsInF32) {
  for (int64_t k : {77, 1300}) {
    LinearShape plain = denseShape(k, 7);
    plain.bias = plain.residual = true;
    plain.activation = Activation::Silu;
    LinearShape gated = gatedShape(k, 7);
    gated.activation = Activation::Silu;
    for (LinearShape shape : {plain, gated})
      for (int64_t rows : {1, 2, 5, 9, 29}) {
        LinearShape inF32 = shape;
        inF32.bf16Weights = false;
        LinearProblem actual({rows, 7}, shape, 2),
            expected({rows, 7}, inF32, 2);
        for (int64_t i = 0; i < k; ++i)
          for (int64_t column = 0; column < 7 * kPanelColumns; ++column)
            expected.setB(i, column, actual.b(i, column));
        actual.run(kernelRow(), *linearKernel(kernelRow(), shape));
        expected.run(kernelRow(), *linearKernel(kernelRow(), inF32));
        EXPECT_TRUE(sameBits(expected.c, actual.c))
            << rows << " rows, k = " << k << (shape.gated ? ", gated" : "");
      }
  }
}

TEST_P(Linear, IsAssembledToEqualBytesTwice) {
  LinearShape shape = denseShape(100, 5);
  shape.bias = true;
  shape.activation = Activation::Silu;
  std::vector<uint8_t> first, second;
  std::string error;
  ASSERT_TRUE(generateLinear(kernelRow(), shape, first, error)) << error;
  ASSERT_TRUE(generateLinear(kernelRow(), shape, second, error)) << error;
  EXPECT_EQ(first, second);
}

std::string variantName(const testing::TestParamInfo<LinearParam> &info) {
  const auto &[row, bf16Weights] = info.param;
  return std::string(row.name) + (bf16Weights ? "_bf16_weights" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Linear,
    testing::Combine(testing::ValuesIn(rowsOfFamily(KernelFamily::Linear)),
                     testing::Bool()),
    variantName);

} // namespace
