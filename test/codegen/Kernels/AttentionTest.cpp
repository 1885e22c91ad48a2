//===- AttentionTest.cpp - every attention kernel against double ----------===//

#include "KernelTest.h"

#include <cmath>
#include <cstring>

using namespace encast;

namespace {

class Attention : public KernelTest {
protected:
  static AttentionShape shapeOf(int64_t headSize) {
    AttentionShape shape;
    shape.headSize = shape.ldo = headSize;
    shape.scale = float(1 / std::sqrt(double(headSize)));
    return shape;
  }

  /// Every output row is within its bound, and nothing else was written.
  static void expectWithinBounds(const AttentionProblem &problem) {
    for (int64_t query = 0; query < problem.size.queries; ++query) {
      const AttentionProblem::Expected expected = problem.expected(query);
      for (int64_t dim = 0; dim < problem.shape.headSize; ++dim)
        ASSERT_NEAR(problem.out[query * problem.shape.ldo + dim],
                    expected.values[dim], expected.bounds[dim])
            << problem.size.queries << " queries, " << problem.size.keys
            << " keys, head size " << problem.shape.headSize << ": query "
            << query << ", dim " << dim;
    }
    for (int64_t i = 0; i < problem.out.size(); ++i)
      ASSERT_TRUE(i % problem.shape.ldo < problem.shape.headSize ||
                  problem.out.untouched(i));
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

TEST_P(Attention, GivesTheSameBitsForEverySplitOfQueries) {
  const AttentionShape shape = shapeOf(24);
  auto kernel = attentionKernel(GetParam(), shape);
  const int64_t queries = 3 * GetParam().rowTile + 7;
  AttentionProblem whole({queries, 333}, shape, 4),
      parts({queries, 333}, shape, 4);
  whole.run(GetParam(), *kernel);
  for (int64_t atMost : {1, 2, 7, 8, 9, 16, 17, 24, 40, 48, 100}) {
    parts.out.reset();
    for (int64_t query = 0; query < queries; query += atMost)
      parts.run(GetParam(), *kernel, query, std::min(atMost, queries - query));
    ASSERT_TRUE(sameBits(whole.out, parts.out)) << "at most " << atMost;
  }
}

TEST_P(Attention, GivesTheSameBitsAsTheOtherRowsOfItsFamily) {
  for (int64_t headSize : {1, 17, 32, 64, 100})
    for (int64_t keys : {1, 5, 64, 77, 300}) {
      AttentionShape shape = shapeOf(headSize);
      shape.scale *= 30; // scores far enough apart for very small terms
      AttentionProblem expected({53, keys}, shape, 2),
          actual({53, keys}, shape, 2);
      expected.run(GetParam(), *attentionKernel(GetParam(), shape));
      for (const KernelRow &other : rowsOfFamily(KernelFamily::Attention)) {
        if (other.cpuFeatures & ~hostFeatures())
          continue;
        actual.run(other, *attentionKernel(other, shape));
        EXPECT_TRUE(sameBits(expected.out, actual.out))
            << other.name << ", head size " << headSize << ", " << keys
            << " keys";
      }
    }
}

TEST_P(Attention, IsAssembledToEqualBytesTwice) {
  std::vector<uint8_t> first, second;
  std::string error;
  ASSERT_TRUE(generateAttention(GetParam(), shapeOf(40), first, error));
  ASSERT_TRUE(generateAttention(GetParam(), shapeOf(40), second, error));
  EXPECT_EQ(first, second);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, Attention,
    testing::ValuesIn(rowsOfFamily(KernelFamily::Attention)), rowName);

} // namespace
