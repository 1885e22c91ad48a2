//===- WeightRecipeTest.cpp -----------------------------------------------===//
///
/// \file
/// Every kind of step against plain loops, every type, every refusal.
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/WeightRecipe.h"
#include "test/codegen/Artifact/TestSource.h"
#include <array>
#include <cfloat>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

using namespace encast;
using Kind = RecipeStep::Kind;
using Shape = std::vector<int64_t>;

namespace {

/// 1, 2, 3, ... so that a misplaced value shows.
std::vector<float> counting(int64_t count, float first = 1) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<uint8_t> evaluate(const RecipeBuilder &builder,
                              TestSource &source) {
  std::vector<uint8_t> bytes;
  std::string error;
  EXPECT_TRUE(evaluateRecipe(builder.recipe, source, bytes, error)) << error;
  return bytes;
}

std::vector<float> evaluateF32(const RecipeBuilder &builder,
                               TestSource &source) {
  return valuesOf<float>(evaluate(builder, source));
}

std::string errorOf(const RecipeBuilder &builder, TestSource &source) {
  std::vector<uint8_t> bytes;
  std::string error;
  EXPECT_FALSE(evaluateRecipe(builder.recipe, source, bytes, error));
  return error;
}

/// [N, K] to [ceil(N / 16)][K][16], element by element.
std::vector<float> packedByLoops(const std::vector<float> &from, int64_t n,
                                 int64_t k) {
  std::vector<float> panels((n + 15) / 16 * k * 16, 0.0f);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < k; ++column)
      panels[(row / 16 * k + column) * 16 + row % 16] = from[row * k + column];
  return panels;
}

/// Value of a finite f16 by its definition.
double f16ByDefinition(uint16_t raw) {
  int exponent = raw >> 10 & 31, mantissa = raw & 1023;
  double magnitude = exponent ? std::ldexp(1024 + mantissa, exponent - 25)
                              : std::ldexp(mantissa, -24);
  return raw & 0x8000 ? -magnitude : magnitude;
}

float bf16ByDefinition(uint16_t raw) {
  uint32_t bits = uint32_t(raw) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// All bit patterns of finite values of a 16-bit type.
std::vector<uint16_t> finitePatterns(uint16_t exponentMask) {
  std::vector<uint16_t> patterns;
  for (uint32_t raw = 0; raw < 65536; ++raw)
    if ((raw & exponentMask) != exponentMask)
      patterns.push_back(uint16_t(raw));
  return patterns;
}

TEST(WeightRecipe, CopiesATensorOfEachTypeUnchanged) {
  TestSource source;
  source.tensors["f32"] = bytesOf<float>({1.5f, -0.0f, FLT_MIN / 2, FLT_MAX});
  RecipeBuilder f32("w");
  f32.tensor("f32", {2, 2});
  EXPECT_EQ(evaluate(f32, source), source.tensors["f32"]);

  std::vector<uint16_t> f16 = finitePatterns(0x7c00);
  source.tensors["f16"] = bytesOf(f16);
  RecipeBuilder half("w");
  half.tensor("f16", {int64_t(f16.size())}, ElementType::F16);
  EXPECT_EQ(evaluate(half, source), source.tensors["f16"]);

  std::vector<uint16_t> bf16 = finitePatterns(0x7f80);
  source.tensors["bf16"] = bytesOf(bf16);
  RecipeBuilder brain("w");
  brain.tensor("bf16", {int64_t(bf16.size())}, ElementType::BF16);
  EXPECT_EQ(evaluate(brain, source), source.tensors["bf16"]);
}

TEST(WeightRecipe, WidensEveryFiniteHalfExactlyWithDenormals) {
  TestSource source;
  std::vector<uint16_t> f16 = finitePatterns(0x7c00);
  std::vector<uint16_t> bf16 = finitePatterns(0x7f80);
  source.tensors["f16"] = bytesOf(f16);
  source.tensors["bf16"] = bytesOf(bf16);

  RecipeBuilder half("w");
  Shape shape = {int64_t(f16.size())};
  half.add(Kind::Cast, {half.tensor("f16", shape, ElementType::F16)}, shape);
  std::vector<float> values = evaluateF32(half, source);
  for (size_t i = 0; i < f16.size(); ++i) {
    ASSERT_EQ(values[i], f16ByDefinition(f16[i])) << f16[i];
    ASSERT_EQ(std::signbit(values[i]), f16[i] >> 15) << f16[i];
  }

  RecipeBuilder brain("w");
  shape = {int64_t(bf16.size())};
  brain.add(Kind::Cast, {brain.tensor("bf16", shape, ElementType::BF16)},
            shape);
  values = evaluateF32(brain, source);
  for (size_t i = 0; i < bf16.size(); ++i)
    ASSERT_EQ(values[i], bf16ByDefinition(bf16[i])) << bf16[i];
}

/// The nearest of all values of a type, ties to the even pattern.
uint16_t nearestBySearch(double value, const std::vector<uint16_t> &patterns,
                         double (*decode)(uint16_t)) {
  uint16_t best = patterns[0];
  for (uint16_t raw : patterns) {
    if (std::signbit(decode(raw)) != std::signbit(value))
      continue;
    double distance = std::fabs(decode(raw) - value);
    double least = std::signbit(decode(best)) == std::signbit(value)
                       ? std::fabs(decode(best) - value)
                       : std::numeric_limits<double>::infinity();
    if (distance < least || (distance == least && raw % 2 == 0))
      best = raw;
  }
  return best;
}

TEST(WeightRecipe, NarrowingRoundsToNearestEven) {
  struct Format {
    ElementType type;
    uint16_t exponentMask;
    double (*decode)(uint16_t);
  } formats[] = {{ElementType::F16, 0x7c00, f16ByDefinition},
                 {ElementType::BF16, 0x7f80,
                  [](uint16_t raw) { return double(bf16ByDefinition(raw)); }}};
  for (const Format &format : formats) {
    std::vector<uint16_t> patterns = finitePatterns(format.exponentMask);
    std::vector<float> values = {
        0.0f,      -0.0f,       1.0f,     1.0f / 3,   -2.0f / 7,   65504.0f,
        65519.0f,  0x1p-24f,    0x1p-25f, 0x1.8p-25f, -0x1.8p-24f, 0x1p-133f,
        0x1p-134f, 0x1.8p-134f, FLT_MIN,  -0x1p-149f};
    // Exact ties and their neighbours around some values, denormal or not.
    for (uint16_t raw : {0, 1, 2, 3, 0x3ff, 0x400, 0x3c00, 0x3c01, 0x7f}) {
      float tie = float((format.decode(raw) + format.decode(raw + 1)) / 2);
      for (float value :
           {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, FLT_MAX), -tie})
        values.push_back(value);
    }
    TestSource source;
    source.tensors["x"] = bytesOf(values);
    RecipeBuilder builder("w");
    Shape shape = {int64_t(values.size())};
    builder.add(Kind::Cast, {builder.tensor("x", shape)}, shape, format.type);
    std::vector<uint16_t> rounded =
        valuesOf<uint16_t>(evaluate(builder, source));
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(rounded[i], nearestBySearch(values[i], patterns, format.decode))
          << values[i];
  }
}

