//===- AssignMemory.cpp - offsets in the arena, in blocks, in workspaces --===//

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
  bool overlaps(const ArenaLifetime &other) const {
    return first.step <= other.last.step && other.first.step <= last.step;
  }
  /// Whether `next` may be written row by row over what this one leaves in the
  /// step of both, as long as rows lie at the same place.
  bool handsOverTo(const ArenaLifetime &next) const {
    return last.step == next.first.step && last.ownRows && next.first.ownRows &&
           last.lastCall < next.first.firstCall;
  }
};
using ArenaLifetimes = llvm::MapVector<Operation *, ArenaLifetime>;

/// Where the edges of tiles of a slot are kept, for slots of which they are.
using EdgeSlots = llvm::MapVector<Operation *, SlotOp>;

/// Whether an address is that of a row of a block, and of nothing else. Blocks
/// are cut where tiles end, behind which neighbours are taken from elsewhere.
bool isOwnRow(StepOp step, AtAttr at) {
  if (at.getEdgeTile())
    return !step.getHeads() && at.getEdges() &&
           step.getRowTile() % at.getEdgeTile() == 0;
  return !step.getHeads() && at.getRowBytes() && !at.getBy() &&
         !at.getSequence() && !at.getPlanes() && !at.getKeyBytes() &&
         at.getOffset() >= 0 && at.getOffset() < at.getRowBytes();
}

struct AssignMemory : encast::impl::AssignMemoryPassBase<AssignMemory> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    ArenaLifetimes arena;
    EdgeSlots edges;
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
          auto visitArena = [&](SlotOp slot, bool ownRows) {
            Visit visit{place, callPlace, callPlace, ownRows};
            arena.insert({slot, {visit, visit}}).first->second.touch(visit);
          };
          if (slot.getKind() == SlotKind::Arena)
            visitArena(slot, isOwnRow(step, at));
          if (at.getEdges()) {
            edges[slot] = symbols.lookup<SlotOp>(at.getEdges().getValue());
            visitArena(edges[slot], /*ownRows=*/false);
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
    dropUnusedEdges(module, arena, edges);
    assignArenaOffsets(findChains(arena, edges));
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

  /// Slots that follow each other in the same memory, row by row.
  struct Chain {
    SmallVector<SlotOp> slots;
    ArenaLifetime lifetime;
    int64_t rowBytes, offset;
    size_t number; ///< In the order of the first use.
    /// Of its steps the first where most is alive, and the bytes of a row
    /// there.
    int64_t heaviestStep, heaviestBytes;
  };

  static SmallVector<Chain> findChains(const ArenaLifetimes &slots,
                                       const EdgeSlots &edges) {
    SmallVector<Chain> chains;
    for (const auto &entry : slots) {
      auto slot = cast<SlotOp>(entry.first);
      const ArenaLifetime &lifetime = entry.second;
      auto find = [&](bool needsEdges) {
        return llvm::find_if(chains, [&](const Chain &chain) {
          return chain.rowBytes == *slot.getRowBytes() &&
                 chain.lifetime.handsOverTo(lifetime) &&
                 edges.contains(chain.slots.back()) == needsEdges;
        });
      };
      // Rather where that needs no edges.
      auto *before = find(false);
      if (before == chains.end())
        before = find(true);
      if (before == chains.end()) {
        chains.push_back(
            {{slot}, lifetime, *slot.getRowBytes(), 0, chains.size(), 0, 0});
        continue;
      }
      before->slots.push_back(slot);
      before->lifetime.last = lifetime.last;
    }
    for (Chain &chain : chains)
      for (int64_t step = chain.lifetime.first.step;
           step <= chain.lifetime.last.step; ++step) {
        int64_t bytes = 0;
        for (const Chain &other : chains)
          if (other.lifetime.first.step <= step &&
              step <= other.lifetime.last.step)
            bytes += other.rowBytes;
        if (bytes > chain.heaviestBytes) {
          chain.heaviestBytes = bytes;
          chain.heaviestStep = step;
        }
      }
    return chains;
  }

  /// Places each chain at the lowest offset where it fits between those that
  /// live at the same time. Returns the bytes of a row of the arena.
  static int64_t placeInOrder(MutableArrayRef<Chain> chains) {
    SmallVector<const Chain *> placed; // By ascending offset.
    int64_t total = 0;
    for (Chain &chain : chains) {
      chain.offset = 0;
      for (const Chain *other : placed)
        if (other->lifetime.overlaps(chain.lifetime) &&
            other->offset < chain.offset + chain.rowBytes)
          chain.offset =
              std::max(chain.offset, other->offset + other->rowBytes);
      auto *behind = llvm::find_if(placed, [&](const Chain *other) {
        return other->offset > chain.offset;
      });
      placed.insert(behind, &chain);
      total = std::max(total, chain.offset + chain.rowBytes);
    }
    return total;
  }

  /// Edges of a slot that nothing is written over cost memory for nothing: its
  /// neighbours are read where they are.
  static void dropUnusedEdges(ModuleOp module, ArenaLifetimes &slots,
                              EdgeSlots &edges) {
    for (const Chain &chain : findChains(slots, edges)) {
      SlotOp last = chain.slots.back(), kept = edges.lookup(last);
      if (!kept)
        continue;
      for (auto step : module.getOps<StepOp>())
        for (Operation &call :
             llvm::make_early_inc_range(step.getBody().front()))
          dropEdges(&call, kept.getSymName());
      slots.find(last)->second.last.ownRows = false;
      slots.erase(kept);
      edges.erase(last);
      kept.erase();
    }
  }

  /// Erases the copy of edges that `call` is, or lets it read neighbours where
  /// they are.
  static void dropEdges(Operation *call, StringRef edges) {
    auto rows = dyn_cast<ForRowsOp>(call);
    if (!rows)
      return;
    SmallVector<Attribute> args;
    for (Attribute arg : rows.getArgs()) {
      auto at = dyn_cast<AtAttr>(arg);
      if (at && at.getSymbol().getValue() == edges)
        return call->erase();
      bool reads = at && at.getEdges() && at.getEdges().getValue() == edges;
      args.push_back(reads ? At{.symbol = at.getSymbol().getValue(),
                                .offset = at.getOffset(),
                                .rowBytes = at.getRowBytes()}
                                 .attr(call->getContext())
                           : arg);
    }
    rows.setArgsAttr(ArrayAttr::get(call->getContext(), args));
  }

  /// Offsets in a row of the arena. No order of placing is best for every
  /// model: the largest first, or step by step from where most is alive.
  static void assignArenaOffsets(SmallVector<Chain> bySize) {
    auto sizeOf = [](const Chain &chain) {
      // Of sequences there are fewer than of tokens.
      bool perToken =
          SlotOp(chain.slots.front()).getRows() != Domain::Sequences;
      return std::tuple(!perToken, -chain.rowBytes, chain.number);
    };
    llvm::sort(bySize, [&](const Chain &a, const Chain &b) {
      return sizeOf(a) < sizeOf(b);
    });
    SmallVector<Chain> byStep = bySize;
    llvm::sort(byStep, [&](const Chain &a, const Chain &b) {
      return std::tuple(-a.heaviestBytes, a.heaviestStep, sizeOf(a)) <
             std::tuple(-b.heaviestBytes, b.heaviestStep, sizeOf(b));
    });
    int64_t bytesBySize = placeInOrder(bySize);
    bool isShorter = placeInOrder(byStep) < bytesBySize;
    for (const Chain &chain : isShorter ? byStep : bySize)
      for (SlotOp slot : chain.slots)
        slot.setOffset(chain.offset);
  }
};

} // namespace
