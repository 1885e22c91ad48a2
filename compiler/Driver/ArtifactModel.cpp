//===- ArtifactModel.cpp - from the llvm stage to an artifact -------------===//

#include "compiler/Driver/ArtifactModel.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/LLVM/EmitObject.h"
#include "codegen/LLVM/PlanToLLVM.h"
#include "compiler/Pipeline/Pipeline.h"
#include "dialects/Kernel/Kernel.h"
#include "encast_abi.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"
#include <map>
#include <set>
#include <tuple>

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

static WeightRecipe makeRecipe(encoder::WeightOp weight) {
  WeightRecipe recipe;
  recipe.name = weight.getSymName().str();
  DenseMap<Value, int> numbers;
  // Replaces the operands of a step, a weight and its gate, by one.
  auto interleave = [&](RecipeStep &step, Value input, int64_t group,
                        ElementType type) {
    RecipeStep both{};
    both.kind = RecipeStep::Kind::Interleave;
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(input.getType()).getShape();
    both.shape.assign(shape.begin(), shape.end());
    both.shape[0] = 2 * group * llvm::divideCeil(shape[0], group);
    both.type = type;
    both.operands = {step.operands[1], step.operands[0]}; // Gates first.
    both.group = group;
    step.operands = {static_cast<int>(recipe.steps.size())};
    recipe.steps.push_back(std::move(both));
  };
  for (Operation &op : weight.getRecipe().front().without_terminator()) {
    RecipeStep step{};
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    step.shape.assign(type.getShape().begin(), type.getShape().end());
    step.type = elementType(type.getElementType());
    for (Value operand : op.getOperands())
      step.operands.push_back(numbers.lookup(operand));
    llvm::TypeSwitch<Operation *, void>(&op)
        .Case([&](encoder::TensorOp tensor) {
          step.kind = RecipeStep::Kind::Tensor;
          step.file = tensor.getFile().str();
          step.tensor = tensor.getTensor().str();
        })
        .Case([&](encoder::ConcatOp) { step.kind = RecipeStep::Kind::Concat; })
        .Case([&](encoder::SliceOp slice) {
          step.kind = RecipeStep::Kind::Slice;
          step.begin = slice.getBegin();
        })
        .Case([&](encoder::ScaleOp scale) {
          step.kind = RecipeStep::Kind::Scale;
          step.factor = scale.getFactor().convertToDouble();
        })
        .Case([&](encoder::SliceColumnsOp slice) {
          step.kind = RecipeStep::Kind::SliceColumns;
          step.begin = slice.getBegin();
        })
        .Case([&](encoder::CastOp) { step.kind = RecipeStep::Kind::Cast; })
        .Case([&](encoder::RopeTableOp table) {
          step.kind = RecipeStep::Kind::RopeTable;
          step.theta = table.getTheta().convertToDouble();
        })
        .Case([&](kernel::PadRowsOp pad) {
          step.kind = RecipeStep::Kind::PadRows;
          step.group = pad.getGroup();
          step.padded = pad.getPadded();
        })
        .Case([&](kernel::PackOp) { step.kind = RecipeStep::Kind::PackPanels; })
        .Case([&](kernel::PackGatedOp pack) {
          interleave(step, pack.getInput(), pack.getGroup(), step.type);
          step.kind = RecipeStep::Kind::PackPanels;
        })
        .Case([&](kernel::PackTilesOp pack) {
          if (pack.getGate())
            interleave(step, pack.getInput(), kPanelColumns, ElementType::F32);
          step.kind = RecipeStep::Kind::PackTiles;
          step.planes = pack.getPlanes();
        })
        .Case([&](kernel::TransposeOp) {
          step.kind = RecipeStep::Kind::Transpose;
        })
        .DefaultUnreachable("recipes consist of these");
    numbers[op.getResult(0)] = static_cast<int>(recipe.steps.size());
    recipe.steps.push_back(std::move(step));
  }
  return recipe;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static LogicalResult generate(kernel::DefineOp define, KernelCode &kernel) {
  const KernelRow *row = findKernelRow(define.getRow());
  if (!row)
    return define.emitOpError() << "needs kernel row '" << define.getRow()
                                << "', which this compiler does not have";
  int64_t operands = operandCount(row->family);
  if (define.getOperands() != operands)
    return define.emitOpError()
           << "has " << define.getOperands() << " operands, expected "
           << operands << " for '" << define.getRow() << "'";
  std::string error;
  bool done = false;
  DictionaryAttr fields = define.getShape();
  if (row->family == KernelFamily::Linear) {
    LinearShape shape;
    shape.arithmetic = row->arithmetic;
    shape.k = define.getNumber("k");
    shape.lda = define.getNumber("lda");
    shape.ldc = define.getNumber("ldc");
    shape.ldr = define.getNumber("ldr");
    shape.residual = fields.contains("ldr");
    shape.bias = fields.contains("bias");
    shape.gated = fields.contains("gated");
    shape.accumulate = fields.contains("accumulate");
    shape.bf16Weights = fields.contains("bf16_weights");
    shape.cPlanes = static_cast<int>(define.getNumber("planes"));
    shape.cPlaneStride = define.getNumber("plane_stride");
    if (auto name = fields.getAs<StringAttr>("activation"))
      if (!parseActivation(name.getValue(), shape.activation))
        return define.emitOpError()
               << "has unknown activation '" << name.getValue() << "'";
    done = generateLinear(*row, shape, kernel.bytes, error);
  } else {
    AttentionShape shape;
    shape.arithmetic = row->arithmetic;
    shape.headSize = define.getNumber("head_size");
    shape.ldo = define.getNumber("ldo");
    if (fields.contains("query_heads"))
      shape.queryHeads = define.getNumber("query_heads");
    if (fields.contains("window"))
      shape.window = define.getNumber("window");
    if (auto scale = fields.getAs<FloatAttr>("scale"))
      shape.scale = static_cast<float>(scale.getValueAsDouble());
    shape.ldq = define.getNumber("ldq");
    shape.qPlaneStride = define.getNumber("q_plane_stride");
    shape.outPlanes = static_cast<int>(define.getNumber("planes"));
    shape.outPlaneStride = define.getNumber("plane_stride");
    shape.ldkv = define.getNumber("ldkv");
    shape.kvPlaneStride = define.getNumber("kv_plane_stride");
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

/// What the runtime reads of `encoder.model`.
static int64_t modelNumber(ModuleOp module, StringRef name) {
  auto model = module->getAttrOfType<DictionaryAttr>(encoder::kModelAttrName);
  return model.getAs<IntegerAttr>(name).getInt();
}

/// The mask of the outputs that `op` has in its attribute; -1 is all.
static FailureOr<uint64_t> outputMask(Operation *op, int64_t mask) {
  auto outputs = op->getParentOfType<ModuleOp>().getOps<kernel::OutputOp>();
  int64_t count = std::distance(outputs.begin(), outputs.end());
  uint64_t all = ~uint64_t(0) >> (64 - count);
  if (mask == -1)
    return all;
  if (static_cast<uint64_t>(mask) & ~all)
    return op->emitOpError()
           << "has outputs " << mask << ", but the model has " << count;
  return static_cast<uint64_t>(mask);
}

/// What a slot asks for of a colour, which is `bytes` of each of its rows.
static ArtifactForm makeForm(plan::SlotOp slot, uint64_t outputs,
                             int64_t colour, int64_t bytes) {
  ArtifactForm form{};
  form.colour = static_cast<uint32_t>(colour);
  form.outputs = outputs;
  switch (*slot.getRows()) {
  case plan::Domain::Selected: // At most every token and every first one again.
    form.bytesPerToken = bytes;
    form.bytesPerSequence = bytes;
    break;
  case plan::Domain::Sequences:
    form.bytesPerSequence = bytes;
    break;
  case plan::Domain::Packed:
    form.bytesPerToken = bytes * ENCAST_PACKED_ROWS(1, 0);
    form.bytesPerSequence = bytes * ENCAST_PACKED_ROWS(0, 1);
    break;
  default:
    form.bytesPerToken = bytes;
  }
  return form;
}

static FailureOr<ArtifactCall> makeCall(plan::InvokeOp invoke) {
  FailureOr<uint64_t> outputs = outputMask(invoke, invoke.getOutputs());
  if (failed(outputs))
    return failure();
  ArtifactCall call{};
  call.name = invoke.getName().value_or(invoke.getKernel()).str();
  call.kernel = invoke.getKernel().str();
  call.function = invoke.getFunction().str();
  call.modes = invoke.getModes();
  call.panels = invoke.getPanels();
  call.panelTile = invoke.getPanelTile();
  call.outputs = *outputs;
  call.flopsPerRow = invoke.getFlopsPerRow();
  call.flopsPerRowAndKey = invoke.getFlopsPerRowAndKey();
  call.window = static_cast<uint32_t>(invoke.getWindow());
  call.perHead = invoke.getPerHead();
  return call;
}

static FailureOr<ArtifactStep> makeStep(plan::StepOp op) {
  ArtifactStep step{};
  step.name = op.getSymName().str();
  step.domain = static_cast<uint32_t>(op.getDomain());
  step.layer = op.getLayer().value_or(0);
  step.maxRows = op.getMaxRows();
  step.rowTile = op.getRowTile();
  step.splitRows = op.getSplitRows();
  step.heads = op.getHeads().value_or(0);
  int64_t layers = modelNumber(op->getParentOfType<ModuleOp>(), "layers");
  if (step.layer > layers)
    return op.emitOpError() << "is of layer " << step.layer << " of " << layers;
  for (Operation &body : op.getBody().front()) {
    auto invoke = dyn_cast<plan::InvokeOp>(body);
    if (!invoke)
      return body.emitOpError("stands beside 'plan.invoke', which only the "
                              "llvm stage has");
    FailureOr<ArtifactCall> call = makeCall(invoke);
    if (failed(call))
      return failure();
    step.calls.push_back(std::move(*call));
  }
  return step;
}

/// The offsets where slots of the arena begin or end, and behind each of them
/// the number of its colour: that of the bytes up to the next offset, -1 if no
/// slot has these.
static FailureOr<std::map<int64_t, int64_t>>
findColours(ArrayRef<plan::SlotOp> slots) {
  std::map<int64_t, int64_t> colours;
  for (plan::SlotOp slot : slots) {
    if (slot.getKind() != plan::SlotKind::Arena)
      continue;
    if (!slot.getOffset())
      return slot.emitOpError("has no offset");
    colours[*slot.getOffset()] = -1;
    colours[*slot.getOffset() + *slot.getRowBytes()] = -1;
  }
  for (plan::SlotOp slot : slots)
    if (slot.getKind() == plan::SlotKind::Arena)
      for (auto at = colours.find(*slot.getOffset());
           at->first < *slot.getOffset() + *slot.getRowBytes(); ++at)
        at->second = 0;
  int64_t count = 0;
  for (auto &[offset, colour] : colours)
    if (colour == 0)
      colour = count++;
  return colours;
}

/// Slots, and the forms of the arena: a slot takes the colours between its
/// first byte of a row and its last, which follow each other.
static LogicalResult makeSlots(ModuleOp module, ArtifactVariant &variant) {
  auto outputs = module.getOps<kernel::OutputOp>();
  int64_t outputCount = std::distance(outputs.begin(), outputs.end());
  auto slots = collectSlots(module);
  FailureOr<std::map<int64_t, int64_t>> colours = findColours(slots);
  if (failed(colours))
    return failure();
  for (const auto &[offset, colour] : *colours)
    variant.colours += colour >= 0;
  for (plan::SlotOp slot : slots) {
    bool arena = slot.getKind() == plan::SlotKind::Arena;
    int64_t index = slot.getIndex().value_or(0);
    if (index >= outputCount)
      return slot.emitOpError()
             << "is output " << index << " of " << outputCount;
    auto first = colours->end();
    if (arena)
      first = colours->find(*slot.getOffset());
    variant.slots.push_back(
        {slot.getSymName().str(), static_cast<uint32_t>(slot.getKind()),
         static_cast<uint32_t>(arena ? first->second : index)});
    if (!arena)
      continue;
    FailureOr<uint64_t> mask = outputMask(slot, slot.getOutputs());
    if (failed(mask))
      return failure();
    int64_t end = *slot.getOffset() + *slot.getRowBytes();
    for (auto at = first; at->first < end; ++at) {
      ArtifactForm form =
          makeForm(slot, *mask, at->second, std::next(at)->first - at->first);
      // Many slots of a colour ask for the same.
      bool known = llvm::any_of(variant.forms, [&](const ArtifactForm &other) {
        return other.colour == form.colour && other.outputs == form.outputs &&
               other.bytesPerToken == form.bytesPerToken &&
               other.bytesPerSequence == form.bytesPerSequence;
      });
      if (!known)
        variant.forms.push_back(form);
    }
  }
  return success();
}

/// What the code in the variant uses: the level that LLVM compiled for, the
/// instruction that rounds to bf16, and what its kernels ask for. A target may
/// offer more.
static uint64_t neededFeatures(ModuleOp module, const TargetCpu &target) {
  uint64_t features = ENCAST_CPU_AVX2;
  if (target.llvmName == "x86-64-v4")
    features |= ENCAST_CPU_AVX512;
  module.walk([&](LLVM::FPTruncOp rounding) {
    if (getElementTypeOrSelf(rounding.getType()).isBF16())
      features |= target.features & ENCAST_CPU_AVX512_BF16;
  });
  for (auto define : module.getOps<kernel::DefineOp>())
    if (const KernelRow *row = findKernelRow(define.getRow()))
      features |= row->cpuFeatures;
  return features;
}

static FailureOr<ArtifactVariant> makeVariant(ModuleOp module) {
  FailureOr<TargetCpu> target = targetOf(module);
  if (failed(target))
    return failure();
  ArtifactVariant variant{};
  variant.name = target->name;
  variant.cpuFeatures = neededFeatures(module, *target);
  variant.rank = target->rank;
  auto memory = module.getOps<plan::MemoryOp>();
  if (!llvm::hasSingleElement(memory))
    return module.emitError("expects one 'plan.memory'");
  variant.blockBytes = (*memory.begin()).getBlockBytes();
  variant.workspaceBytes = (*memory.begin()).getWorkspaceBytes();
  if (failed(makeSlots(module, variant)))
    return failure();
  for (Operation *op : collectWeights(module))
    variant.weights.push_back(makeRecipe(cast<encoder::WeightOp>(op)));
  for (auto op : module.getOps<plan::StepOp>()) {
    FailureOr<ArtifactStep> step = makeStep(op);
    if (failed(step))
      return failure();
    variant.steps.push_back(std::move(*step));
  }
  if (failed(
          generateKernels(module, symbolPrefix(target->name), variant.kernels)))
    return failure();
  std::string error;
  if (!emitObject(module, *target, variant.object, /*assembly=*/nullptr, error))
    return module.emitError() << error;
  return variant;
}

/// The relative error (Frobenius norm) of a product of matrices of 1024 terms
/// at a precision, as measured on random ones (test/bench/kernels).
static double productError(encoder::Precision precision) {
  switch (precision) {
  case encoder::Precision::F32:
    return 6e-7;
  case encoder::Precision::Bf16x3:
    return 4e-6;
  case encoder::Precision::Bf16:
    return 2.5e-3;
  }
  llvm_unreachable("all precisions are listed");
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
    auto model = module->getAttrOfType<DictionaryAttr>(encoder::kModelAttrName);
    auto name = model.getAs<StringAttr>("precision");
    auto precision = name ? *encoder::symbolizePrecision(name.getValue())
                          : encoder::Precision::F32;
    json.attributeObject("options", [&] {
      json.attribute("precision", encoder::stringifyPrecision(precision));
      json.attribute("product_error", productError(precision));
    });
  });
  metadata = metadata.trim();
  if (!metadata.consume_front("{") || !metadata.consume_back("}"))
    return members;
  return ("{" + metadata + (metadata.trim().empty() ? "" : ",") +
          StringRef(members).drop_front())
      .str();
}

static std::vector<ArtifactOutput> makeOutputs(ModuleOp module) {
  std::vector<ArtifactOutput> outputs;
  for (auto output : module.getOps<kernel::OutputOp>())
    outputs.push_back({output.getName().str(), output.getColumns(),
                       output.getPerToken(), output.getAllRows()});
  return outputs;
}

LogicalResult encast::buildArtifactModel(ArrayRef<ModuleOp> variants,
                                         ArtifactModel &model) {
  ModuleOp first = variants.front();
  auto attrs = first->getAttrOfType<DictionaryAttr>(encoder::kModelAttrName);
  auto text = [&](StringRef name) {
    return attrs.getAs<StringAttr>(name).getValue();
  };
  model.family = text("family").str();
  model.metadata = metadataOf(first, text("metadata"));
  model.vocabulary = modelNumber(first, "vocabulary");
  model.maxTokens = modelNumber(first, "max_tokens");
  model.tokenTypes = modelNumber(first, "token_types");
  model.padId = modelNumber(first, "pad_id");
  model.hidden = modelNumber(first, "hidden");
  model.layers = modelNumber(first, "layers");
  model.defaultOutput = modelNumber(first, "default_output");
  model.attendedLength = attrs.contains("attended_length");
  model.outputs = makeOutputs(first);
  if (model.padId >= model.vocabulary)
    return first.emitError() << "has pad_id " << model.padId
                             << " in a vocabulary of " << model.vocabulary;
  if (model.defaultOutput >= model.outputs.size())
    return first.emitError() << "has default_output " << model.defaultOutput
                             << " of " << model.outputs.size();
  for (ModuleOp module : variants) {
    bool sameOutputs = llvm::equal(
        makeOutputs(module), model.outputs,
        [](const ArtifactOutput &a, const ArtifactOutput &b) {
          return std::tie(a.name, a.columns, a.perToken, a.allRows) ==
                 std::tie(b.name, b.columns, b.perToken, b.allRows);
        });
    if (module->getAttr(encoder::kModelAttrName) != attrs || !sameOutputs)
      return module.emitError("is a variant of another model than the first");
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
