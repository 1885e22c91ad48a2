//===- PlanUses.cpp - which calls touch which slots -----------------------===//

#include "compiler/Transforms/PlanUses.h"

using namespace mlir;
using namespace encast;

void encast::forEachAddress(Operation *op,
                            llvm::function_ref<void(plan::AtAttr)> visit) {
  op->walk([&](Operation *call) {
    auto args = call->getAttrOfType<ArrayAttr>("args");
    if (!args)
      return;
    for (Attribute arg : args)
      if (auto at = dyn_cast<plan::AtAttr>(arg))
        visit(at);
  });
}