TEST(WeightRecipe, ConcatsRowsOfSeveralOperandsInOrder) {
  TestSource source;
  source.tensors["q"] = bytesOf(counting(2 * 3));
  source.tensors["k"] = bytesOf(counting(1 * 3, 7));
  source.tensors["v"] = bytesOf(counting(4 * 3, 10));
  RecipeBuilder builder("w");
  int q = builder.tensor("q", {2, 3}), k = builder.tensor("k", {1, 3});
  int v = builder.tensor("v", {4, 3});
  builder.add(Kind::Concat, {q, k, v}, {7, 3});
  EXPECT_EQ(evaluateF32(builder, source), counting(21));
}

TEST(WeightRecipe, ConcatsVectorsLongerThanABlock) {
  const int64_t size = 100001;
  TestSource source;
  source.tensors["a"] = bytesOf(counting(size));
  source.tensors["b"] = bytesOf(counting(size, size + 1));
  RecipeBuilder builder("w");
  int a = builder.tensor("a", {size}), b = builder.tensor("b", {size});
  builder.add(Kind::Concat, {a, b}, {2 * size});
  EXPECT_EQ(evaluateF32(builder, source), counting(2 * size));
}

TEST(WeightRecipe, SlicesRowsAndReadsNoOthers) {
  TestSource source;
  std::vector<float> values = counting(5 * 2);
  values[0] = std::nanf(""); // In a row that the slice leaves out.
  source.tensors["x"] = bytesOf(values);
  RecipeBuilder builder("w");
  builder.slice(builder.tensor("x", {5, 2}), 2, {2, 2});
  EXPECT_EQ(evaluateF32(builder, source), (std::vector<float>{5, 6, 7, 8}));
}

TEST(WeightRecipe, PadsEachGroupOfRowsWithZeroRows) {
  for (Shape rest : {Shape{}, Shape{3}, Shape{3, 2}}) {
    int64_t columns = 1;
    for (int64_t size : rest)
      columns *= size;
    Shape from = {6}, to = {10};
    from.insert(from.end(), rest.begin(), rest.end());
    to.insert(to.end(), rest.begin(), rest.end());
    std::vector<float> values = counting(6 * columns), expected;
    for (int64_t group = 0; group < 2; ++group) {
      expected.insert(expected.end(), values.begin() + group * 3 * columns,
                      values.begin() + (group + 1) * 3 * columns);
      expected.insert(expected.end(), 2 * columns, 0.0f);
    }
    TestSource source;
    source.tensors["x"] = bytesOf(values);
    RecipeBuilder builder("w");
    builder.padRows(builder.tensor("x", from), 3, 5, to);
    EXPECT_EQ(evaluateF32(builder, source), expected);
  }
}

TEST(WeightRecipe, PacksPanelsOfEverySize) {
  for (int64_t n : {1, 2, 15, 16, 17, 31, 32, 33, 100})
    for (int64_t k : {1, 2, 15, 16, 17, 37, 64}) {
      TestSource source;
      std::vector<float> values = counting(n * k);
      source.tensors["x"] = bytesOf(values);
      RecipeBuilder builder("w");
      builder.add(Kind::PackPanels, {builder.tensor("x", {n, k})},
                  {(n + 15) / 16, k, 16});
      ASSERT_EQ(evaluateF32(builder, source), packedByLoops(values, n, k))
          << n << " x " << k;
    }
}

TEST(WeightRecipe, PacksMatricesThatTakeManyBlocks) {
  const int64_t n = 1003, k = 517;
  TestSource source;
  std::vector<float> values = counting(n * k);
  source.tensors["x"] = bytesOf(values);
  RecipeBuilder builder("w");
  builder.add(Kind::PackPanels, {builder.tensor("x", {n, k})}, {63, k, 16});
  EXPECT_EQ(evaluateF32(builder, source), packedByLoops(values, n, k));
}

TEST(WeightRecipe, PacksAVectorToWholePanels) {
  for (int64_t n : {1, 15, 16, 17, 70001}) {
    TestSource source;
    std::vector<float> expected = counting(n);
    source.tensors["x"] = bytesOf(expected);
    RecipeBuilder builder("w");
    builder.add(Kind::PackPanels, {builder.tensor("x", {n})},
                {(n + 15) / 16 * 16});
    expected.resize((n + 15) / 16 * 16, 0.0f);
    EXPECT_EQ(evaluateF32(builder, source), expected) << n;
  }
}

TEST(WeightRecipe, PacksHalvesAsF32) {
  TestSource source;
  source.tensors["x"] = bytesOf<uint16_t>({0x3f80, 0x4000, 0x0001, 0xc040});
  RecipeBuilder builder("w");
  builder.add(Kind::PackPanels,
              {builder.tensor("x", {2, 2}, ElementType::BF16)}, {1, 2, 16});
  EXPECT_EQ(evaluateF32(builder, source),
            packedByLoops({1.0f, 2.0f, 0x1p-133f, -3.0f}, 2, 2));
}

TEST(WeightRecipe, MergesScaledPaddedHeadsIntoPanels) {
  // Heads of 3 rows padded to 16; q scaled; k as f16.
  const int64_t heads = 2, size = 3, k = 5;
  std::vector<float> q = counting(heads * size * k), merged;
  std::vector<uint16_t> keys(heads * size * k, 0x3c00); // 1.0
  TestSource source;
  source.tensors["q"] = bytesOf(q);
  source.tensors["k"] = bytesOf(keys);
  for (int64_t part = 0; part < 2; ++part)
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t i = 0; i < size * k; ++i)
        merged.push_back(part ? 1.0f : q[head * size * k + i] * 0.25f);
      merged.insert(merged.end(), (16 - size) * k, 0.0f);
    }

  RecipeBuilder builder("w");
  int scaled = builder.scale(builder.tensor("q", {6, k}), 0.25, {6, k});
  int cast = builder.add(
      Kind::Cast, {builder.tensor("k", {6, k}, ElementType::F16)}, {6, k});
  int both = builder.add(Kind::Concat,
                         {builder.padRows(scaled, 3, 16, {32, k}),
                          builder.padRows(cast, 3, 16, {32, k})},
                         {64, k});
  builder.add(Kind::PackPanels, {both}, {4, k, 16});
  EXPECT_EQ(evaluateF32(builder, source), packedByLoops(merged, 64, k));
}

