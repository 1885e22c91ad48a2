//===- Norms.cpp - normalized rows ----------------------------------------===//
///
/// \file
/// A reduction over the row, then a walk that scales it.
//===----------------------------------------------------------------------===//

#include "codegen/RowPrograms/RowProgram.h"

using namespace mlir;
using namespace encast;

func::FuncOp encast::getLayerNorm(ModuleOp module, int64_t hidden,
                                  double epsilon, bool hasBias,
                                  RowOutput output) {
  std::string name =
      llvm::formatv("layer_norm_{0}_{1}{2}{3}", hidden, shortest(epsilon),
                    hasBias ? "" : "_no_bias", outputSuffix(output));
  MLIRContext *context = module.getContext();
  Type row = rowType(context, hidden);
  SmallVector<Argument> arguments = {{"x", row}, {"weight", row}};
  if (hasBias)
    arguments.push_back({"bias", row});
  arguments.push_back({"y", resultType(context, hidden, output)});
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    Value x = p.argument(0), weight = p.argument(1);
    Value bias = hasBias ? p.argument(2) : Value();
    Value y = p.argument(hasBias ? 3 : 2);

    Value sum = p.sumVectors(hidden, [&](Columns at, Value partial) {
      return p.add(partial, p.load(x, at));
    });
    Value mean =
        p.setName(p.broadcast(p.divide(sum, p.scalar(double(hidden)))), "mean");

    Value squares = p.sumVectors(hidden, [&](Columns at, Value partial) {
      Value centred = p.existing(p.subtract(p.load(x, at), mean), at);
      return p.fma(centred, centred, partial);
    });
    Value scale = p.inverseRoot(squares, hidden, epsilon);

    p.forEachResult(y, hidden, output, [&](Columns at) {
      Value normal = p.multiply(p.subtract(p.load(x, at), mean), scale);
      Value gain = p.load(weight, at);
      return hasBias ? p.fma(normal, gain, p.load(bias, at))
                     : p.multiply(normal, gain);
    });
  });
}

func::FuncOp encast::getRmsNorm(ModuleOp module, int64_t hidden, double epsilon,
                                RowOutput output) {
  std::string name = llvm::formatv("rms_norm_{0}_{1}{2}", hidden,
                                   shortest(epsilon), outputSuffix(output));
  MLIRContext *context = module.getContext();
  Type row = rowType(context, hidden);
  return getProgram(
      module, name,
      {{"x", row}, {"weight", row}, {"y", resultType(context, hidden, output)}},
      [&](RowProgram &p) {
        Value x = p.argument(0), weight = p.argument(1), y = p.argument(2);
        Value squares = p.sumVectors(hidden, [&](Columns at, Value partial) {
          Value value = p.load(x, at);
          return p.fma(value, value, partial);
        });
        Value scale = p.inverseRoot(squares, hidden, epsilon);
        p.forEachResult(y, hidden, output, [&](Columns at) {
          return p.multiply(p.multiply(p.load(x, at), scale),
                            p.load(weight, at));
        });
      });
}

func::FuncOp encast::getNormalize(ModuleOp module, int64_t columns) {
  MemRefType row = rowType(module.getContext(), columns);
  return getProgram(module, llvm::formatv("normalize_{0}", columns),
                    {{"x", row}, {"y", row}}, [&](RowProgram &p) {
                      Value x = p.argument(0), y = p.argument(1);
                      Value squares =
                          p.sumVectors(columns, [&](Columns at, Value partial) {
                            Value value = p.load(x, at);
                            return p.fma(value, value, partial);
                          });
                      Value norm = p.squareRoot(squares);
                      Value divisor = p.broadcast(p.unlessInfinite(
                          p.maximum(norm, p.scalar(1e-12)), norm));
                      p.forEachVector(columns, [&](Columns at) {
                        p.store(p.divide(p.load(x, at), divisor), y, at);
                      });
                    });
}
