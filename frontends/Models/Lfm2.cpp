//===- Lfm2.cpp - bidirectional LFM2: config fields and tensor names ------===//
///
/// \file
/// LFM2.5 encoders: masked LM, embedding, ColBERT, and classifiers of tokens,
/// rules and routes. Their model_type is that of the causal LFM2, from which
/// only the class name tells them. Sources: Hugging Face Transformers,
/// models/lfm2/{configuration,modeling}_lfm2.py, for what both share; the model
/// cards of LiquidAI/LFM2.5-* for what differs: no causal mask, and a
/// convolution centred on its token.
//===----------------------------------------------------------------------===//

#include "frontends/Models/ImportContext.h"

#include <algorithm>
#include <cmath>

namespace encast {
namespace {

constexpr const char *kFull = "full_attention";
constexpr const char *kConv = "conv";
constexpr const char *kBidirectional = "Lfm2Bidir";
constexpr const char *kTokenProjection = "tok_proj";
constexpr const char *kRuleProjection = "rule_proj";
constexpr const char *kLogitScale = "logit_scale";
constexpr const char *kScoreBias = "score_bias";

constexpr int64_t kMaxFeedForward = 1 << 20;

/// Fields of config.json, with the defaults of Lfm2Config.
struct Lfm2Config {
  int64_t vocabulary, hidden, layers, heads, keyValueHeads, headSize;
  int64_t feedForward, positions;
  double epsilon, theta;
  bool convBias, tied;
  std::vector<bool> isFull; ///< Of each layer: attention, else convolution.
};

/// What stands before the task in a class name, such as "Lfm2Bidirectional" of
/// "Lfm2BidirectionalForMaskedLM". False if the model may be the causal one.
bool readClassPrefix(ImportContext &context, const std::vector<Task> &tasks,
                     std::string &prefix) {
  JsonFields &config = context.config;
  const JsonValue *architectures = config.get("architectures");
  std::string name;
  if (architectures && architectures->is(JsonValue::Kind::Array) &&
      !architectures->elements.empty())
    name = architectures->elements[0].string;
  if (!startsWith(name, kBidirectional))
    config.fail("architectures",
                "expected a class that begins with \"Lfm2Bidir\" (other models "
                "of type lfm2 are causal decoders), but got " +
                    (name.empty() ? "none" : "\"" + name + "\""));
  prefix = kBidirectional;
  for (const TaskRow &row : taskRows(tasks))
    if (!row.suffix.empty() && endsWith(name, row.suffix))
      prefix = name.substr(0, name.size() - row.suffix.size());
  return config.ok(context.error);
}

/// The width that the feed-forward gets from the config.
int64_t readFeedForward(ImportContext &context) {
  JsonFields &config = context.config;
  const char *field =
      config.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  int64_t width = readSize(context, field, 12288, kMaxFeedForward);
  bool adjusts = config.boolean("block_auto_adjust_ff_dim", true);
  int64_t multiple =
      config.integer("block_multiple_of", 256, 1, kMaxFeedForward);
  // Written as null where the width is neither scaled nor rounded.
  const char *factorField = "block_ffn_dim_multiplier";
  bool scales = config.has(factorField) || !config.mentions(factorField);
  double factor =
      scales ? config.number(factorField, 1.0, 0.0, kMaxFeedForward) : 1.0;
  if (!adjusts)
    return width;
  width = static_cast<int64_t>(2 * static_cast<double>(width) / 3);
  if (!scales)
    return width;
  double scaled = factor * static_cast<double>(width);
  if (scaled > kMaxFeedForward) {
    config.fail(factorField, "makes the feed-forward wider than " +
                                 std::to_string(kMaxFeedForward));
    return width;
  }
  return (static_cast<int64_t>(scaled) + multiple - 1) / multiple * multiple;
}

void readLayers(JsonFields &config, Lfm2Config &lfm) {
  std::vector<std::string> types =
      readLayerTypes(config, lfm.layers, {kFull, kConv});
  for (const std::string &type : types)
    lfm.isFull.push_back(type == kFull);
  lfm.isFull.resize(static_cast<size_t>(lfm.layers), types.empty());
  const JsonValue *indices = config.get("full_attn_idxs");
  if (!indices || !types.empty())
    return;
  lfm.isFull.assign(lfm.isFull.size(), false);
  if (!indices->is(JsonValue::Kind::Array))
    config.fail("full_attn_idxs",
                "expected an array, but got " + indices->describe());
  for (const JsonValue &index : indices->elements) {
    if (!index.is(JsonValue::Kind::Integer) || index.integer < 0 ||
        index.integer >= lfm.layers) {
      config.fail("full_attn_idxs", "expected layers from 0 to " +
                                        std::to_string(lfm.layers - 1) +
                                        ", but got " + index.describe());
      return;
    }
    lfm.isFull[static_cast<size_t>(index.integer)] = true;
  }
}

void readHeads(ImportContext &context, Lfm2Config &lfm) {
  JsonFields &config = context.config;
  lfm.heads = readSize(context, "num_attention_heads", 32, 1 << 12);
  lfm.keyValueHeads = readSize(context, "num_key_value_heads", 8, 1 << 12);
  if (lfm.heads % lfm.keyValueHeads != 0)
    config.fail("num_key_value_heads",
                "expected a divisor of num_attention_heads " +
                    std::to_string(lfm.heads) + ", but got " +
                    std::to_string(lfm.keyValueHeads));
  if (config.has("head_dim")) {
    lfm.headSize = config.integer("head_dim", 1, 1, kMaxHeadSize);
    if (lfm.headSize % 2 != 0)
      config.fail("head_dim", "expected an even size, but got " +
                                  std::to_string(lfm.headSize));
    return;
  }
  lfm.headSize = lfm.hidden / lfm.heads;
  if (lfm.hidden % lfm.heads != 0 || lfm.headSize % 2 != 0)
    config.fail("num_attention_heads",
                "expected heads of an even size, but hidden_size " +
                    std::to_string(lfm.hidden) + " is given and " +
                    std::to_string(lfm.heads) + " heads");
  checkHeadSize(config, lfm.hidden, lfm.heads);
}

bool readConfig(ImportContext &context, Lfm2Config &lfm) {
  JsonFields &config = context.config;
  lfm.vocabulary = readSize(context, "vocab_size", 65536, 1 << 24);
  lfm.hidden = readSize(context, "hidden_size", 2560, 1 << 16);
  lfm.layers = readSize(context, "num_hidden_layers", 32, 1 << 10);
  lfm.positions = readSize(context, "max_position_embeddings", 128000, 1 << 24);
  lfm.feedForward = readFeedForward(context);
  lfm.epsilon = config.number("norm_eps", 1e-5, 0.0, 1.0);
  lfm.theta = readRopeTheta(config, kFull, "rope_theta", 1e6);
  lfm.convBias = config.boolean("conv_bias", false);
  lfm.tied = config.boolean("tie_embedding",
                            config.boolean("tie_word_embeddings", true));
  int64_t taps = config.integer("conv_L_cache", 3, 1, INT32_MAX);
  if (taps != 3)
    config.fail("conv_L_cache", "expected 3, a convolution over the token and "
                                "its neighbours, but got " +
                                    std::to_string(taps));
  readHeads(context, lfm);
  readLayers(config, lfm);
  return config.ok(context.error);
}

/// The tensor's width wins over the config's: releases disagree about the rule.
void correctFeedForward(ImportContext &context, const std::string &prefix,
                        Lfm2Config &lfm) {
  std::string gate = prefix + "layers.0.feed_forward.w1.weight";
  int64_t stored = context.tensors.dim(gate, 0, lfm.feedForward);
  if (stored == lfm.feedForward || stored < 1)
    return;
  context.notes.push_back(
      context.config.where() + ": implies a feed-forward of " +
      std::to_string(lfm.feedForward) + ", but " + gate + " has " +
      std::to_string(stored) + " rows; the rows decide");
  lfm.feedForward = stored;
}

AttentionSpec bindAttention(TensorBinder &tensors, const Lfm2Config &lfm,
                            const std::string &name,
                            const std::string &stored) {
  Dim hidden{lfm.hidden, "hidden_size"};
  Dim queries{lfm.heads * lfm.headSize, "num_attention_heads * head_dim"};
  Dim keys{lfm.keyValueHeads * lfm.headSize, "num_key_value_heads * head_dim"};
  Dim headSize{lfm.headSize, "head_dim"};
  auto linear = [&](const char *part, Dim out, Dim in) {
    return tensors.linear(name + part, stored + part, out, in, false);
  };
  auto norm = [&](const char *part) {
    return tensors.rmsNorm(name + part, stored + part, headSize, lfm.epsilon);
  };
  AttentionSpec attention;
  attention.query = linear("q_proj", queries, hidden);
  attention.key = linear("k_proj", keys, hidden);
  attention.value = linear("v_proj", keys, hidden);
  attention.output = linear("out_proj", hidden, queries);
  attention.queryNorm = norm("q_layernorm");
  attention.keyNorm = norm("k_layernorm");
  attention.rope.theta = lfm.theta;
  return attention;
}

ShortConvSpec bindConv(TensorBinder &tensors, const Lfm2Config &lfm,
                       const std::string &name, const std::string &stored) {
  Dim hidden{lfm.hidden, "hidden_size"};
  Dim all{3 * lfm.hidden, "3 * hidden_size"};
  auto rows = [&](const char *part, int64_t block) {
    return tensors.linearRows(name + part, stored + "in_proj", all, hidden,
                              lfm.convBias, block * lfm.hidden, lfm.hidden);
  };
  ShortConvSpec conv;
  conv.name = name + "conv";
  conv.gate = rows("gate", 0);
  conv.scale = rows("scale", 1);
  conv.input = rows("input", 2);
  conv.weight = tensors.take(stored + "conv.weight",
                             {hidden, {1, "channel"}, {3, "conv_L_cache"}});
  if (lfm.convBias)
    conv.bias = tensors.take(stored + "conv.bias", {hidden});
  conv.output = tensors.linear(name + "out_proj", stored + "out_proj", hidden,
                               hidden, lfm.convBias);
  return conv;
}

/// The base model without heads.
void bindBase(ImportContext &context, const Lfm2Config &lfm,
              const std::string &prefix) {
  ModelSpec &spec = context.spec;
  TensorBinder &tensors = context.tensors;
  Dim hidden{lfm.hidden, "hidden_size"};
  Dim inner{lfm.feedForward, "feed-forward"};
  std::string words = tensors.tableName(prefix + "embed_tokens.weight",
                                        "lm_head.weight", lfm.tied);
  spec.embedding.words =
      tensors.take(words, {{lfm.vocabulary, "vocab_size"}, hidden});
  for (int64_t i = 0; i < lfm.layers; ++i) {
    std::string layer = "layers." + std::to_string(i) + ".";
    auto linear = [&](const char *part, Dim out, Dim in) {
      return tensors.linear(layer + part, prefix + layer + part, out, in,
                            false);
    };
    auto norm = [&](const char *part) {
      return tensors.rmsNorm(layer + part, prefix + layer + part, hidden,
                             lfm.epsilon);
    };
    BlockSpec block;
    block.mixerNorm = norm("operator_norm");
    if (lfm.isFull[static_cast<size_t>(i)]) {
      block.attention = bindAttention(tensors, lfm, layer + "self_attn.",
                                      prefix + layer + "self_attn.");
    } else {
      block.mixer = BlockSpec::Mixer::ShortConv;
      block.conv =
          bindConv(tensors, lfm, layer + "conv.", prefix + layer + "conv.");
    }
    block.feedForwardNorm = norm("ffn_norm");
    block.feedForward.gate = linear("feed_forward.w1", inner, hidden);
    block.feedForward.up = linear("feed_forward.w3", inner, hidden);
    block.feedForward.down = linear("feed_forward.w2", hidden, inner);
    spec.blocks.push_back(block);
  }
  // Named as if of the embedding, but the norm behind the last layer.
  spec.finalNorm = tensors.rmsNorm("embedding_norm", prefix + "embedding_norm",
                                   hidden, lfm.epsilon);
}

/// All outputs of the task, without their tensors.
std::vector<OutputSpec> offerOutputs(const ImportContext &context) {
  using Kind = OutputSpec::Kind;
  std::vector<OutputSpec> offered = offerBase(context);
  auto offer = [&](const char *name, Kind kind, const char *classifier) {
    offered.push_back(makeOutput(name, kind, classifier));
  };
  // Without a transform, the word table is the whole head if they are tied.
  if (context.task == Task::FillMask)
    offer("token_logits", Kind::VocabularyLogits, "lm_head");
  if (takesHead(context, Task::TokenClassification, "classifier"))
    offer("token_logits", Kind::TokenLogits, "classifier");
  if (takesHead(context, Task::RuleMatching, kTokenProjection) ||
      takesHead(context, Task::SequenceRouting, kTokenProjection)) {
    offer("token_projections", Kind::TokenLogits, kTokenProjection);
    offer("rule_projections", Kind::TokenLogits, kRuleProjection);
  }
  return offered;
}

/// Scores between the texts of rules and tokens or texts. Means over the tokens
/// of a text commute with the projections, so callers take them afterwards.
void readScores(ImportContext &context) {
  TensorBinder &tensors = context.tensors;
  bool routes = context.task == Task::SequenceRouting;
  context.score.formula = routes ? "cosine" : "scaled_dot_product";
  if (routes)
    context.score.logitScale = tensors.takeScalar(kLogitScale);
  context.score.bias = tensors.takeScalar(kScoreBias);
}

void bindOutputs(ImportContext &context, const Lfm2Config &lfm) {
  TensorBinder &tensors = context.tensors;
  Dim hidden{lfm.hidden, "hidden_size"};
  for (OutputSpec &output : context.spec.outputs) {
    const std::string name = output.classifier.name;
    if (name.empty())
      continue;
    if (output.kind == OutputSpec::Kind::VocabularyLogits) {
      output.classifier.weight =
          tensors.decoder(context.spec.embedding.words, "lm_head.weight",
                          lfm.tied, {lfm.vocabulary, "vocab_size"}, hidden);
    } else if (name == "classifier") {
      output.classifier = bindClassifier(context, output, hidden);
    } else {
      Dim rows{tensors.dim(name + ".weight", 0, 256), "rule_proj_dim"};
      rows.size = context.config.integer("rule_proj_dim", rows.size, 1,
                                         kMaxFeedForward);
      output.classifier = tensors.linear(name, name, rows, hidden);
      readScores(context);
    }
  }
}

bool isKnown(const std::string &name) {
  for (const char *start :
       {"lm_head.", "classifier.", "tok_proj.", "rule_proj.", "logit_scale",
        "score_bias", "class_weights"})
    if (startsWith(name, start))
      return true;
  return false;
}

} // namespace

bool importLfm2(ImportContext &context) {
  Lfm2Config lfm;
  std::string prefix, classPrefix;
  const std::vector<Task> tasks = {Task::FillMask, Task::TokenClassification,
                                   Task::RuleMatching, Task::SequenceRouting};
  if (!readClassPrefix(context, tasks, classPrefix) ||
      !readConfig(context, lfm) ||
      !findPrefix(context, {"", "lfm2.", "model."},
                  {"embed_tokens.", "layers.", "embedding_norm."}, prefix) ||
      !chooseTask(context, classPrefix, tasks) ||
      !checkLayerCount(context, prefix + "layers.", lfm.layers))
    return false;
  correctFeedForward(context, prefix, lfm);

  ModelSpec &spec = context.spec;
  spec.hidden = lfm.hidden;
  spec.layers = lfm.layers;
  spec.heads = lfm.heads;
  spec.keyValueHeads = lfm.keyValueHeads;
  spec.headSize = lfm.headSize;
  spec.feedForward = lfm.feedForward;
  spec.vocabulary = lfm.vocabulary;
  spec.maxTokens = lfm.positions;
  spec.activation = "silu";
  spec.preNorm = true;

  if (!selectOutputs(context, offerOutputs(context)))
    return false;
  bindBase(context, lfm, prefix);
  bindOutputs(context, lfm);
  return context.config.ok(context.error) &&
         context.tensors.finish(isKnown, context.options.allowUnused,
                                context.notes, context.error);
}

} // namespace encast