TEST(WeightRecipe, SlicesColumnsOfMatricesThatTakeManyBlocks) {
  for (auto [n, k, begin, columns] :
       std::vector<std::array<int64_t, 4>>{{1, 1, 0, 1},
                                           {3, 5, 0, 5},
                                           {3, 5, 4, 1},
                                           {5, 7, 2, 3},
                                           {1003, 517, 1, 1},
                                           {1003, 517, 256, 261}}) {
    std::vector<float> values = counting(n * k), expected;
    for (int64_t row = 0; row < n; ++row)
      for (int64_t c = 0; c < columns; ++c)
        expected.push_back(values[row * k + begin + c]);
    TestSource source;
    source.tensors["x"] = bytesOf(values);
    RecipeBuilder builder("w");
    builder.sliceColumns(builder.tensor("x", {n, k}), begin, {n, columns});
    ASSERT_EQ(evaluateF32(builder, source), expected)
        << n << " x " << k << " from " << begin;
  }
}

TEST(WeightRecipe, TransposesMatricesAndDepthwiseConvolutions) {
  for (Shape shape : {Shape{1, 1}, Shape{5, 3}, Shape{24, 1, 3},
                      Shape{1003, 517}, Shape{70001, 1, 3}}) {
    int64_t n = shape.front(), k = shape.back();
    std::vector<float> values = counting(n * k), expected(n * k);
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < k; ++column)
        expected[column * n + row] = values[row * k + column];
    TestSource source;
    source.tensors["x"] = bytesOf(values);
    RecipeBuilder builder("w");
    builder.add(Kind::Transpose, {builder.tensor("x", shape)}, {k, n});
    ASSERT_EQ(evaluateF32(builder, source), expected) << n << " x " << k;
  }
}

/// Panels of 8 columns of the gate, then 8 of the other, by definition.
std::vector<float> gatedByLoops(const std::vector<float> &gate,
                                const std::vector<float> &other, int64_t n,
                                int64_t k) {
  std::vector<float> panels((n + 7) / 8 * k * 16, 0.0f);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < k; ++column) {
      float *panel = &panels[(row / 8 * k + column) * 16 + row % 8];
      panel[0] = gate[row * k + column];
      panel[8] = other[row * k + column];
    }
  return panels;
}

TEST(WeightRecipe, PacksGatesBesideTheOtherColumns) {
  for (int64_t n : {1, 7, 8, 9, 16, 17, 300})
    for (int64_t k : {1, 16, 37, 1024}) {
      std::vector<float> gate = counting(n * k), other = counting(n * k, -7e6f);
      TestSource source;
      source.tensors["gate"] = bytesOf(gate);
      source.tensors["other"] = bytesOf(other);
      RecipeBuilder builder("w");
      int g = builder.tensor("gate", {n, k});
      int o = builder.tensor("other", {n, k});
      int64_t panels = (n + 7) / 8;
      int both = builder.interleave(g, o, 8, {panels * 16, k});
      builder.add(Kind::PackPanels, {both}, {panels, k, 16});
      ASSERT_EQ(evaluateF32(builder, source), gatedByLoops(gate, other, n, k))
          << n << " x " << k;
    }
}

TEST(WeightRecipe, InterleavesBiasesOfEitherTypeInGroups) {
  for (int64_t group : {1, 8, 16})
    for (int64_t n : {1, 8, 15, 16, 17, 70001}) {
      std::vector<float> other = counting(n, -1e6f);
      int64_t groups = (n + group - 1) / group;
      std::vector<float> expected(groups * 2 * group, 0.0f);
      for (int64_t i = 0; i < n; ++i) {
        float *at = &expected[i / group * 2 * group + i % group];
        at[0] = 1.0f;
        at[group] = other[i];
      }
      TestSource source;
      source.tensors["gate"] = bytesOf(std::vector<uint16_t>(n, 0x3f80));
      source.tensors["other"] = bytesOf(other);
      RecipeBuilder builder("w");
      int g = builder.tensor("gate", {n}, ElementType::BF16);
      builder.interleave(g, builder.tensor("other", {n}), group,
                         {groups * 2 * group});
      ASSERT_EQ(evaluateF32(builder, source), expected) << n << " by " << group;
    }
}

/// Nearest bf16 of a value in its normal range: eight significant bits.
float bf16Rounded(float value) {
  int exponent;
  double fraction = std::frexp(double(value), &exponent);
  return float(
      std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8));
}

/// Of a value that bf16 holds.
uint16_t bf16Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t(bits >> 16);
}

/// [pairs][steps][planes][2][16][16][2] by definition, as floats.
std::vector<float> tilesByLoops(const std::vector<float> &from, int64_t n,
                                int64_t k, int64_t planes) {
  int64_t pairs = (n + 31) / 32, steps = (k + 31) / 32;
  std::vector<float> tiles(pairs * steps * planes * 1024, 0.0f);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < k; ++column) {
      float left = from[row * k + column];
      for (int64_t p = 0; p < planes; ++p) {
        int64_t tile =
            ((row / 32 * steps + column / 32) * planes + p) * 2 + row % 32 / 16;
        int64_t pair = tile * 16 + column % 32 / 2;
        tiles[(pair * 16 + row % 16) * 2 + column % 2] = bf16Rounded(left);
        left -= bf16Rounded(left);
      }
    }
  return tiles;
}

std::vector<float> evaluateBF16(const RecipeBuilder &builder,
                                TestSource &source) {
  std::vector<float> values;
  for (uint16_t raw : valuesOf<uint16_t>(evaluate(builder, source)))
    values.push_back(bf16ByDefinition(raw));
  return values;
}

/// Values of all magnitudes with all 24 bits in use, signs in turn.
std::vector<float> fullPrecision(int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = float(std::ldexp((i % 2 ? -1 : 1) * (1.0 + i * 0.6180339887),
                                 int(i % 61) - 30));
  return values;
}

TEST(WeightRecipe, PacksTilesOfEverySizeAndPlanes) {
  for (int64_t planes : {1, 2})
    for (int64_t n : {1, 15, 16, 17, 31, 32, 33, 100})
      for (int64_t k : {1, 2, 31, 32, 33, 64, 97}) {
        std::vector<float> values = fullPrecision(n * k);
        TestSource source;
        source.tensors["x"] = bytesOf(values);
        RecipeBuilder builder("w");
        builder.packTiles(builder.tensor("x", {n, k}), planes,
                          {(n + 31) / 32, (k + 31) / 32, planes * 1024});
        ASSERT_EQ(evaluateBF16(builder, source),
                  tilesByLoops(values, n, k, planes))
            << n << " x " << k << " in " << planes;
      }
}

