//===- TileAttentionTest.cpp - attention on tiles against double ----------===//

#include "KernelTest.h"
#include "TileAttentionTesting.h"
#include "TileTesting.h"
#include "codegen/Kernels/AttentionPack.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <memory>

using namespace encast;

namespace {

using Size = TileAttentionProblem::Size;

std::vector<KernelRow> tileRows(KernelFamily family) {
  std::vector<KernelRow> rows;
  for (const KernelRow &row : kernelRows())
    if (row.family == family)
      rows.push_back(row);
  return rows;
}

AttentionShape shapeOf(const KernelRow &row, int64_t headSize) {
  AttentionShape shape;
  shape.arithmetic = row.arithmetic;
  shape.headSize = headSize;
  shape.scale = float(1 / std::sqrt(double(headSize)));
  return shape;
}

bool sameBits(const GuardedFloats &x, const GuardedFloats &y) {
  return x.size() == y.size() &&
         std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

class TileAttention : public KernelTest {
protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && usesTiles(GetParam()))
      tiles = std::make_unique<TileScope>();
  }
  void TearDown() override {
    if (tiles)
      EXPECT_TRUE(tiles->unchanged());
  }

  static std::unique_ptr<ExecutableCode> kernelOf(const AttentionShape &shape) {
    return attentionKernel(GetParam(), shape);
  }

  static void expectWithinBounds(const TileAttentionProblem &problem) {
    const AttentionShape &shape = problem.shape;
    for (int64_t query = 0; query < problem.size.queries; ++query)
      for (int64_t head = 0; head < shape.queryHeads; ++head) {
        const auto expected = problem.expected(query, head);
        for (int64_t dim = 0; dim < shape.headSize; ++dim)
          ASSERT_NEAR(problem.result(query, head, dim), expected.values[dim],
                      expected.bounds[dim])
              << problem.size.queries << " queries from "
              << problem.size.position << ", " << problem.size.keys
              << " keys, head size " << shape.headSize << ", window "
              << shape.window << ": query " << query << ", head " << head
              << ", dim " << dim;
      }
    ASSERT_TRUE(problem.gapsUntouched(0, problem.size.queries));
  }

  /// Runs problems of these sizes on one kernel, and checks them.
  static void check(const std::vector<Size> &sizes,
                    const AttentionShape &shape) {
    std::unique_ptr<ExecutableCode> kernel;
    for (Size size : sizes) {
      TileAttentionProblem problem(size, shape, size.queries + size.keys);
      if (!kernel)
        kernel = kernelOf(problem.shape);
      problem.packSlowly();
      problem.run(GetParam(), *kernel);
      expectWithinBounds(problem);
    }
  }

  /// Runs the problem with queries that are `factor` times as large, and
  /// compares with the model; kernels without one, with the exact results.
  static void expectBits(Size size, const AttentionShape &shape, float factor) {
    TileAttentionProblem problem(size, shape, size.keys);
    Random random(3);
    for (int64_t query = 0; query < size.queries; ++query)
      for (int64_t dim = 0; dim < shape.headSize; ++dim)
        problem.setQ(query, 0, dim, factor * random.uniform());
    problem.packSlowly();
    problem.run(GetParam(), *kernelOf(problem.shape));
    if (!usesTiles(GetParam()))
      return expectWithinBounds(problem);
    for (int64_t query = 0; query < size.queries; ++query) {
      const std::vector<float> expected = problem.expectedBits(query, 0);
      for (int64_t dim = 0; dim < shape.headSize; ++dim)
        ASSERT_EQ(problem.result(query, 0, dim), expected[dim])
            << size.keys << " keys, head size " << shape.headSize << ", window "
            << shape.window << ", factor " << factor << ": query " << query
            << ", dim " << dim;
    }
  }

  std::unique_ptr<TileScope> tiles;
};

TEST_P(TileAttention, ComputesEveryNumberOfQueries) {
  std::vector<Size> sizes;
  for (int64_t queries = 1; queries <= 67; ++queries)
    sizes.push_back({queries, 37});
  check(sizes, shapeOf(GetParam(), 20));
}

