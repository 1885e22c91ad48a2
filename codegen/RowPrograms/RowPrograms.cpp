//===- RowPrograms.cpp - what runs on rows between kernels ----------------===//
///
/// \file
/// All programs walk over their row in vectors of 16 columns; see
/// RowProgram::forEachVector.
//===----------------------------------------------------------------------===//

#include "codegen/RowPrograms/RowPrograms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <charconv>
#include <limits>

using namespace mlir;
using namespace encast;

void encast::registerRowProgramDialects(DialectRegistry &registry) {
  registry
      .insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
              memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
}

namespace {

/// Columns of a vector, and of a panel.
constexpr int64_t kLanes = 16;
/// Tokens that a pool adds up before it adds to the total.
constexpr int64_t kPoolRun = 64;

/// Sixteen columns of a row, from `column`; `mask` says which exist, if not
/// all do.
struct Columns {
  Value column, mask;
};

/// Builds one function; holds the vocabulary that all programs are written in.
class RowProgram {
public:
  ImplicitLocOpBuilder b;
  const VectorType vectorType, maskType;

  explicit RowProgram(func::FuncOp function)
      : b(function.getLoc(), function.getContext()),
        vectorType(VectorType::get(kLanes, b.getF32Type())),
        maskType(VectorType::get(kLanes, b.getI1Type())), function(function) {
    b.setInsertionPointToStart(function.addEntryBlock());
  }

  Value argument(unsigned number) { return function.getArgument(number); }
  /// Names a value in IR that is printed with names for locations.
  Value setName(Value value, StringRef name) {
    value.setLoc(NameLoc::get(b.getStringAttr(name)));
    return value;
  }
  Value index(int64_t value) { return constant(b.getIndexAttr(value)); }
  Value scalar(double value) {
    return constant(b.getF32FloatAttr(float(value)));
  }
  Value splat(double value) {
    return constant(DenseElementsAttr::get(vectorType, APFloat(float(value))));
  }
  Value zero(VectorType type) { return constant(b.getZeroAttr(type)); }
  /// A mask of the first `count` lanes.
  Value firstLanes(int64_t count) {
    Value &known = masks[count];
    if (!known)
      known = inFront([&] {
        return vector::ConstantMaskOp::create(b, maskType,
                                              ArrayRef<int64_t>{count});
      });
    return setName(known, "tail");
  }
  Value broadcast(Value value) {
    return vector::BroadcastOp::create(b, vectorType, value);
  }
  /// The index as f32, rounded once.
  Value toFloat(Value number) {
    Value integer = arith::IndexCastOp::create(b, b.getI64Type(), number);
    return arith::SIToFPOp::create(b, b.getF32Type(), integer);
  }