TEST(WeightRecipe, PacksTilesOfMatricesThatTakeManyBlocks) {
  const int64_t n = 1003, k = 517;
  std::vector<float> values = fullPrecision(n * k);
  TestSource source;
  source.tensors["x"] = bytesOf(values);
  RecipeBuilder builder("w");
  builder.packTiles(builder.tensor("x", {n, k}), 2, {32, 17, 2048});
  EXPECT_EQ(evaluateBF16(builder, source), tilesByLoops(values, n, k, 2));
}

TEST(WeightRecipe, TilesOfF32HoldTheValuesThemselves) {
  const int64_t n = 70, k = 45;
  std::vector<float> values = fullPrecision(n * k);
  TestSource source;
  source.tensors["x"] = bytesOf(values);
  RecipeBuilder builder("w");
  builder.packTiles(builder.tensor("x", {n, k}), 1, {3, 2, 1024},
                    ElementType::F32);
  std::vector<float> expected(3 * 2 * 1024, 0.0f);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t c = 0; c < k; ++c) {
      int64_t tile = (row / 32 * 2 + c / 32) * 2 + row % 32 / 16;
      expected[(tile * 16 + c % 32 / 2) * 32 + row % 16 * 2 + c % 2] =
          values[row * k + c];
    }
  EXPECT_EQ(evaluateF32(builder, source), expected);
}

TEST(WeightRecipe, TilesOfHalvesKeepEachBit) {
  std::vector<uint16_t> patterns = finitePatterns(0x7f80);
  const int64_t n = int64_t(patterns.size()) / 32, k = 32;
  ASSERT_EQ(n * k, int64_t(patterns.size()));
  TestSource source;
  source.tensors["x"] = bytesOf(patterns);
  RecipeBuilder builder("w");
  builder.packTiles(builder.tensor("x", {n, k}, ElementType::BF16), 1,
                    {(n + 31) / 32, 1, 1024});
  std::vector<uint16_t> tiles = valuesOf<uint16_t>(evaluate(builder, source));
  for (int64_t row = 0; row < n; ++row)
    for (int64_t c = 0; c < k; ++c) {
      int64_t tile = row / 32 * 2 + row % 32 / 16;
      int64_t at = tile * 512 + c / 2 * 32 + row % 16 * 2 + c % 2;
      ASSERT_EQ(tiles[at], patterns[row * k + c]);
    }
}

TEST(WeightRecipe, FirstTileOfAPairHoldsTheGates) {
  const int64_t n = 37, k = 45;
  std::vector<float> gate = fullPrecision(n * k), other = counting(n * k);
  // 16 gates, then the 16 other columns of the same results.
  std::vector<float> both(3 * 32 * k, 0.0f);
  for (int64_t row = 0; row < n; ++row) {
    float *at = &both[(row / 16 * 32 + row % 16) * k];
    std::copy_n(&gate[row * k], k, at);
    std::copy_n(&other[row * k], k, at + 16 * k);
  }
  TestSource source;
  source.tensors["gate"] = bytesOf(gate);
  source.tensors["other"] = bytesOf(other);
  RecipeBuilder builder("w");
  int g = builder.tensor("gate", {n, k}), o = builder.tensor("other", {n, k});
  builder.packTiles(builder.interleave(g, o, 16, {96, k}), 2, {3, 2, 2048});
  EXPECT_EQ(evaluateBF16(builder, source), tilesByLoops(both, 96, k, 2));
}

TEST(WeightRecipe, SplitsAScaledValueAsIfRoundedToF32First) {
  // In double, 1 + 2^-8 and a bit: just above the tie, but not in f32.
  TestSource source;
  source.tensors["x"] = bytesOf<float>({1.0f + 0x1p-8f});
  RecipeBuilder builder("w");
  int x = builder.tensor("x", {1, 1});
  builder.packTiles(builder.scale(x, 1 + 0x1p-40, {1, 1}), 2, {1, 1, 2048});
  std::vector<float> tiles = evaluateBF16(builder, source);
  EXPECT_EQ(tiles[0], 1.0f);
  EXPECT_EQ(tiles[1024], 0x1p-8f);
}

/// [N, K] to [ceil(N / 16)][ceil(K / 2)][16][2], element by element.
std::vector<uint16_t> pairsByLoops(const std::vector<uint16_t> &from, int64_t n,
                                   int64_t k) {
  std::vector<uint16_t> panels((n + 15) / 16 * ((k + 1) / 2) * 32, 0);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < k; ++column) {
      int64_t pair = row / 16 * ((k + 1) / 2) + column / 2;
      panels[pair * 32 + row % 16 * 2 + column % 2] = from[row * k + column];
    }
  return panels;
}

TEST(WeightRecipe, PacksPairsOfEverySize) {
  std::vector<uint16_t> patterns = finitePatterns(0x7f80);
  for (int64_t n : {1, 2, 15, 16, 17, 33, 100})
    for (int64_t k : {1, 2, 3, 15, 16, 17, 37, 64}) {
      std::vector<uint16_t> values(patterns.begin() + n,
                                   patterns.begin() + n + n * k);
      TestSource source;
      source.tensors["x"] = bytesOf(values);
      RecipeBuilder builder("w");
      builder.add(Kind::PackPanels,
                  {builder.tensor("x", {n, k}, ElementType::BF16)},
                  {(n + 15) / 16, (k + 1) / 2, 32}, ElementType::BF16);
      ASSERT_EQ(valuesOf<uint16_t>(evaluate(builder, source)),
                pairsByLoops(values, n, k))
          << n << " x " << k;
    }
}

TEST(WeightRecipe, PacksPairsOfAllValuesInManyBlocks) {
  std::vector<uint16_t> values = finitePatterns(0x7f80);
  const int64_t n = 255, k = int64_t(values.size()) / n;
  values.resize(n * k);
  TestSource source;
  source.tensors["x"] = bytesOf(values);
  RecipeBuilder builder("w");
  builder.add(Kind::PackPanels,
              {builder.tensor("x", {n, k}, ElementType::BF16)},
              {16, (k + 1) / 2, 32}, ElementType::BF16);
  EXPECT_EQ(valuesOf<uint16_t>(evaluate(builder, source)),
            pairsByLoops(values, n, k));
}