TEST_P(TileAttention, ComputesEveryNumberOfKeys) {
  std::vector<Size> sizes;
  for (int64_t keys = 1; keys <= 300; ++keys)
    sizes.push_back({3, keys});
  check(sizes, shapeOf(GetParam(), 64));
}

TEST_P(TileAttention, ComputesEveryHeadSize) {
  for (int64_t headSize = 1; headSize <= 256;
       headSize += headSize < 34 ? 1 : 11)
    check({{1 + headSize % 35, 41}}, shapeOf(GetParam(), headSize));
}

TEST_P(TileAttention, ComputesSeveralRoundsOfEveryHeadSize) {
  for (int64_t headSize : {16, 32, 64, 80, 96, 128, 256})
    check({{33, 64}, {33, 96}, {33, 128}, {33, 160}, {33, 256}, {33, 1000}},
          shapeOf(GetParam(), headSize));
}

TEST_P(TileAttention, ComputesSeveralSpansOfKeys) {
  for (int64_t headSize : {64, 200})
    check({{5, 2047}, {5, 2048}, {5, 2049}, {5, 5000}},
          shapeOf(GetParam(), headSize));
}

TEST_P(TileAttention, ComputesSeveralGroupsOfQueries) {
  check({{600, 70}}, shapeOf(GetParam(), 32));
}

// The model repeats each operation; a product of planes left out, or in another
// order, would show.
TEST_P(TileAttention, GivesTheBitsOfItsModel) {
  for (int64_t headSize : {20, 64, 96})
    for (int64_t window : {-1, 30})
      for (int64_t keys : {1, 45, 160, 300}) {
        AttentionShape shape = shapeOf(GetParam(), headSize);
        shape.window = window;
        expectBits({std::min<int64_t>(keys, 40), keys}, shape, 1);
      }
}

TEST_P(TileAttention, GivesTheBitsOfItsModelInSpansAndWithOffsets) {
  // Scores up to 3, where none has an offset, and up to 500.
  for (float factor : {1.0f, 150.0f})
    expectBits({6, 4500}, shapeOf(GetParam(), 64), factor);
}

TEST_P(TileAttention, SharesKeysBetweenQueryHeads) {
  for (int64_t heads : {2, 3, 8}) {
    AttentionShape shape = shapeOf(GetParam(), 24);
    shape.queryHeads = heads;
    check({{40, 77}, {7, 4100}}, shape);
    shape.window = 16;
    check({{300, 300}}, shape);
  }
}

TEST_P(TileAttention, SeesTheKeysOfTheWindow) {
  for (int64_t window :
       {0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 300, 1 << 30}) {
    AttentionShape shape = shapeOf(GetParam(), 64);
    shape.window = window;
    std::vector<Size> sizes;
    for (int64_t keys : {1, 2, 31, 32, 33, 64, 65, 250})
      sizes.push_back({keys, keys});
    check(sizes, shape);
  }
}

TEST_P(TileAttention, SeesTheKeysAroundThePosition) {
  for (int64_t window : {0, 5, 64}) {
    AttentionShape shape = shapeOf(GetParam(), 32);
    shape.window = window;
    std::vector<Size> sizes;
    for (int64_t position : {0, 1, 17, 31, 32, 100, 199})
      sizes.push_back({std::min<int64_t>(34, 200 - position), 200, position});
    check(sizes, shape);
  }
}

// Queries around and far behind the last one that sees a key, by themselves and
// beside those that see some, whose scores are small or need offsets.
TEST_P(TileAttention, GivesZeroToAQueryThatSeesNoKey) {
  for (int64_t window : {0, 4, 64, 100})
    for (int64_t keys : {1, 4, 31, 32, 33, 130}) {
      AttentionShape shape = shapeOf(GetParam(), 20);
      shape.queryHeads = 1 + keys % 2;
      shape.window = window;
      std::vector<Size> sizes;
      const int64_t behind = keys + window; // first that sees none
      for (int64_t position : {int64_t(0), std::max<int64_t>(0, behind - 9),
                               behind - 1, behind, behind + 1, behind + 700})
        for (int64_t queries : {1, 2, 31, 33, 80})
          sizes.push_back({queries, keys, position});
      check(sizes, shape);
      for (float factor : {1.0f, 150.0f}) {
        expectBits({40, keys, std::max<int64_t>(0, behind - 9)}, shape, factor);
        expectBits({70, keys, behind - 1}, shape, factor);
      }
    }
}