  /// Walks over the row: a loop over its full vectors, then its last columns
  /// under a mask. `values` are carried from one vector to the next.
  SmallVector<Value>
  forEachVector(int64_t columns, ArrayRef<Value> values,
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
  void forEachVector(int64_t columns, function_ref<void(Columns)> body) {
    forEachVector(columns, {}, [&](Columns at, ValueRange) {
      body(at);
      return SmallVector<Value>();
    });
  }

  /// A loop; `counter` is the name of its variable in printed IR, `values` are
  /// carried from one iteration to the next.
  SmallVector<Value>
  forEach(StringRef counter, Value from, Value to, Value step,
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

  /// Loads 16 columns as f32, zero where the mask is off. `row` comes before
  /// the column if the memref has rows.
  Value load(Value memref, Columns at, Value row = {}) {
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

  void store(Value value, Value memref, Columns at) {
    if (at.mask)
      vector::MaskedStoreOp::create(b, memref, at.column, at.mask, value);
    else
      vector::StoreOp::create(b, value, memref, at.column);
  }

  /// The value, zero where the mask is off.
  Value existing(Value value, Columns at) {
    if (!at.mask)
      return value;
    return arith::SelectOp::create(b, at.mask, value, splat(0));
  }

  /// The sum of 16 lanes, in halves.
  Value sumLanes(Value value) {
    for (int64_t half = kLanes / 2; half >= 1; half /= 2) {
      Value low =
          vector::ExtractStridedSliceOp::create(b, value, {0}, {half}, {1});
      Value high =
          vector::ExtractStridedSliceOp::create(b, value, {half}, {half}, {1});
      value = arith::AddFOp::create(b, low, high);
    }
    return vector::ExtractOp::create(b, value, ArrayRef<int64_t>{0});
  }

  Value add(Value left, Value right) {
    return arith::AddFOp::create(b, left, right);
  }
  Value subtract(Value left, Value right) {
    return arith::SubFOp::create(b, left, right);
  }
  Value multiply(Value left, Value right) {
    return arith::MulFOp::create(b, left, right);
  }
  Value divide(Value left, Value right) {
    return arith::DivFOp::create(b, left, right);
  }
  Value maximum(Value left, Value right) {
    return arith::MaximumFOp::create(b, left, right);
  }
  Value fma(Value left, Value right, Value addend) {
    return math::FmaOp::create(b, left, right, addend);
  }
  Value squareRoot(Value value) { return math::SqrtOp::create(b, value); }

  func::FuncOp finish() {
    func::ReturnOp::create(b);
    return function;
  }

private:
  Value constant(TypedAttr value) {
    Value &known = constants[value];
    if (!known)
      known = inFront([&] { return arith::ConstantOp::create(b, value); });
    return known;
  }
  /// Creates an op behind the last one that was created so, in front of all
  /// others.
  Value inFront(function_ref<Operation *()> create) {
    OpBuilder::InsertionGuard guard(b);
    if (front)
      b.setInsertionPointAfter(front);
    else
      b.setInsertionPointToStart(&function.getBody().front());
    front = create();
    return front->getResult(0);
  }

  func::FuncOp function;
  llvm::DenseMap<Attribute, Value> constants;
  llvm::DenseMap<int64_t, Value> masks;
  Operation *front = nullptr;
};

struct Argument {
  StringRef name; ///< In printed IR.
  Type type;
};

/// The function of that name and type, filled by `build` if it is new. A name
/// that something else bears gets a `_` behind it.
func::FuncOp getProgram(ModuleOp module, std::string name,
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

MemRefType rowType(MLIRContext *context, int64_t columns) {
  return MemRefType::get(columns, Float32Type::get(context));
}

/// The fewest digits that read back as `value`, e.g. "1e-12".
std::string shortest(double value) {
  char digits[32];
  return std::string(digits,
                     std::to_chars(digits, std::end(digits), value).ptr);
}

/// "f32", "f16" or "bf16".
std::string typeName(Type type) {
  assert((type.isF32() || type.isF16() || type.isBF16()) &&
         "tables are f32, f16 or bf16");
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

StringRef modeName(PoolMode mode) {
  switch (mode) {
  case PoolMode::Max:
    return "max";
  case PoolMode::Mean:
    return "mean";
  case PoolMode::MeanSqrtLength:
    return "mean_sqrt_length";
  case PoolMode::WeightedMean:
    return "weighted_mean";
  case PoolMode::Last:
    return "last";
  }
  llvm_unreachable("unknown pool mode");
}

/// One vector of the sum over tokens that a mode needs: see getPool.
Value sumTokens(RowProgram &p, PoolMode mode, Value tokens, Value count,
                Columns at) {
  Value zero = p.splat(0), one = p.index(1), run = p.index(kPoolRun);
  auto addRun = [&](Value begin, ValueRange total) -> SmallVector<Value> {
    Value limit = arith::AddIOp::create(p.b, begin, run);
    Value end = arith::MinSIOp::create(p.b, limit, count);
    auto addToken = [&](Value token, ValueRange sum) -> SmallVector<Value> {
      Value x = p.load(tokens, at, token);
      if (mode != PoolMode::WeightedMean)
        return {p.add(sum[0], x)};
      Value weight = p.toFloat(arith::AddIOp::create(p.b, token, one));
      return {p.fma(p.broadcast(weight), x, sum[0])};
    };
    Value sum = p.forEach("token", begin, end, one, zero, addToken)[0];
    return {p.add(total[0], sum)};
  };
  return p.forEach("run", p.index(0), count, run, zero, addRun)[0];
}

/// What a mode divides the sum by.
Value poolDivisor(RowProgram &p, PoolMode mode, Value count) {
  if (mode == PoolMode::WeightedMean) {
    Value next = arith::AddIOp::create(p.b, count, p.index(1));
    Value twice = arith::MulIOp::create(p.b, count, next);
    return p.toFloat(arith::DivUIOp::create(p.b, twice, p.index(2)));
  }
  Value n = p.toFloat(count);
  return mode == PoolMode::MeanSqrtLength ? p.squareRoot(n) : n;
}

} // namespace

func::FuncOp encast::getLayerNorm(ModuleOp module, int64_t hidden,
                                  double epsilon, bool hasBias) {
  std::string name =
      llvm::formatv("layer_norm_{0}_{1}{2}", hidden, shortest(epsilon),
                    hasBias ? "" : "_no_bias");
  Type row = rowType(module.getContext(), hidden);
  SmallVector<Argument> arguments = {{"x", row}, {"weight", row}};
  if (hasBias)
    arguments.push_back({"bias", row});
  arguments.push_back({"y", row});
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    Value x = p.argument(0), weight = p.argument(1);
    Value bias = hasBias ? p.argument(2) : Value();
    Value y = p.argument(hasBias ? 3 : 2);
    Value count = p.scalar(double(hidden));

    Value sum = p.forEachVector(
        hidden, {p.splat(0)},
        [&](Columns at, ValueRange partial) -> SmallVector<Value> {
          return {p.add(partial[0], p.load(x, at))};
        })[0];
    Value mean =
        p.setName(p.broadcast(p.divide(p.sumLanes(sum), count)), "mean");

    Value squares = p.forEachVector(
        hidden, {p.splat(0)},
        [&](Columns at, ValueRange partial) -> SmallVector<Value> {
          Value centred = p.existing(p.subtract(p.load(x, at), mean), at);
          return {p.fma(centred, centred, partial[0])};
        })[0];
    Value variance =
        p.setName(p.divide(p.sumLanes(squares), count), "variance");
    Value deviation = p.squareRoot(p.add(variance, p.scalar(epsilon)));
    Value scale =
        p.setName(p.broadcast(p.divide(p.scalar(1), deviation)), "scale");

    p.forEachVector(hidden, [&](Columns at) {
      Value normal = p.multiply(p.subtract(p.load(x, at), mean), scale);
      Value gain = p.load(weight, at);
      p.store(hasBias ? p.fma(normal, gain, p.load(bias, at))
                      : p.multiply(normal, gain),
              y, at);
    });
  });
}

func::FuncOp encast::getEmbed(ModuleOp module, int64_t hidden,
                              ArrayRef<Type> tables) {
  assert(!tables.empty() && "an embedding has a table");
  std::string name = llvm::formatv("embed_{0}", hidden);
  SmallVector<Argument> arguments;
  for (Type type : tables) {
    name += "_" + typeName(type);
    arguments.push_back({"table", MemRefType::get(hidden, type)});
  }
  arguments.push_back({"y", rowType(module.getContext(), hidden)});
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    p.forEachVector(hidden, [&](Columns at) {
      Value sum = p.load(p.argument(0), at);
      for (unsigned table = 1; table < tables.size(); ++table)
        sum = p.add(sum, p.load(p.argument(table), at));
      p.store(sum, p.argument(tables.size()), at);
    });
  });
}

func::FuncOp encast::getCopy(ModuleOp module, int64_t columns) {
  MemRefType row = rowType(module.getContext(), columns);
  return getProgram(module, llvm::formatv("copy_{0}", columns),
                    {{"x", row}, {"y", row}}, [&](RowProgram &p) {
                      p.forEachVector(columns, [&](Columns at) {
                        p.store(p.load(p.argument(0), at), p.argument(1), at);
                      });
                    });
}

func::FuncOp encast::getCopyPrefix(ModuleOp module, int64_t columns) {
  MemRefType row = rowType(module.getContext(), columns);
  return getProgram(
      module, llvm::formatv("copy_prefix_{0}", columns),
      {{"x", row}, {"count", IndexType::get(module.getContext())}, {"y", row}},
      [&](RowProgram &p) {
        Value count = p.argument(1);
        p.forEach("column", p.index(0), count, p.index(kLanes), {},
                  [&](Value column, ValueRange) {
                    Value left = arith::SubIOp::create(p.b, count, column);
                    Value mask =
                        vector::CreateMaskOp::create(p.b, p.maskType, left);
                    Columns at{column, mask};
                    p.store(p.load(p.argument(0), at), p.argument(2), at);
                    return SmallVector<Value>();
                  });
      });
}

func::FuncOp encast::getConcat(ModuleOp module, ArrayRef<int64_t> columns) {
  std::string name = "concat";
  SmallVector<Argument> arguments;
  int64_t total = 0;
  for (int64_t part : columns) {
    name += llvm::formatv("_{0}", part);
    arguments.push_back({"x", rowType(module.getContext(), part)});
    total += part;
  }
  arguments.push_back({"y", rowType(module.getContext(), total)});
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    Value y = p.argument(columns.size());
    int64_t offset = 0;
    for (unsigned number = 0; number < columns.size(); ++number) {
      p.forEachVector(columns[number], [&](Columns at) {
        Value behind = arith::AddIOp::create(p.b, at.column, p.index(offset));
        p.store(p.load(p.argument(number), at), y, {behind, at.mask});
      });
      offset += columns[number];
    }
  });
}