// As where --precision=bf16 rounds a scaled weight and its gate.
TEST(WeightRecipe, PacksRoundedGatesBesideRoundedColumns) {
  const int64_t n = 19, k = 21, panels = 3;
  std::vector<float> gate = fullPrecision(n * k), other = counting(n * k);
  std::vector<uint16_t> both(panels * 16 * k, 0);
  for (int64_t row = 0; row < n; ++row)
    for (int64_t c = 0; c < k; ++c) {
      uint16_t *at = &both[(row / 8 * 16 + row % 8) * k + c];
      at[0] = bf16Bits(bf16Rounded(gate[row * k + c] / 8));
      at[8 * k] = bf16Bits(bf16Rounded(other[row * k + c]));
    }
  TestSource source;
  source.tensors["gate"] = bytesOf(gate);
  source.tensors["other"] = bytesOf(other);
  RecipeBuilder builder("w");
  int g = builder.scale(builder.tensor("gate", {n, k}), 0.125, {n, k});
  int o = builder.tensor("other", {n, k});
  g = builder.add(Kind::Cast, {g}, {n, k}, ElementType::BF16);
  o = builder.add(Kind::Cast, {o}, {n, k}, ElementType::BF16);
  int rows = builder.interleave(g, o, 8, {panels * 16, k});
  builder.recipe.steps[rows].type = ElementType::BF16;
  builder.add(Kind::PackPanels, {rows}, {panels, (k + 1) / 2, 32},
              ElementType::BF16);
  EXPECT_EQ(valuesOf<uint16_t>(evaluate(builder, source)),
            pairsByLoops(both, panels * 16, k));
}

TEST(WeightRecipe, RopeTableHasTheCosinesAndSinesOfTransformers) {
  // Of PyTorch 2.13 on a CPU, in the steps of Transformers' rotary embedding.
  struct Golden {
    double theta;
    int64_t headSize, position, k;
    float cosine, sine;
  } goldens[] = {
      {1e6, 64, 1, 0, 0x1.14a282p-1f, 0x1.aed548p-1f},
      {1e6, 64, 127999, 0, -0x1.d91e1ap-2f, -0x1.c61328p-1f},
      {1e6, 64, 127999, 31, 0x1.f61608p-1f, 0x1.91120ap-3f},
      {1e6, 64, 4097, 7, 0x1.3ebfa2p-6f, -0x1.ffe732p-1f},
      {160000, 64, 8191, 3, 0x1.ab6b4ep-1f, -0x1.19e186p-1f},
      {10000, 64, 8191, 1, -0x1.af257ap-1f, -0x1.142576p-1f},
      {10000, 6, 69, 1, -0x1.ff0b64p-1f, -0x1.f43f76p-5f},
      {10000, 6, 69, 2, 0x1.fa5a6ap-1f, 0x1.2f53cep-3f},
  };
  for (const Golden &golden : goldens) {
    TestSource source;
    RecipeBuilder builder("rope");
    builder.ropeTable(golden.theta, {golden.position + 1, golden.headSize});
    std::vector<float> table = evaluateF32(builder, source);
    ASSERT_EQ(int64_t(table.size()), (golden.position + 1) * golden.headSize);
    const float *row = &table[golden.position * golden.headSize];
    // Both round a correct value, PyTorch's in its last bit at times not.
    EXPECT_NEAR(row[golden.k], golden.cosine, 0x1p-24f);
    EXPECT_NEAR(row[golden.headSize / 2 + golden.k], golden.sine, 0x1p-24f);
    for (int64_t k = 0; k < golden.headSize / 2; ++k) {
      EXPECT_EQ(table[k], 1.0f);
      EXPECT_EQ(table[golden.headSize / 2 + k], 0.0f);
    }
  }
}

TEST(WeightRecipe, RoundsOnceAfterAllScales) {
  // In f32 each intermediate result would be rounded: 1 + 2^-24 to 1.
  TestSource source;
  source.tensors["x"] = bytesOf<float>({1.0f, 0.1f});
  RecipeBuilder builder("w");
  constexpr double factor = 1 + 0x1p-24;
  int scaled = builder.scale(builder.tensor("x", {2}), factor, {2});
  int cast = builder.add(Kind::Cast, {scaled}, {2});
  builder.scale(cast, factor, {2});
  EXPECT_EQ(evaluateF32(builder, source),
            (std::vector<float>{1.0f + 0x1p-23f,
                                float(double(0.1f) * factor * factor)}));
}

TEST(WeightRecipe, RoundsAScaledValueToAHalfWithoutAStopAtF32) {
  // Just above the tie between 1 and 1 + 2^-7: through f32 it would be the tie,
  // and go down to 1.
  TestSource source;
  source.tensors["x"] = bytesOf<float>({1.0f + 0x1p-8f});
  RecipeBuilder builder("w");
  int scaled = builder.scale(builder.tensor("x", {1}), 1 + 0x1p-40, {1});
  builder.add(Kind::Cast, {scaled}, {1}, ElementType::BF16);
  EXPECT_EQ(valuesOf<uint16_t>(evaluate(builder, source)),
            std::vector<uint16_t>{0x3f81});
}

TEST(WeightRecipe, ReadsUnalignedTensors) {
  TestSource source;
  std::vector<uint8_t> bytes = bytesOf(counting(8));
  bytes.insert(bytes.begin(), 3, 0);
  source.tensors["x"] = bytes;
  class Unaligned : public WeightSource {
  public:
    TestSource &inner;
    explicit Unaligned(TestSource &inner) : inner(inner) {}
    bool read(const std::string &file, const std::string &tensor,
              const Shape &shape, ElementType type, const uint8_t *&bytes,
              std::string &error) override {
      if (!inner.read(file, tensor, shape, type, bytes, error))
        return false;
      bytes += 3;
      return true;
    }
  } unaligned(source);
  RecipeBuilder builder("w");
  builder.tensor("x", {8});
  std::vector<uint8_t> result;
  std::string error;
  ASSERT_TRUE(evaluateRecipe(builder.recipe, unaligned, result, error));
  EXPECT_EQ(valuesOf<float>(result), counting(8));
}

//===----------------------------------------------------------------------===//
// Refusals
//===----------------------------------------------------------------------===//

