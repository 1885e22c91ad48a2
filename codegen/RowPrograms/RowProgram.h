//===- RowProgram.h - the vocabulary of row programs ------------*- C++ -*-===//
///
/// \file
/// What the builders of row programs are written in; private to this folder.
/// All programs walk over their row in vectors of 16 columns; see
/// RowProgram::forEachVector.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ROWPROGRAMS_ROWPROGRAM_H
#define ENCAST_CODEGEN_ROWPROGRAMS_ROWPROGRAM_H

#include "codegen/RowPrograms/RowPrograms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/FormatVariadic.h"

#include <string>

namespace encast {

/// Columns of a vector, and of a panel.
constexpr int64_t kLanes = 16;
/// Columns that bf16 planes are made of.
constexpr int64_t kPlaneColumns = 32;

/// Sixteen columns of a row, from `column`; `mask` says which exist, if not
/// all do.
struct Columns {
  mlir::Value column, mask;
};

/// Builds one function; holds the vocabulary that all programs are written in.
class RowProgram {
  using Value = mlir::Value;
  using ValueRange = mlir::ValueRange;
  using Values = llvm::SmallVector<Value>;

public:
  mlir::ImplicitLocOpBuilder b;
  const mlir::VectorType vectorType, integersType, maskType;

  /// Inserts into the function, which has no body yet.
  explicit RowProgram(mlir::func::FuncOp function);

  Value argument(unsigned number) { return function.getArgument(number); }
  /// Names a value in IR that is printed with names for locations.
  Value setName(Value value, llvm::StringRef name);

  Value index(int64_t value) { return constant(b.getIndexAttr(value)); }
  Value scalar(double value) {
    return constant(b.getF32FloatAttr(float(value)));
  }
  Value splat(double value);
  /// Sixteen 32-bit integers, and one.
  Value integers(uint32_t value);
  Value integer(uint32_t value) { return constant(b.getI32IntegerAttr(value)); }
  Value zero(mlir::VectorType type) { return constant(b.getZeroAttr(type)); }
  /// A mask of the first `count` lanes.
  Value firstLanes(int64_t count);
  Value broadcast(Value value) {
    return mlir::vector::BroadcastOp::create(b, vectorType, value);
  }
  /// The index as f32, rounded once.
  Value toFloat(Value number);

  /// Walks over the row: a loop over its full vectors, then its last columns
  /// under a mask.
  void forEachVector(int64_t columns, llvm::function_ref<void(Columns)> body);
  /// The sum over a row, for which `body` adds columns to a partial sum. Vector
  /// i goes to partial sum i mod 4: one chain would wait for its additions.
  Value sumVectors(int64_t columns,
                   llvm::function_ref<Value(Columns, Value)> body);

  /// A loop; `counter` is the name of its variable in printed IR, `values` are
  /// carried from one iteration to the next.
  Values forEach(llvm::StringRef counter, Value from, Value to, Value step,
                 ValueRange values,
                 llvm::function_ref<Values(Value, ValueRange)> body);

  /// Loads 16 columns as f32, zero where the mask is off; i16 are the bits of
  /// bf16. `row` comes before the column if the memref has rows.
  Value load(Value memref, Columns at, Value row = {});
  void store(Value value, Value memref, Columns at);

  /// Walks over a row of results, and stores what `body` returns for them to y
  /// as `output` says.
  void forEachResult(Value y, int64_t columns, RowOutput output,
                     llvm::function_ref<Value(Columns)> body);
  /// Stores 32 columns of f32 as bf16 planes, plane p from element p *
  /// planeStride + column.
  void storePlanes(Value first16, Value second16, Value y, Value column,
                   int64_t planeStride, int planes);
  /// The terms of 32 columns of f32, hi first, each 32 numbers of bf16.
  Values splitToTerms(Value first16, Value second16, int planes);

  /// The value, zero where the mask is off.
  Value existing(Value value, Columns at);
  /// The sum of 16 lanes, in halves.
  Value sumLanes(Value value);

  /// `value`, or NaN if `sum` has overflowed: what is divided by infinity would
  /// be a finite row, which nobody takes for wrong.
  Value unlessInfinite(Value value, Value sum);
  /// 1 / sqrt(sum / count + epsilon) in 16 lanes.
  Value inverseRoot(Value sum, int64_t count, double epsilon);

  Value add(Value left, Value right) {
    return mlir::arith::AddFOp::create(b, left, right);
  }
  Value subtract(Value left, Value right) {
    return mlir::arith::SubFOp::create(b, left, right);
  }
  Value multiply(Value left, Value right) {
    return mlir::arith::MulFOp::create(b, left, right);
  }
  Value divide(Value left, Value right) {
    return mlir::arith::DivFOp::create(b, left, right);
  }
  Value negate(Value value) { return mlir::arith::NegFOp::create(b, value); }
  Value maximum(Value left, Value right) {
    return mlir::arith::MaximumFOp::create(b, left, right);
  }
  Value fma(Value left, Value right, Value addend) {
    return mlir::math::FmaOp::create(b, left, right, addend);
  }
  Value squareRoot(Value value) { return mlir::math::SqrtOp::create(b, value); }
  /// Of indices.
  Value plus(Value left, Value right) {
    return mlir::arith::AddIOp::create(b, left, right);
  }
  Value plus(Value left, int64_t right) {
    return right ? plus(left, index(right)) : left;
  }
  Value times(Value left, int64_t right) {
    return mlir::arith::MulIOp::create(b, left, index(right));
  }

  mlir::func::FuncOp finish();

private:
  Value constant(mlir::TypedAttr value);
  /// Creates an op behind the last one that was created so, in front of all
  /// others.
  Value inFront(llvm::function_ref<mlir::Operation *()> create);
  void forEachResultInPlanes(Value y, int64_t columns, int planes,
                             llvm::function_ref<Value(Columns)> body);

  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Attribute, Value> constants;
  llvm::DenseMap<int64_t, Value> masks;
  mlir::Operation *front = nullptr;
};

struct Argument {
  llvm::StringRef name; ///< In printed IR.
  mlir::Type type;
};

/// The function of that name and type, filled by `build` if it is new. A name
/// that something else bears gets a `_` behind it.
mlir::func::FuncOp getProgram(mlir::ModuleOp module, std::string name,
                              llvm::ArrayRef<Argument> arguments,
                              llvm::function_ref<void(RowProgram &)> build);

/// memref<columns x f32>
mlir::MemRefType rowType(mlir::MLIRContext *context, int64_t columns);
/// The type of `columns` results, see RowOutput.
mlir::MemRefType resultType(mlir::MLIRContext *context, int64_t columns,
                            RowOutput output);

/// The fewest digits that read back as `value`, e.g. "1e-12".
std::string shortest(double value);
/// What the name of a program says of its output: "" or e.g. "_planes_2".
std::string outputSuffix(RowOutput output);
/// "f32", "f16" or "bf16", the type of a table.
std::string typeName(mlir::Type type);

} // namespace encast

#endif // ENCAST_CODEGEN_ROWPROGRAMS_ROWPROGRAM_H
