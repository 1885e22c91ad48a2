//===- TileModelTest.cpp - the model of tiles, layouts and refusals -------===//
///
/// \file
/// What needs no tiles: the model that kernels are held to, the errors of each
/// arithmetic by that model, the layout of weights, generating.
//===----------------------------------------------------------------------===//

#include "KernelTest.h"
#include "TileTesting.h"
#include "codegen/Kernels/LinearTiles.h"
#include "codegen/Kernels/TilePacking.h"

#include "encast_abi.h"

#include <cmath>
#include <limits>
#include <vector>

using namespace encast;

namespace {

const Arithmetic kTileArithmetics[] = {Arithmetic::Bf16, Arithmetic::Bf16x3,
                                       Arithmetic::Bf16x3w, Arithmetic::Bf16x6};

const KernelRow &tileRow(Arithmetic arithmetic) {
  const KernelRow *row =
      selectKernelRow(KernelFamily::Linear, arithmetic, ENCAST_CPU_KNOWN);
  EXPECT_NE(row, nullptr);
  return *row;
}

TEST(Bf16, RoundsToNearestEven) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(roundToBf16(1.0f), 0x3f80);
  EXPECT_EQ(roundToBf16(0x1.01p+0f), 0x3f80);     // a tie, to even
  EXPECT_EQ(roundToBf16(0x1.03p+0f), 0x3f82);     // a tie, to even
  EXPECT_EQ(roundToBf16(0x1.0102p+0f), 0x3f81);   // just above a tie
  EXPECT_EQ(roundToBf16(0x1.fffffep+0f), 0x4000); // into the next binade
  EXPECT_EQ(roundToBf16(-0x1.03p+0f), 0xbf82);
  EXPECT_EQ(roundToBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(roundToBf16(infinity), 0x7f80);
  EXPECT_EQ(roundToBf16(0x1p-126f), 0x0080);
  EXPECT_EQ(roundToBf16(0x1p-127f), 0x0000); // denormal
  EXPECT_EQ(roundToBf16(-0x1p-127f), 0x8000);
  EXPECT_TRUE(std::isnan(bf16Value(roundToBf16(NAN))));
}

TEST(Bf16, ThreePlanesHoldAFloat) {
  Random random(1);
  for (int i = 0; i < 100000; ++i) {
    const float value = random.uniform() * std::exp2(float(i % 60 - 30));
    for (int planes = 1; planes <= 3; ++planes) {
      double sum = 0;
      for (uint16_t plane : planesOf(value, planes))
        sum += bf16Value(plane);
      const double bound = planes == 3 ? 0 : std::exp2(-8 * planes);
      ASSERT_LE(std::fabs(sum - value), bound * std::fabs(value))
          << planes << " planes of " << value;
    }
  }
}

/// The sum of products of `terms` and ones.
float sumOf(float start, const std::vector<std::pair<int, float>> &terms) {
  uint16_t row[32] = {}, column[32];
  std::fill(column, column + 32, roundToBf16(1));
  for (auto [k, value] : terms)
    row[k] = roundToBf16(value);
  return tileSum(start, row, column);
}

TEST(TileSum, AddsEvenAndOddElementsInChainsOfTheirOwn) {
  const float large = 0x1p+24f;
  EXPECT_EQ(sumOf(0, {{0, large}, {2, 1}, {4, -large}}), 0);
  EXPECT_EQ(sumOf(0, {{0, large}, {3, 1}, {4, -large}}), 1);
  EXPECT_EQ(sumOf(0, {{1, large}, {3, 1}, {31, -large}}), 0);
}

TEST(TileSum, AddsWhatWasThereLast) {
  const float large = 0x1p+24f;
  EXPECT_EQ(sumOf(large, {{0, 1}, {1, 1}}), large + 2);
  EXPECT_EQ(sumOf(large, {{0, 1}}), large);
}

TEST(TileSum, TreatsDenormalNumbersAsZero) {
  uint16_t row[32] = {roundToBf16(0x1p-70f)};
  uint16_t column[32] = {roundToBf16(0x1p-60f)};
  EXPECT_EQ(tileSum(0, row, column), 0); // the product is denormal
  EXPECT_EQ(tileSum(0x1p-130f, row, column), 0);
  row[0] = 1;
  column[0] = roundToBf16(0x1p+100f);
  EXPECT_EQ(tileSum(0, row, column), 0);               // an operand is
  EXPECT_EQ(sumOf(-0x1p-126f, {{0, 0x1.8p-126f}}), 0); // the sum is
}

/// Largest relative error of a product of terms that are left out or rounded,
/// from a unit of 2^-8 for a plane.
double termError(Arithmetic arithmetic) {
  const double unit = 0x1p-8;
  switch (arithmetic) {
  case Arithmetic::F32:
  case Arithmetic::Bf16x3w: // all planes of A, and weights that are bf16
    return 0;
  case Arithmetic::Bf16: // both rounded
    return 2 * unit + unit * unit;
  case Arithmetic::Bf16x3: // what two planes do not hold, and mid * mid
    return unit * unit * (3 + 4 * unit);
  case Arithmetic::Bf16x6: // mid * lo, lo * mid, lo * lo
    return unit * unit * unit * (2 + unit);
  }
  return 0;
}

/// Relative errors in the Frobenius norm, of the model and of a chain of fused
/// multiply-adds in f32.
struct Errors {
  double tiles, chain;
};

Errors errorsOf(Arithmetic arithmetic, int64_t k) {
  LinearShape shape;
  shape.arithmetic = arithmetic;
  shape.k = k;
  shape.lda = shape.ldc = 0;
  TileLinearProblem problem(tileRow(arithmetic), 16, 2, shape, uint64_t(k));
  double norm = 0, tiles = 0, chain = 0;
  for (int64_t row = 0; row < problem.rows; ++row)
    for (int64_t column = 0; column < problem.columns(); ++column) {
      const double exact = problem.exactSum(row, column);
      const double error = problem.expectedSum(row, column) - exact;
      // A term passes the additions of its chain, that of the two chains, and
      // one for each product behind it.
      const double steps = double(planeStride(k)) / 32;
      const double roundings =
          18 + steps * double(planeProducts(arithmetic).size());
      EXPECT_LE(std::fabs(error),
                (termError(arithmetic) + roundings * 0x1p-24 * 1.01) *
                    problem.absoluteSum(row, column))
          << arithmeticName(arithmetic) << ", k = " << k;
      float fused = 0;
      for (int64_t i = 0; i < k; ++i)
        fused = std::fma(problem.aValues[row * k + i],
                         problem.bValues[column * k + i], fused);
      norm += exact * exact;
      tiles += error * error;
      chain += (fused - exact) * (fused - exact);
    }
  return {std::sqrt(tiles / norm), std::sqrt(chain / norm)};
}

TEST(TileArithmetic, StaysWithinItsErrors) {
  for (int64_t k : {1, 31, 64, 384, 1024, 4608})
    for (Arithmetic arithmetic : kTileArithmetics) {
      const Errors errors = errorsOf(arithmetic, k);
      std::cout << arithmeticName(arithmetic) << ", k = " << k
                << ": relative error " << errors.tiles
                << ", of fused multiply-adds " << errors.chain << "\n";
    }
}

// What Kernels.h says of each arithmetic, for k up to 1024.
TEST(TileArithmetic, IsAsExactAsStated) {
  EXPECT_LT(errorsOf(Arithmetic::Bf16, 1024).tiles, 3e-3);
  EXPECT_LT(errorsOf(Arithmetic::Bf16x3, 1024).tiles, 5e-6);
  for (Arithmetic arithmetic : {Arithmetic::Bf16x3w, Arithmetic::Bf16x6}) {
    const Errors errors = errorsOf(arithmetic, 1024);
    EXPECT_LT(errors.tiles, errors.chain) << arithmeticName(arithmetic);
  }
}

TEST(TileArithmetic, SaysWhatWeightsAreInMemory) {
  for (Arithmetic arithmetic :
       {Arithmetic::Bf16, Arithmetic::Bf16x3, Arithmetic::Bf16x3w})
    EXPECT_EQ(packedWeightPlanes(arithmetic), weightPlanes(arithmetic));
  // In f32, three planes would take half as much again.
  EXPECT_EQ(packedWeightPlanes(Arithmetic::Bf16x6), 0);
  EXPECT_EQ(packedWeightPlanes(Arithmetic::F32), 0);
}

TEST(TilePacking, PlacesWeightsAsKernelsReadThem) {
  const int64_t k = 70, steps = 3;
  for (int64_t planes : {1, 2, 3}) {
    std::vector<bool> taken(2 * tilePairElements(k, planes));
    for (int64_t pair = 0; pair < 2; ++pair)
      for (int64_t step = 0; step < steps; ++step)
        for (int64_t plane = 0; plane < planes; ++plane)
          for (int64_t tile = 0; tile < 2; ++tile)
            for (int64_t i = 0; i < 16; ++i)
              for (int64_t n = 0; n < 16; ++n)
                for (int64_t j = 0; j < 2; ++j) {
                  // [pairs][steps][planes][2 tiles][16][16][2]
                  const int64_t element =
                      (((((pair * steps + step) * planes + plane) * 2 + tile) *
                            16 +
                        i) *
                           16 +
                       n) *
                          2 +
                      j;
                  ASSERT_EQ(tilePairElement(k, planes,
                                            32 * pair + 16 * tile + n,
                                            32 * step + 2 * i + j, plane),
                            element);
                  taken[element] = true;
                }
    for (bool element : taken)
      EXPECT_TRUE(element);
  }
}

TEST(TilePacking, PutsGatesInTheFirstTileOfAPair) {
  EXPECT_EQ(tileGateColumn(0), 0);
  EXPECT_EQ(tileOtherColumn(0), 16);
  EXPECT_EQ(tileGateColumn(15), 15);
  EXPECT_EQ(tileGateColumn(16), 32);
  EXPECT_EQ(tileOtherColumn(37), 85);
}

TEST(TileRows, AreSelectedOnlyWhereEveryFeatureIs) {
  const uint32_t avx512 = ENCAST_CPU_AVX2 | ENCAST_CPU_AVX512;
  const uint32_t all = avx512 | ENCAST_CPU_AVX512_BF16 | ENCAST_CPU_AMX_BF16;
  for (Arithmetic arithmetic : kTileArithmetics) {
    const KernelRow *row =
        selectKernelRow(KernelFamily::Linear, arithmetic, all);
    ASSERT_NE(row, nullptr);
    EXPECT_EQ(row->arithmetic, arithmetic);
    EXPECT_TRUE(usesTiles(*row));
    for (uint32_t lacking : {ENCAST_CPU_AVX512_BF16, ENCAST_CPU_AMX_BF16}) {
      row = selectKernelRow(KernelFamily::Linear, arithmetic, all & ~lacking);
      if (arithmetic == Arithmetic::Bf16 && lacking == ENCAST_CPU_AMX_BF16)
        EXPECT_STREQ(row->name, "linear_bf16_12x32_avx512bf16");
      else
        EXPECT_EQ(row, nullptr);
    }
  }
}

/// A valid shape, to be spoilt.
LinearShape validShape(Arithmetic arithmetic) {
  LinearShape shape;
  shape.arithmetic = arithmetic;
  shape.k = 33;
  shape.lda = planeRowStride(33, activationPlanes(arithmetic));
  shape.ldc = shape.ldr = 32;
  return shape;
}

std::string errorOf(const LinearShape &shape) {
  std::vector<uint8_t> code;
  std::string error;
  EXPECT_FALSE(generateLinear(tileRow(Arithmetic::Bf16x3), shape, code, error));
  EXPECT_TRUE(code.empty());
  return error;
}

TEST(TileShapes, OutOfRangeAreRefusedWithNameLimitAndValue) {
  const LinearShape valid = validShape(Arithmetic::Bf16x3);
  LinearShape shape = valid;
  shape.k = 0;
  EXPECT_EQ(errorOf(shape),
            "linear_bf16x3_32x32_amx: k is 0, expected 1 to 1048576");
  shape = valid;
  shape.lda = 127;
  EXPECT_EQ(errorOf(shape),
            "linear_bf16x3_32x32_amx: lda is 127, expected 128 to 16777216");
  shape = valid;
  shape.ldc = 15;
  EXPECT_EQ(errorOf(shape),
            "linear_bf16x3_32x32_amx: ldc is 15, expected 16 to 16777216");
  shape = valid;
  shape.residual = true;
  shape.ldr = 15;
  EXPECT_EQ(errorOf(shape),
            "linear_bf16x3_32x32_amx: ldr is 15, expected 16 to 16777216");
  shape = valid;
  shape.cPlanes = 4;
  EXPECT_EQ(errorOf(shape),
            "linear_bf16x3_32x32_amx: planes of c is 4, expected 0 to 3");
  shape.cPlanes = 2;
  shape.cPlaneStride = 31;
  EXPECT_EQ(errorOf(shape), "linear_bf16x3_32x32_amx: plane stride of c is 31, "
                            "expected 32 to 16777216");
  shape.cPlaneStride = 40;
  shape.ldc = 71;
  EXPECT_EQ(errorOf(shape),
            "linear_bf16x3_32x32_amx: ldc is 71, expected 72 to 16777216");
  shape.gated = true;
  shape.ldc = 55;
  EXPECT_EQ(errorOf(shape),
            "linear_bf16x3_32x32_amx: ldc is 55, expected 56 to 16777216");
}

TEST(TileShapes, ThatTheKernelDoesNotHaveAreRefused) {
  LinearShape shape = validShape(Arithmetic::Bf16);
  EXPECT_EQ(errorOf(shape),
            "linear_bf16x3_32x32_amx: arithmetic is bf16, expected bf16x3");
  shape = validShape(Arithmetic::Bf16x3);
  shape.gated = shape.accumulate = true;
  EXPECT_EQ(errorOf(shape), "linear_bf16x3_32x32_amx: c of a gated linear "
                            "holds no sums to accumulate");
  shape.gated = false;
  shape.cPlanes = 1;
  shape.cPlaneStride = 32;
  EXPECT_EQ(errorOf(shape), "linear_bf16x3_32x32_amx: has no planes of c that "
                            "it accumulates");
}

TEST(TileShapes, AtTheLimitsAreGenerated) {
  for (Arithmetic arithmetic : kTileArithmetics)
    for (int options = 0; options < 8; ++options) {
      LinearShape shape;
      shape.arithmetic = arithmetic;
      shape.k = 1048576;
      shape.lda = shape.ldc = shape.ldr = 16777216;
      shape.bias = shape.residual = true;
      shape.activation = Activation::GeluTanh;
      shape.cPlanes = options % 4;
      shape.cPlaneStride = 16777216 / 4;
      shape.gated = options / 4;
      std::vector<uint8_t> code;
      std::string error;
      EXPECT_TRUE(generateLinear(tileRow(arithmetic), shape, code, error))
          << error;
      EXPECT_FALSE(code.empty());
      EXPECT_EQ(linearWorkspaceBytes(tileRow(arithmetic), shape) % 64, 0);
    }
}

TEST(TileShapes, AreAssembledToEqualBytesTwice) {
  for (Arithmetic arithmetic : kTileArithmetics) {
    LinearShape shape = validShape(arithmetic);
    shape.bias = true;
    shape.activation = Activation::Silu;
    std::vector<uint8_t> first, second;
    std::string error;
    ASSERT_TRUE(generateLinear(tileRow(arithmetic), shape, first, error));
    ASSERT_TRUE(generateLinear(tileRow(arithmetic), shape, second, error));
    EXPECT_EQ(first, second);
  }
}

} // namespace