TEST(WeightRecipeErrors, NonFiniteValueNamesTensorAndFlatIndex) {
  struct Case {
    ElementType type;
    std::vector<uint8_t> bytes;
    const char *value;
  } cases[] = {
      {ElementType::F32, bytesOf<float>({0, 1, 2, 3, std::nanf(""), 5}), "nan"},
      {ElementType::F32, bytesOf<float>({0, 1, 2, 3, HUGE_VALF, 5}), "inf"},
      {ElementType::F32, bytesOf<float>({0, 1, 2, 3, -HUGE_VALF, 5}), "-inf"},
      {ElementType::F16, bytesOf<uint16_t>({0, 1, 2, 3, 0x7c01, 5}), "nan"},
      {ElementType::F16, bytesOf<uint16_t>({0, 1, 2, 3, 0xfc00, 5}), "-inf"},
      {ElementType::BF16, bytesOf<uint16_t>({0, 1, 2, 3, 0x7f80, 5}), "inf"},
      {ElementType::BF16, bytesOf<uint16_t>({0, 1, 2, 3, 0xffff, 5}), "nan"},
  };
  for (const Case &c : cases)
    for (bool packed : {false, true}) {
      TestSource source;
      source.tensors["layer.0.weight"] = c.bytes;
      RecipeBuilder builder("qkv");
      int x = builder.tensor("layer.0.weight", {3, 2}, c.type);
      if (packed)
        builder.add(Kind::PackPanels, {x}, {1, 2, 16});
      EXPECT_EQ(errorOf(builder, source),
                std::string("model.safetensors: tensor 'layer.0.weight' has ") +
                    c.value + " at index 4, used by weight 'qkv'");
    }
}

TEST(WeightRecipeErrors, NonFiniteIndexCountsWholeTensorBehindASlice) {
  TestSource source;
  std::vector<float> values = counting(300000);
  values[250001] = HUGE_VALF;
  source.tensors["x"] = bytesOf(values);
  RecipeBuilder builder("w");
  builder.slice(builder.tensor("x", {300000}), 1000, {290000});
  EXPECT_EQ(errorOf(builder, source),
            "model.safetensors: tensor 'x' has inf at index 250001, used by "
            "weight 'w'");
}

TEST(WeightRecipeErrors, ValueBeyondTheTypeNamesWeightAndIndex) {
  TestSource source;
  source.tensors["x"] = bytesOf<float>({1, 2, -3e38f, 70000});
  RecipeBuilder scaled("w");
  scaled.scale(scaled.tensor("x", {2, 2}), 1000.0, {2, 2});
  EXPECT_EQ(errorOf(scaled, source),
            "weight 'w': step 1 (scale): -3.00000001e+41 at index 2 is beyond "
            "the range of f32");
  RecipeBuilder cast("w");
  int last = cast.slice(cast.tensor("x", {2, 2}), 0, {2, 2});
  cast.add(Kind::Cast, {last}, {2, 2}, ElementType::F16);
  EXPECT_EQ(errorOf(cast, source),
            "weight 'w': step 2 (cast): -3.00000001e+38 at index 2 is beyond "
            "the range of f16");
}

TEST(WeightRecipeErrors, TileBeyondBf16NamesTheIndexInItsOperand) {
  TestSource source;
  std::vector<float> values = counting(40 * 50);
  values[37 * 50 + 49] = -FLT_MAX;
  source.tensors["x"] = bytesOf(values);
  for (auto [planes, type] : {std::pair(1, ElementType::BF16),
                              {2, ElementType::BF16},
                              {1, ElementType::F32}}) {
    RecipeBuilder builder("w");
    builder.packTiles(builder.tensor("x", {40, 50}), planes,
                      {2, 2, planes * 1024}, type);
    EXPECT_EQ(errorOf(builder, source),
              "weight 'w': step 1 (pack tiles): -3.40282347e+38 at index 1899 "
              "is beyond the range of bf16");
  }
  // Beyond that of f32 already.
  RecipeBuilder scaled("w");
  scaled.packTiles(scaled.scale(scaled.tensor("x", {40, 50}), 2, {40, 50}), 2,
                   {2, 2, 2048});
  EXPECT_EQ(errorOf(scaled, source),
            "weight 'w': step 2 (pack tiles): -6.80564693e+38 at index 1899 is "
            "beyond the range of bf16");
}

TEST(WeightRecipeErrors, NonFiniteValueIsFoundBehindEachLayout) {
  TestSource source;
  std::vector<float> values = counting(40 * 50);
  values[7 * 50 + 4] = std::nanf("");
  source.tensors["bad"] = bytesOf(values);
  source.tensors["good"] = bytesOf(counting(40 * 50));
  using Layout = void (*)(RecipeBuilder &, int bad, int good);
  for (Layout layout : {Layout([](RecipeBuilder &b, int bad, int) {
                          b.packTiles(bad, 2, {2, 2, 2048});
                        }),
                        Layout([](RecipeBuilder &b, int bad, int good) {
                          b.interleave(good, bad, 8, {80, 50});
                        }),
                        Layout([](RecipeBuilder &b, int bad, int) {
                          b.add(Kind::Transpose, {bad}, {50, 40});
                        }),
                        Layout([](RecipeBuilder &b, int bad, int) {
                          b.sliceColumns(bad, 4, {40, 1});
                        })}) {
    RecipeBuilder builder("w");
    int bad = builder.tensor("bad", {40, 50});
    layout(builder, bad, builder.tensor("good", {40, 50}));
    EXPECT_EQ(errorOf(builder, source),
              "model.safetensors: tensor 'bad' has nan at index 354, used by "
              "weight 'w'");
  }
}

TEST(WeightRecipeErrors, MissingTensorIsTheSourcesError) {
  TestSource source;
  RecipeBuilder builder("w");
  builder.tensor("absent", {1});
  EXPECT_EQ(errorOf(builder, source), "model.safetensors: no tensor 'absent'");
}

struct Misfit {
  const char *what;
  void (*build)(RecipeBuilder &);
  const char *error;
};
void PrintTo(const Misfit &misfit, std::ostream *os) { *os << misfit.what; }

class RecipeThatDoesNotFit : public testing::TestWithParam<Misfit> {};

TEST_P(RecipeThatDoesNotFit, IsRefusedBeforeAnyRead) {
  TestSource source;
  RecipeBuilder builder("w");
  GetParam().build(builder);
  EXPECT_EQ(errorOf(builder, source), GetParam().error);
  EXPECT_EQ(source.reads, 0);
}