TEST_P(TileAttention, LeavesTheGapsOfWideRowsUntouched) {
  for (int64_t headSize : {1, 15, 16, 17, 30, 48})
    for (int planes : {0, 1, 2, 3}) {
      AttentionShape shape = shapeOf(GetParam(), headSize);
      shape.queryHeads = 2;
      shape.outPlanes = planes;
      shape.outPlaneStride = planes > 0 ? 2 * headSize + 3 : 0;
      shape.ldo = std::max(1, planes) * (2 * headSize + 3) + 4;
      check({{35, 33}}, shape);
    }
}

TEST_P(TileAttention, WritesPlanes) {
  for (int planes : {1, 2, 3}) {
    AttentionShape shape = shapeOf(GetParam(), 64);
    shape.queryHeads = 2;
    TileAttentionProblem floats({70, 90}, shape, 3);
    shape.outPlanes = planes;
    TileAttentionProblem terms({70, 90}, shape, 3);
    for (TileAttentionProblem *problem : {&floats, &terms}) {
      problem->packSlowly();
      problem->run(GetParam(), *kernelOf(problem->shape));
    }
    for (int64_t query = 0; query < 70; ++query)
      for (int64_t head = 0; head < 2; ++head)
        for (int64_t dim = 0; dim < 64; ++dim) {
          double sum = 0;
          for (uint16_t term :
               planesOf(float(floats.result(query, head, dim)), planes))
            sum += bf16Value(term);
          ASSERT_EQ(terms.result(query, head, dim), sum);
        }
  }
}

// Tiles, groups and heads that come later must find their queries as they were,
// in every span and when a tile is computed again with offsets.
TEST_P(TileAttention, WritesOverItsQueriesIfBothLieAlike) {
  for (int64_t window : {-1, 100})
    for (Size size : {Size{600, 70}, Size{70, 4500}, Size{33, 200, 90}})
      for (float factor : {1.0f, 150.0f}) {
        AttentionShape shape = shapeOf(GetParam(), 64);
        shape.queryHeads = 3;
        shape.window = window;
        shape.outPlanes = int(activationPlanes(shape.arithmetic));
        shape.qPlaneStride = shape.outPlaneStride = 3 * 64;
        shape.ldq = shape.ldo = shape.outPlanes * shape.qPlaneStride + 32;
        TileAttentionProblem apart(size, shape, 1), over(size, shape, 1);
        for (TileAttentionProblem *problem : {&apart, &over}) {
          Random random(2);
          for (int64_t query = 0; query < size.queries; query += 7)
            problem->setQ(query, 1, query % 64, factor * random.uniform());
          problem->packSlowly();
        }
        const auto kernel = kernelOf(shape);
        apart.run(GetParam(), *kernel);
        over.runOverQueries(GetParam(), *kernel);
        ASSERT_TRUE(sameBits(over.q, apart.out))
            << size.queries << " queries, " << size.keys << " keys, window "
            << window << ", factor " << factor;
      }
}

// With one key the softmax is 1.
TEST_P(TileAttention, OfOneKeyIsItsValue) {
  TileAttentionProblem problem({35, 1}, shapeOf(GetParam(), 48), 1);
  for (int64_t dim = 0; dim < 48; ++dim)
    problem.setV(0, dim, float(dim - 20));
  problem.packSlowly();
  problem.run(GetParam(), *kernelOf(problem.shape));
  for (int64_t query = 0; query < 35; ++query)
    for (int64_t dim = 0; dim < 48; ++dim)
      ASSERT_NEAR(problem.result(query, 0, dim), dim - 20, 0x1p-14 * 28);
}

