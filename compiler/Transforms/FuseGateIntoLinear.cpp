//===- FuseGateIntoLinear.cpp - fold products of linears into one ---------===//

#include "compiler/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace encast {
#define GEN_PASS_DEF_FUSEGATEINTOLINEARPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

/// A linear that only the product reads, with no epilogue but an activation.
LinearOp asFactor(Value value) {
  auto linear = value.getDefiningOp<LinearOp>();
  if (!linear || !linear->hasOneUse() || linear.getGateAttr() ||
      linear.getResidual())
    return nullptr;
  return linear;
}

/// activation(linear(x)) * linear(x) becomes a linear with a gate.
struct FuseGate : OpRewritePattern<MultiplyOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MultiplyOp op,
                                PatternRewriter &rewriter) const override {
    LinearOp gate = asFactor(op.getLhs()), linear = asFactor(op.getRhs());
    if (!gate || !linear)
      return rewriter.notifyMatchFailure(
          op, "factors are not linears that it alone reads");
    if (gate.getInput() != linear.getInput())
      return rewriter.notifyMatchFailure(op, "linears have different inputs");
    if (!gate.getBiasAttr() != !linear.getBiasAttr())
      return rewriter.notifyMatchFailure(op, "only one linear has a bias");
    if (gate.getPrecision() != linear.getPrecision())
      return rewriter.notifyMatchFailure(op, "linears differ in precision");
    // Of two plain factors either is a gate.
    if (linear.getActivation() != ActivationKind::None)
      std::swap(gate, linear);
    if (linear.getActivation() != ActivationKind::None)
      return rewriter.notifyMatchFailure(op, "both linears have activations");
    rewriter.moveOpBefore(linear, op);
    rewriter.modifyOpInPlace(linear, [&] {
      linear.setGateAttr(gate.getWeightAttr());
      linear.setGateBiasAttr(gate.getBiasAttr());
      linear.setActivation(gate.getActivation());
      linear->setLoc(
          rewriter.getFusedLoc({gate.getLoc(), linear.getLoc(), op.getLoc()}));
    });
    rewriter.replaceOp(op, linear);
    rewriter.eraseOp(gate);
    return success();
  }
};

struct FuseGateIntoLinear
    : encast::impl::FuseGateIntoLinearPassBase<FuseGateIntoLinear> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseGate>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
