//===- TileRows.cpp - choose the rows of blocks ---------------------------===//

#include "codegen/Target/TargetCpu.h"
#include "compiler/Transforms/Passes.h"
#include "compiler/Transforms/PlanUses.h"
#include "dialects/Kernel/Kernel.h"
#include "llvm/ADT/SetVector.h"

namespace encast {
#define GEN_PASS_DEF_TILEROWSPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::plan;

namespace {

/// Fewer rows leave the kernels waiting for weights, more gain nothing.
constexpr int64_t kFewestRows = 96, kMostRows = 192;
/// Up to this many rows, reading all weights twice costs more than barriers.
constexpr int64_t kSplitRows = 64;

struct TileRows : encast::impl::TileRowsPassBase<TileRows> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto name = module->getAttrOfType<StringAttr>(kernel::kTargetAttrName);
    TargetCpu target;
    std::string error = "module has no target";
    if (!name || !parseTarget(name.getValue(), target, error)) {
      module.emitError() << error;
      return signalPassFailure();
    }
    SymbolTable symbols(module);
    for (auto step : module.getOps<StepOp>())
      tile(step, symbols, target);
  }

  void tile(StepOp step, SymbolTable &symbols, const TargetCpu &target) {
    if (step.getHeads())
      return; // A tile of queries is what the kernel takes at once.
    llvm::SetVector<Operation *> slots;
    int64_t panelBytes = 0;
    for (Operation &op : step.getBody().front()) {
      int64_t tile = 1;
      if (auto call = dyn_cast<CallOp>(op))
        tile = call.getPanelTile();
      else if (auto groups = dyn_cast<ForPanelsOp>(op))
        tile = groups.getPanelTile();
      forEachAddress(&op, [&](AtAttr at) {
        Operation *symbol = symbols.lookup(at.getSymbol().getValue());
        if (auto slot = dyn_cast_or_null<SlotOp>(symbol)) {
          if (slot.getKind() == SlotKind::Block)
            slots.insert(slot);
        } else {
          panelBytes = std::max(panelBytes, tile * at.getPanelBytes());
        }
      });
    }
    int64_t rowBytes = 1;
    for (Operation *slot : slots)
      rowBytes += *cast<SlotOp>(slot).getRowBytes();
    int64_t rows = std::clamp((target.l2Bytes / 2 - panelBytes) / rowBytes,
                              kFewestRows, kMostRows);
    int64_t by = step.getRowTile();
    rows = std::max(rows / by, int64_t(1)) * by;
    step.setMaxRows(rows);
    step.setSplitRows(std::min(kSplitRows, rows));
  }
};

} // namespace
