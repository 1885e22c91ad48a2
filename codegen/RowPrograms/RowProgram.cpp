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

void RowProgram::forEachVector(int64_t columns,
                               function_ref<void(Columns)> body) {
  int64_t full = columns / kLanes * kLanes;
  if (full)
    forEach("column", index(0), index(full), index(kLanes), {},
            [&](Value column, ValueRange) {
              body({column, Value()});
              return SmallVector<Value>();
            });
  if (full < columns)
    body({index(full), firstLanes(columns - full)});
}

Value RowProgram::sumVectors(int64_t columns,
                             function_ref<Value(Columns, Value)> body) {
  constexpr int64_t count = 4;
  SmallVector<Value> sums(count, splat(0));
  int64_t full = columns / (count * kLanes) * (count * kLanes);
  if (full)
    sums = forEach("column", index(0), index(full), index(count * kLanes), sums,
                   [&](Value column, ValueRange partial) {
                     SmallVector<Value> next;
                     for (int64_t i = 0; i < count; ++i)
                       next.push_back(body({plus(column, i * kLanes), Value()},
                                           partial[i]));
                     return next;
                   });
  for (int64_t i = 0, begin = full; begin < columns; ++i, begin += kLanes) {
    int64_t left = columns - begin;
    sums[i] = body({index(begin), left < kLanes ? firstLanes(left) : Value()},
                   sums[i]);
  }
  return sumLanes(add(add(sums[0], sums[2]), add(sums[1], sums[3])));
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
  if (!element.isInteger(16))
    return arith::ExtFOp::create(b, vectorType, loaded);
  Value bits = arith::ExtUIOp::create(b, integersType, loaded);
  return vector::BitCastOp::create(
      b, vectorType, arith::ShLIOp::create(b, bits, integers(16)));
}

void RowProgram::store(Value value, Value memref, Columns at) {
  if (at.mask)
    vector::MaskedStoreOp::create(b, memref, at.column, at.mask, value);
  else
    vector::StoreOp::create(b, value, memref, at.column);
}

void RowProgram::forEachResult(Value y, int64_t columns, RowOutput output,
                               function_ref<Value(Columns)> body) {
  if (output.planes)
    return forEachResultInPlanes(y, columns, output.planes, body);
  forEachVector(columns, [&](Columns at) { store(body(at), y, at); });
}

/// Two vectors at a time, since planes are whole ones of 32 columns.
void RowProgram::forEachResultInPlanes(Value y, int64_t columns, int planes,
                                       function_ref<Value(Columns)> body) {
  int64_t stride = planeStride(columns);
  int64_t full = columns / kPlaneColumns * kPlaneColumns;
  if (full)
    forEach("column", index(0), index(full), index(kPlaneColumns), {},
            [&](Value column, ValueRange) {
              Value first16 = body({column, Value()});
              Value second16 = body({plus(column, kLanes), Value()});
              storePlanes(first16, second16, y, column, stride, planes);
              return SmallVector<Value>();
            });
  if (full == columns)
    return;
  auto lastColumns = [&](int64_t column) {
    int64_t left = columns - column;
    if (left <= 0)
      return splat(0);
    Columns at{index(column), left < kLanes ? firstLanes(left) : Value()};
    return existing(body(at), at);
  };
  Value first16 = lastColumns(full), second16 = lastColumns(full + kLanes);
  storePlanes(first16, second16, y, index(full), stride, planes);
}

void RowProgram::storePlanes(Value first16, Value second16, Value y,
                             Value column, int64_t planeStride, int planes) {
  for (auto [number, terms] :
       llvm::enumerate(splitToTerms(first16, second16, planes)))
    vector::StoreOp::create(b, terms, y,
                            plus(column, int64_t(number) * planeStride));
}

SmallVector<Value> RowProgram::splitToTerms(Value first16, Value second16,
                                            int planes) {
  auto plane = VectorType::get(kPlaneColumns, b.getBF16Type());
  auto columns = llvm::to_vector(llvm::seq(kPlaneColumns));
  Value rest = vector::ShuffleOp::create(b, first16, second16, columns);
  SmallVector<Value> terms;
  for (int number = 0; number < planes; ++number) {
    terms.push_back(arith::TruncFOp::create(b, plane, rest));
    if (number + 1 < planes)
      rest = subtract(rest,
                      arith::ExtFOp::create(b, rest.getType(), terms.back()));
  }
  return terms;
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

Value RowProgram::unlessInfinite(Value value, Value sum) {
  return add(value, subtract(sum, sum));
}

Value RowProgram::inverseRoot(Value sum, int64_t count, double epsilon) {
  Value mean = divide(sum, scalar(double(count)));
  Value root = squareRoot(add(mean, scalar(epsilon)));
  Value scale = unlessInfinite(divide(scalar(1), root), sum);
  return setName(broadcast(scale), "scale");
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

std::string encast::typeName(Type type) {
  assert((type.isF32() || type.isF16() || type.isBF16()) &&
         "tables are f32, f16 or bf16");
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}
