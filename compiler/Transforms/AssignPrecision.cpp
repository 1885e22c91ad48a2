//===- AssignPrecision.cpp - choose how exact products are ----------------===//

#include "compiler/Transforms/Passes.h"

namespace encast {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

struct AssignPrecision
    : encast::impl::AssignPrecisionPassBase<AssignPrecision> {
  using AssignPrecisionPassBase::AssignPrecisionPassBase;

  void runOnOperation() override {
    auto assign = [&](auto op) {
      if (op.getPrecision() == Precision::F32)
        op.setPrecision(precision);
    };
    getOperation().walk([&](Operation *op) {
      if (auto linear = dyn_cast<LinearOp>(op))
        assign(linear);
      else if (auto attention = dyn_cast<AttentionOp>(op))
        assign(attention);
    });
  }
};

} // namespace