// Equal scores give the mean, exact on small integers and 2^n keys.
TEST_P(TileAttention, OfEqualScoresIsTheMean) {
  for (float score : {0.0f, 3e3f, -3e3f}) {
    const int64_t keys = 256, dims = 16;
    TileAttentionProblem problem({5, keys}, shapeOf(GetParam(), dims), 1);
    Random random(1);
    double sums[dims] = {};
    for (int64_t query = 0; query < 5; ++query)
      for (int64_t dim = 0; dim < dims; ++dim)
        problem.setQ(query, 0, dim, dim == 0 ? score : 0);
    for (int64_t key = 0; key < keys; ++key)
      for (int64_t dim = 0; dim < dims; ++dim) {
        const float value = std::rint(100 * random.uniform());
        problem.setK(key, dim, 1);
        problem.setV(key, dim, value);
        sums[dim] += value;
      }
    problem.packSlowly();
    problem.run(GetParam(), *kernelOf(problem.shape));
    for (int64_t query = 0; query < 5; ++query)
      for (int64_t dim = 0; dim < dims; ++dim)
        ASSERT_NEAR(problem.result(query, 0, dim), sums[dim] / keys,
                    GetParam().arithmetic == Arithmetic::Bf16x3 ? 2e-3 : 1e-5);
  }
}

// Probabilities would leave the range of f32 without offsets. Rows of the tile
// differ: some need none.
TEST_P(TileAttention, FollowsScoresThatRiseOrFall) {
  for (float slope : {0.01f, -0.01f, 0.4f, -0.4f})
    for (int64_t keys : {400, 5000}) {
      TileAttentionProblem problem({40, keys}, shapeOf(GetParam(), 64), 1);
      for (int64_t query = 0; query < 40; ++query)
        problem.setQ(query, 0, 0, float(query % 5) * 8);
      for (int64_t key = 0; key < keys; ++key)
        problem.setK(key, 0, slope * float(key));
      problem.packSlowly();
      problem.run(GetParam(), *kernelOf(problem.shape));
      expectWithinBounds(problem);
    }
}

TEST_P(TileAttention, PicksTheLargestOfScoresFarApart) {
  for (float magnitude : {1e2f, 1e4f, 1e6f})
    for (int64_t keys : {150, 4500}) {
      const int64_t best = keys * 2 / 3;
      TileAttentionProblem problem({3, keys}, shapeOf(GetParam(), 4), 1);
      for (int64_t query = 0; query < 3; ++query)
        for (int64_t dim = 0; dim < 4; ++dim)
          problem.setQ(query, 0, dim, query == 1 ? -magnitude : magnitude);
      for (int64_t key = 0; key < keys; ++key)
        for (int64_t dim = 0; dim < 4; ++dim)
          problem.setK(key, dim, key == best ? 1.0f : key == 5 ? -1.0f : 0.25f);
      problem.packSlowly();
      problem.run(GetParam(), *kernelOf(problem.shape));
      ASSERT_TRUE(problem.gapsUntouched(0, 3));
      for (int64_t query = 0; query < 3; ++query)
        for (int64_t dim = 0; dim < 4; ++dim) {
          const double value = problem.value(query == 1 ? 5 : best, dim);
          ASSERT_NEAR(problem.result(query, 0, dim), value,
                      0x1p-14 * std::fabs(value))
              << magnitude << ", " << keys << " keys: query " << query;
        }
    }
}

// All scores are far below 0, those of the masked keys are not.
TEST_P(TileAttention, LeavesOutMaskedKeysOfVerySmallScores) {
  for (float magnitude : {1e2f, 1e4f, 1e7f, 1e12f}) {
    AttentionShape shape = shapeOf(GetParam(), 8);
    for (int64_t window : {-1, 3}) {
      shape.window = window;
      TileAttentionProblem problem({37, 37}, shape, 1);
      for (int64_t query = 0; query < 37; ++query)
        problem.setQ(query, 0, 0, -magnitude);
      for (int64_t key = 0; key < 37; ++key)
        problem.setK(key, 0, 1.0f);
      problem.packSlowly();
      problem.run(GetParam(), *kernelOf(problem.shape));
      expectWithinBounds(problem);
    }
  }
}

