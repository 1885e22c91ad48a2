//===- LinearDots.h - bf16 matrix product by AVX512-BF16 --------*- C++ -*-===//
///
/// \file
/// The generator behind the linear row of Kernels.def that needs AVX512-BF16.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_LINEARDOTS_H
#define ENCAST_CODEGEN_KERNELS_LINEARDOTS_H

#include "codegen/Kernels/DotProducts.h"
#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace encast {

/// C = epilogue(A * B) as KernelArgs.h says, by the register tile of
/// DotProducts.h:
///
///   for each pair of panels
///     for each tile of rows: the pair stays in the L2 while they pass
///       for each step of k: multiply; fetch a share of the next pair
///       bias, activation, gate, residual in registers
///
/// Behind the last pair comes the b of the next call (LinearArgs::ahead). Sums
/// never wait in c, and there is no workspace.
class LinearDots final : public DotProducts {
public:
  LinearDots(const LinearShape &shape);
  bool generate(std::vector<uint8_t> &code, std::string &error);

private:
  int64_t aRowBytes() const { return 2 * shape.lda; }
  int64_t cRowBytes() const { return (shape.cPlanes ? 2 : 4) * shape.ldc; }
  int64_t residualRowBytes() const { return 4 * shape.ldr; }
  /// Vectors of results of a row: gates take half of a pair.
  int results() const { return shape.gated ? 1 : 2; }
  Xbyak::Zmm result(int row, int column) const { return sum(row, column); }

  void emitArguments();
  void emitPairs();
  void emitTile(int rows);
  void emitSumsIn(int rows);
  void emitEpilogue(int rows);
  void emitActivatedResults(int rows);
  void emitResultsOut(int rows);

  const LinearShape shape;
  const int steps; // of 32 k
  const int pairBytes;
  /// Subroutines, by rows.
  std::map<int, Xbyak::Label> tiles;

  const Xbyak::Reg64 args = rdi;                        // until they are copied
  const Xbyak::Reg64 prefetch = r8, prefetchLines = r9; // of the next pair
  const Xbyak::Reg64 linesLeft = r10;
  const Xbyak::Reg64 tileA = r11, c = r12, residual = r13; // of the tile
  const Xbyak::Reg64 rowsLeft = r14, temp = r15;
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_LINEARDOTS_H
