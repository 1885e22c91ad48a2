//===- TileLinearTest.cpp - bf16 linear kernels against a model -----------===//

#include "KernelTest.h"
#include "TileTesting.h"
#include "codegen/Kernels/TilePacking.h"

#include "encast_abi.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

using namespace encast;

namespace {

std::vector<KernelRow> tileRows() {
  std::vector<KernelRow> rows;
  for (const KernelRow &row : kernelRows())
    if (row.family == KernelFamily::Linear && row.arithmetic != Arithmetic::F32)
      rows.push_back(row);
  return rows;
}

/// A shape whose strides the problem sets.
LinearShape denseShape(const KernelRow &row, int64_t k) {
  LinearShape shape;
  shape.arithmetic = row.arithmetic;
  shape.k = k;
  shape.lda = shape.ldc = shape.ldr = 0;
  return shape;
}

/// Kernels that run; those of tiles on a machine that has some.
class TileLinear : public KernelTest {
protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped() || !usesTiles(GetParam()))
      return;
    if (!mayUseTiles())
      GTEST_SKIP() << "the system refuses the use of tiles";
    tiles = std::make_unique<TileScope>();
  }

  static uint32_t bitsOf(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  static bool sameBits(float x, float y) { return bitsOf(x) == bitsOf(y); }
  static bool sameBits(const GuardedFloats &x, const GuardedFloats &y) {
    return x.size() == y.size() &&
           std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  }

  /// Every result has the bits that the contract says, and nothing else was
  /// written. Of many rows only some are looked at.
  void expectBits(const TileLinearProblem &problem, int64_t rowStep = 1) {
    const int planes = problem.shape.cPlanes;
    for (int64_t row = 0; row < problem.rows; row += rowStep)
      for (int64_t column = 0; column < problem.resultColumns(); ++column) {
        const float expected = problem.expectedResult(row, column);
        const auto terms = planesOf(expected, planes);
        const auto where = [&] {
          return std::to_string(problem.rows) + " rows, " +
                 std::to_string(problem.panels) +
                 " panels, k = " + std::to_string(problem.shape.k) + ": row " +
                 std::to_string(row) + ", column " + std::to_string(column);
        };
        if (planes == 0)
          ASSERT_TRUE(sameBits(problem.result(row, column), expected))
              << where() << ": " << problem.result(row, column) << ", expected "
              << expected;
        for (int plane = 0; plane < planes; ++plane)
          ASSERT_EQ(problem.result(row, column, plane), terms[plane])
              << where() << ", plane " << plane;
      }
    EXPECT_TRUE(problem.gapsUntouched());
    if (tiles)
      EXPECT_TRUE(tiles->unchanged());
  }

  std::unique_ptr<ExecutableCode> kernel(const TileLinearProblem &problem) {
    return linearKernel(GetParam(), problem.shape);
  }

  std::unique_ptr<TileScope> tiles;
};

// Two blocks and a bit: every tail, with and without rows before it.
TEST_P(TileLinear, ComputesEveryNumberOfRows) {
  for (int64_t rows = 1; rows <= 67; ++rows) {
    TileLinearProblem problem(GetParam(), rows, 2, denseShape(GetParam(), 33),
                              rows);
    problem.run(*kernel(problem));
    expectBits(problem);
  }
}

// One chunk, two of equal length and not, three, and more than one of a length
// in the middle.
TEST_P(TileLinear, ComputesEveryK) {
  std::vector<int64_t> sizes = {160, 161, 256,  300,  512,
                                513, 768, 1024, 1152, 2560};
  for (int64_t k = 1; k <= 67; ++k)
    sizes.push_back(k);
  for (int64_t k : sizes) {
    TileLinearProblem problem(GetParam(), 37, 2, denseShape(GetParam(), k), k);
    problem.run(*kernel(problem));
    expectBits(problem, k < 100 ? 3 : 9);
  }
}

TEST_P(TileLinear, ComputesEveryNumberOfPairs) {
  for (int64_t k : {70, 600})
    for (int64_t panels = 2; panels <= 10; panels += 2)
      for (int64_t rows : {3, 32, 50}) {
        TileLinearProblem problem(GetParam(), rows, panels,
                                  denseShape(GetParam(), k), panels);
        problem.run(*kernel(problem));
        expectBits(problem, 7);
      }
}

