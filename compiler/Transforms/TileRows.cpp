//===- TileRows.cpp - choose the rows of blocks ---------------------------===//

#include "codegen/Kernels/Kernels.h"
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
/// Rows of a block where tiles of one or two planes, or of three, are
/// multiplied, with an L2 of 2 MB: more activations push out the weights that
/// all rows share, fewer leave the tiles waiting for weights.
constexpr int64_t kTileRows = 256, kThreePlaneRows = 128;
constexpr int64_t kTileL2Bytes = 2 << 20;
/// So many times these rows where panels are packed for each block of rows:
/// that costs more than what falls out of the L2.
constexpr int64_t kPackedBlocks = 2;
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

  /// bf16 planes of the activations that a kernel multiplies; 0 if they are
  /// f32.
  static int64_t planesOf(CallOp call, SymbolTable &symbols) {
    auto define = symbols.lookup<kernel::DefineOp>(call.getCallee());
    const KernelRow *row = define ? findKernelRow(define.getRow()) : nullptr;
    return row ? activationPlanes(row->arithmetic) : 0;
  }

  void tile(StepOp step, SymbolTable &symbols, const TargetCpu &target) {
    if (step.getHeads())
      return; // A tile of queries is what the kernel takes at once.
    llvm::SetVector<Operation *> slots;
    int64_t panelBytes = 0, planes = 0;
    bool packs = false;
    step.walk([&](CallOp call) {
      planes = std::max(planes, planesOf(call, symbols));
    });
    step.walk([&](ForEachPanelOp) { packs = true; });
    for (Operation &op : step.getBody().front()) {
      int64_t tile = 1;
      if (auto call = dyn_cast<CallOp>(op)) {
        tile = call.getPanelTile();
      } else if (auto groups = dyn_cast<ForPanelsOp>(op)) {
        tile = groups.getPanelTile();
      }
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
    if (planes)
      rows = (planes > 2 ? kThreePlaneRows : kTileRows) * target.l2Bytes /
             kTileL2Bytes * (packs ? kPackedBlocks : 1);
    int64_t by = step.getRowTile();
    rows = std::max(rows / by, int64_t(1)) * by;
    step.setMaxRows(rows);
    step.setSplitRows(planes ? rows : std::min(kSplitRows, rows));
  }
};

} // namespace
