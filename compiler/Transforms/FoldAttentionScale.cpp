//===- FoldAttentionScale.cpp - fold the scale into the query weights -----===//

#include "compiler/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include <cmath>

namespace encast {
#define GEN_PASS_DEF_FOLDATTENTIONSCALEPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

/// Whether a product with `scale` keeps every bit of a weight: a power of two,
/// not so small that weights would underflow.
bool keepsBits(double scale) {
  int exponent;
  return scale > 0 && std::frexp(scale, &exponent) == 0.5 &&
         std::abs(exponent) <= 16;
}

struct FoldAttentionScale
    : encast::impl::FoldAttentionScalePassBase<FoldAttentionScale> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    module.walk([&](AttentionOp attention) { fold(attention, symbols); });
  }

  void fold(AttentionOp attention, SymbolTable &symbols) {
    double scale = attention.getScale().convertToDouble();
    Value query = attention.getQuery();
    // A rotation of a scaled head is the scaled rotation, bit by bit.
    if (auto rope = query.getDefiningOp<RopeOp>(); rope && rope->hasOneUse())
      query = rope.getInput();
    auto linear = query.getDefiningOp<LinearOp>();
    if (!keepsBits(scale) || scale == 1 || !linear || !linear->hasOneUse() ||
        linear.getResidual() || linear.getGateAttr() ||
        linear.getActivation() != ActivationKind::None)
      return;
    SmallVector<WeightOp> weights;
    for (FlatSymbolRefAttr symbol :
         {linear.getWeightAttr(), linear.getBiasAttr()}) {
      if (!symbol)
        continue;
      auto weight = symbols.lookup<WeightOp>(symbol.getValue());
      if (!hasOneUse(symbol))
        return;
      weights.push_back(weight);
    }
    for (WeightOp weight : weights) {
      auto yield = cast<YieldOp>(weight.getRecipe().front().getTerminator());
      OpBuilder b(yield);
      Value value = yield.getValue();
      Value scaled = ScaleOp::create(b, yield.getLoc(), value.getType(), value,
                                     b.getF64FloatAttr(scale));
      yield.getValueMutable().assign(scaled);
    }
    OpBuilder b(attention);
    attention.setScaleAttr(b.getF64FloatAttr(1.0));
  }

  bool hasOneUse(FlatSymbolRefAttr symbol) {
    std::optional<SymbolTable::UseRange> uses =
        SymbolTable::getSymbolUses(symbol.getAttr(), getOperation());
    return uses && llvm::hasSingleElement(*uses);
  }
};

} // namespace