TEST_P(TileAttention, IsNaNWhereAQueryIs) {
  AttentionShape shape = shapeOf(GetParam(), 32);
  for (int64_t window : {-1, 20}) {
    shape.window = window;
    TileAttentionProblem problem({3, 50}, shape, 1);
    problem.setQ(1, 0, 3, std::nanf(""));
    problem.packSlowly();
    problem.run(GetParam(), *kernelOf(problem.shape));
    for (int64_t query = 0; query < 3; ++query)
      for (int64_t dim = 0; dim < 32; ++dim)
        EXPECT_EQ(std::isnan(problem.result(query, 0, dim)), query == 1);
  }
}

// One query of each tile needs an offset; that must not be seen in the others,
// nor in how queries are cut into calls.
TEST_P(TileAttention, GivesTheSameBitsForEverySplitOfQueries) {
  for (int64_t window : {-1, 40})
    for (int64_t keys : {333, 2500}) {
      AttentionShape shape = shapeOf(GetParam(), 64);
      shape.queryHeads = 2;
      shape.window = window;
      const int64_t queries = 299;
      const Size size{queries, keys, 10};
      TileAttentionProblem whole(size, shape, 4), parts(size, shape, 4);
      for (TileAttentionProblem *problem : {&whole, &parts}) {
        for (int64_t query = 7; query < queries; query += 41)
          for (int64_t dim = 0; dim < 64; ++dim)
            problem->setQ(query, 1, dim, 300);
        problem->packSlowly();
      }
      auto kernel = kernelOf(whole.shape);
      whole.run(GetParam(), *kernel);
      expectWithinBounds(whole);
      for (int64_t atMost : {1, 2, 15, 16, 17, 31, 32, 33, 100, 256}) {
        parts.out.reset();
        for (int64_t query = 0; query < queries; query += atMost)
          parts.run(GetParam(), *kernel, query,
                    std::min(atMost, queries - query));
        ASSERT_TRUE(sameBits(whole.out, parts.out)) << "at most " << atMost;
      }
    }
}

// There is nothing where these rows would be: they are fetched, not read.
TEST_P(TileAttention, GivesTheSameBitsWhateverLiesAhead) {
  for (int64_t window : {-1, 0, 40, 100})
    for (Size size : {Size{300, 333, 10}, Size{40, 20, 90}}) {
      AttentionShape shape = shapeOf(GetParam(), 64);
      shape.window = window;
      TileAttentionProblem alone(size, shape, 5), ahead(size, shape, 5);
      ahead.ahead = 1 << 20;
      auto kernel = kernelOf(alone.shape);
      for (TileAttentionProblem *problem : {&alone, &ahead}) {
        problem->packSlowly();
        problem->run(GetParam(), *kernel);
      }
      ASSERT_TRUE(sameBits(alone.out, ahead.out)) << "window " << window;
    }
}

// Real layers: scores of a standard deviation of 1.5, values around a mean.
TEST_P(TileAttention, IsAsExactAsItsArithmetic) {
  const int64_t n = 512, dims = 64;
  TileAttentionProblem problem({n, n}, shapeOf(GetParam(), dims), 5);
  Random random(7);
  const auto normal = [&] {
    float sum = 0;
    for (int i = 0; i < 12; ++i)
      sum += random.uniform();
    return sum / 2;
  };
  for (int64_t row = 0; row < n; ++row)
    for (int64_t dim = 0; dim < dims; ++dim) {
      problem.setQ(row, 0, dim, 1.5f * normal());
      problem.setK(row, dim, normal());
      problem.setV(row, dim, normal());
    }
  problem.packSlowly();
  problem.run(GetParam(), *kernelOf(problem.shape));
  double error = 0, square = 0, product = 0, resultSquare = 0;
  for (int64_t query = 0; query < n; ++query) {
    const auto expected = problem.expected(query, 0);
    for (int64_t dim = 0; dim < dims; ++dim) {
      const double value = expected.values[dim];
      const double result = problem.result(query, 0, dim);
      error += (result - value) * (result - value);
      square += value * value;
      product += value * result;
      resultSquare += result * result;
    }
  }
  const double relative = std::sqrt(error / square);
  const double cosine = product / std::sqrt(square * resultSquare);
  RecordProperty("relative_error", std::to_string(relative));
  std::printf("%s: relative error %.3g, 1 - cosine %.3g\n", GetParam().name,
              relative, 1 - cosine);
  EXPECT_GE(cosine, 0.9999);
  const double limit = GetParam().arithmetic == Arithmetic::Bf16     ? 7e-3
                       : GetParam().arithmetic == Arithmetic::Bf16x3 ? 2e-5
                                                                     : 1e-6;
  EXPECT_LE(relative, limit);
}

