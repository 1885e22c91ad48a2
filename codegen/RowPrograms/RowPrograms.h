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

namespace encast {

/// Registers the dialects whose ops the builders create.
void registerRowProgramDialects(mlir::DialectRegistry &registry);

/// `(x, weight, bias if hasBias, y)`, each memref<hidden x f32>:
///
///     mean = sum(x) / hidden
///     variance = sum((x - mean)^2) / hidden              (fma)
///     scale = 1 / sqrt(variance + epsilon)
///     y = ((x - mean) * scale) * weight + bias            (fma)
///
/// y may be x.
mlir::func::FuncOp getLayerNorm(mlir::ModuleOp module, int64_t hidden,
                                double epsilon, bool hasBias);

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

/// `(rows, n, panel)`: transposes n rows, 1 <= n <= 16, of a row-major table
/// [columns][k] of type f32, f16 or bf16 into the packed panel [k][16] of f32
/// that a linear kernel reads; columns n to 15 of the panel are zero. `rows` is
/// memref<16 x k x type>, of which only n rows are read; `panel` must not
/// overlap with it.
mlir::func::FuncOp getTransposePanel(mlir::ModuleOp module, int64_t k,
                                     mlir::Type type);

} // namespace encast

#endif // ENCAST_CODEGEN_ROWPROGRAMS_ROWPROGRAMS_H
