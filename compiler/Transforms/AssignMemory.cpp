//===- AssignMemory.cpp - colours of the arena, offsets in blocks ---------===//

#include "compiler/Transforms/Passes.h"
#include "compiler/Transforms/PlanUses.h"
#include "dialects/Encoder/Encoder.h"
#include "encast_abi.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace encast {
#define GEN_PASS_DEF_ASSIGNMEMORYPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::plan;

namespace {

/// From the first to the last call that touches a slot of a block.
struct Lifetime {
  int64_t first, last;
  bool overlaps(const Lifetime &other) const {
    return first <= other.last && other.first <= last;
  }
};

using Lifetimes = llvm::MapVector<Operation *, Lifetime>;

void touch(Lifetimes &lifetimes, Operation *slot, int64_t place) {
  auto [entry, isNew] = lifetimes.insert({slot, {place, place}});
  if (!isNew)
    entry->second.last = place;
}

/// A step that touches a slot of the arena: from which call to which, and
/// whether all of them touch the rows of their block only.
struct Visit {
  int64_t step, firstCall, lastCall;
  bool ownRows;
};
/// From the first to the last step that touches a slot of the arena.
struct ArenaLifetime {
  Visit first, last;

  void touch(const Visit &visit) {
    for (Visit *known : {&first, &last}) {
      if (known->step != visit.step)
        continue;
      known->lastCall = visit.lastCall;
      known->ownRows &= visit.ownRows;
    }
    if (last.step != visit.step)
      last = visit;
  }
  /// Whether a slot that lives from `next` on may take this one's memory: it
  /// begins in a later step, or in a later call if rows stay where they are.
  bool endsBefore(const ArenaLifetime &next, bool sameRows) const {
    if (last.step != next.first.step)
      return last.step < next.first.step;
    return sameRows && last.ownRows && next.first.ownRows &&
           last.lastCall < next.first.firstCall;
  }
};
using ArenaLifetimes = llvm::MapVector<Operation *, ArenaLifetime>;

/// Whether an address is that of the row of a block, and of nothing else.
bool isOwnRow(StepOp step, AtAttr at) {
  return !step.getHeads() && at.getRowBytes() && !at.getBy() &&
         !at.getSequence() && !at.getPlanes() && !at.getKeyBytes() &&
         at.getOffset() >= 0 && at.getOffset() < at.getRowBytes();
}

struct AssignMemory : encast::impl::AssignMemoryPassBase<AssignMemory> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    ArenaLifetimes arena;
    llvm::DenseMap<Operation *, Operation *> users; ///< Of local slots.
    int64_t blockBytes = 0, workspaceBytes = 0, place = 0;
    for (auto step : module.getOps<StepOp>()) {
      Lifetimes block;
      int64_t callPlace = 0;
      for (Operation &call : step.getBody().front()) {
        int64_t workspace = 0;
        forEachAddress(&call, [&](AtAttr at) {
          auto slot = symbols.lookup<SlotOp>(at.getSymbol().getValue());
          if (!slot)
            return;
          if (slot.getKind() == SlotKind::Arena) {
            Visit visit{place, callPlace, callPlace, isOwnRow(step, at)};
            arena.insert({slot, {visit, visit}}).first->second.touch(visit);
          }
          if (slot.getKind() != SlotKind::Block &&
              slot.getKind() != SlotKind::Workspace)
            return;
          // Its offset is one of this step, or of this call.
          bool isBlock = slot.getKind() == SlotKind::Block;
          Operation *scope = isBlock ? step.getOperation() : &call;
          auto [user, isNew] = users.try_emplace(slot, scope);
          if (user->second != scope) {
            slot.emitOpError()
                << "is used by more than one " << (isBlock ? "step" : "call");
            return signalPassFailure();
          }
          if (isBlock) {
            touch(block, slot, callPlace);
          } else if (isNew) {
            slot.setOffset(workspace);
            workspace += bytes(slot, slot.getRows() ? step.getMaxRows() : 1);
          }
        });
        workspaceBytes = std::max(workspaceBytes, workspace);
        ++callPlace;
      }
      blockBytes =
          std::max(blockBytes, assignOffsets(block, step.getMaxRows()));
      ++place;
    }
    assignColours(arena);
    OpBuilder b(module.getContext());
    for (auto memory : llvm::make_early_inc_range(module.getOps<MemoryOp>()))
      memory.erase();
    auto steps = module.getOps<StepOp>();
    if (!steps.empty())
      b.setInsertionPoint(*steps.begin());
    else
      b.setInsertionPointToEnd(module.getBody());
    MemoryOp::create(b, module.getLoc(), blockBytes, workspaceBytes);
  }

  static int64_t bytes(SlotOp slot, int64_t rows) {
    return llvm::alignTo(*slot.getRowBytes() * rows, ENCAST_ALIGNMENT);
  }

  /// Places each slot at the lowest offset where it overlaps no slot that lives
  /// at the same time. Returns the bytes of all.
  static int64_t assignOffsets(const Lifetimes &slots, int64_t rows) {
    struct Range {
      Lifetime lifetime;
      int64_t begin, end;
    };
    SmallVector<Range> placed;
    int64_t total = 0;
    for (const auto &[op, lifetime] : slots) {
      auto slot = cast<SlotOp>(op);
      int64_t size = bytes(slot, rows), begin = 0;
      // By ascending offset, each conflict pushes the slot behind itself.
      llvm::sort(placed, [](const Range &a, const Range &b) {
        return a.begin < b.begin;
      });
      for (const Range &range : placed)
        if (range.lifetime.overlaps(lifetime) && range.begin < begin + size &&
            begin < range.end)
          begin = range.end;
      slot.setOffset(begin);
      placed.push_back({lifetime, begin, begin + size});
      total = std::max(total, begin + size);
    }
    return total;
  }

  /// Greedy in the order of the first step, which is optimal for intervals of
  /// one size; large slots first, so that small ones do not take their colour.
  /// Of the free colours the one is taken whose rows are closest in size.
  static void assignColours(const ArenaLifetimes &slots) {
    struct Wanted {
      SlotOp slot;
      ArenaLifetime lifetime;
      int64_t number;
      int64_t rowBytes() { return *slot.getRowBytes(); }
    };
    struct Colour {
      Wanted last;
      int64_t rowBytes;
    };
    SmallVector<Colour> colours;
    SmallVector<Wanted> order;
    for (const auto &[op, lifetime] : slots)
      order.push_back(
          {cast<SlotOp>(op), lifetime, static_cast<int64_t>(order.size())});
    auto key = [](Wanted &wanted) {
      return std::tuple(wanted.lifetime.first.step,
                        wanted.lifetime.first.firstCall, -wanted.rowBytes(),
                        wanted.number);
    };
    llvm::sort(order, [&](Wanted &a, Wanted &b) { return key(a) < key(b); });
    for (Wanted &wanted : order) {
      int64_t rowBytes = wanted.rowBytes();
      Colour *best = nullptr;
      for (Colour &colour : colours) {
        bool sameRows = colour.last.rowBytes() == rowBytes &&
                        colour.last.slot.getRows() == wanted.slot.getRows();
        if (colour.last.lifetime.endsBefore(wanted.lifetime, sameRows) &&
            (!best || std::abs(colour.rowBytes - rowBytes) <
                          std::abs(best->rowBytes - rowBytes)))
          best = &colour;
      }
      if (!best) {
        colours.push_back({wanted, 0});
        best = &colours.back();
      }
      best->last = wanted;
      best->rowBytes = std::max(best->rowBytes, rowBytes);
      wanted.slot.setColour(best - colours.begin());
    }
  }
};

} // namespace