// Rounding and denormal numbers are the kernel's own, and the caller's again
// when it returns.
TEST_P(TileAttention, GivesTheSameBitsWhateverTheCallersRounding) {
  const AttentionShape shape = shapeOf(GetParam(), 64);
  TileAttentionProblem expected({40, 100}, shape, 1),
      actual({40, 100}, shape, 1);
  auto kernel = kernelOf(expected.shape);
  for (TileAttentionProblem *problem : {&expected, &actual})
    problem->packSlowly();
  expected.run(GetParam(), *kernel);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  actual.run(GetParam(), *kernel);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_TRUE(sameBits(expected.out, actual.out));
}

TEST_P(TileAttention, IsAssembledToEqualBytesTwice) {
  TileAttentionProblem problem({1, 1}, shapeOf(GetParam(), 40), 1);
  std::vector<uint8_t> first, second;
  std::string error;
  ASSERT_TRUE(generateAttention(GetParam(), problem.shape, first, error));
  ASSERT_TRUE(generateAttention(GetParam(), problem.shape, second, error));
  EXPECT_EQ(first, second);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, TileAttention,
    testing::ValuesIn(tileRows(KernelFamily::TileAttention)), rowName);

class AttentionPacking : public KernelTest {
protected:
  static void check(Size size, const AttentionShape &shape, int64_t rows) {
    TileAttentionProblem expected(size, shape, 2), actual(size, shape, 2);
    expected.packSlowly();
    actual.pack(*attentionKernel(GetParam(), actual.shape), rows);
    ASSERT_TRUE(sameBits(expected.packedK, actual.packedK))
        << "keys: " << size.keys << ", head size " << shape.headSize;
    ASSERT_TRUE(sameBits(expected.packedV, actual.packedV))
        << "values: " << size.keys << ", head size " << shape.headSize;
    ASSERT_TRUE(actual.gapsUntouched(0, 0));
  }
};

TEST_P(AttentionPacking, FillsUpEveryNumberOfTokensWithZeros) {
  for (int64_t keys = 1; keys <= 97; ++keys)
    check({1, keys}, shapeOf(GetParam(), 40), 1024);
}

TEST_P(AttentionPacking, PacksEveryHeadSize) {
  for (int64_t headSize = 1; headSize <= 256; ++headSize)
    check({1, 45}, shapeOf(GetParam(), headSize), 1024);
}

TEST_P(AttentionPacking, PacksRowsOfWiderSlots) {
  AttentionShape shape = shapeOf(GetParam(), 33);
  shape.kvPlaneStride = 200;
  shape.ldkv = 1000;
  check({1, 70}, shape, 1024);
}

TEST_P(AttentionPacking, GivesTheSameForEverySplitOfTokens) {
  for (int64_t rows : {1, 2, 13, 31, 32, 33, 64, 96, 100})
    check({1, 300}, shapeOf(GetParam(), 64), rows);
}

// Far behind the first token, rows are written past the caches.
TEST_P(AttentionPacking, PacksLongSequences) {
  for (int64_t rows : {100, 256, 4096})
    check({1, 2345}, shapeOf(GetParam(), 64), rows);
}

TEST_P(AttentionPacking, HasRowsOfAMultipleOf64Bytes) {
  for (int64_t headSize = 1; headSize <= 256; ++headSize) {
    const AttentionShape shape = shapeOf(GetParam(), headSize);
    EXPECT_EQ(packedRowBytes(shape) % 64, 0);
    EXPECT_GE(packedRowBytes(shape),
              2 * headSize * activationPlanes(shape.arithmetic));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, AttentionPacking,
    testing::ValuesIn(tileRows(KernelFamily::AttentionPack)), rowName);

} // namespace