// The workspace has sums for 512 rows.
TEST_P(TileLinear, ComputesMoreRowsThanTheWorkspaceHolds) {
  for (int64_t k : {40, 700})
    for (int64_t rows : {511, 512, 513, 527, 528, 545, 1030}) {
      TileLinearProblem problem(GetParam(), rows, 4, denseShape(GetParam(), k),
                                rows);
      problem.run(*kernel(problem));
      expectBits(problem, k == 40 ? 31 : 73);
    }
}

TEST_P(TileLinear, AddsBiasAndResidual) {
  for (int64_t k : {30, 600})
    for (int options = 1; options < 4; ++options) {
      LinearShape shape = denseShape(GetParam(), k);
      shape.bias = options & 1;
      shape.residual = options & 2;
      for (int64_t rows : {5, 96, 117}) {
        TileLinearProblem problem(GetParam(), rows, 4, shape, rows);
        problem.run(*kernel(problem));
        expectBits(problem, 11);
      }
    }
}

TEST_P(TileLinear, MultipliesGatesByTheOtherHalf) {
  for (int64_t k : {30, 600})
    for (int options = 0; options < 4; ++options) {
      LinearShape shape = denseShape(GetParam(), k);
      shape.gated = true;
      shape.bias = options & 1;
      shape.residual = options & 2;
      for (int64_t rows : {5, 96, 117}) {
        TileLinearProblem problem(GetParam(), rows, 6, shape, rows);
        problem.run(*kernel(problem));
        expectBits(problem, 11);
      }
    }
}

TEST_P(TileLinear, SplitsResultsIntoPlanes) {
  for (int64_t k : {30, 600})
    for (int planes = 1; planes <= 3; ++planes)
      for (bool gated : {false, true}) {
        LinearShape shape = denseShape(GetParam(), k);
        shape.cPlanes = planes;
        shape.gated = gated;
        shape.bias = shape.residual = true;
        for (int64_t rows : {5, 64, 81}) {
          TileLinearProblem problem(GetParam(), rows, 4, shape, rows);
          problem.run(*kernel(problem));
          expectBits(problem, 7);
        }
      }
}

TEST_P(TileLinear, AccumulatesFromWhatCHolds) {
  for (int64_t k : {30, 600})
    for (bool finishes : {false, true}) {
      LinearShape shape = denseShape(GetParam(), k);
      shape.accumulate = true;
      shape.bias = shape.residual = finishes;
      for (int64_t rows : {1, 15, 16, 47, 64, 70}) {
        TileLinearProblem problem(GetParam(), rows, 4, shape, rows);
        problem.run(*kernel(problem));
        expectBits(problem, 3);
      }
    }
}

TEST_P(TileLinear, ContinuesASumThatIsCutAtAMultipleOf32) {
  const int64_t rows = 45, k = 320, cut = 128;
  TileLinearProblem whole(GetParam(), rows, 4, denseShape(GetParam(), k), 1);
  whole.run(*kernel(whole));
  LinearShape shape = denseShape(GetParam(), cut);
  TileLinearProblem first(GetParam(), rows, 4, shape, 2);
  shape.k = k - cut;
  shape.accumulate = true;
  TileLinearProblem second(GetParam(), rows, 4, shape, 3);
  const auto copy = [&](TileLinearProblem &to, int64_t offset) {
    for (int64_t i = 0; i < to.shape.k; ++i) {
      for (int64_t row = 0; row < rows; ++row)
        to.setA(row, i, whole.aValues[row * k + offset + i]);
      for (int64_t column = 0; column < to.columns(); ++column)
        to.setB(column, i, whole.bValues[column * k + offset + i]);
    }
  };
  copy(first, 0);
  copy(second, cut);
  first.run(*kernel(first));
  std::memcpy(second.c.data(), first.c.data(), first.c.size() * sizeof(float));
  second.run(*kernel(second));
  EXPECT_TRUE(sameBits(whole.c, second.c));
}

