//===- BuildEncoder.cpp - from ModelSpec to Encoder IR --------------------===//
///
/// \file
///   input, embedding, layer_norm          one per model
///   query, key, value, attention, output, add, layer_norm,
///   up, activation, down, add, layer_norm one per block
///   first, pick, pool, heads, output      one per output
//===----------------------------------------------------------------------===//

#include "frontends/BuildEncoder.h"
#include "mlir/IR/Builders.h"
#include <cmath>
#include <map>

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

class EncoderBuilder {
public:
  EncoderBuilder(const ModelSpec &spec, ModuleOp module)
      : spec(spec), module(module), symbols(module), b(module.getBodyRegion()) {
  }

  void build();

private:
  const ModelSpec &spec;
  ModuleOp module;
  SymbolTable symbols;
  OpBuilder b;
  int64_t layer = 0; ///< 1-based; 0 outside of blocks.
  std::map<std::pair<std::string, std::string>, FlatSymbolRefAttr> weights;

  Location loc(StringRef name) {
    return NameLoc::get(b.getStringAttr(name), b.getUnknownLoc());
  }
  StringAttr nameAttr(StringRef name) { return b.getStringAttr(name); }
  IntegerAttr layerAttr() {
    return layer ? b.getI64IntegerAttr(layer) : IntegerAttr();
  }
  Type rowsType(int64_t columns, Value like) {
    return getRowsType(b.getContext(), columns, getRows(like));
  }

  Type elementType(StringRef name) {
    if (name == "f16")
      return b.getF16Type();
    if (name == "bf16")
      return b.getBF16Type();
    return b.getF32Type();
  }

  /// The symbol of a checkpoint tensor; declares it at its first use. Vectors
  /// that row programs read are cast to f32, other weights stay as stored.
  FlatSymbolRefAttr weight(const TensorRef &ref, bool asF32 = false) {
    FlatSymbolRefAttr &symbol = weights[{ref.file, ref.name}];
    if (symbol)
      return symbol;
    auto stored = RankedTensorType::get(ref.shape, elementType(ref.type));
    auto type =
        asF32 ? RankedTensorType::get(ref.shape, b.getF32Type()) : stored;
    OpBuilder atEnd = OpBuilder::atBlockEnd(module.getBody());
    auto op = WeightOp::create(atEnd, loc(ref.name), ref.name, type);
    symbol = FlatSymbolRefAttr::get(b.getContext(), symbols.insert(op));
    OpBuilder recipe = OpBuilder::atBlockBegin(&op.getRecipe().emplaceBlock());
    Value value =
        TensorOp::create(recipe, op.getLoc(), stored, ref.name, ref.file);
    if (type != stored)
      value = CastOp::create(recipe, op.getLoc(), type, value);
    YieldOp::create(recipe, op.getLoc(), value);
    return symbol;
  }
  FlatSymbolRefAttr optionalWeight(const TensorRef &ref, bool asF32 = false) {
    return ref.present() ? weight(ref, asF32) : FlatSymbolRefAttr();
  }

  Value linear(Value x, const LinearSpec &linear) {
    return LinearOp::create(
        b, loc(linear.name), rowsType(linear.weight.shape[0], x), x,
        weight(linear.weight), optionalWeight(linear.bias),
        ActivationKindAttr::get(b.getContext(), ActivationKind::None),
        /*residual=*/Value(), nameAttr(linear.name), layerAttr());
  }

  Value norm(Value x, const NormSpec &norm) {
    return LayerNormOp::create(
        b, loc(norm.name), x.getType(), x, weight(norm.weight, true),
        optionalWeight(norm.bias, true), b.getF64FloatAttr(norm.epsilon),
        nameAttr(norm.name), layerAttr());
  }

  Value activation(Value x, StringRef kind, StringRef name) {
    ActivationKind activation = *symbolizeActivationKind(kind);
    if (activation == ActivationKind::None)
      return x;
    return ActivationOp::create(b, loc(name), x.getType(), activation, x,
                                nameAttr(name), layerAttr());
  }

