//===- RowProgram.cpp - the vocabulary of row programs --------------------===//
///
/// \file
/// See RowProgram.h.
//===----------------------------------------------------------------------===//

#include "codegen/RowPrograms/RowProgram.h"
#include "codegen/Kernels/Kernels.h"

#include <charconv>

using namespace mlir;
using namespace encast;

void encast::registerRowProgramDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
              memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
}

RowProgram::RowProgram(func::FuncOp function)
    : b(function.getLoc(), function.getContext()),
      vectorType(VectorType::get(kLanes, b.getF32Type())),
      integersType(VectorType::get(kLanes, b.getI32Type())),
      maskType(VectorType::get(kLanes, b.getI1Type())), function(function) {
  b.setInsertionPointToStart(function.addEntryBlock());
}

Value RowProgram::setName(Value value, StringRef name) {
  value.setLoc(NameLoc::get(b.getStringAttr(name)));
  return value;
}

Value RowProgram::splat(double value) {
  return constant(DenseElementsAttr::get(vectorType, APFloat(float(value))));
}

Value RowProgram::integers(uint32_t value) {
  return constant(DenseElementsAttr::get(integersType, APInt(32, value)));
}

Value RowProgram::firstLanes(int64_t count) {
  Value &known = masks[count];
  if (!known)
    known = inFront([&] {
      return vector::ConstantMaskOp::create(b, maskType,
                                            ArrayRef<int64_t>{count});
    });
  return setName(known, "tail");
}

Value RowProgram::toFloat(Value number) {
  Value integer = arith::IndexCastOp::create(b, b.getI64Type(), number);
  return arith::SIToFPOp::create(b, b.getF32Type(), integer);
}

SmallVector<Value> RowProgram::forEachVector(
    int64_t columns, ArrayRef<Value> values,
    function_ref<SmallVector<Value>(Columns, ValueRange)> body) {
  SmallVector<Value> carried(values);
  int64_t full = columns / kLanes * kLanes;
  if (full)
    carried = forEach("column", index(0), index(full), index(kLanes), carried,
                      [&](Value column, ValueRange inner) {
                        return body({column, Value()}, inner);
                      });
  if (full < columns)
    carried = body({index(full), firstLanes(columns - full)}, carried);
  return carried;
}

void RowProgram::forEachVector(int64_t columns,
                               function_ref<void(Columns)> body) {
  forEachVector(columns, {}, [&](Columns at, ValueRange) {
    body(at);
    return SmallVector<Value>();
  });
}

SmallVector<Value>
RowProgram::forEach(StringRef counter, Value from, Value to, Value step,
                    ValueRange values,
                    function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, from, to, step, values);
  setName(loop.getInductionVar(), counter);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> results =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!values.empty())
    scf::YieldOp::create(b, results);
  return SmallVector<Value>(loop.getResults());
}

Value RowProgram::load(Value memref, Columns at, Value row) {
  SmallVector<Value> indices;
  if (row)
    indices.push_back(row);
  indices.push_back(at.column);
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  auto type = VectorType::get(kLanes, element);
  Value loaded;
  if (at.mask)
    loaded = vector::MaskedLoadOp::create(b, type, memref, indices, at.mask,
                                          zero(type));
  else
    loaded = vector::LoadOp::create(b, type, memref, indices);
  if (element.isF32())
    return loaded;
  return arith::ExtFOp::create(b, vectorType, loaded);
}

void RowProgram::store(Value value, Value memref, Columns at) {
  if (at.mask)
    vector::MaskedStoreOp::create(b, memref, at.column, at.mask, value);
  else
    vector::StoreOp::create(b, value, memref, at.column);
}

void RowProgram::storeResult(Value value, Value y, Columns at, int64_t columns,
                             RowOutput output) {
  if (output.planes)
    storePlanes(existing(value, at), y, at.column, planeStride(columns),
                output.planes);
  else
    store(value, y, at);
}

void RowProgram::forEachResult(Value y, int64_t columns, RowOutput output,
                               function_ref<Value(Columns)> body) {
  forEachVector(columns, [&](Columns at) {
    storeResult(body(at), y, at, columns, output);
  });
  int64_t end = (columns + kLanes - 1) / kLanes * kLanes;
  if (output.planes && end < planeStride(columns))
    storePlanes(splat(0), y, index(end), planeStride(columns), output.planes);
}

