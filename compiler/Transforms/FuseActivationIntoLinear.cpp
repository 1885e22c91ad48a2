//===- FuseActivationIntoLinear.cpp - fold activations into linears -------===//

#include "compiler/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace encast {
#define GEN_PASS_DEF_FUSEACTIVATIONINTOLINEARPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

/// activation(linear(x)) becomes a linear with that activation.
struct FuseActivation : OpRewritePattern<ActivationOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ActivationOp op,
                                PatternRewriter &rewriter) const override {
    auto linear = op.getInput().getDefiningOp<LinearOp>();
    if (!linear)
      return rewriter.notifyMatchFailure(op, "input is not a linear");
    if (!linear->hasOneUse())
      return rewriter.notifyMatchFailure(linear, "result has other readers");
    // The activation of a gated linear is that of its gate.
    if (linear.getActivation() != ActivationKind::None ||
        linear.getResidual() || linear.getGateAttr())
      return rewriter.notifyMatchFailure(linear, "already has an epilogue");
    rewriter.modifyOpInPlace(linear, [&] {
      linear.setActivation(op.getKind());
      linear->setLoc(rewriter.getFusedLoc({linear.getLoc(), op.getLoc()}));
    });
    rewriter.replaceOp(op, linear.getResult());
    return success();
  }
};

struct FuseActivationIntoLinear
    : encast::impl::FuseActivationIntoLinearPassBase<FuseActivationIntoLinear> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseActivation>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