func::FuncOp encast::getPool(ModuleOp module, PoolMode mode, int64_t hidden,
                             int64_t rowStride) {
  assert(rowStride >= hidden && "rows of tokens must not overlap");
  MLIRContext *context = module.getContext();
  MemRefType row = rowType(context, hidden);
  auto rows = MemRefType::get(
      {ShapedType::kDynamic, hidden}, Float32Type::get(context),
      StridedLayoutAttr::get(context, /*offset=*/0, {rowStride, 1}));
  std::string name = llvm::formatv("pool_{0}_{1}_stride_{2}", modeName(mode),
                                   hidden, rowStride);
  return getProgram(
      module, name,
      {{"first", row}, {"tokens", IndexType::get(context)}, {"y", row}},
      [&](RowProgram &p) {
        Value count = p.argument(1), y = p.argument(2);
        Value tokens = memref::ReinterpretCastOp::create(
            p.b, rows, p.argument(0), /*offset=*/p.b.getIndexAttr(0),
            ArrayRef<OpFoldResult>{count, p.b.getIndexAttr(hidden)},
            ArrayRef<OpFoldResult>{p.b.getIndexAttr(rowStride),
                                   p.b.getIndexAttr(1)});
        Value one = p.index(1);
        if (mode == PoolMode::Last) {
          Value last = arith::SubIOp::create(p.b, count, one);
          p.forEachVector(hidden, [&](Columns at) {
            p.store(p.load(tokens, at, last), y, at);
          });
          return;
        }
        if (mode == PoolMode::Max) {
          Value lowest = p.splat(-std::numeric_limits<double>::infinity());
          p.forEachVector(hidden, [&](Columns at) {
            auto take = [&](Value token,
                            ValueRange most) -> SmallVector<Value> {
              return {p.maximum(most[0], p.load(tokens, at, token))};
            };
            p.store(p.forEach("token", p.index(0), count, one, lowest, take)[0],
                    y, at);
          });
          return;
        }
        Value divisor = p.broadcast(poolDivisor(p, mode, count));
        p.forEachVector(hidden, [&](Columns at) {
          p.store(p.divide(sumTokens(p, mode, tokens, count, at), divisor), y,
                  at);
        });
      });
}

