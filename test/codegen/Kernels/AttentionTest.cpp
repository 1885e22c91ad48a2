//===- AttentionTest.cpp - every attention kernel against double ----------===//

#include "KernelTest.h"

#include <cmath>
#include <cstring>

using namespace encast;

namespace {

class Attention : public KernelTest {
protected:
  static AttentionShape shapeOf(int64_t headSize, int64_t queryHeads = 1,
                                int64_t window = -1) {
    AttentionShape shape;
    shape.headSize = headSize;
    shape.queryHeads = queryHeads;
    shape.window = window;
    shape.ldo = queryHeads * headSize;
    shape.scale = float(1 / std::sqrt(double(headSize)));
    return shape;
  }

  /// Every output row is within its bound, and nothing else was written.
  static void expectWithinBounds(const AttentionProblem &problem) {
    const AttentionShape &shape = problem.shape;
    for (int64_t query = 0; query < problem.size.queries; ++query)
      for (int64_t head = 0; head < shape.queryHeads; ++head) {
        const AttentionProblem::Expected expected =
            problem.expected(query, head);
        for (int64_t dim = 0; dim < shape.headSize; ++dim)
          ASSERT_NEAR(problem.out[problem.outIndex(query, dim, head)],
                      expected.values[dim], expected.bounds[dim])
              << problem.size.queries << " queries from "
              << problem.size.position << " on, " << problem.size.keys
              << " keys, head size " << shape.headSize << ", window "
              << shape.window << ": query " << query << ", head " << head
              << ", dim " << dim;
      }
    const int64_t columns = shape.queryHeads * shape.headSize;
    for (int64_t i = 0; i < problem.out.size(); ++i)
      ASSERT_TRUE(i % shape.ldo < columns || problem.out.untouched(i));
    for (const GuardedFloats *operand :
         {&problem.q, &problem.k, &problem.v, &problem.out})
      ASSERT_TRUE(operand->frontUntouched());
  }

  static bool sameBits(const GuardedFloats &x, const GuardedFloats &y) {
    return x.size() == y.size() &&
           std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  }

