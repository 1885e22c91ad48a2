//===- ModernBert.cpp - ModernBERT: config fields and tensor names --------===//
///
/// \file
/// ModernBERT, Granite-embedding r2, Ettin, mmBERT, GTE-ModernBERT and other
/// models of the class ModernBertModel with any of its heads. Source: Hugging
/// Face Transformers, models/modernbert/{configuration,modeling}_modernbert.py.
//===----------------------------------------------------------------------===//

#include "frontends/Models/ImportContext.h"

namespace encast {
namespace {

constexpr const char *kFull = "full_attention";
constexpr const char *kSliding = "sliding_attention";

/// Fields of config.json, with the defaults of ModernBertConfig.
struct ModernBertConfig {
  int64_t vocabulary, hidden, layers, heads, feedForward, positions, window;
  double epsilon;
  std::string activation, headActivation;
  bool normBias, attentionBias, feedForwardBias, decoderBias, headBias, tied;
  PoolingMode pooling = PoolingMode::Cls;
  std::vector<bool> isFull;     ///< Of each layer: attends to all tokens.
  double fullTheta, localTheta; ///< Bases of the rotary embedding.
};

void readLayers(JsonFields &config, ModernBertConfig &bert) {
  int64_t period =
      config.integer("global_attn_every_n_layers", 3, 1, INT32_MAX);
  std::vector<std::string> types =
      readLayerTypes(config, bert.layers, {kFull, kSliding});
  for (int64_t i = 0; i < bert.layers; ++i)
    bert.isFull.push_back(static_cast<size_t>(i) < types.size()
                              ? types[static_cast<size_t>(i)] == kFull
                              : i % period == 0);

  // Half of local_attention on either side.
  bert.window = config.integer("local_attention", 128, 1, INT32_MAX) / 2;
  // Newer code takes this for it, older code ignores it.
  int64_t side =
      config.integer("sliding_window", bert.window, 0, INT32_MAX / 2);
  if (side != bert.window)
    config.fail("sliding_window", "expected " + std::to_string(bert.window) +
                                      ", half of local_attention, but got " +
                                      std::to_string(side));
  bert.fullTheta = readRopeTheta(config, kFull, "global_rope_theta", 160000.0);
  // Written as null where all layers share one.
  bool isShared =
      config.mentions("local_rope_theta") && !config.has("local_rope_theta");
  bert.localTheta = readRopeTheta(config, kSliding, "local_rope_theta",
                                  isShared ? bert.fullTheta : 10000.0);
}

bool readConfig(ImportContext &context, ModernBertConfig &bert) {
  JsonFields &config = context.config;
  auto size = [&](const char *field, int64_t missing, int64_t maximum) {
    return readSize(context, field, missing, maximum);
  };
  bert.vocabulary = size("vocab_size", 50368, 1 << 24);
  bert.hidden = size("hidden_size", 768, 1 << 16);
  bert.layers = size("num_hidden_layers", 22, 1 << 10);
  bert.heads = size("num_attention_heads", 12, 1 << 12);
  bert.feedForward = size("intermediate_size", 1152, 1 << 20);
  bert.positions = size("max_position_embeddings", 8192, 1 << 24);
  bert.epsilon = config.number("norm_eps", 1e-5, 0.0, 1.0);
  bert.activation = readActivation(config, "hidden_activation", "gelu");
  bert.headActivation = readActivation(config, "classifier_activation", "gelu");
  bert.normBias = config.boolean("norm_bias", false);
  bert.attentionBias = config.boolean("attention_bias", false);
  bert.feedForwardBias = config.boolean("mlp_bias", false);
  bert.decoderBias = config.boolean("decoder_bias", true);
  bert.headBias = config.boolean("classifier_bias", false);
  bert.tied = config.boolean("tie_word_embeddings", true);
  std::string pooling = config.string("classifier_pooling", "cls");
  if (pooling == "mean")
    bert.pooling = PoolingMode::Mean;
  else if (pooling != "cls")
    config.fail("classifier_pooling",
                "expected \"cls\" or \"mean\", but got \"" + pooling + "\"");
  readLayers(config, bert);
  if (bert.hidden % bert.heads != 0 || bert.hidden / bert.heads % 2 != 0)
    config.fail("num_attention_heads",
                "expected heads of an even size, but hidden_size " +
                    std::to_string(bert.hidden) + " is given and " +
                    std::to_string(bert.heads) + " heads");
  else if (config.has("head_dim") &&
           config.integer("head_dim", 0, 1, INT32_MAX) !=
               bert.hidden / bert.heads)
    config.fail("head_dim", "expected " +
                                std::to_string(bert.hidden / bert.heads) +
                                ", hidden_size by num_attention_heads");
  checkHeadSize(config, bert.hidden, bert.heads);
  return config.ok(context.error);
}

AttentionSpec bindAttention(TensorBinder &tensors, const ModernBertConfig &bert,
                            const std::string &name, const std::string &stored,
                            bool isFull) {
  Dim hidden{bert.hidden, "hidden_size"};
  Dim all{3 * bert.hidden, "3 * hidden_size"};
  auto rows = [&](const char *part, int64_t block) {
    return tensors.linearRows(name + part, stored + "Wqkv", all, hidden,
                              bert.attentionBias, block * bert.hidden,
                              bert.hidden);
  };
  AttentionSpec attention;
  attention.query = rows("query", 0);
  attention.key = rows("key", 1);
  attention.value = rows("value", 2);
  attention.output = tensors.linear(name + "Wo", stored + "Wo", hidden, hidden,
                                    bert.attentionBias);
  attention.rope.theta = isFull ? bert.fullTheta : bert.localTheta;
  if (!isFull)
    attention.window = bert.window;
  return attention;
}

/// The first half of Wi is activated, the second multiplied with it.
FeedForwardSpec bindFeedForward(TensorBinder &tensors,
                                const ModernBertConfig &bert,
                                const std::string &name,
                                const std::string &stored) {
  Dim hidden{bert.hidden, "hidden_size"};
  Dim inner{bert.feedForward, "intermediate_size"};
  Dim both{2 * bert.feedForward, "2 * intermediate_size"};
  auto rows = [&](const char *part, int64_t block) {
    return tensors.linearRows(name + part, stored + "Wi", both, hidden,
                              bert.feedForwardBias, block * inner.size,
                              inner.size);
  };
  FeedForwardSpec feedForward;
  feedForward.gate = rows("gate", 0);
  feedForward.up = rows("up", 1);
  feedForward.down = tensors.linear(name + "Wo", stored + "Wo", hidden, inner,
                                    bert.feedForwardBias);
  return feedForward;
}

/// The base model without heads.
void bindBase(ImportContext &context, const ModernBertConfig &bert,
              const std::string &prefix) {
  ModelSpec &spec = context.spec;
  TensorBinder &tensors = context.tensors;
  Dim hidden{bert.hidden, "hidden_size"};
  auto norm = [&](const std::string &name) {
    return tensors.norm(name, prefix + name, hidden, bert.epsilon,
                        bert.normBias);
  };
  std::string words = tensors.tableName(
      prefix + "embeddings.tok_embeddings.weight", "decoder.weight", bert.tied);
  spec.embedding.words =
      tensors.take(words, {{bert.vocabulary, "vocab_size"}, hidden});
  spec.embedding.norm = norm("embeddings.norm");
  for (int64_t i = 0; i < bert.layers; ++i) {
    std::string layer = "layers." + std::to_string(i) + ".";
    BlockSpec block;
    block.attention =
        bindAttention(tensors, bert, layer + "attn.", prefix + layer + "attn.",
                      bert.isFull[static_cast<size_t>(i)]);
    // The embedding has been normalized already.
    if (i > 0)
      block.mixerNorm = norm(layer + "attn_norm");
    block.feedForward =
        bindFeedForward(tensors, bert, layer + "mlp.", prefix + layer + "mlp.");
    block.feedForwardNorm = norm(layer + "mlp_norm");
    spec.blocks.push_back(block);
  }
  spec.finalNorm = norm("final_norm");
}

/// All outputs of the task, without their tensors.
std::vector<OutputSpec> offerOutputs(const ImportContext &context) {
  using Kind = OutputSpec::Kind;
  std::vector<OutputSpec> offered = offerBase(context);
  auto offer = [&](const char *name, Kind kind, const char *classifier,
                   int64_t column = 0) {
    offered.push_back(makeOutput(name, kind, classifier, column));
  };
  if (takesHead(context, Task::FillMask, "head.dense"))
    offer("token_logits", Kind::VocabularyLogits, "decoder");
  if (takesHead(context, Task::TextClassification, "classifier") ||
      takesHead(context, Task::MultipleChoice, "classifier"))
    offer("logits", Kind::PooledLogits, "classifier");
  if (takesHead(context, Task::TokenClassification, "classifier"))
    offer("token_logits", Kind::TokenLogits, "classifier");
  if (takesHead(context, Task::QuestionAnswering, "classifier")) {
    offer("start_logits", Kind::TokenColumn, "classifier", 0);
    offer("end_logits", Kind::TokenColumn, "classifier", 1);
  }
  return offered;
}

/// Every head is LN(act(W x)) and a linear behind it.
void bindOutputs(ImportContext &context, const ModernBertConfig &bert) {
  using Kind = OutputSpec::Kind;
  TensorBinder &tensors = context.tensors;
  Dim hidden{bert.hidden, "hidden_size"};
  for (OutputSpec &output : context.spec.outputs) {
    if (output.classifier.name.empty())
      continue;
    output.transform = tensors.linear("head.dense", "head.dense", hidden,
                                      hidden, bert.headBias);
    output.transformActivation = bert.headActivation;
    output.transformNorm = tensors.norm("head.norm", "head.norm", hidden,
                                        bert.epsilon, bert.normBias);
    if (output.kind == Kind::VocabularyLogits) {
      Dim vocabulary{bert.vocabulary, "vocab_size"};
      output.classifier.weight =
          tensors.decoder(context.spec.embedding.words, "decoder.weight",
                          bert.tied, vocabulary, hidden);
      if (bert.decoderBias)
        output.classifier.bias = tensors.take("decoder.bias", {vocabulary});
      continue;
    }
    if (output.kind == Kind::PooledLogits)
      output.pooling = bert.pooling;
    output.classifier = bindClassifier(context, output, hidden);
  }
}

bool isKnown(const std::string &name) {
  for (const char *start :
       {"head.dense.", "head.norm.", "decoder.", "classifier."})
    if (startsWith(name, start))
      return true;
  return false;
}

} // namespace

bool importModernBert(ImportContext &context) {
  ModernBertConfig bert;
  std::string prefix;
  if (!readConfig(context, bert) ||
      !findPrefix(context, {"", "model."},
                  {"embeddings.", "layers.", "final_norm."}, prefix) ||
      !chooseTask(context, "ModernBert",
                  {Task::FillMask, Task::TextClassification,
                   Task::MultipleChoice, Task::TokenClassification,
                   Task::QuestionAnswering}) ||
      !checkLayerCount(context, prefix + "layers.", bert.layers))
    return false;

  ModelSpec &spec = context.spec;
  spec.hidden = bert.hidden;
  spec.layers = bert.layers;
  spec.heads = bert.heads;
  spec.keyValueHeads = bert.heads;
  spec.headSize = bert.hidden / bert.heads;
  spec.feedForward = bert.feedForward;
  spec.vocabulary = bert.vocabulary;
  spec.maxTokens = bert.positions;
  spec.activation = bert.activation;
  spec.preNorm = true;

  if (!selectOutputs(context, offerOutputs(context)))
    return false;
  bindBase(context, bert, prefix);
  bindOutputs(context, bert);
  return context.tensors.finish(isKnown, context.options.allowUnused,
                                context.notes, context.error);
}

} // namespace encast
