//===- RowPrograms.h - what runs on rows between kernels --------*- C++ -*-===//
///
/// \file
/// Builders of row programs: private functions of vector, memref, arith, math
/// and scf ops that compute one row (or one panel). Sizes are part of the
/// function and of its name; a builder returns the function of that name if the
/// module has it, so equal programs exist once.
///
/// Pointers are memrefs of static shape, lowered with the bare-pointer calling
/// convention; numbers are `index`, 64 bits. Rows are f32 and need 4-byte
/// alignment only. A program reads and writes exactly the elements of its
/// memrefs: the lanes beyond a row's last column are masked, they are neither
/// loaded nor stored, and never enter a reduction.
///
/// Some programs write their result as bf16 planes (RowOutput) where a kernel
/// reads them.
///
/// Bits: each operation rounds once, products are fused into sums only where a
/// formula below says fma, division and square root are exact, and a reduction
/// over columns runs in 16 lanes (column c in lane c % 16, in ascending order),
/// which are added in halves: 16 to 8 to 4 to 2 to 1. So the bits are the same
/// for every instruction set.
///
/// The builders create ops of dialects that must be loaded: list
/// registerRowProgramDialects() in getDependentDialects() of the pass.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ROWPROGRAMS_ROWPROGRAMS_H
#define ENCAST_CODEGEN_ROWPROGRAMS_ROWPROGRAMS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace encast {

/// Registers the dialects whose ops the builders create.
void registerRowProgramDialects(mlir::DialectRegistry &registry);

/// What a row of results is made of.
///
/// Planes are terms of x: hi = bf16(x), mid = bf16(x - hi), lo = bf16(x - hi -
/// mid), each rounded to nearest even, and zero if its f32 value is denormal;
/// three of them add up to x exactly unless a term underflows. Of `columns`
/// results plane p begins at element p * planeStride(columns)
/// (codegen/Kernels/Kernels.h), and the columns that fill it up are zero. hi of
/// NaN is NaN, and of an infinity, or of x that rounds to one, that infinity;
/// mid and lo are then such that no sum with hi is finite.
struct RowOutput {
  /// 0: y is memref<columns x f32>; 1 to 3: y is memref<planes *
  /// planeStride(columns) x bf16>, 2-byte aligned.
  int planes = 0;
};

/// `(x, weight, bias if hasBias, y)`, each memref<hidden x f32>, y as `output`
/// says:
///
///     mean = sum(x) / hidden
///     variance = sum((x - mean)^2) / hidden              (fma)
///     scale = 1 / sqrt(variance + epsilon)
///     y = ((x - mean) * scale) * weight + bias            (fma)
///
/// y may be x if it is f32, else it must not overlap with it.
mlir::func::FuncOp getLayerNorm(mlir::ModuleOp module, int64_t hidden,
                                double epsilon, bool hasBias,
                                RowOutput output = {});

/// `(x, weight, y)`, each memref<hidden x f32>, y as `output` says:
///
///     scale = 1 / sqrt(sum(x * x) / hidden + epsilon)     (fma)
///     y = (x * scale) * weight
///
/// y may be x if it is f32, else it must not overlap with it.
mlir::func::FuncOp getRmsNorm(mlir::ModuleOp module, int64_t hidden,
                              double epsilon, RowOutput output = {});

/// `(row of each table, y)`: y = (row 0 + row 1) + row 2 ..., for one or more
/// tables of type f32, f16 or bf16, widened exactly. y may be a row of an f32
/// table.
mlir::func::FuncOp getEmbed(mlir::ModuleOp module, int64_t hidden,
                            llvm::ArrayRef<mlir::Type> tables);

/// `(x, y)`: y = x. y may be x.
mlir::func::FuncOp getCopy(mlir::ModuleOp module, int64_t columns);

/// `(x, n, y)`: the first n columns, 1 <= n <= columns; y = x there, and y is
/// not written beyond.
mlir::func::FuncOp getCopyPrefix(mlir::ModuleOp module, int64_t columns);

/// `(x0, x1, ..., y)`: the rows one behind the other; `columns` of each. y must
/// not overlap with any x.
mlir::func::FuncOp getConcat(mlir::ModuleOp module,
                             llvm::ArrayRef<int64_t> columns);

/// How the tokens of a sequence become one row.
enum class PoolMode {
  Max,            ///< max over x; a NaN wins.
  Mean,           ///< sum(x) / n
  MeanSqrtLength, ///< sum(x) / sqrt(n)
  WeightedMean,   ///< sum((t + 1) * x[t]) / (n * (n + 1) / 2)  (fma)
  Last            ///< x[n - 1]
};

/// `(x, n, y)`: pools n >= 1 token rows; token t lies t * rowStride floats
/// behind x, rowStride >= hidden. x is memref<hidden x f32>, the first token. A
/// sum runs over runs of 64 tokens, each added up from 0 in the order of its
/// tokens, then over the runs: at 8192 tokens this rounds a sum 192 times
/// instead of 8191. y must not overlap with the tokens.
mlir::func::FuncOp getPool(mlir::ModuleOp module, PoolMode mode, int64_t hidden,
                           int64_t rowStride);

/// `(x, y)`: y = x / max(sqrt(sum(x * x)), 1e-12)  (fma). y may be x.
mlir::func::FuncOp getNormalize(mlir::ModuleOp module, int64_t columns);