  /// Runs the problem on the row at hand and checks it.
  static void check(AttentionProblem::Size size, const AttentionShape &shape) {
    AttentionProblem problem(size, shape, size.queries + size.keys);
    problem.run(GetParam(), *attentionKernel(GetParam(), shape));
    expectWithinBounds(problem);
  }
};

TEST_P(Attention, ComputesEveryNumberOfQueries) {
  for (int64_t queries = 1; queries <= 2 * GetParam().rowTile + 1; ++queries)
    check({queries, 21}, shapeOf(20));
}

TEST_P(Attention, ComputesEveryNumberOfKeys) {
  for (int64_t queries : {1, GetParam().rowTile * 2 / 3, GetParam().rowTile}) {
    for (int64_t keys = 1; keys <= 2 * kAttentionKeyBlock + 1; ++keys)
      check({queries, keys}, shapeOf(8));
    check({queries, 1000}, shapeOf(8));
  }
}

TEST_P(Attention, ComputesEveryHeadSize) {
  for (int64_t headSize = 1; headSize <= 256; ++headSize)
    check({GetParam().rowTile + 1 + headSize % GetParam().rowTile, 9},
          shapeOf(headSize));
}

TEST_P(Attention, ReadsPlanesOfALargerSlot) {
  check({13, 70, /*slotRows=*/500}, shapeOf(40));
}

TEST_P(Attention, LeavesTheGapsOfWideRowsUntouched) {
  for (int64_t headSize : {1, 2, 3, 4, 30, 32}) {
    AttentionShape shape = shapeOf(headSize);
    shape.ldo += 7;
    check({GetParam().rowTile + 3, 33}, shape);
  }
}

// With one key the softmax is exactly 1.
TEST_P(Attention, OfOneKeyIsItsValue) {
  const AttentionShape shape = shapeOf(48);
  AttentionProblem problem({GetParam().rowTile + 5, 1}, shape, 1);
  problem.run(GetParam(), *attentionKernel(GetParam(), shape));
  for (int64_t query = 0; query < problem.size.queries; ++query)
    for (int64_t dim = 0; dim < shape.headSize; ++dim)
      ASSERT_EQ(problem.out[query * shape.ldo + dim],
                problem.v[problem.index(0, dim)]);
}

// Equal scores give the mean, exact on small integers and 2^n keys.
TEST_P(Attention, OfEqualScoresIsTheMean) {
  const AttentionShape shape = shapeOf(16);
  AttentionProblem problem({5, 256}, shape, 1);
  double sums[16] = {};
  for (int64_t key = 0; key < 256; ++key)
    for (int64_t dim = 0; dim < 16; ++dim) {
      problem.k[problem.index(key, dim)] = 1;
      float &value = problem.v[problem.index(key, dim)];
      value = std::rint(100 * value);
      sums[dim] += value;
    }
  problem.run(GetParam(), *attentionKernel(GetParam(), shape));
  for (int64_t query = 0; query < 5; ++query)
    for (int64_t dim = 0; dim < 16; ++dim)
      ASSERT_EQ(double(problem.out[query * shape.ldo + dim]), sums[dim] / 256);
}

// The maximum grows in every block of keys, or only in the first one.
TEST_P(Attention, FollowsScoresThatRiseOrFall) {
  for (float slope : {0.2f, -0.2f}) {
    const AttentionShape shape = shapeOf(8);
    AttentionProblem problem({GetParam().rowTile, 400}, shape, 1);
    for (int64_t query = 0; query < problem.size.queries; ++query)
      problem.q[problem.index(query, 0)] = float(query % 5);
    for (int64_t key = 0; key < 400; ++key)
      problem.k[problem.index(key, 0)] = slope * float(key);
    problem.run(GetParam(), *attentionKernel(GetParam(), shape));
    expectWithinBounds(problem);
  }
}

// Scores thousands apart, where exp2 would leave the range of f32.
TEST_P(Attention, PicksTheLargestOfScoresFarApart) {
  const AttentionShape shape = shapeOf(4);
  AttentionProblem problem({3, 150}, shape, 1);
  for (int64_t query = 0; query < 3; ++query)
    for (int64_t dim = 0; dim < 4; ++dim)
      problem.q[problem.index(query, dim)] = query == 1 ? -1e6f : 1e6f;
  for (int64_t key = 0; key < 150; ++key)
    for (int64_t dim = 0; dim < 4; ++dim)
      problem.k[problem.index(key, dim)] = float((key * 7) % 150);
  problem.run(GetParam(), *attentionKernel(GetParam(), shape));
  for (int64_t query = 0; query < 3; ++query) {
    int64_t best = 0;
    while ((best * 7) % 150 != (query == 1 ? 0 : 149))
      ++best;
    for (int64_t dim = 0; dim < 4; ++dim)
      ASSERT_EQ(problem.out[query * shape.ldo + dim],
                problem.v[problem.index(best, dim)]);
  }
}

// Blocks that begin with any head of a query, and groups of any size.
TEST_P(Attention, ComputesEveryNumberOfQueryHeads) {
  const int64_t group = kAttentionQueryGroup;
  for (int64_t heads : {2, 3, 4, 5, 7})
    for (int64_t queries :
         {int64_t(1), int64_t(2), GetParam().rowTile / heads,
          GetParam().rowTile / heads + 1, group / heads + 5}) {
      AttentionShape shape = shapeOf(20, heads);
      shape.ldo += 3;
      check({queries, 150, /*slotRows=*/300}, shape);
    }
}

TEST_P(Attention, OfQueryHeadsHasTheBitsOfEachHeadAlone) {
  for (int64_t window : {-1, 30}) {
    const AttentionShape shape = shapeOf(40, 3, window);
    AttentionShape single = shapeOf(40, 1, window);
    const int64_t queries = 77;
    AttentionProblem together({queries, 200, 0, 60}, shape, 3),
        alone({queries, 200, 0, 60}, single, 3);
    together.run(GetParam(), *attentionKernel(GetParam(), shape));
    std::memcpy(alone.k.data(), together.k.data(),
                alone.k.size() * sizeof(float));
    std::memcpy(alone.v.data(), together.v.data(),
                alone.v.size() * sizeof(float));
    auto kernel = attentionKernel(GetParam(), single);
    for (int64_t head = 0; head < shape.queryHeads; ++head) {
      for (int64_t query = 0; query < queries; ++query)
        for (int64_t dim = 0; dim < 40; ++dim)
          alone.q[alone.index(query, dim)] =
              together.q[together.index(query, dim, head)];
      alone.run(GetParam(), *kernel);
      for (int64_t query = 0; query < queries; ++query)
        for (int64_t dim = 0; dim < 40; ++dim)
          ASSERT_EQ(alone.out[alone.outIndex(query, dim)],
                    together.out[together.outIndex(query, dim, head)]);
    }
  }
}

const int64_t kWindows[] = {0, 1, 63, 64, 65, 1000, 1 << 30};

// Sequences around one and two windows, blocks and tiles.
TEST_P(Attention, SeesTheKeysOfItsWindow) {
  for (int64_t window : kWindows)
    for (int64_t keys :
         {1,  2,  31,  32,  33,  47,  48,  49,  63,  64,  65,  66, 95,
          96, 97, 127, 128, 129, 130, 160, 191, 193, 255, 256, 257})
      check({keys, keys}, shapeOf(12, 1, window));
}

// Queries in the middle of a sequence, at each edge of windows and key blocks.
TEST_P(Attention, SeesTheWindowAroundItsPosition) {
  for (int64_t window : kWindows)
    for (int64_t position : {0, 1, 5, 62, 63, 64, 65, 66, 126, 127, 128, 129,
                             190, 191, 192, 193, 250, 400})
      for (int64_t queries : {1, 2, 7, 50}) {
        AttentionShape shape = shapeOf(5, 1 + queries % 3, window);
        shape.ldo += 2;
        check({queries, 450, 0, position}, shape);
      }
}

// Queries around and far behind the last one that sees a key, by themselves and
// beside those that see some.
TEST_P(Attention, GivesZeroToAQueryThatSeesNoKey) {
  for (int64_t window : {0, 1, 4, 64, 100})
    for (int64_t keys : {1, 4, 31, 63, 64, 65, 128, 130}) {
      AttentionShape shape = shapeOf(12, 1 + keys % 3, window);
      shape.ldo += 2;
      auto kernel = attentionKernel(GetParam(), shape);
      const int64_t behind = keys + window; // first that sees none
      for (int64_t position : {int64_t(0), std::max<int64_t>(0, behind - 9),
                               behind - 1, behind, behind + 1, behind + 700})
        for (int64_t queries : {1, 2, 3, 19, 120}) {
          AttentionProblem whole({queries, keys, 0, position}, shape, 4),
              parts({queries, keys, 0, position}, shape, 4);
          for (int64_t key = keys; key < whole.size.slotRows; ++key)
            for (int64_t dim = 0; dim < 12; ++dim)
              whole.k[whole.index(key, dim)] = whole.v[whole.index(key, dim)] =
                  std::nanf("");
          whole.run(GetParam(), *kernel);
          expectWithinBounds(whole);
          for (int64_t query = 0; query < queries; ++query)
            parts.run(GetParam(), *kernel, query, 1);
          ASSERT_TRUE(sameBits(whole.out, parts.out))
              << "window " << window << ", " << keys << " keys, position "
              << position << ", " << queries << " queries";
        }
    }
}

TEST_P(Attention, IsNaNWhereAQueryIs) {
  for (int64_t window : {-1, 20}) {
    const AttentionShape shape = shapeOf(32, 1, window);
    AttentionProblem problem({3, 50}, shape, 1);
    problem.q[problem.index(1, 3)] = std::nanf("");
    problem.run(GetParam(), *attentionKernel(GetParam(), shape));
    for (int64_t query = 0; query < 3; ++query)
      for (int64_t dim = 0; dim < 32; ++dim)
        EXPECT_EQ(std::isnan(problem.out[problem.outIndex(query, dim)]),
                  query == 1);
  }
}

// The first keys that a block walks are masked for its last lanes.
TEST_P(Attention, GivesTheSameBitsForEveryTileOfAWindow) {
  for (int64_t window : kWindows)
    for (int64_t heads : {1, 3}) {
      AttentionShape shape = shapeOf(8, heads, window);
      shape.scale *= 30; // scores far apart, so that maxima matter
      auto kernel = attentionKernel(GetParam(), shape);
      const int64_t queries = 330;
      AttentionProblem whole({queries, 400, 0, 70}, shape, 4),
          parts({queries, 400, 0, 70}, shape, 4);
      whole.run(GetParam(), *kernel);
      expectWithinBounds(whole);
      for (int64_t atMost : {1, 2, 3, 7, 16, 31, 33, 48, 101}) {
        parts.out.reset();
        for (int64_t query = 0; query < queries; query += atMost)
          parts.run(GetParam(), *kernel, query,
                    std::min(atMost, queries - query));
        ASSERT_TRUE(sameBits(whole.out, parts.out))
            << "window " << window << ", " << heads << " heads, at most "
            << atMost;
      }
    }
}

TEST_P(Attention, OfAWindowBeyondTheSequenceHasTheBitsOfAllKeys) {
  const AttentionShape windowed = shapeOf(16, 2, 299), all = shapeOf(16, 2);
  AttentionProblem expected({300, 300}, all, 4),
      actual({300, 300}, windowed, 4);
  expected.run(GetParam(), *attentionKernel(GetParam(), all));
  actual.run(GetParam(), *attentionKernel(GetParam(), windowed));
  EXPECT_TRUE(sameBits(expected.out, actual.out));
}

// Keys beyond the window of every query are not even read.
TEST_P(Attention, ReadsNoKeysBeyondItsWindow) {
  const AttentionShape shape = shapeOf(16, 1, 64);
  AttentionProblem whole({20, 500, 0, 200}, shape, 4),
      poisoned({20, 500, 0, 200}, shape, 4);
  for (int64_t key = 0; key < 500; ++key)
    for (int64_t dim = 0; dim < 16; ++dim)
      if (key < 200 - 64 || key > 219 + 64)
        poisoned.k[poisoned.index(key, dim)] =
            poisoned.v[poisoned.index(key, dim)] = std::nanf("");
  auto kernel = attentionKernel(GetParam(), shape);
  whole.run(GetParam(), *kernel);
  poisoned.run(GetParam(), *kernel);
  EXPECT_TRUE(sameBits(whole.out, poisoned.out));
}

// A masked key is much larger than all that are seen.
TEST_P(Attention, IsNotMovedByLargeMaskedScores) {
  const AttentionShape shape = shapeOf(8, 1, 10);
  AttentionProblem plain({60, 60}, shape, 4), large({60, 60}, shape, 4);
  for (int64_t dim = 0; dim < 8; ++dim)
    large.k[large.index(30, dim)] = 1e20f;
  auto kernel = attentionKernel(GetParam(), shape);
  plain.run(GetParam(), *kernel);
  large.run(GetParam(), *kernel);
  for (int64_t query = 0; query < 60; ++query)
    for (int64_t dim = 0; dim < 8; ++dim)
      if (!plain.sees(query, 30))
        ASSERT_EQ(plain.out[plain.outIndex(query, dim)],
                  large.out[large.outIndex(query, dim)]);
}

// A second key with ever less of a probability, seen through a large value.
TEST_P(Attention, CountsProbabilitiesThatAreTooSmallAsZero) {
  AttentionShape shape = shapeOf(1);
  shape.scale = 0.693147182f; // scores are powers of two
  AttentionProblem problem({400, 2}, shape, 1);
  problem.k[problem.index(0, 0)] = 0;
  problem.k[problem.index(1, 0)] = -1;
  problem.v[problem.index(0, 0)] = 0;
  problem.v[problem.index(1, 0)] = 0x1p100f;
  const auto exponent = [](int64_t query) { return 110 + float(query) / 16; };
  for (int64_t query = 0; query < 400; ++query)
    problem.q[problem.index(query, 0)] = exponent(query);
  problem.run(GetParam(), *attentionKernel(GetParam(), shape));
  for (int64_t query = 0; query < 400; ++query) {
    const float x = exponent(query), out = problem.out[query];
    const double expected = std::exp2(100.0 - x);
    if (x < 125.5f)
      EXPECT_NEAR(out, expected, 2e-7 * expected) << x;
    else
      EXPECT_EQ(out, 0) << x;
  }
}

TEST_P(Attention, GivesTheSameBitsForEverySplitOfQueries) {
  for (int64_t heads : {1, 2, 5}) {
    const AttentionShape shape = shapeOf(24, heads);
    auto kernel = attentionKernel(GetParam(), shape);
    const int64_t queries = 3 * GetParam().rowTile + 7;
    AttentionProblem whole({queries, 333}, shape, 4),
        parts({queries, 333}, shape, 4);
    whole.run(GetParam(), *kernel);
    for (int64_t atMost : {1, 2, 7, 8, 9, 16, 17, 24, 40, 48, 100}) {
      parts.out.reset();
      for (int64_t query = 0; query < queries; query += atMost)
        parts.run(GetParam(), *kernel, query,
                  std::min(atMost, queries - query));
      ASSERT_TRUE(sameBits(whole.out, parts.out))
          << heads << " heads, at most " << atMost;
    }
  }
}

TEST_P(Attention, GivesTheSameBitsAsTheOtherRowsOfItsFamily) {
  for (int64_t headSize : {1, 17, 32, 64, 100})
    for (int64_t keys : {1, 5, 64, 77, 300})
      for (int64_t window : {-1, 0, 20, 64}) {
        AttentionShape shape = shapeOf(headSize, 2, window);
        shape.scale *= 30; // scores far enough apart for very small terms
        const int64_t queries = window < 0 ? 53 : keys;
        AttentionProblem expected({queries, keys}, shape, 2),
            actual({queries, keys}, shape, 2);
        expected.run(GetParam(), *attentionKernel(GetParam(), shape));
        for (const KernelRow &other : rowsOfFamily(KernelFamily::Attention)) {
          if (other.cpuFeatures & ~hostFeatures())
            continue;
          actual.run(other, *attentionKernel(other, shape));
          EXPECT_TRUE(sameBits(expected.out, actual.out))
              << other.name << ", head size " << headSize << ", " << keys
              << " keys, window " << window;
        }
      }
}

TEST_P(Attention, IsAssembledToEqualBytesTwice) {
  for (int64_t window : {-1, 64}) {
    const AttentionShape shape = shapeOf(40, 2, window);
    std::vector<uint8_t> first, second;
    std::string error;
    ASSERT_TRUE(generateAttention(GetParam(), shape, first, error));
    ASSERT_TRUE(generateAttention(GetParam(), shape, second, error));
    EXPECT_EQ(first, second);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Attention,
    testing::ValuesIn(rowsOfFamily(KernelFamily::Attention)), rowName);

} // namespace
