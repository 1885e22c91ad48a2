//===- MergeLinears.cpp - merge query, key and value ----------------------===//

#include "compiler/Transforms/Demand.h"
#include "compiler/Transforms/Passes.h"
#include "encast_abi.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace encast {
#define GEN_PASS_DEF_MERGELINEARSPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

struct MergeLinears : encast::impl::MergeLinearsPassBase<MergeLinears> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      mergeIn(func);
  }

  void mergeIn(func::FuncOp func) {
    if (func.isExternal())
      return;
    uint64_t output = 0;
    DemandAnalysis demand(func, [&](Operation *op) {
      if (!isa<OutputOp>(op))
        return Demand{};
      return Demand{ENCAST_MODE_ALL | ENCAST_MODE_SELECTED, uint64_t(1)
                                                                << output++};
    });
    SymbolTable symbols(getOperation());
    auto isBF16 = [&](LinearOp linear) {
      auto weight = symbols.lookup<WeightOp>(linear.getWeight());
      return weight.getType().getElementType().isBF16();
    };
    // Linears in the order of the function, by what they read and who needs
    // them.
    SmallVector<SmallVector<LinearOp>> groups;
    for (auto linear : func.getOps<LinearOp>()) {
      if (!isMergeable(linear))
        continue;
      auto *group = llvm::find_if(groups, [&](ArrayRef<LinearOp> group) {
        LinearOp first = group.front();
        return first.getInput() == linear.getInput() &&
               !first.getBiasAttr() == !linear.getBiasAttr() &&
               first.getPrecision() == linear.getPrecision() &&
               isBF16(first) == isBF16(linear) &&
               demand.of(first) == demand.of(linear);
      });
      if (group == groups.end())
        groups.push_back({linear});
      else
        group->push_back(linear);
    }
    for (ArrayRef<LinearOp> group : groups)
      if (group.size() > 1)
        merge(group);
  }

  bool isMergeable(LinearOp linear) {
    return linear.getActivation() == ActivationKind::None &&
           !linear.getResidual() && !linear.getGateAttr() &&
           !linear->use_empty() &&
           llvm::all_of(linear->getUsers(),
                        [](Operation *user) { return isa<AttentionOp>(user); });
  }

  void merge(ArrayRef<LinearOp> group) {
    SymbolTable symbols(getOperation());
    LinearOp first = group.front();
    OpBuilder b(first);
    SmallVector<Location> locations;
    int64_t columns = 0;
    for (LinearOp linear : group) {
      locations.push_back(linear.getLoc());
      columns += getColumns(linear.getResult());
    }
    Location loc = b.getFusedLoc(locations);
    SmallVector<WeightOp> weights, biases;
    SmallVector<StringRef> weightNames, layerNames;
    for (LinearOp linear : group) {
      weights.push_back(symbols.lookup<WeightOp>(linear.getWeight()));
      weightNames.push_back(linear.getWeight());
      weightNames.back().consume_back(".weight");
      layerNames.push_back(linear.getName().value_or(weightNames.back()));
      if (linear.getBiasAttr())
        biases.push_back(symbols.lookup<WeightOp>(*linear.getBias()));
    }
    std::string name = mergedName(weightNames);
    FlatSymbolRefAttr weight = concat(loc, name + ".weight", weights, symbols),
                      bias;
    if (!biases.empty())
      bias = concat(loc, name + ".bias", biases, symbols);
    Type type = getRowsType(b.getContext(), columns, getRows(first.getInput()));
    auto merged = LinearOp::create(
        b, loc, type, first.getInput(), weight, bias,
        /*gate=*/FlatSymbolRefAttr(), /*gate_bias=*/FlatSymbolRefAttr(),
        first.getActivationAttr(), /*residual=*/Value(),
        first.getPrecisionAttr(), b.getStringAttr(mergedName(layerNames)),
        first.getLayerAttr());
    int64_t begin = 0;
    for (LinearOp linear : group) {
      b.setInsertionPoint(linear);
      Value part =
          ColumnsOp::create(b, linear.getLoc(), linear.getType(), merged,
                            b.getI64IntegerAttr(begin), linear.getNameAttr(),
                            linear.getLayerAttr());
      begin += getColumns(linear.getResult());
      linear.getResult().replaceAllUsesWith(part);
      linear.erase();
    }
    // Two linears may share a weight.
    llvm::SetVector<Operation *> parts;
    for (WeightOp part : llvm::concat<WeightOp>(weights, biases))
      parts.insert(part);
    for (Operation *part : parts)
      if (SymbolTable::symbolKnownUseEmpty(part, getOperation()))
        symbols.erase(part);
  }

  /// "a.query", "a.key" and "a.value" are merged to "a.query_key_value".
  static std::string mergedName(ArrayRef<StringRef> names) {
    std::string name = names.front().str();
    for (StringRef part : names.drop_front())
      name += "_" + part.substr(part.rfind('.') + 1).str();
    return name;
  }

  /// A weight of the parts one after the other, placed behind the last of them.
  FlatSymbolRefAttr concat(Location loc, StringRef name,
                           ArrayRef<WeightOp> parts, SymbolTable &symbols) {
    RankedTensorType first = WeightOp(parts.front()).getType();
    SmallVector<int64_t> shape(first.getShape());
    shape[0] = 0;
    bool sameType = true;
    for (WeightOp part : parts) {
      shape[0] += part.getType().getDimSize(0);
      sameType &= part.getType().getElementType() == first.getElementType();
    }
    OpBuilder b(&getContext());
    Type element = sameType ? first.getElementType() : b.getF32Type();
    auto type = RankedTensorType::get(shape, element);
    b.setInsertionPointAfter(parts.back());
    auto weight = WeightOp::create(b, loc, name, type);
    auto symbol = FlatSymbolRefAttr::get(&getContext(), symbols.insert(weight));
    b.setInsertionPointToStart(&weight.getRecipe().emplaceBlock());
    SmallVector<Value> values;
    for (WeightOp part : parts) {
      IRMapping mapping;
      for (Operation &op : part.getRecipe().front().without_terminator())
        b.clone(op, mapping);
      Value value = mapping.lookup(part.getYielded());
      auto partType = RankedTensorType::get(part.getType().getShape(), element);
      if (value.getType() != partType)
        value = CastOp::create(b, loc, partType, value);
      values.push_back(value);
    }
    Value result = ConcatOp::create(b, loc, type, values);
    YieldOp::create(b, loc, result);
    return symbol;
  }
};

} // namespace
