//===- RowPrograms.cpp - what runs on rows between kernels ----------------===//
///
/// \file
/// Programs that move rows, combine them column by column, or pool them.
//===----------------------------------------------------------------------===//

#include "codegen/RowPrograms/RowProgram.h"

#include <limits>

using namespace mlir;
using namespace encast;

namespace {

/// Tokens that a pool adds up before it adds to the total.
constexpr int64_t kPoolRun = 64;

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

func::FuncOp encast::getMultiply(ModuleOp module, int64_t columns,
                                 RowOutput output) {
  MLIRContext *context = module.getContext();
  MemRefType row = rowType(context, columns);
  std::string name =
      llvm::formatv("multiply_{0}{1}", columns, outputSuffix(output));
  return getProgram(
      module, name,
      {{"a", row}, {"b", row}, {"y", resultType(context, columns, output)}},
      [&](RowProgram &p) {
        p.forEachResult(p.argument(2), columns, output, [&](Columns at) {
          return p.multiply(p.load(p.argument(0), at),
                            p.load(p.argument(1), at));
        });
      });
}

func::FuncOp encast::getSplit(ModuleOp module, int64_t columns, int planes) {
  MLIRContext *context = module.getContext();
  assert(planes >= 1 && "a row is split into planes");
  RowOutput output{planes};
  return getProgram(
      module, llvm::formatv("split_{0}{1}", columns, outputSuffix(output)),
      {{"x", rowType(context, columns)},
       {"y", resultType(context, columns, output)}},
      [&](RowProgram &p) {
        p.forEachResult(p.argument(1), columns, output,
                        [&](Columns at) { return p.load(p.argument(0), at); });
      });
}

func::FuncOp encast::getShortConv(ModuleOp module, int64_t channels,
                                  const ShortConvOptions &options) {
  MLIRContext *context = module.getContext();
  Type row = rowType(context, channels);
  // As integers: LLVM makes scalars of bf16 behind a mask, and calls a library.
  Type tokens = options.bf16Input
                    ? MemRefType::get(channels, IntegerType::get(context, 16))
                    : row;
  std::string name = llvm::formatv(
      "short_conv_{0}{1}{2}{3}{4}", channels, options.bf16Input ? "_bf16" : "",
      options.hasBias ? "_bias" : "", options.hasScale ? "_scale" : "",
      outputSuffix(options.output));
  SmallVector<Argument> arguments = {
      {"previous", tokens},
      {"x", tokens},
      {"next", tokens},
      {"position", MemRefType::get(2, IntegerType::get(context, 32))},
      {"weight", MemRefType::get({3, channels}, Float32Type::get(context))}};
  if (options.hasBias)
    arguments.push_back({"bias", row});
  if (options.hasScale)
    arguments.push_back({"scale", row});
  arguments.push_back({"y", resultType(context, channels, options.output)});
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    Value x = p.argument(1), position = p.argument(3), weight = p.argument(4);
    unsigned number = 5;
    Value bias = options.hasBias ? p.argument(number++) : Value();
    Value scale = options.hasScale ? p.argument(number++) : Value();
    // A neighbour in another sequence is masked, so it is 0 and not read.
    auto neighbour = [&](unsigned argument, int64_t entry,
                         arith::CmpIPredicate exists) {
      Value given = memref::LoadOp::create(p.b, position, p.index(entry));
      Value mask = vector::BroadcastOp::create(
          p.b, p.maskType,
          arith::CmpIOp::create(p.b, exists, given, p.integer(0)));
      return [&p, row = p.argument(argument), mask](Columns at) {
        at.mask = at.mask ? arith::AndIOp::create(p.b, mask, at.mask) : mask;
        return p.load(row, at);
      };
    };
    auto previous = neighbour(0, 0, arith::CmpIPredicate::sgt);
    auto next = neighbour(2, 1, arith::CmpIPredicate::ne);

    p.forEachResult(
        p.argument(number), channels, options.output, [&](Columns at) {
          auto tap = [&](int64_t k) { return p.load(weight, at, p.index(k)); };
          Value sum = p.multiply(tap(0), previous(at));
          sum = p.fma(tap(1), p.load(x, at), sum);
          sum = p.fma(tap(2), next(at), sum);
          if (bias)
            sum = p.add(sum, p.load(bias, at));
          return scale ? p.multiply(sum, p.load(scale, at)) : sum;
        });
  });
}
