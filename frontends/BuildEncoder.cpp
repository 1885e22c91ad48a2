//===- BuildEncoder.cpp - from ModelSpec to Encoder IR --------------------===//
///
/// \file
///   input, embedding, norm                one per model
///   mixer, add, feed-forward, add, norms  one per block
///     attention: query, key, value, norms of heads, rope, attention, output
///     short convolution: gate * input, short_conv, * scale, output
///     feed-forward: up, activation or activation(gate) * up, down
///   norm                                  behind the last block
///   first, pick, pool, heads, output      one per output
//===----------------------------------------------------------------------===//

#include "frontends/BuildEncoder.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/FormatVariadic.h"
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
  /// By file, tensor, first row and number of rows.
  std::map<std::tuple<std::string, std::string, int64_t, int64_t>,
           FlatSymbolRefAttr>
      weights;
  std::map<double, FlatSymbolRefAttr> ropeTables; ///< By theta.
  Value positions;

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

  /// A symbol of that name, or of one like it, whose recipe `build` makes.
  FlatSymbolRefAttr
  declare(StringRef name, RankedTensorType type,
          llvm::function_ref<Value(OpBuilder &, Location)> build) {
    OpBuilder atEnd = OpBuilder::atBlockEnd(module.getBody());
    auto op = WeightOp::create(atEnd, loc(name), name, type);
    OpBuilder recipe = OpBuilder::atBlockBegin(&op.getRecipe().emplaceBlock());
    YieldOp::create(recipe, op.getLoc(), build(recipe, op.getLoc()));
    return FlatSymbolRefAttr::get(b.getContext(), symbols.insert(op));
  }

  static int64_t rowsOf(const TensorRef &ref) {
    return ref.rows < 0 ? ref.shape[0] : ref.rows;
  }

  /// The symbol of a checkpoint tensor, or rows of it, in this element type;
  /// declares it at its first use, which decides for all.
  FlatSymbolRefAttr weight(const TensorRef &ref, Type element) {
    FlatSymbolRefAttr &symbol =
        weights[{ref.file, ref.name, ref.firstRow, rowsOf(ref)}];
    if (symbol)
      return symbol;
    std::vector<int64_t> shape = ref.shape;
    Type storedElement = elementType(ref.type);
    auto whole = RankedTensorType::get(shape, storedElement);
    shape[0] = rowsOf(ref);
    auto part = RankedTensorType::get(shape, storedElement);
    auto type = RankedTensorType::get(shape, element);
    std::string name = ref.name;
    if (part != whole)
      name += llvm::formatv(".rows{0}", ref.firstRow);
    symbol = declare(name, type, [&](OpBuilder &b, Location loc) {
      Value value = TensorOp::create(b, loc, whole, ref.name, ref.file);
      if (part != whole)
        value = SliceOp::create(b, loc, part, value, ref.firstRow);
      if (type != part)
        value = CastOp::create(b, loc, type, value);
      return value;
    });
    return symbol;
  }
  /// As stored: tables of embeddings and biases.
  FlatSymbolRefAttr stored(const TensorRef &ref) {
    return weight(ref, elementType(ref.type));
  }
  /// In f32, as row programs read vectors; null if absent.
  FlatSymbolRefAttr vector(const TensorRef &ref) {
    return ref.present() ? weight(ref, b.getF32Type()) : FlatSymbolRefAttr();
  }
  /// The type of a linear's matrix tells what its values are; only a table that
  /// an embedding declared before keeps the type that it is stored in.
  FlatSymbolRefAttr matrix(const TensorRef &ref) {
    return ref.exactlyBf16 ? weight(ref, b.getBF16Type()) : stored(ref);
  }

  Value linear(Value x, const LinearSpec &linear) {
    return LinearOp::create(
        b, loc(linear.name), rowsType(rowsOf(linear.weight), x), x,
        matrix(linear.weight),
        linear.bias.present() ? stored(linear.bias) : FlatSymbolRefAttr(),
        /*gate=*/FlatSymbolRefAttr(), /*gate_bias=*/FlatSymbolRefAttr(),
        ActivationKindAttr::get(b.getContext(), ActivationKind::None),
        /*residual=*/Value(),
        PrecisionAttr::get(b.getContext(), Precision::F32),
        nameAttr(linear.name), layerAttr());
  }

  /// x itself if the norm is absent. With heads, each is normalized on its own.
  Value norm(Value x, const NormSpec &norm, int64_t heads = 0) {
    if (!norm.present())
      return x;
    FloatAttr epsilon = b.getF64FloatAttr(norm.epsilon);
    if (norm.kind == NormSpec::Kind::RootMeanSquare)
      return RmsNormOp::create(
          b, loc(norm.name), x.getType(), x, vector(norm.weight),
          heads ? b.getI64IntegerAttr(heads) : IntegerAttr(), epsilon,
          nameAttr(norm.name), layerAttr());
    assert(!heads && "heads are normalized by their root mean square");
    return LayerNormOp::create(b, loc(norm.name), x.getType(), x,
                               vector(norm.weight), vector(norm.bias), epsilon,
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

  Value multiply(Value lhs, Value rhs, StringRef name) {
    return MultiplyOp::create(b, loc(name), lhs.getType(), lhs, rhs,
                              nameAttr(name), layerAttr());
  }

  Value rope(Value x, double theta, int64_t heads, StringRef name);
  Value embed();
  Value attention(Value x, const AttentionSpec &attention);
  Value shortConv(Value x, const ShortConvSpec &conv);
  Value feedForward(Value x, const FeedForwardSpec &feedForward);
  Value block(Value x, const BlockSpec &block);
  Value pool(Value x, PoolingMode mode, StringRef name);
  Value sentenceChain(Value x, Value result);
  void outputs(Value x);
};

/// The table has a row for each position; models with several thetas have
/// several tables.
Value EncoderBuilder::rope(Value x, double theta, int64_t heads,
                           StringRef name) {
  FlatSymbolRefAttr &table = ropeTables[theta];
  if (!table) {
    auto type =
        RankedTensorType::get({spec.maxTokens, spec.headSize}, b.getF32Type());
    SmallString<24> symbol("rope.");
    constexpr unsigned mostZeros = 15;
    llvm::APFloat(theta).toString(symbol, /*FormatPrecision=*/0, mostZeros);
    table = declare(symbol, type, [&](OpBuilder &b, Location loc) -> Value {
      return RopeTableOp::create(b, loc, type, b.getF64FloatAttr(theta));
    });
  }
  return RopeOp::create(b, loc(name), x.getType(), x, positions, table,
                        b.getI64IntegerAttr(heads), nameAttr(name),
                        layerAttr());
}

Value EncoderBuilder::embed() {
  Type indexType =
      RankedTensorType::get({ShapedType::kDynamic}, b.getI32Type());
  auto input = [&](IndexInput index) -> Value {
    return InputOp::create(b, loc(stringifyIndexInput(index)), indexType,
                           index);
  };
  const EmbeddingSpec &embedding = spec.embedding;
  SmallVector<Value> indices = {input(IndexInput::Ids)};
  SmallVector<Attribute> tables = {stored(embedding.words)};
  if (embedding.types.present()) {
    indices.push_back(input(IndexInput::TokenTypes));
    tables.push_back(stored(embedding.types));
  }
  bool anyRope = llvm::any_of(spec.blocks, [](const BlockSpec &block) {
    return block.attention.rope.theta != 0;
  });
  if (anyRope || embedding.positions.present())
    positions = input(IndexInput::Positions);
  if (embedding.positions.present()) {
    indices.push_back(positions);
    tables.push_back(stored(embedding.positions));
  }
  Value x = EmbeddingOp::create(
      b, loc("embeddings"), getRowsType(b.getContext(), spec.hidden), indices,
      b.getArrayAttr(tables), nameAttr("embeddings"), IntegerAttr());
  return norm(x, embedding.norm);
}

Value EncoderBuilder::attention(Value x, const AttentionSpec &attention) {
  auto heads = [&](const LinearSpec &projection, const NormSpec &headNorm,
                   int64_t count) {
    Value value = norm(linear(x, projection), headNorm, count);
    if (attention.rope.theta == 0)
      return value;
    return rope(value, attention.rope.theta, count, projection.name + ".rope");
  };
  int64_t keyHeads = spec.keyValueHeads;
  Value query = heads(attention.query, attention.queryNorm, spec.heads);
  Value key = heads(attention.key, attention.keyNorm, keyHeads);
  Value value = linear(x, attention.value);
  std::string name = StringRef(attention.query.name).rsplit('.').first.str();
  Value context = AttentionOp::create(
      b, loc(name), query.getType(), query, key, value,
      b.getI64IntegerAttr(spec.heads),
      keyHeads == spec.heads ? IntegerAttr() : b.getI64IntegerAttr(keyHeads),
      b.getF64FloatAttr(1.0 / std::sqrt(spec.headSize)),
      attention.window < 0 ? IntegerAttr()
                           : b.getI64IntegerAttr(attention.window),
      PrecisionAttr::get(b.getContext(), Precision::F32), nameAttr(name),
      layerAttr());
  return linear(context, attention.output);
}

Value EncoderBuilder::shortConv(Value x, const ShortConvSpec &conv) {
  Value gated =
      multiply(linear(x, conv.gate), linear(x, conv.input), conv.input.name);
  Value sum = ShortConvOp::create(b, loc(conv.name), gated.getType(), gated,
                                  vector(conv.weight), vector(conv.bias),
                                  nameAttr(conv.name), layerAttr());
  Value scaled = multiply(linear(x, conv.scale), sum, conv.scale.name);
  return linear(scaled, conv.output);
}

Value EncoderBuilder::feedForward(Value x, const FeedForwardSpec &feedForward) {
  const LinearSpec &activated =
      feedForward.gate.present() ? feedForward.gate : feedForward.up;
  Value up = activation(linear(x, activated), spec.activation, activated.name);
  if (feedForward.gate.present())
    up = multiply(up, linear(x, feedForward.up), feedForward.up.name);
  return linear(up, feedForward.down);
}

Value EncoderBuilder::block(Value x, const BlockSpec &block) {
  // One half of the block: computes, adds and normalizes, or normalizes first.
  auto half = [&](const NormSpec &normSpec, const LinearSpec &output,
                  llvm::function_ref<Value(Value)> compute) {
    Value y = compute(spec.preNorm ? norm(x, normSpec) : x);
    bool named = !spec.preNorm && normSpec.present();
    x = add(y, x, named ? normSpec.name : output.name);
    if (!spec.preNorm)
      x = norm(x, normSpec);
  };
  if (block.mixer == BlockSpec::Mixer::Attention)
    half(block.mixerNorm, block.attention.output,
         [&](Value in) { return attention(in, block.attention); });
  else
    half(block.mixerNorm, block.conv.output,
         [&](Value in) { return shortConv(in, block.conv); });
  half(block.feedForwardNorm, block.feedForward.down,
       [&](Value in) { return feedForward(in, block.feedForward); });
  return x;
}

/// One row per sequence of x.
Value EncoderBuilder::pool(Value x, PoolingMode mode, StringRef name) {
  Type type = getRowsType(b.getContext(), getColumns(x), Rows::Sequences);
  auto pooled = [&](Pooling pooling) -> Value {
    return PoolOp::create(b, loc(name), type, pooling, x, nameAttr(name),
                          IntegerAttr());
  };
  switch (mode) {
  case PoolingMode::Cls:
    return FirstOp::create(b, loc(name), type, x, nameAttr(name),
                           IntegerAttr());
  case PoolingMode::Max:
    return pooled(Pooling::Max);
  case PoolingMode::Mean:
    return pooled(Pooling::Mean);
  case PoolingMode::MeanSqrtLength:
    return pooled(Pooling::MeanSqrtLength);
  case PoolingMode::WeightedMean:
    return pooled(Pooling::WeightedMean);
  case PoolingMode::LastToken:
    return pooled(Pooling::Last);
  }
  llvm_unreachable("all modes are listed");
}

/// The modules of the chain, from `result` on; pooling reads x.
Value EncoderBuilder::sentenceChain(Value x, Value result) {
  for (const SentenceModule &module : spec.sentence) {
    switch (module.kind) {
    case SentenceModule::Kind::Pooling: {
      SmallVector<Value> parts;
      for (PoolingMode mode : module.pooling)
        parts.push_back(pool(x, mode, "pooling"));
      result = parts.front();
      if (parts.size() > 1)
        result = ConcatColumnsOp::create(
            b, loc("pooling"),
            rowsType(getColumns(x) * static_cast<int64_t>(parts.size()),
                     result),
            parts, nameAttr("pooling"), IntegerAttr());
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
  // Outputs share what they have in common.
  Value pooled, picked;
  std::map<std::string, Value> heads;
  auto pooler = [&] {
    if (!pooled)
      pooled = activation(
          linear(pool(x, PoolingMode::Cls, spec.pooler.name), spec.pooler),
          "tanh", spec.pooler.name);
    return pooled;
  };
  auto pick = [&] {
    if (!picked)
      picked = PickOp::create(
          b, loc("rows"),
          getRowsType(b.getContext(), getColumns(x), Rows::Picked), x,
          nameAttr("rows"), IntegerAttr());
    return picked;
  };
  auto transformed = [&](Value y, const OutputSpec &output) {
    if (output.transform.present())
      y = linear(y, output.transform);
    y = activation(y, output.transformActivation, output.transform.name);
    return norm(y, output.transformNorm);
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
      value = sentenceChain(x, Value());
      break;
    case OutputSpec::Kind::TokenEmbeddings:
      value = sentenceChain(x, pick());
      break;
    case OutputSpec::Kind::PooledLogits:
      value = output.pooling
                  ? transformed(pool(x, *output.pooling, "pooling"), output)
                  : pooler();
      value = linear(value, output.classifier);
      break;
    case OutputSpec::Kind::TokenLogits:
    case OutputSpec::Kind::VocabularyLogits:
      value = linear(transformed(pick(), output), output.classifier);
      break;
    case OutputSpec::Kind::TokenColumn: {
      Value &head = heads[output.classifier.name];
      if (!head)
        head = linear(transformed(pick(), output), output.classifier);
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
  SmallVector<NamedAttribute> model = {
      b.getNamedAttr("family", b.getStringAttr(spec.family)),
      number("vocabulary", spec.vocabulary),
      number("max_tokens", spec.maxTokens),
      number("token_types", spec.tokenTypes),
      number("pad_id", spec.padId),
      number("hidden", spec.hidden),
      number("layers", spec.layers),
      number("default_output", spec.defaultOutput),
      b.getNamedAttr("metadata", b.getStringAttr(spec.metadataJson))};
  if (spec.attendedLength)
    model.push_back(b.getNamedAttr("attended_length", b.getUnitAttr()));
  module->setAttr(kModelAttrName, b.getDictionaryAttr(model));
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
  outputs(norm(x, spec.finalNorm));
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