func::FuncOp encast::getNormalize(ModuleOp module, int64_t columns) {
  MemRefType row = rowType(module.getContext(), columns);
  return getProgram(
      module, llvm::formatv("normalize_{0}", columns), {{"x", row}, {"y", row}},
      [&](RowProgram &p) {
        Value x = p.argument(0), y = p.argument(1);
        auto square = [&](Columns at, ValueRange sum) -> SmallVector<Value> {
          Value value = p.load(x, at);
          return {p.fma(value, value, sum[0])};
        };
        Value sum = p.forEachVector(columns, {p.splat(0)}, square)[0];
        Value norm = p.squareRoot(p.sumLanes(sum));
        Value divisor = p.broadcast(p.maximum(norm, p.scalar(1e-12)));
        p.forEachVector(columns, [&](Columns at) {
          p.store(p.divide(p.load(x, at), divisor), y, at);
        });
      });
}

func::FuncOp encast::getAdd(ModuleOp module, int64_t columns) {
  MemRefType row = rowType(module.getContext(), columns);
  return getProgram(module, llvm::formatv("add_{0}", columns),
                    {{"a", row}, {"b", row}, {"y", row}}, [&](RowProgram &p) {
                      p.forEachVector(columns, [&](Columns at) {
                        Value sum = p.add(p.load(p.argument(0), at),
                                          p.load(p.argument(1), at));
                        p.store(sum, p.argument(2), at);
                      });
                    });
}

