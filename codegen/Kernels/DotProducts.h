//===- DotProducts.h - bf16 products in vector registers --------*- C++ -*-===//
///
/// \file
/// The register tile that the kernels of AVX512-BF16 share.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_DOTPRODUCTS_H
#define ENCAST_CODEGEN_KERNELS_DOTPRODUCTS_H

#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <cstdint>

namespace encast {

/// Emits sums of products of bf16 by vdpbf16ps, which multiplies two k of 16
/// columns and adds both to the column's f32:
///
///                    columns 0..15   16..31
///                   +------------+------------+
///   row 0           | sum(0, 0)  | sum(0, 1)  |  zmm0..zmm23
///   ...             |            |            |
///   row 11          | sum(11, 0) | sum(11, 1) |
///                   +------------+------------+
///   b[two of k]     |    b(0)    |    b(1)    |  zmm24, zmm25
///   a[row][two]          broadcast from memory
///
/// A step is 32 k: 64 bytes of a row of a, 16 vectors of each half of b. These
/// are the tiles that AMX multiplies, so weights, keys and values lie in memory
/// as they do for the kernels of tiles. 24 chains hide the latency of the
/// instruction, six cycles; it reads memory so rarely that a and b may come
/// from the L2.
///
/// A sum is one chain of fused multiply-adds, whatever the rows of the tile: of
/// each two the odd k, then the even one. Denormal operands and results are
/// zero, and no control of floating point matters (Intel's manual; a Zen 4 has
/// the same bits in two million random products).
class DotProducts : public VectorAssembler {
protected:
  static constexpr int kRows = 12;
  static constexpr int kStepBytes = 64;       ///< Of a row of a.
  static constexpr int64_t kHalfBytes = 1024; ///< Of 16 columns of b in a step.
  static constexpr int kTemps = 24; ///< First register behind the sums.

  DotProducts() : VectorAssembler(64) {}

  /// Where a product's operands lie, in bytes.
  struct Places {
    int64_t aRow;  ///< From a row of a to the next.
    int64_t bHalf; ///< From columns 0..15 to 16..31.
    int64_t bStep; ///< From a step of b to the next.
  };

  Xbyak::Zmm sum(int row, int half) const { return Xbyak::Zmm(2 * row + half); }
  void clearSums(int rows);
  /// Adds the products of `stepsLeft` steps to the sums, rows at a, twos at b;
  /// moves all three. `beforeStep` is emitted at the top of the loop.
  template <typename Emit>
  void emitDots(int rows, const Places &places, const Emit &beforeStep) {
    Xbyak::Label nextStep;
    align(64);
    L(nextStep);
    beforeStep();
    emitStep(rows, places);
    dec(stepsLeft);
    jnz(nextStep);
  }
  /// The tile that comes first where `rows` are left: a full one, or one of two
  /// of nearly the same height if less than two full ones are left. Changes
  /// `rows`.
  void emitTileHeight(const Xbyak::Reg64 &rows);

  const Xbyak::Reg64 a = rax, b = rcx, stepsLeft = rdx;

private:
  void emitStep(int rows, const Places &places);
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_DOTPRODUCTS_H
