//===- KernelTesting.h - running kernels on guarded memory ------*- C++ -*-===//
///
/// \file
/// What the tests and benchmarks of kernels share: machine code made
/// executable, buffers with guards, and linear problems. The includer needs
/// no gtest.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_CODEGEN_KERNELS_KERNELTESTING_H
#define ENCAST_TEST_CODEGEN_KERNELS_KERNELTESTING_H

#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

namespace encast {

/// Machine code in executable pages of its own.
class ExecutableCode {
public:
  explicit ExecutableCode(const std::vector<uint8_t> &code);
  ~ExecutableCode();
  ExecutableCode(const ExecutableCode &) = delete;
  ExecutableCode &operator=(const ExecutableCode &) = delete;

  /// Calls the kernel at the first byte.
  void operator()(const void *args) const;
  /// Same; ends the program if the kernel changed a register that belongs to
  /// its caller.
  void callChecked(const void *args) const;

private:
  const size_t size;
  unsigned char *const pages;
  unsigned char *const entry;
};

/// Floats whose last one ends at a page that must not be touched; the bytes
/// from the page before to the first float hold a pattern, and so do all
/// floats at first.
class GuardedFloats {
public:
  explicit GuardedFloats(int64_t count = 0);
  ~GuardedFloats();
  GuardedFloats(const GuardedFloats &) = delete;
  GuardedFloats &operator=(const GuardedFloats &) = delete;

  float *data() { return first; }
  const float *data() const { return first; }
  int64_t size() const { return count; }
  float &operator[](int64_t i) { return first[i]; }
  float operator[](int64_t i) const { return first[i]; }

  /// True if this float still holds the pattern.
  bool untouched(int64_t i) const;
  /// True if the bytes in front of the first float hold the pattern.
  bool frontUntouched() const;
  /// Makes everything as new.
  void reset();

private:
  unsigned char *pages;
  size_t pageBytes;
  float *first;
  int64_t count;
};

/// Calls a kernel, checked, with a workspace of NaNs as its argument; ends the
/// program if the kernel writes in front of that.
template <typename Args>
void callWithWorkspace(const ExecutableCode &kernel, Args &args,
                       int64_t bytes) {
  GuardedFloats workspace(bytes / int64_t(sizeof(float)));
  std::fill_n(workspace.data(), workspace.size(),
              std::numeric_limits<float>::quiet_NaN());
  args.workspace = workspace.data();
  kernel.callChecked(&args);
  if (!workspace.frontUntouched())
    std::abort();
}

/// Reproducible numbers in [-1, 1), the same on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 2 + 1) {}
  uint32_t next();
  float uniform();

private:
  uint64_t state;
};

/// C = epilogue(A * B) with all of its operands.
class LinearProblem {
public:
  struct Size {
    int64_t rows = 1, panels = 1;
    bool panelMajor = false; ///< ldc = 16, panels `rows` rows apart
  };
  /// Fills the operands with random numbers.
  LinearProblem(Size size, const LinearShape &shape, uint64_t seed);

  /// Columns of c and of the residual that a panel makes.
  int64_t resultColumns() const {
    return shape.gated ? kPanelColumns / 2 : kPanelColumns;
  }
  int64_t columns() const { return size.panels * resultColumns(); }
  /// A weight; one in bf16 is rounded to the nearest.
  void setB(int64_t k, int64_t column, float value);
  float b(int64_t k, int64_t column) const;
  /// Index in `c` of an element.
  int64_t cIndex(int64_t row, int64_t column) const;
  /// Makes `c` as new: sums to start from if it accumulates, else a pattern.
  void resetC();

  /// Runs the kernel on a range of rows and panels, writing into `c`.
  void run(const KernelRow &row, const ExecutableCode &kernel, int64_t firstRow,
           int64_t rows, int64_t firstPanel, int64_t panels);
  void run(const KernelRow &row, const ExecutableCode &kernel) {
    run(row, kernel, 0, size.rows, 0, size.panels);
  }

  /// What the contract says of the bits, without activation: a chain of fused
  /// multiply-adds, then the bias, gated the product of both halves, then the
  /// residual.
  float expectedBits(int64_t row, int64_t column) const;
  /// The same of a column of the panels, before gates and residual.
  float expectedSum(int64_t row, int64_t panelColumn) const;
  /// The exact sum of products.
  double exactSum(int64_t row, int64_t column) const;
  /// The sum of the absolute values of the products.
  double absoluteSum(int64_t row, int64_t column) const;

  const Size size;
  const LinearShape shape;
  GuardedFloats a, packedB, c, bias, residual; ///< packedB: or pairs of bf16.

private:
  /// Index in packedB of what holds a weight.
  int64_t bIndex(int64_t k, int64_t column) const;

  std::vector<float> firstSums; ///< That c holds when it accumulates.
};

/// out = softmax(q k^T * scale) v of the query heads that share one head of
/// keys and values, with all of its operands. Query 0 has position `position`.
class AttentionProblem {
public:
  struct Size {
    int64_t queries = 1, keys = 1;
    int64_t slotRows = 0; ///< rows of a plane; at least queries and keys
    int64_t position = 0; ///< of the first query among the keys
  };
  /// Fills the operands with random numbers.
  AttentionProblem(Size size, const AttentionShape &shape, uint64_t seed);

  int64_t planes() const {
    return (shape.headSize + kPanelColumns - 1) / kPanelColumns;
  }
  /// Index in q, k or v of an element; of q, of the given head.
  int64_t index(int64_t row, int64_t dim, int64_t head = 0) const {
    const int64_t plane = head * planes() + dim / kPanelColumns;
    return (plane * size.slotRows + row) * kPanelColumns + dim % kPanelColumns;
  }
  /// Index in out of an element.
  int64_t outIndex(int64_t query, int64_t dim, int64_t head = 0) const {
    return query * shape.ldo + head * shape.headSize + dim;
  }
  /// True if the query attends to the key.
  bool sees(int64_t query, int64_t key) const;

  /// Runs the kernel on a range of queries, writing into `out`.
  void run(const KernelRow &row, const ExecutableCode &kernel,
           int64_t firstQuery, int64_t queries);
  void run(const KernelRow &row, const ExecutableCode &kernel) {
    run(row, kernel, 0, size.queries);
  }

  /// An output row in double, and a bound for its error in f32.
  struct Expected {
    std::vector<double> values, bounds;
  };
  Expected expected(int64_t query, int64_t head = 0) const;

  const Size size;
  const AttentionShape shape;
  GuardedFloats q, k, v, out;
};

} // namespace encast

#endif // ENCAST_TEST_CODEGEN_KERNELS_KERNELTESTING_H
