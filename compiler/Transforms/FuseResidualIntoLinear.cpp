//===- FuseResidualIntoLinear.cpp - fold additions into linears -----------===//

#include "compiler/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace encast {
#define GEN_PASS_DEF_FUSERESIDUALINTOLINEARPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

/// linear(x) + y becomes a linear with residual y. The linear moves down to the
/// addition, where y is known.
struct FuseResidual : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [value, other] : {std::pair(op.getLhs(), op.getRhs()),
                                std::pair(op.getRhs(), op.getLhs())}) {
      auto linear = value.getDefiningOp<LinearOp>();
      if (!linear || !linear->hasOneUse() || linear.getResidual())
        continue;
      auto fused = rewriter.replaceOpWithNewOp<LinearOp>(
          op, op.getType(), linear.getInput(), linear.getWeightAttr(),
          linear.getBiasAttr(), linear.getActivationAttr(), other,
          linear.getNameAttr(), linear.getLayerAttr());
      fused->setLoc(rewriter.getFusedLoc({linear.getLoc(), op.getLoc()}));
      rewriter.eraseOp(linear);
      return success();
    }
    return rewriter.notifyMatchFailure(
        op, "no operand is a linear without residual and other readers");
  }
};

struct FuseResidualIntoLinear
    : encast::impl::FuseResidualIntoLinearPassBase<FuseResidualIntoLinear> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FuseResidual>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
