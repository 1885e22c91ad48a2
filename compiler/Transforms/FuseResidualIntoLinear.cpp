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
      rewriter.moveOpBefore(linear, op);
      rewriter.modifyOpInPlace(linear, [&, residual = other] {
        linear.getResidualMutable().assign(residual);
        linear->setLoc(rewriter.getFusedLoc({linear.getLoc(), op.getLoc()}));
      });
      rewriter.replaceOp(op, linear);
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
