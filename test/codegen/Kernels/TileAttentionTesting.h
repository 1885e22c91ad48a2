//===- TileAttentionTesting.h - running attention on tiles ------*- C++ -*-===//
///
/// \file
/// Attention problems of bf16 planes, for tests and benchmarks. The includer
/// needs no gtest.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_CODEGEN_KERNELS_TILEATTENTIONTESTING_H
#define ENCAST_TEST_CODEGEN_KERNELS_TILEATTENTIONTESTING_H

#include "KernelTesting.h"
#include "codegen/Kernels/Kernels.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace encast {

/// The query heads that share a head of keys and values, over one sequence,
/// with all of its operands.
class TileAttentionProblem {
public:
  struct Size {
    int64_t queries = 1, keys = 1;
    int64_t position = 0; ///< Of the first query.
  };
  /// Fills the operands with random numbers. `shape` has a bf16 arithmetic; its
  /// strides are set for dense rows where they are 0.
  TileAttentionProblem(Size size, const AttentionShape &shape, uint64_t seed);

  /// Set an operand, and its planes, to a value.
  void setQ(int64_t query, int64_t head, int64_t dim, float value);
  void setK(int64_t key, int64_t dim, float value);
  void setV(int64_t key, int64_t dim, float value);

  /// The sum of the planes of a value.
  double value(int64_t key, int64_t dim) const {
    return vValues[key * shape.headSize + dim];
  }

  /// Runs the packing kernel in calls of at most `rows` tokens, a multiple of
  /// 32.
  void pack(const ExecutableCode &kernel, int64_t rows);
  /// Packs as a plain loop over the elements does; works on any machine.
  void packSlowly();
  /// Runs the kernel on a range of queries, writing into `out`.
  void run(const KernelRow &row, const ExecutableCode &kernel,
           int64_t firstQuery, int64_t queries);
  void run(const KernelRow &row, const ExecutableCode &kernel) {
    run(row, kernel, 0, size.queries);
  }
  /// Runs the kernel on all queries, writing over them.
  void runOverQueries(const KernelRow &row, const ExecutableCode &kernel);

  /// What `out` holds; of planes their sum.
  double result(int64_t query, int64_t head, int64_t dim) const;
  /// True if nothing but the results of `queries` was written.
  bool gapsUntouched(int64_t firstQuery, int64_t queries) const;

  /// A result of a head in double, and a bound for its error.
  struct Expected {
    std::vector<double> values, bounds;
  };
  Expected expected(int64_t query, int64_t head) const;

  /// The results of a head as floats, bit for bit: the operations of the kernel
  /// one after the other, with tileSum for products of tiles.
  std::vector<float> expectedBits(int64_t query, int64_t head) const;

  int64_t packedFloats() const;

  const Size size;
  const AttentionShape shape;
  int64_t ahead = 0; ///< TileAttentionArgs::ahead of runs.
  GuardedFloats q, k, v, packedK, packedV, out;

private:
  void run(const KernelRow &row, const ExecutableCode &kernel, int64_t position,
           int64_t queries, const uint16_t *firstQuery, void *firstOut);
  int64_t outElement(int64_t query, int64_t column, int64_t plane) const {
    return query * shape.ldo + plane * shape.outPlaneStride + column;
  }
  /// Keys that the query sees, from the first one to behind the last one.
  std::pair<int64_t, int64_t> seenKeys(int64_t query) const;
  float scoreBits(int64_t query, int64_t head, int64_t key) const;

  std::vector<double> qValues, kValues, vValues; // sums of their planes
};

} // namespace encast

#endif // ENCAST_TEST_CODEGEN_KERNELS_TILEATTENTIONTESTING_H