const Misfit kMisfits[] = {
    {"NoSteps", [](RecipeBuilder &) {}, "weight 'w': the recipe has no steps"},
    {"Scalar", [](RecipeBuilder &b) { b.tensor("x", {}); },
     "weight 'w': step 0 (tensor): expects a shape of at least one dimension"},
    {"EmptyDimension", [](RecipeBuilder &b) { b.tensor("x", {3, 0}); },
     "weight 'w': step 0 (tensor): expects sizes of at least 1, but the shape "
     "is [3, 0]"},
    {"OverflowingShape",
     [](RecipeBuilder &b) { b.tensor("x", {1ll << 40, 1ll << 40}); },
     "weight 'w': step 0 (tensor): shape [1099511627776, 1099511627776] is too "
     "large"},
    {"TensorWithOperand",
     [](RecipeBuilder &b) {
       b.tensor("x", {2});
       b.tensor("y", {2});
       b.recipe.steps[1].operands = {0};
     },
     "weight 'w': step 1 (tensor): has 1 operands, expects 0"},
    {"ConcatOfNone", [](RecipeBuilder &b) { b.add(Kind::Concat, {}, {2}); },
     "weight 'w': step 0 (concat): has 0 operands, expects 1"},
    {"OperandIsLater",
     [](RecipeBuilder &b) {
       b.tensor("x", {2});
       b.add(Kind::Concat, {0, 1}, {4});
     },
     "weight 'w': step 1 (concat): operand 1 is not an earlier step"},
    {"OperandIsNegative", [](RecipeBuilder &b) { b.scale(-1, 2.0, {4}); },
     "weight 'w': step 0 (scale): operand -1 is not an earlier step"},
    {"ConcatOfOtherRows",
     [](RecipeBuilder &b) {
       int x = b.tensor("x", {2, 3}), y = b.tensor("y", {2, 4});
       b.add(Kind::Concat, {x, y}, {4, 3});
     },
     "weight 'w': step 2 (concat): rows of operand shape [2, 4] are not like "
     "those of the result [4, 3]"},
    {"ConcatOfOtherType",
     [](RecipeBuilder &b) {
       int x = b.tensor("x", {2}), y = b.tensor("y", {2}, ElementType::F16);
       b.add(Kind::Concat, {x, y}, {4});
     },
     "weight 'w': step 2 (concat): operand of type f16, but the result is f32"},
    {"ConcatOfOtherCount",
     [](RecipeBuilder &b) {
       int x = b.tensor("x", {2});
       b.add(Kind::Concat, {x, x}, {5});
     },
     "weight 'w': step 1 (concat): expects result shape [4], but got [5]"},
    {"SliceBehindTheEnd",
     [](RecipeBuilder &b) { b.slice(b.tensor("x", {4}), 2, {3}); },
     "weight 'w': step 1 (slice): expects rows within the 4 of the operand, "
     "but "
     "got 3 rows from 2"},
    {"SliceBeforeTheStart",
     [](RecipeBuilder &b) { b.slice(b.tensor("x", {4}), -1, {3}); },
     "weight 'w': step 1 (slice): expects rows within the 4 of the operand, "
     "but "
     "got 3 rows from -1"},
    {"SliceOfOtherType",
     [](RecipeBuilder &b) {
       b.slice(b.tensor("x", {4}), 0, {3}, ElementType::BF16);
     },
     "weight 'w': step 1 (slice): operand of type f32, but the result is bf16"},
    {"ScaleToOtherShape",
     [](RecipeBuilder &b) { b.scale(b.tensor("x", {4}), 2, {2, 2}); },
     "weight 'w': step 1 (scale): expects result shape [4], but got [2, 2]"},
    {"ScaleByInfinity",
     [](RecipeBuilder &b) { b.scale(b.tensor("x", {4}), HUGE_VAL, {4}); },
     "weight 'w': step 1 (scale): expects a finite factor, but got inf"},
    {"CastOfOtherShape",
     [](RecipeBuilder &b) { b.add(Kind::Cast, {b.tensor("x", {4})}, {5}); },
     "weight 'w': step 1 (cast): expects result shape [4], but got [5]"},
    {"PadToFewerRows",
     [](RecipeBuilder &b) { b.padRows(b.tensor("x", {4}), 4, 3, {3}); },
     "weight 'w': step 1 (pad rows): expects 1 <= group <= padded, but got "
     "group 4 and padded 3"},
    {"PadUnevenGroups",
     [](RecipeBuilder &b) { b.padRows(b.tensor("x", {4}), 3, 4, {8}); },
     "weight 'w': step 1 (pad rows): operand has 4 rows, not a multiple of "
     "group 3"},
    {"PadOverflow",
     [](RecipeBuilder &b) { b.padRows(b.tensor("x", {4}), 1, INT64_MAX, {8}); },
     "weight 'w': step 1 (pad rows): the result has too many rows"},
    {"PadMoreThanMemory",
     [](RecipeBuilder &b) {
       b.padRows(b.tensor("x", {4}), 4, 1ll << 50, {1ll << 50});
     },
     "weight 'w': step 1 (pad rows): result [1125899906842624] is more than "
     "128 times larger than the tensors"},
    {"PackOfThreeDimensions",
     [](RecipeBuilder &b) {
       b.add(Kind::PackPanels, {b.tensor("x", {1, 2, 3})}, {1, 2, 16});
     },
     "weight 'w': step 1 (pack panels): expects an operand of one or two "
     "dimensions, but got [1, 2, 3]"},
    {"PackToHalf",
     [](RecipeBuilder &b) {
       b.add(Kind::PackPanels, {b.tensor("x", {1, 2})}, {1, 2, 16},
             ElementType::F16);
     },
     "weight 'w': step 1 (pack panels): expects result type f32, but got f16"},
    {"PackToOtherShape",
     [](RecipeBuilder &b) {
       b.add(Kind::PackPanels, {b.tensor("x", {17, 2})}, {1, 2, 16});
     },
     "weight 'w': step 1 (pack panels): expects result shape [2, 2, 16], but "
     "got [1, 2, 16]"},
    {"PackF32ToPairs",
     [](RecipeBuilder &b) {
       b.add(Kind::PackPanels, {b.tensor("x", {17, 3})}, {2, 2, 32},
             ElementType::BF16);
     },
     "weight 'w': step 1 (pack panels): operand of type f32, but the result is "
     "bf16"},
    {"PackPairsToOtherShape",
     [](RecipeBuilder &b) {
       b.add(Kind::PackPanels, {b.tensor("x", {17, 3}, ElementType::BF16)},
             {2, 3, 16}, ElementType::BF16);
     },
     "weight 'w': step 1 (pack panels): expects result shape [2, 2, 32], but "
     "got [2, 3, 16]"},
    {"PackAVectorToPairs",
     [](RecipeBuilder &b) {
       b.add(Kind::PackPanels, {b.tensor("x", {16}, ElementType::BF16)}, {16},
             ElementType::BF16);
     },
     "weight 'w': step 1 (pack panels): expects result type f32, but got "
     "bf16"},
    {"InterleaveF32ToBf16",
     [](RecipeBuilder &b) {
       int x = b.tensor("x", {4, 3}, ElementType::BF16);
       b.interleave(x, b.tensor("y", {4, 3}), 8, {16, 3});
       b.recipe.steps.back().type = ElementType::BF16;
     },
     "weight 'w': step 2 (interleave): operand of type f32, but the result is "
     "bf16"},
    {"SliceOfColumnsBehindTheEnd",
     [](RecipeBuilder &b) { b.sliceColumns(b.tensor("x", {4, 5}), 3, {4, 3}); },
     "weight 'w': step 1 (slice columns): expects columns within the 5 of the "
     "operand, but got 3 columns from 3"},
    {"SliceOfColumnsBeforeTheStart",
     [](RecipeBuilder &b) {
       b.sliceColumns(b.tensor("x", {4, 5}), -1, {4, 3});
     },
     "weight 'w': step 1 (slice columns): expects columns within the 5 of the "
     "operand, but got 3 columns from -1"},
    {"SliceOfColumnsOfAVector",
     [](RecipeBuilder &b) { b.sliceColumns(b.tensor("x", {4}), 0, {2}); },
     "weight 'w': step 1 (slice columns): expects an operand of two "
     "dimensions, but got [4]"},
    {"SliceOfColumnsToAVector",
     [](RecipeBuilder &b) { b.sliceColumns(b.tensor("x", {4, 5}), 0, {4}); },
     "weight 'w': step 1 (slice columns): expects result shape [4, 5], but got "
     "[4]"},
    {"SliceOfColumnsOfOtherType",
     [](RecipeBuilder &b) {
       b.sliceColumns(b.tensor("x", {4, 5}), 0, {4, 5}, ElementType::F16);
     },
     "weight 'w': step 1 (slice columns): operand of type f32, but the result "
     "is f16"},
    {"TransposeOfAVector",
     [](RecipeBuilder &b) {
       b.add(Kind::Transpose, {b.tensor("x", {4})}, {1, 4});
     },
     "weight 'w': step 1 (transpose): expects an operand of two dimensions, "
     "but got [4]"},
    {"TransposeOfThreeDimensions",
     [](RecipeBuilder &b) {
       b.add(Kind::Transpose, {b.tensor("x", {4, 2, 3})}, {3, 4});
     },
     "weight 'w': step 1 (transpose): expects an operand of two dimensions, "
     "but got [4, 2, 3]"},
    {"TransposeToOtherShape",
     [](RecipeBuilder &b) {
       b.add(Kind::Transpose, {b.tensor("x", {4, 1, 3})}, {4, 3});
     },
     "weight 'w': step 1 (transpose): expects result shape [3, 4], but got [4, "
     "3]"},
    {"TransposeToHalf",
     [](RecipeBuilder &b) {
       b.add(Kind::Transpose, {b.tensor("x", {4, 3})}, {3, 4},
             ElementType::BF16);
     },
     "weight 'w': step 1 (transpose): expects result type f32, but got bf16"},
    {"InterleaveOfOne",
     [](RecipeBuilder &b) {
       b.add(Kind::Interleave, {b.tensor("x", {4})}, {4});
     },
     "weight 'w': step 1 (interleave): has 1 operands, expects 2"},
    {"InterleaveOfOtherShape",
     [](RecipeBuilder &b) {
       int x = b.tensor("x", {4, 3}), y = b.tensor("y", {5, 3});
       b.interleave(x, y, 8, {16, 3});
     },
     "weight 'w': step 2 (interleave): operands have shapes [4, 3] and [5, 3]"},
    {"InterleaveByNothing",
     [](RecipeBuilder &b) {
       int x = b.tensor("x", {4});
       b.interleave(x, x, 0, {8});
     },
     "weight 'w': step 1 (interleave): expects a group of 1 to 65536, but got "
     "0"},
    {"InterleaveWithoutPadding",
     [](RecipeBuilder &b) {
       int x = b.tensor("x", {4});
       b.interleave(x, x, 8, {8});
     },
     "weight 'w': step 1 (interleave): expects result shape [16], but got [8]"},
    {"TilesOfAVector",
     [](RecipeBuilder &b) { b.packTiles(b.tensor("x", {4}), 1, {1, 1, 1024}); },
     "weight 'w': step 1 (pack tiles): expects an operand of two dimensions, "
     "but got [4]"},
    {"TilesOfThreePlanes",
     [](RecipeBuilder &b) {
       b.packTiles(b.tensor("x", {4, 4}), 3, {1, 1, 3072});
     },
     "weight 'w': step 1 (pack tiles): expects 1 to 2 planes, but got 3"},
    {"TilesOfOtherShape",
     [](RecipeBuilder &b) {
       b.packTiles(b.tensor("x", {33, 4}), 2, {1, 1, 2048});
     },
     "weight 'w': step 1 (pack tiles): expects result shape [2, 1, 2048], but "
     "got [1, 1, 2048]"},
    {"TilesOfTwoPlanesOfF32",
     [](RecipeBuilder &b) {
       b.packTiles(b.tensor("x", {4, 4}), 2, {1, 1, 2048}, ElementType::F32);
     },
     "weight 'w': step 1 (pack tiles): expects result type bf16, but got f32"},
    {"RopeOfNegativeTheta", [](RecipeBuilder &b) { b.ropeTable(-1e4, {4, 4}); },
     "weight 'w': step 0 (rope table): expects a finite theta above 0, but got "
     "-10000.000000"},
    {"RopeOfOddHeads", [](RecipeBuilder &b) { b.ropeTable(1e4, {4, 3}); },
     "weight 'w': step 0 (rope table): expects two dimensions, the second "
     "even, but got [4, 3]"},
    {"RopeOfMorePositionsThanMemory",
     [](RecipeBuilder &b) { b.ropeTable(1e4, {1ll << 40, 64}); },
     "weight 'w': step 0 (rope table): table [1099511627776, 64] has more than "
     "1073741824 elements"},
    {"RopeToHalf",
     [](RecipeBuilder &b) {
       b.ropeTable(1e4, {4, 4});
       b.recipe.steps.back().type = ElementType::F16;
     },
     "weight 'w': step 0 (rope table): expects result type f32, but got f16"},
    {"SharedStepsThatDoubleTheWork",
     [](RecipeBuilder &b) {
       int x = b.tensor("x", {1});
       for (int64_t rows = 2; rows <= 1 << 16; rows *= 2)
         x = b.add(Kind::Concat, {x, x}, {rows});
     },
     "weight 'w': step 12 (concat): evaluating it visits more than 4096 steps"},
};
INSTANTIATE_TEST_SUITE_P(WeightRecipe, RecipeThatDoesNotFit,
                         testing::ValuesIn(kMisfits),
                         [](const testing::TestParamInfo<Misfit> &info) {
                           return info.param.what;
                         });

} // namespace
