//===- ArtifactModel.cpp - from the llvm stage to an artifact -------------===//

#include "compiler/Driver/ArtifactModel.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/LLVM/EmitObject.h"
#include "codegen/LLVM/PlanToLLVM.h"
#include "compiler/Pipeline/Pipeline.h"
#include "dialects/Kernel/Kernel.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace encast;

FailureOr<TargetCpu> encast::targetOf(ModuleOp module) {
  auto name = module->getAttrOfType<StringAttr>(kernel::kTargetAttrName);
  TargetCpu target;
  std::string error = "module has no target";
  if (!name || !parseTarget(name.getValue(), target, error))
    return module.emitError() << error;
  return target;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static ElementType elementType(Type type) {
  if (type.isF16())
    return ElementType::F16;
  if (type.isBF16())
    return ElementType::BF16;
  return ElementType::F32;
}

static FailureOr<WeightRecipe> makeRecipe(encoder::WeightOp weight) {
  WeightRecipe recipe;
  recipe.name = weight.getSymName().str();
  DenseMap<Value, int> numbers;
  for (Operation &op : weight.getRecipe().front().without_terminator()) {
    if (op.getNumResults() != 1 ||
        !isa<RankedTensorType>(op.getResult(0).getType()))
      return op.emitOpError("is not an operation of recipes");
    RecipeStep step{};
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    step.shape.assign(type.getShape().begin(), type.getShape().end());
    step.type = elementType(type.getElementType());
    for (Value operand : op.getOperands())
      step.operands.push_back(numbers.lookup(operand));
    bool known = llvm::TypeSwitch<Operation *, bool>(&op)
                     .Case([&](encoder::TensorOp tensor) {
                       step.kind = RecipeStep::Kind::Tensor;
                       step.file = tensor.getFile().str();
                       step.tensor = tensor.getTensor().str();
                       return true;
                     })
                     .Case([&](encoder::ConcatOp) {
                       step.kind = RecipeStep::Kind::Concat;
                       return true;
                     })
                     .Case([&](encoder::SliceOp slice) {
                       step.kind = RecipeStep::Kind::Slice;
                       step.begin = slice.getBegin();
                       return true;
                     })
                     .Case([&](encoder::ScaleOp scale) {
                       step.kind = RecipeStep::Kind::Scale;
                       step.factor = scale.getFactor().convertToDouble();
                       return true;
                     })
                     .Case([&](encoder::CastOp) {
                       step.kind = RecipeStep::Kind::Cast;
                       return true;
                     })
                     .Case([&](kernel::PadRowsOp pad) {
                       step.kind = RecipeStep::Kind::PadRows;
                       step.group = pad.getGroup();
                       step.padded = pad.getPadded();
                       return true;
                     })
                     .Case([&](kernel::PackOp) {
                       step.kind = RecipeStep::Kind::PackPanels;
                       return true;
                     })
                     .Default([](Operation *) { return false; });
    if (!known)
      return op.emitOpError("is not an operation of recipes");
    numbers[op.getResult(0)] = static_cast<int>(recipe.steps.size());
    recipe.steps.push_back(std::move(step));
  }
  if (recipe.steps.empty() || numbers.lookup(weight.getYielded()) !=
                                  static_cast<int>(recipe.steps.size()) - 1)
    return weight.emitOpError(
        "has a recipe that does not yield its last value");
  return recipe;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static int64_t number(kernel::DefineOp define, StringRef name, int64_t absent) {
  auto attr = define.getShape().getAs<IntegerAttr>(name);
  return attr ? attr.getInt() : absent;
}

static LogicalResult generate(kernel::DefineOp define, KernelCode &kernel) {
  const KernelRow *row = findKernelRow(define.getRow());
  if (!row)
    return define.emitOpError() << "needs kernel row '" << define.getRow()
                                << "', which this compiler does not have";
  std::string error;
  bool done = false;
  if (row->family == KernelFamily::Linear) {
    LinearShape shape;
    shape.k = number(define, "k", 0);
    shape.lda = number(define, "lda", 0);
    shape.ldc = number(define, "ldc", 0);
    shape.ldr = number(define, "ldr", 0);
    shape.residual = define.getShape().contains("ldr");
    shape.bias = define.getShape().contains("bias");
    if (auto name = define.getShape().getAs<StringAttr>("activation"))
      if (!parseActivation(name.getValue(), shape.activation))
        return define.emitOpError()
               << "has unknown activation '" << name.getValue() << "'";
    done = generateLinear(*row, shape, kernel.bytes, error);
  } else {
    AttentionShape shape;
    shape.headSize = number(define, "head_size", 0);
    shape.ldo = number(define, "ldo", 0);
    if (auto scale = define.getShape().getAs<FloatAttr>("scale"))
      shape.scale = static_cast<float>(scale.getValueAsDouble());
    done = generateAttention(*row, shape, kernel.bytes, error);
  }
  if (!done)
    return define.emitOpError() << "cannot be generated: " << error;
  return success();
}

static LogicalResult generateKernels(ModuleOp module, StringRef prefix,
                                     std::vector<KernelCode> &kernels) {
  for (auto define : module.getOps<kernel::DefineOp>()) {
    KernelCode kernel;
    kernel.symbol = kernelSymbol(prefix, define.getSymName());
    if (failed(generate(define, kernel)))
      return failure();
    kernels.push_back(std::move(kernel));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static ArtifactForm makeForm(plan::SlotOp slot) {
  ArtifactForm form{};
  int64_t bytes = *slot.getRowBytes();
  form.colour = slot.getColour().value_or(0);
  form.outputs = slot.getOutputs().value_or(~uint64_t(0));
  switch (*slot.getRows()) {
  case plan::Domain::Selected: // At most every token and every first one again.
    form.bytesPerToken = bytes;
    form.bytesPerSequence = bytes;
    break;
  case plan::Domain::Sequences:
    form.bytesPerSequence = bytes;
    break;
  default:
    form.bytesPerToken = bytes;
  }
  return form;
}

static ArtifactStep makeStep(plan::StepOp op) {
  ArtifactStep step{};
  step.name = op.getSymName().str();
  step.domain = static_cast<uint32_t>(op.getDomain());
  step.layer = op.getLayer().value_or(0);
  step.maxRows = op.getMaxRows();
  step.rowTile = op.getRowTile();
  step.splitRows = op.getSplitRows();
  step.heads = op.getHeads().value_or(0);
  for (auto invoke : op.getBody().front().getOps<plan::InvokeOp>()) {
    ArtifactCall call{};
    call.name = invoke.getName().value_or(invoke.getKernel()).str();
    call.kernel = invoke.getKernel().str();
    call.function = invoke.getFunction().str();
    call.modes = invoke.getModes();
    call.panels = invoke.getPanels();
    call.panelTile = invoke.getPanelTile();
    call.outputs = invoke.getOutputs();
    call.flopsPerRow = invoke.getFlopsPerRow();
    call.flopsPerRowAndKey = invoke.getFlopsPerRowAndKey();
    step.calls.push_back(std::move(call));
  }
  return step;
}

static FailureOr<ArtifactVariant> makeVariant(ModuleOp module) {
  FailureOr<TargetCpu> target = targetOf(module);
  if (failed(target))
    return failure();
  ArtifactVariant variant{};
  variant.name = target->name;
  variant.cpuFeatures = target->features;
  variant.rank = target->rank;
  for (auto memory : module.getOps<plan::MemoryOp>()) {
    variant.blockBytes = memory.getBlockBytes();
    variant.workspaceBytes = memory.getWorkspaceBytes();
  }
  for (plan::SlotOp slot : collectSlots(module)) {
    bool arena = slot.getKind() == plan::SlotKind::Arena;
    variant.slots.push_back(
        {slot.getSymName().str(), static_cast<uint32_t>(slot.getKind()),
         static_cast<uint32_t>(arena ? slot.getColour().value_or(0)
                                     : slot.getIndex().value_or(0))});
    if (!arena)
      continue;
    // Many slots of a colour ask for the same.
    ArtifactForm form = makeForm(slot);
    bool known = llvm::any_of(variant.forms, [&](const ArtifactForm &other) {
      return other.colour == form.colour && other.outputs == form.outputs &&
             other.bytesPerToken == form.bytesPerToken &&
             other.bytesPerSequence == form.bytesPerSequence;
    });
    if (!known)
      variant.forms.push_back(form);
    variant.colours =
        std::max(variant.colours, slot.getColour().value_or(0) + 1);
  }
  for (Operation *op : collectWeights(module)) {
    FailureOr<WeightRecipe> recipe = makeRecipe(cast<encoder::WeightOp>(op));
    if (failed(recipe))
      return failure();
    variant.weights.push_back(std::move(*recipe));
  }
  for (auto step : module.getOps<plan::StepOp>())
    variant.steps.push_back(makeStep(step));
  if (failed(
          generateKernels(module, symbolPrefix(target->name), variant.kernels)))
    return failure();
  std::string error;
  if (!emitObject(module, *target, variant.object, /*assembly=*/nullptr, error))
    return module.emitError() << error;
  return variant;
}

/// The model's metadata, an object, with two more members: `sources`, the
/// SHA-256 of each checkpoint file, and `options` of the compilation.
static std::string metadataOf(ModuleOp module, StringRef metadata) {
  std::string members;
  llvm::raw_string_ostream out(members);
  llvm::json::OStream json(out);
  json.object([&] {
    json.attributeObject("sources", [&] {
      for (auto source : module.getOps<encoder::SourceOp>())
        json.attribute(llvm::json::fixUTF8(source.getPath()),
                       llvm::json::fixUTF8(source.getSha256()));
    });
    json.attributeObject("options",
                         [&] { json.attribute("precision", "f32"); });
  });
  metadata = metadata.trim();
  if (!metadata.consume_front("{") || !metadata.consume_back("}"))
    return members;
  return ("{" + metadata + (metadata.trim().empty() ? "" : ",") +
          StringRef(members).drop_front())
      .str();
}

LogicalResult encast::buildArtifactModel(ArrayRef<ModuleOp> variants,
                                         ArtifactModel &model) {
  ModuleOp first = variants.front();
  auto attrs = first->getAttrOfType<DictionaryAttr>(encoder::kModelAttrName);
  auto text = [&](StringRef name) {
    auto attr = attrs.getAs<StringAttr>(name);
    return attr ? attr.getValue().str() : std::string();
  };
  auto integer = [&](StringRef name) {
    auto attr = attrs.getAs<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  model.family = text("family");
  model.metadata = metadataOf(first, text("metadata"));
  model.vocabulary = integer("vocabulary");
  model.maxTokens = integer("max_tokens");
  model.tokenTypes = integer("token_types");
  model.padId = integer("pad_id");
  model.hidden = integer("hidden");
  model.layers = integer("layers");
  model.defaultOutput = integer("default_output");
  for (auto output : first.getOps<kernel::OutputOp>())
    model.outputs.push_back({output.getName().str(),
                             static_cast<int64_t>(output.getColumns()),
                             output.getPerToken(), output.getAllRows()});
  for (ModuleOp module : variants) {
    FailureOr<ArtifactVariant> variant = makeVariant(module);
    if (failed(variant))
      return failure();
    model.variants.push_back(std::move(*variant));
  }
  return success();
}

LogicalResult encast::printAssembly(ModuleOp variant, raw_ostream &out) {
  FailureOr<TargetCpu> target = targetOf(variant);
  if (failed(target))
    return failure();
  std::vector<uint8_t> object;
  std::string assembly, error;
  if (!emitObject(variant, *target, object, &assembly, error))
    return variant.emitError() << error;
  out << assembly;
  std::vector<KernelCode> kernels;
  if (failed(generateKernels(variant, symbolPrefix(target->name), kernels)))
    return failure();
  for (const KernelCode &kernel : kernels) {
    out << "\n" << kernel.symbol << ":\n";
    if (!disassemble(kernel.bytes, *target, out, error))
      return variant.emitError() << error;
  }
  return success();
}