// Values that the AVX-512 kernel activates are the model's sums. Several pairs
// of panels and steps, so that other work goes on beside the activation.
TEST_P(TileLinear, ActivatesWithTheBitsOfTheF32Kernel) {
  const KernelRow &f32 = *findKernelRow("linear_f32_8x48_avx512");
  for (Activation activation :
       {Activation::Gelu, Activation::GeluTanh, Activation::Relu,
        Activation::Silu, Activation::QuickGelu, Activation::Tanh,
        Activation::Sigmoid})
    for (bool gated : {false, true}) {
      LinearShape shape = denseShape(GetParam(), 140);
      shape.bias = true;
      shape.gated = gated;
      TileLinearProblem problem(GetParam(), 66, 6, shape, 4);
      // Large enough to reach the ends of every function.
      for (int64_t i = 0; i < problem.bias.size(); ++i)
        problem.bias[i] *= 120;
      shape = problem.shape;
      shape.activation = activation;
      problem.run(*linearKernel(GetParam(), shape));

      LinearShape unit;
      unit.ldc = kPanelColumns;
      unit.activation = activation;
      LinearProblem activated({problem.rows * problem.resultColumns(), 1}, unit,
                              0);
      for (int64_t column = 0; column < kPanelColumns; ++column)
        activated.setB(0, column, 1);
      const auto biased = [&](int64_t row, int64_t column) {
        return problem.expectedSum(row, column) + problem.bias[column];
      };
      for (int64_t i = 0; i < activated.size.rows; ++i) {
        const int64_t column = i % problem.resultColumns();
        activated.a[i] = biased(i / problem.resultColumns(),
                                gated ? tileGateColumn(column) : column);
      }
      activated.run(f32, *linearKernel(f32, unit));
      for (int64_t i = 0; i < activated.size.rows; ++i) {
        const int64_t row = i / problem.resultColumns();
        const int64_t column = i % problem.resultColumns();
        float expected = activated.c[i * kPanelColumns];
        if (gated)
          expected *= biased(row, tileOtherColumn(column));
        ASSERT_TRUE(sameBits(problem.result(row, column), expected))
            << activationName(activation) << " in row " << row << ", column "
            << column << ": " << problem.result(row, column) << ", expected "
            << expected;
      }
    }
}

TEST_P(TileLinear, LeavesTheGapsOfWideStridesUntouched) {
  for (int planes : {0, 2}) {
    LinearShape shape = denseShape(GetParam(), 75);
    shape.lda = planeRowStride(75, activationPlanes(shape.arithmetic)) + 6;
    shape.cPlanes = planes;
    shape.cPlaneStride = 70;
    shape.ldc = 150;
    shape.ldr = 67;
    shape.bias = shape.residual = true;
    TileLinearProblem problem(GetParam(), 51, 4, shape, 1);
    problem.run(*kernel(problem));
    expectBits(problem);
  }
}

// 600 rows are two groups; what is ahead ends long before a pair does.
TEST_P(TileLinear, ComputesTheSameWithWeightsAhead) {
  for (int64_t rows : {7, 40, 600}) {
    TileLinearProblem problem(GetParam(), rows, 4, denseShape(GetParam(), 600),
                              3);
    const std::vector<uint8_t> ahead(64);
    problem.ahead = ahead.data();
    problem.run(*kernel(problem));
    expectBits(problem);
  }
}

TEST_P(TileLinear, WritesPanelsBehindEachOtherWhereAsked) {
  const int64_t rows = 49, panels = 4;
  TileLinearProblem rowMajor(GetParam(), rows, panels,
                             denseShape(GetParam(), 100), 8);
  rowMajor.run(*kernel(rowMajor));
  LinearShape shape = rowMajor.shape;
  shape.ldc = kPanelColumns;
  GuardedFloats c(rows * panels * kPanelColumns);
  LinearArgs args = {};
  args.a = rowMajor.a.data();
  args.b = rowMajor.packedB.data();
  args.c = c.data();
  args.rows = rows;
  args.panels = panels;
  args.cPanelBytes = rows * kPanelColumns * int64_t(sizeof(float));
  args.workspace = rowMajor.workspace.data();
  linearKernel(GetParam(), shape)->callChecked(&args);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < rowMajor.columns(); ++column)
      ASSERT_TRUE(
          sameBits(c[(column / kPanelColumns * rows + row) * kPanelColumns +
                     column % kPanelColumns],
                   rowMajor.result(row, column)));
}