  Value add(Value lhs, Value rhs, StringRef name) {
    return AddOp::create(b, loc(name), lhs.getType(), lhs, rhs, nameAttr(name),
                         layerAttr());
  }

  Value embed();
  Value block(Value x, const BlockSpec &block);
  Value sentenceEmbedding(Value x);
  void outputs(Value x);
};

Value EncoderBuilder::embed() {
  Type indexType =
      RankedTensorType::get({ShapedType::kDynamic}, b.getI32Type());
  auto input = [&](IndexInput index) -> Value {
    return InputOp::create(b, loc(stringifyIndexInput(index)), indexType,
                           index);
  };
  const EmbeddingSpec &embedding = spec.embedding;
  SmallVector<Value> indices = {input(IndexInput::Ids)};
  SmallVector<Attribute> tables = {weight(embedding.words)};
  if (embedding.types.present()) {
    indices.push_back(input(IndexInput::TokenTypes));
    tables.push_back(weight(embedding.types));
  }
  if (embedding.positions.present()) {
    indices.push_back(input(IndexInput::Positions));
    tables.push_back(weight(embedding.positions));
  }
  Value x = EmbeddingOp::create(
      b, loc("embeddings"), getRowsType(b.getContext(), spec.hidden), indices,
      b.getArrayAttr(tables), nameAttr("embeddings"), IntegerAttr());
  return norm(x, embedding.norm);
}

Value EncoderBuilder::block(Value x, const BlockSpec &block) {
  Value query = linear(x, block.query);
  Value key = linear(x, block.key);
  Value value = linear(x, block.value);
  std::string name = StringRef(block.query.name).rsplit('.').first.str();
  int64_t headSize = spec.hidden / spec.heads;
  Value context =
      AttentionOp::create(b, loc(name), query.getType(), query, key, value,
                          b.getI64IntegerAttr(spec.heads),
                          b.getF64FloatAttr(1.0 / std::sqrt(headSize)),
                          nameAttr(name), layerAttr());
  Value attended =
      add(linear(context, block.output), x, block.attentionNorm.name);
  x = norm(attended, block.attentionNorm);
  Value up = activation(linear(x, block.up), spec.activation, block.up.name);
  Value down = add(linear(up, block.down), x, block.feedForwardNorm.name);
  return norm(down, block.feedForwardNorm);
}

Value EncoderBuilder::sentenceEmbedding(Value x) {
  auto sequences = [&](int64_t columns) {
    return getRowsType(b.getContext(), columns, Rows::Sequences);
  };
  Value result;
  for (const SentenceModule &module : spec.sentence) {
    switch (module.kind) {
    case SentenceModule::Kind::Pooling: {
      SmallVector<Value> parts;
      Type type = sequences(getColumns(x));
      StringAttr name = nameAttr("pooling");
      auto pool = [&](Pooling mode) {
        parts.push_back(PoolOp::create(b, loc("pooling"), type, mode, x, name,
                                       IntegerAttr()));
      };
      for (PoolingMode mode : module.pooling) {
        switch (mode) {
        case PoolingMode::Cls:
          parts.push_back(
              FirstOp::create(b, loc("pooling"), type, x, name, IntegerAttr()));
          break;
        case PoolingMode::Max:
          pool(Pooling::Max);
          break;
        case PoolingMode::Mean:
          pool(Pooling::Mean);
          break;
        case PoolingMode::MeanSqrtLength:
          pool(Pooling::MeanSqrtLength);
          break;
        case PoolingMode::WeightedMean:
          pool(Pooling::WeightedMean);
          break;
        case PoolingMode::LastToken:
          pool(Pooling::Last);
          break;
        }
      }
      result = parts.front();
      if (parts.size() > 1)
        result = ConcatColumnsOp::create(
            b, loc("pooling"),
            sequences(getColumns(x) * static_cast<int64_t>(parts.size())),
            parts, name, IntegerAttr());
      break;
    }
    case SentenceModule::Kind::Dense: {
      Value y = activation(linear(result, module.dense), module.activation,
                           module.dense.name);
      if (module.useResidual)
        y = add(y,
                module.residual.weight.present()
                    ? linear(result, module.residual)
                    : result,
                module.dense.name);
      result = y;
      break;
    }
    case SentenceModule::Kind::Normalize:
      result =
          NormalizeOp::create(b, loc("normalize"), result.getType(), result,
                              nameAttr("normalize"), IntegerAttr());
      break;
    case SentenceModule::Kind::LayerNorm:
      result = norm(result, module.norm);
      break;
    }
  }
  return result;
}