/// `(a, b, y)`: y = a + b. y may be a or b.
mlir::func::FuncOp getAdd(mlir::ModuleOp module, int64_t columns);

/// `(a, b, y)`: y = a * b, y as `output` says. y may be a or b if it is f32,
/// else it must not overlap with them.
mlir::func::FuncOp getMultiply(mlir::ModuleOp module, int64_t columns,
                               RowOutput output = {});

/// `(x, y)`: the row in bf16 planes, 1 to 3 of them. y must not overlap with x.
mlir::func::FuncOp getSplit(mlir::ModuleOp module, int64_t columns, int planes);

/// What happens to the heads of queries, keys or values before attention, in
/// this order.
struct HeadsOptions {
  /// Divide each head by its root mean square; the epsilon of the norm.
  std::optional<double> norm;
  /// Rotate each head by its position; head sizes are even.
  bool rope = false;
  /// Multiply by this, rounded to f32; 1: do not.
  double factor = 1;
  /// y is f32 in planes of 16 columns, each head padded to a multiple of 16;
  /// see getHeads.
  bool panelMajor = false;
  /// 0 planes: y is f32. Else not panel-major, and each head is padded to a
  /// multiple of 32 columns.
  RowOutput output;
};

/// `(x, gain if norm, position and table if rope, y, planeBytes if
/// panelMajor)`: a row of heads as attention reads it. For each head
///
///     scale = 1 / sqrt(sum(x * x) / headSize + epsilon)   (fma), if norm
///     n = (x * scale) * gain                              if norm, else x
///     r = (a * c - b * s, b * c + a * s)                  if rope, else n
///     y = r * factor                                      if factor is not 1
///
/// where (a, b) are the halves of n, and (c, s) those of row `position` of the
/// table; a * c - b * s is fma(a, c, -(b * s)) with b * s rounded, b * c + a *
/// s is fma(b, c, a * s) with a * s rounded.
///
/// x is memref<heads * headSize x f32>, gain memref<headSize x f32>, position
/// memref<1 x i32>, table memref<headSize x f32>, the first row of a table
/// whose rows follow each other without a gap (encoder.rope_table). y is one of
///
///     f32 row-major    memref<heads * headSize x f32>
///     f32 panel-major  memref<16 x f32>: the row in the first plane. Plane p,
///                      `planeBytes` (index, a multiple of 4) behind the one
///                      before, holds columns 16 p to 16 p + 15 of heads that
///                      are padded with zeros to a multiple of 16 columns.
///     bf16 planes      memref<planes * heads * planeStride(headSize) x bf16>:
///                      plane p begins at p * heads * planeStride(headSize),
///                      head h of it another h * planeStride(headSize) behind;
///                      the columns that fill up a head are zero.
///
/// y must not overlap with x.
mlir::func::FuncOp getHeads(mlir::ModuleOp module, int64_t heads,
                            int64_t headSize, const HeadsOptions &options);

struct ShortConvOptions {
  bool bf16Input = false;
  bool hasBias = false;
  bool hasScale = false;
  RowOutput output;
};

/// `(previous, x, next, position, weight, bias if hasBias, scale if hasScale,
/// y)`: a sum over a token and its neighbours, for each channel:
///
///     sum = fma(w[2], next, fma(w[1], x, w[0] * previous))
///     y = (sum + bias) * scale
///
/// bias and scale are memref<channels x f32>, previous, x and next as well, or
/// memref<channels x i16> of bf16 bits if bf16Input; y is as `output`
/// says; weight is memref<3 x channels x f32>, that is [channels, 1, 3] of
/// checkpoints transposed (kernel.transpose), which
/// saves the shuffles of loads with stride 3. position is memref<2 x i32>: the
/// position of this token in its sequence, and the next entry of the table of
/// positions. At position 0 `previous` counts as 0, and where 0 follows `next`
/// does; both are then not read and may point anywhere. y must not overlap with
/// previous, x and next; it may be scale if it is f32.
mlir::func::FuncOp getShortConv(mlir::ModuleOp module, int64_t channels,
                                const ShortConvOptions &options);

/// `(rows, n, panel)`: transposes n rows, 1 <= n <= 16, of a row-major table
/// [columns][k] of type f32, f16 or bf16 into the packed panel [k][16] of f32
/// that a linear kernel reads; columns n to 15 of the panel are zero. `rows` is
/// memref<16 x k x type>, of which only n rows are read; `panel` must not
/// overlap with it.
mlir::func::FuncOp getTransposePanel(mlir::ModuleOp module, int64_t k,
                                     mlir::Type type);

/// `(rows, n, pair)`: the same for n rows, 1 <= n <= 32, and the kernels that
/// multiply tiles: a pair of panels, in steps of 32 k, 2 tiles of 16 columns,
/// and 16 lines of 2 k of each column (tilePairElement in
/// codegen/Kernels/TilePacking.h); columns and k beyond the last are zero.
/// `rows` is memref<32 x k x type>, of which only n rows are read, `pair` is
/// memref<elements>, as `output` says f32, or so many bf16 planes of each step;
/// it must not overlap with `rows`.
mlir::func::FuncOp getTransposePair(mlir::ModuleOp module, int64_t k,
                                    mlir::Type type, RowOutput output = {});

} // namespace encast

#endif // ENCAST_CODEGEN_ROWPROGRAMS_ROWPROGRAMS_H