TEST_P(TileLinear, GivesTheSameBitsForEverySplitOfRowsAndPanels) {
  for (bool accumulate : {false, true}) {
    LinearShape shape = denseShape(GetParam(), 1200);
    shape.bias = shape.residual = true;
    shape.accumulate = accumulate;
    shape.activation = Activation::Gelu;
    const int64_t rows = 133, panels = 10;
    TileLinearProblem whole(GetParam(), rows, panels, shape, 5);
    auto code = kernel(whole);
    whole.run(*code);
    TileLinearProblem parts(GetParam(), rows, panels, shape, 5);
    Random random(9);
    for (int trial = 0; trial < 40; ++trial) {
      parts.resetC();
      const int64_t maxRows = 1 + random.next() % rows;
      const int64_t maxPanels = 2 * (1 + random.next() % (panels / 2));
      for (int64_t row = 0; row < rows; row += maxRows)
        for (int64_t panel = 0; panel < panels; panel += maxPanels)
          parts.run(*code, row, std::min(maxRows, rows - row), panel,
                    std::min(maxPanels, panels - panel));
      ASSERT_TRUE(sameBits(whole.c, parts.c))
          << "at most " << maxRows << " rows and " << maxPanels << " panels";
    }
  }
}

// A NaN or an infinity spoils its own row or column, in full and in
// overlapping tiles.
TEST_P(TileLinear, KeepsRowsAndColumnsApart) {
  const float infinity = std::numeric_limits<float>::infinity();
  TileLinearProblem clean(GetParam(), 39, 2, denseShape(GetParam(), 64), 6);
  auto code = kernel(clean);
  clean.run(*code);
  TileLinearProblem spoilt(GetParam(), 39, 2, denseShape(GetParam(), 64), 6);
  for (int64_t row : {3, 31, 38})
    spoilt.setA(row, 40, row == 31 ? infinity : NAN);
  spoilt.setB(20, 0, NAN);
  spoilt.run(*code);
  for (int64_t row = 0; row < 39; ++row)
    for (int64_t column = 0; column < 32; ++column) {
      if (row == 3 || row == 31 || row == 38 || column == 20)
        EXPECT_FALSE(std::isfinite(spoilt.result(row, column)));
      else
        EXPECT_TRUE(
            sameBits(spoilt.result(row, column), clean.result(row, column)));
    }
}

// A row of A that is 1 at one k gives the sum of that weight's terms, which in
// three planes is the weight.
TEST_P(TileLinear, MultipliesTheTermsOfWeightsOfEverySize) {
  const int64_t k = 70;
  TileLinearProblem problem(GetParam(), k, 4, denseShape(GetParam(), k), 7);
  for (int64_t row = 0; row < k; ++row)
    for (int64_t i = 0; i < k; ++i)
      problem.setA(row, i, row == i);
  for (int64_t column = 0; column < problem.columns(); ++column)
    for (int64_t i = 0; i < k; ++i)
      problem.setB(column, i,
                   std::ldexp(problem.bValues[column * k + i],
                              int(i * 3 + column % 3) - 90));
  problem.run(*kernel(problem));
  expectBits(problem);
  if (weightPlanes(GetParam().arithmetic) < 3)
    return;
  for (int64_t column = 0; column < problem.columns(); ++column)
    for (int64_t i = 0; i < k; ++i)
      ASSERT_EQ(problem.result(i, column), problem.bValues[column * k + i]);
}

TEST_P(TileLinear, TreatsDenormalNumbersAsZero) {
  TileLinearProblem problem(GetParam(), 20, 2, denseShape(GetParam(), 64), 6);
  // Denormal operands, products and sums, and some that just are not.
  const float scales[] = {0x1p-130f, 0x1p-70f, 0x1p-64f, 0x1p-60f, 0x1p-100f};
  for (int64_t row = 0; row < 20; ++row)
    for (int64_t k = 0; k < 64; ++k)
      problem.setA(row, k, problem.aValues[row * 64 + k] * scales[row % 5]);
  for (int64_t column = 0; column < 32; ++column)
    for (int64_t k = 0; k < 64; ++k)
      problem.setB(column, k,
                   problem.bValues[column * 64 + k] * scales[column % 5]);
  problem.run(*kernel(problem));
  expectBits(problem);
}

INSTANTIATE_TEST_SUITE_P(Kernels, TileLinear, testing::ValuesIn(tileRows()),
                         rowName);

} // namespace