void EncoderBuilder::outputs(Value x) {
  Type sequences = getRowsType(b.getContext(), spec.hidden, Rows::Sequences);
  Type pickedRows = getRowsType(b.getContext(), spec.hidden, Rows::Picked);
  // Outputs share what they have in common.
  Value pooled, picked;
  std::map<std::string, Value> heads;
  auto pooler = [&] {
    if (!pooled) {
      Value first = FirstOp::create(b, loc(spec.pooler.name), sequences, x,
                                    nameAttr(spec.pooler.name), IntegerAttr());
      pooled = activation(linear(first, spec.pooler), "tanh", spec.pooler.name);
    }
    return pooled;
  };
  auto pick = [&] {
    if (!picked)
      picked = PickOp::create(b, loc("rows"), pickedRows, x, nameAttr("rows"),
                              IntegerAttr());
    return picked;
  };
  for (const OutputSpec &output : spec.outputs) {
    Value value;
    switch (output.kind) {
    case OutputSpec::Kind::LastHiddenState:
      value = pick();
      break;
    case OutputSpec::Kind::Pooler:
      value = pooler();
      break;
    case OutputSpec::Kind::SentenceEmbedding:
      value = sentenceEmbedding(x);
      break;
    case OutputSpec::Kind::PooledLogits:
      value = linear(pooler(), output.classifier);
      break;
    case OutputSpec::Kind::TokenLogits:
      value = linear(pick(), output.classifier);
      break;
    case OutputSpec::Kind::VocabularyLogits: {
      Value y = activation(linear(pick(), output.transform),
                           output.transformActivation, output.transform.name);
      value = linear(norm(y, output.transformNorm), output.classifier);
      break;
    }
    case OutputSpec::Kind::TokenColumn: {
      Value &head = heads[output.classifier.name];
      if (!head)
        head = linear(pick(), output.classifier);
      value = ColumnsOp::create(b, loc(output.name), rowsType(1, head), head,
                                b.getI64IntegerAttr(output.column),
                                nameAttr(output.name), IntegerAttr());
      break;
    }
    }
    OutputOp::create(b, loc(output.name), nameAttr(output.name), value,
                     /*all_rows=*/UnitAttr());
  }
}

void EncoderBuilder::build() {
  auto number = [&](StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  };
  module->setAttr(
      kModelAttrName,
      b.getDictionaryAttr(
          {b.getNamedAttr("family", b.getStringAttr(spec.family)),
           number("vocabulary", spec.vocabulary),
           number("max_tokens", spec.maxTokens),
           number("token_types", spec.tokenTypes), number("pad_id", spec.padId),
           number("hidden", spec.hidden), number("layers", spec.layers),
           number("default_output", spec.defaultOutput),
           b.getNamedAttr("metadata", b.getStringAttr(spec.metadataJson))}));
  for (const auto &[path, sha256] : spec.sources)
    SourceOp::create(b, loc(path), path, sha256);
  auto encode = func::FuncOp::create(b, loc("encode"), "encode",
                                     b.getFunctionType({}, {}));
  symbols.insert(encode);
  b.setInsertionPointToStart(encode.addEntryBlock());
  Value x = embed();
  for (const BlockSpec &spec : spec.blocks) {
    ++layer;
    x = block(x, spec);
  }
  layer = 0;
  outputs(x);
  func::ReturnOp::create(b, b.getUnknownLoc());
}

} // namespace

OwningOpRef<ModuleOp> encast::buildEncoder(const ModelSpec &spec,
                                           MLIRContext &context) {
  context.loadDialect<EncoderDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  EncoderBuilder(spec, *module).build();
  return module;
}
