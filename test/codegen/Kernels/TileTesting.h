//===- TileTesting.h - running kernels that use tiles -----------*- C++ -*-===//
///
/// \file
/// What tests and benchmarks of tile kernels share: the configuration of tiles,
/// a model of their arithmetic that has the same bits, and linear problems. All
/// but the configuration works on any machine. The includer needs no gtest.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_CODEGEN_KERNELS_TILETESTING_H
#define ENCAST_TEST_CODEGEN_KERNELS_TILETESTING_H

#include "KernelTesting.h"
#include "codegen/Kernels/Kernels.h"

#include <cstdint>
#include <vector>

namespace encast {

/// Asks the system for the right of this process to use tiles, once. False if
/// it refuses, or if the machine has none.
bool mayUseTiles();

/// Tiles of this thread as kernels expect them, palette 1 with eight tiles of
/// 16 rows of 64 bytes, until the object ends. Ends the program if it may not
/// use tiles.
class TileScope {
public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope &) = delete;
  TileScope &operator=(const TileScope &) = delete;

  /// True if the configuration is still as it was made.
  bool unchanged() const;
};

/// To the nearest bf16, ties to even; denormal numbers to zero, a NaN stays
/// one: what vcvtneps2bf16 does.
uint16_t roundToBf16(float value);
float bf16Value(uint16_t bits);
/// The planes of a value, the first one first.
std::vector<uint16_t> planesOf(float value, int planes);

/// `sum` plus a row of 32 times a column of 32, as tdpbf16ps adds them: a chain
/// of fused multiply-adds over the even elements and one over the odd ones,
/// both from zero, then their sum, then `sum` plus that. Denormal operands and
/// results are zero everywhere.
float tileSum(float sum, const uint16_t *row, const uint16_t *column);

/// The same as vdpbf16ps adds them: one chain of fused multiply-adds from `sum`
/// on, of each two elements the odd one first.
float dotSum(float sum, const uint16_t *row, const uint16_t *column);

/// A linear problem of bf16 planes with all of its operands.
class TileLinearProblem {
public:
  /// Fills the operands with random numbers. `shape` has a bf16 arithmetic; its
  /// strides are set for dense rows where they are 0.
  TileLinearProblem(const KernelRow &kernel, int64_t rows, int64_t panels,
                    const LinearShape &shape, uint64_t seed);

  /// Of the panels.
  int64_t columns() const { return panels * kPanelColumns; }
  int64_t resultColumns() const {
    return shape.gated ? columns() / 2 : columns();
  }
  /// Sets an operand and its planes.
  void setA(int64_t row, int64_t k, float value);
  void setB(int64_t column, int64_t k, float value);
  /// Makes `c` as new: sums to start from if it accumulates, else a pattern.
  void resetC();

  /// Runs the kernel on a range of rows and panels, writing into `c`.
  void run(const ExecutableCode &code, int64_t firstRow, int64_t rows,
           int64_t firstPanel, int64_t panels);
  void run(const ExecutableCode &code) { run(code, 0, rows, 0, panels); }

  /// A result, or one plane of it, as c holds it.
  float result(int64_t row, int64_t column) const;
  uint16_t result(int64_t row, int64_t column, int plane) const;
  /// True if `c` holds the pattern everywhere but in results, and in front of
  /// all operands there is the pattern.
  bool gapsUntouched() const;

  /// What the contract says of the bits of a column of the panels, before
  /// anything is added to it.
  float expectedSum(int64_t row, int64_t column) const;
  /// The bits of a result, with `activated` in place of the activation.
  float expectedResult(int64_t row, int64_t column,
                       float (*activated)(float) = nullptr) const;
  /// The exact sum of products, and that of their absolute values.
  double exactSum(int64_t row, int64_t column) const;
  double absoluteSum(int64_t row, int64_t column) const;

  const KernelRow &kernel;
  const int64_t rows, panels;
  const LinearShape shape;
  std::vector<float> aValues; ///< [rows][k]
  std::vector<float> bValues; ///< [columns][k]
  GuardedFloats a, packedB, c, bias, residual, workspace;
  const void *ahead = nullptr; ///< LinearArgs::ahead.

private:
  int64_t cElement(int64_t row, int64_t column, int plane) const {
    return row * shape.ldc + plane * shape.cPlaneStride + column;
  }
  /// Where a plane of a row of A (of a column of B) begins in its terms.
  int64_t aTerm(int64_t row, int64_t plane) const {
    return (row * activationPlanes(shape.arithmetic) + plane) *
           planeStride(shape.k);
  }
  int64_t bTerm(int64_t column, int64_t plane) const {
    return (column * weightPlanes(shape.arithmetic) + plane) *
           planeStride(shape.k);
  }

  std::vector<uint16_t> aTerms, bTerms; ///< Planes, filled up with zeros.
  std::vector<float> firstSums;         ///< That c holds when it accumulates.
};

} // namespace encast

#endif // ENCAST_TEST_CODEGEN_KERNELS_TILETESTING_H