func::FuncOp encast::getTransposePanel(ModuleOp module, int64_t k, Type type) {
  MLIRContext *context = module.getContext();
  Type f32 = Float32Type::get(context);
  Argument arguments[] = {{"rows", MemRefType::get({kLanes, k}, type)},
                          {"columns", IndexType::get(context)},
                          {"panel", MemRefType::get({k, kLanes}, f32)}};
  std::string name =
      llvm::formatv("transpose_panel_{0}_{1}", k, typeName(type));
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    Value rows = p.argument(0), count = p.argument(1), panel = p.argument(2);
    auto square = VectorType::get({kLanes, kLanes}, f32);
    Value exists = vector::CreateMaskOp::create(p.b, p.maskType, count);
    Value last = arith::SubIOp::create(p.b, count, p.index(1));
    // A row that does not exist reads the last one instead.
    SmallVector<Value> sources;
    for (int64_t row = 0; row < kLanes; ++row)
      sources.push_back(arith::MinSIOp::create(p.b, p.index(row), last));

    // Sixteen rows of 16 at a time become 16 lines of the panel.
    p.forEachVector(k, [&](Columns at) {
      Value block = p.zero(square);
      for (int64_t row = 0; row < kLanes; ++row)
        block = vector::InsertOp::create(p.b, p.load(rows, at, sources[row]),
                                         block, ArrayRef<int64_t>{row});
      Value turned =
          vector::TransposeOp::create(p.b, block, ArrayRef<int64_t>{1, 0});
      int64_t lines = at.mask ? k % kLanes : kLanes;
      for (int64_t line = 0; line < lines; ++line) {
        Value values =
            vector::ExtractOp::create(p.b, turned, ArrayRef<int64_t>{line});
        Value place = arith::AddIOp::create(p.b, at.column, p.index(line));
        vector::StoreOp::create(
            p.b, arith::SelectOp::create(p.b, exists, values, p.splat(0)),
            panel, ValueRange{place, p.index(0)});
      }
    });
  });
}