void RowProgram::storePlanes(Value value, Value y, Value column,
                             int64_t planeStride, int planes) {
  auto halfType = VectorType::get(kLanes, b.getI16Type());
  auto planeType = VectorType::get(kLanes, b.getBF16Type());
  for (int plane = 0; plane < planes; ++plane) {
    Value rounded = roundToBF16(value);
    Value high = arith::ShRUIOp::create(b, rounded, integers(16));
    Value half = arith::TruncIOp::create(b, halfType, high);
    vector::StoreOp::create(b, vector::BitCastOp::create(b, planeType, half), y,
                            plus(column, plane * planeStride));
    if (plane + 1 < planes)
      value =
          subtract(value, vector::BitCastOp::create(b, vectorType, rounded));
  }
}

Value RowProgram::roundToBF16(Value value) {
  // Half of the last bit that stays is added, less one if that bit is even; the
  // carry into the exponent is right, and makes infinity of what is too large.
  Value bits = vector::BitCastOp::create(b, integersType, value);
  Value last = arith::AndIOp::create(
      b, arith::ShRUIOp::create(b, bits, integers(16)), integers(1));
  Value half = arith::AddIOp::create(b, last, integers(0x7fff));
  Value sum = arith::AddIOp::create(b, bits, half);
  // NaN must not carry; it becomes quiet, so that cutting it leaves a NaN.
  Value quiet = arith::OrIOp::create(b, bits, integers(0x00400000));
  Value isNaN =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
  Value rounded = arith::SelectOp::create(b, isNaN, quiet, sum);
  return arith::AndIOp::create(b, rounded, integers(0xffff0000));
}

Value RowProgram::existing(Value value, Columns at) {
  if (!at.mask)
    return value;
  return arith::SelectOp::create(b, at.mask, value, splat(0));
}

Value RowProgram::sumLanes(Value value) {
  for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
    Value low =
        vector::ExtractStridedSliceOp::create(b, value, {0}, {half}, {1});
    Value high =
        vector::ExtractStridedSliceOp::create(b, value, {half}, {half}, {1});
    value = arith::AddFOp::create(b, low, high);
  }
  return vector::ExtractOp::create(b, value, ArrayRef<int64_t>{0});
}

Value RowProgram::inverseRoot(Value sum, int64_t count, double epsilon) {
  Value mean = divide(sum, scalar(double(count)));
  Value root = squareRoot(add(mean, scalar(epsilon)));
  return setName(broadcast(divide(scalar(1), root)), "scale");
}

func::FuncOp RowProgram::finish() {
  func::ReturnOp::create(b);
  return function;
}

Value RowProgram::constant(TypedAttr value) {
  Value &known = constants[value];
  if (!known)
    known = inFront([&] { return arith::ConstantOp::create(b, value); });
  return known;
}

Value RowProgram::inFront(function_ref<Operation *()> create) {
  OpBuilder::InsertionGuard guard(b);
  if (front)
    b.setInsertionPointAfter(front);
  else
    b.setInsertionPointToStart(&function.getBody().front());
  front = create();
  return front->getResult(0);
}

func::FuncOp encast::getProgram(ModuleOp module, std::string name,
                                ArrayRef<Argument> arguments,
                                function_ref<void(RowProgram &)> build) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<Type> types;
  for (const Argument &argument : arguments)
    types.push_back(argument.type);
  FunctionType type = b.getFunctionType(types, {});
  while (Operation *taken = SymbolTable::lookupSymbolIn(module, name)) {
    auto function = dyn_cast<func::FuncOp>(taken);
    if (function && function.getFunctionType() == type)
      return function;
    name += "_";
  }
  auto function = func::FuncOp::create(b, b.getUnknownLoc(), name, type);
  function.setPrivate();
  RowProgram program(function);
  for (auto [value, argument] : llvm::zip(function.getArguments(), arguments))
    program.setName(value, argument.name);
  build(program);
  return program.finish();
}

MemRefType encast::rowType(MLIRContext *context, int64_t columns) {
  return MemRefType::get(columns, Float32Type::get(context));
}

MemRefType encast::resultType(MLIRContext *context, int64_t columns,
                              RowOutput output) {
  assert(output.planes >= 0 && output.planes <= 3 && "hi, mid and lo at most");
  if (output.planes == 0)
    return rowType(context, columns);
  return MemRefType::get(output.planes * planeStride(columns),
                         BFloat16Type::get(context));
}

std::string encast::shortest(double value) {
  char digits[32];
  return std::string(digits,
                     std::to_chars(digits, std::end(digits), value).ptr);
}

std::string encast::outputSuffix(RowOutput output) {
  return output.planes ? "_planes_" + std::to_string(output.planes) : "";
}
