//===- Bert.cpp - BERT: config fields and tensor names --------------------===//
///
/// \file
/// MiniLM, BGE, E5, GTE v1, cross-encoders and other models of the class
/// BertModel with any of its heads. Source: Hugging Face Transformers,
/// models/bert/{configuration,modeling}_bert.py.
//===----------------------------------------------------------------------===//

#include "frontends/Models/ImportContext.h"

#include <algorithm>

namespace encast {
namespace {

/// Fields of config.json, with the defaults of BertConfig.
struct BertConfig {
  int64_t vocabulary, hidden, layers, heads, feedForward, positions, types;
  double epsilon;
  std::string activation;
  bool tied;
};

bool readConfig(ImportContext &context, BertConfig &bert) {
  JsonFields &config = context.config;
  auto size = [&](const char *field, int64_t missing, int64_t maximum) {
    if (!config.mentions(field))
      context.notes.push_back(config.where() + ": has no " + field +
                              ", BERT's default " + std::to_string(missing) +
                              " is taken");
    return config.integer(field, missing, 1, maximum);
  };
  bert.vocabulary = size("vocab_size", 30522, 1 << 24);
  bert.hidden = size("hidden_size", 768, 1 << 16);
  bert.layers = size("num_hidden_layers", 12, 1 << 10);
  bert.heads = size("num_attention_heads", 12, 1 << 12);
  bert.feedForward = size("intermediate_size", 3072, 1 << 20);
  bert.positions = size("max_position_embeddings", 512, 1 << 24);
  bert.types = size("type_vocab_size", 2, 1 << 16);
  bert.epsilon = config.number("layer_norm_eps", 1e-12, 0.0, 1.0);
  bert.activation = readActivation(config, "hidden_act", "gelu");
  bert.tied = config.boolean("tie_word_embeddings", true);

  std::string position = config.string("position_embedding_type", "absolute");
  if (position == "alibi")
    config.fail("position_embedding_type",
                "\"alibi\" marks a Jina v2 model, which is not supported");
  else if (position != "absolute")
    config.fail("position_embedding_type",
                "expected \"absolute\", but got \"" + position + "\"");
  for (const char *field : {"is_decoder", "add_cross_attention"})
    if (config.boolean(field, false))
      config.fail(field, "expected false (an encoder), but got true");
  if (bert.hidden % bert.heads != 0)
    config.fail("num_attention_heads", "expected a divisor of hidden_size " +
                                           std::to_string(bert.hidden) +
                                           ", but got " +
                                           std::to_string(bert.heads));
  return config.ok(context.error);
}

bool startsWith(const std::string &text, const std::string &prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

/// "bert." or "": what stands before the base model's tensor names.
bool findPrefix(ImportContext &context, std::string &prefix) {
  std::string plain, prefixed;
  for (const auto &[name, tensor] : context.tensors.all()) {
    if (name.find(".mlp.gated_layers") != std::string::npos ||
        name.find(".mlp.up_gated_layer") != std::string::npos) {
      context.error = context.config.where() + ": tensor " + name +
                      " marks a Jina v2 model, which is not supported";
      return false;
    }
    if (startsWith(name, "embeddings.") || startsWith(name, "encoder."))
      plain = name;
    if (startsWith(name, "bert.embeddings.") ||
        startsWith(name, "bert.encoder."))
      prefixed = name;
  }
  if (!plain.empty() && !prefixed.empty()) {
    context.error = context.config.where() + ": the checkpoint has both " +
                    prefixed + " and " + plain +
                    ", so it is not clear which model is meant";
    return false;
  }
  prefix = prefixed.empty() ? "" : "bert.";
  return true;
}

/// Layers that the checkpoint has tensors of: highest number + 1.
int64_t countLayers(const TensorBinder &tensors, const std::string &prefix) {
  std::string start = prefix + "encoder.layer.";
  int64_t count = 0;
  for (const auto &[name, tensor] : tensors.all()) {
    if (!startsWith(name, start))
      continue;
    std::string digits =
        name.substr(start.size(), name.find('.', start.size()) - start.size());
    if (digits.empty() || digits.size() > 9 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      continue;
    count = std::max<int64_t>(count, std::stol(digits) + 1);
  }
  return count;
}

constexpr const char *kTransform = "cls.predictions.transform";
constexpr const char *kDecoder = "cls.predictions.decoder";
constexpr const char *kDecoderBias = "cls.predictions.bias";
constexpr const char *kNextSentence = "cls.seq_relationship";

/// The heads that a task takes.
struct Heads {
  bool maskedLM = false, nextSentence = false, sequence = false;
  bool token = false, question = false;
};

Heads chooseHeads(const ImportContext &context) {
  Heads heads;
  Task task = context.task;
  heads.maskedLM = task == Task::FillMask || task == Task::Pretraining;
  heads.nextSentence =
      task == Task::NextSentencePrediction || task == Task::Pretraining;
  heads.sequence =
      task == Task::TextClassification || task == Task::MultipleChoice;
  heads.token = task == Task::TokenClassification;
  heads.question = task == Task::QuestionAnswering;
  if (!context.hasSentenceChain || context.taskIsExplicit)
    return heads;
  // In a folder made for sentence embeddings the class name may be a left-over
  // of training: its head is taken if it is there.
  auto has = [&](const char *name) {
    return context.tensors.has(std::string(name) + ".weight");
  };
  heads.maskedLM &= has("cls.predictions.transform.dense");
  heads.nextSentence &= has(kNextSentence);
  heads.sequence &= has("classifier");
  heads.token &= has("classifier");
  heads.question &= has("qa_outputs");
  return heads;
}

/// The base model without heads.
void bindBase(ImportContext &context, const BertConfig &bert,
              const std::string &prefix) {
  ModelSpec &spec = context.spec;
  TensorBinder &tensors = context.tensors;
  Dim hidden{bert.hidden, "hidden_size"};
  Dim feedForward{bert.feedForward, "intermediate_size"};
  std::string embeddings = prefix + "embeddings.";
  // Of two tied matrices a checkpoint may store either.
  std::string words = embeddings + "word_embeddings.weight";
  std::string decoder = std::string(kDecoder) + ".weight";
  if (bert.tied && !tensors.has(words) && tensors.has(decoder))
    words = decoder;
  spec.embedding.words =
      tensors.take(words, {{bert.vocabulary, "vocab_size"}, hidden});
  spec.embedding.positions =
      tensors.take(embeddings + "position_embeddings.weight",
                   {{bert.positions, "max_position_embeddings"}, hidden});
  spec.embedding.types =
      tensors.take(embeddings + "token_type_embeddings.weight",
                   {{bert.types, "type_vocab_size"}, hidden});
  spec.embedding.norm = tensors.norm(
      "embeddings.LayerNorm", embeddings + "LayerNorm", hidden, bert.epsilon);
  for (int64_t i = 0; i < bert.layers; ++i) {
    std::string layer = "encoder.layer." + std::to_string(i) + ".";
    auto linear = [&](const char *part, Dim out, Dim in) {
      return tensors.linear(layer + part, prefix + layer + part, out, in);
    };
    auto norm = [&](const char *part) {
      return tensors.norm(layer + part, prefix + layer + part, hidden,
                          bert.epsilon);
    };
    BlockSpec block;
    AttentionSpec &attention = block.attention;
    attention.query = linear("attention.self.query", hidden, hidden);
    attention.key = linear("attention.self.key", hidden, hidden);
    attention.value = linear("attention.self.value", hidden, hidden);
    attention.output = linear("attention.output.dense", hidden, hidden);
    block.mixerNorm = norm("attention.output.LayerNorm");
    block.feedForward.up = linear("intermediate.dense", feedForward, hidden);
    block.feedForward.down = linear("output.dense", hidden, feedForward);
    block.feedForwardNorm = norm("output.LayerNorm");
    spec.blocks.push_back(block);
  }
}

/// LN(act(W x + b)) E^T + bias, E tied to the word table unless config says no.
void bindMaskedLM(ImportContext &context, const BertConfig &bert,
                  OutputSpec &output) {
  TensorBinder &tensors = context.tensors;
  Dim hidden{bert.hidden, "hidden_size"};
  Dim vocabulary{bert.vocabulary, "vocab_size"};
  std::string transform = kTransform;
  output.transform = tensors.linear(transform + ".dense", transform + ".dense",
                                    hidden, hidden);
  output.transformNorm = tensors.norm(
      transform + ".LayerNorm", transform + ".LayerNorm", hidden, bert.epsilon);
  output.transformActivation = bert.activation;

  output.classifier.name = kDecoder;
  std::string weight = std::string(kDecoder) + ".weight";
  const TensorRef &words = context.spec.embedding.words;
  if (!bert.tied) {
    output.classifier.weight = tensors.take(weight, {vocabulary, hidden});
  } else {
    if (tensors.has(weight) && words.present() && words.name != weight)
      tensors.requireEqual(words.name, weight);
    output.classifier.weight = words;
  }
  // One vector under two names; untied models use the decoder's own.
  std::string bias = std::string(kDecoder) + ".bias";
  bool both = tensors.has(bias) && tensors.has(kDecoderBias);
  if (both && bert.tied)
    tensors.requireEqual(kDecoderBias, bias);
  output.classifier.bias =
      tensors.take(tensors.has(bias) ? bias : kDecoderBias, {vocabulary});
}

/// All outputs of the task, without their tensors.
std::vector<OutputSpec> offerOutputs(const ImportContext &context,
                                     const Heads &heads,
                                     const std::string &prefix) {
  using Kind = OutputSpec::Kind;
  std::vector<OutputSpec> offered;
  auto offer = [&](const char *name, Kind kind, const char *classifier = "",
                   int64_t column = 0) {
    OutputSpec output;
    output.name = name;
    output.kind = kind;
    output.classifier.name = classifier;
    output.column = column;
    offered.push_back(output);
  };
  const TensorBinder &tensors = context.tensors;
  offer("last_hidden_state", Kind::LastHiddenState);
  if (tensors.has(prefix + "pooler.dense.weight"))
    offer("pooler_output", Kind::Pooler);
  if (context.hasSentenceChain)
    offer("sentence_embedding", Kind::SentenceEmbedding);
  if (heads.sequence)
    offer("logits", Kind::PooledLogits, "classifier");
  if (heads.nextSentence)
    offer(heads.maskedLM ? "nsp_logits" : "logits", Kind::PooledLogits,
          kNextSentence);
  if (heads.maskedLM)
    offer("token_logits", Kind::VocabularyLogits);
  if (heads.token)
    offer("token_logits", Kind::TokenLogits, "classifier");
  if (heads.question) {
    offer("start_logits", Kind::TokenColumn, "qa_outputs", 0);
    offer("end_logits", Kind::TokenColumn, "qa_outputs", 1);
  }
  return offered;
}

void bindOutputs(ImportContext &context, const BertConfig &bert,
                 const std::string &prefix) {
  using Kind = OutputSpec::Kind;
  TensorBinder &tensors = context.tensors;
  Dim hidden{bert.hidden, "hidden_size"};
  for (OutputSpec &output : context.spec.outputs) {
    if (output.kind == Kind::VocabularyLogits) {
      bindMaskedLM(context, bert, output);
      continue;
    }
    if ((output.kind == Kind::Pooler || output.kind == Kind::PooledLogits) &&
        context.spec.pooler.name.empty())
      context.spec.pooler = tensors.linear(
          "pooler.dense", prefix + "pooler.dense", hidden, hidden);
    const std::string name = output.classifier.name;
    if (name.empty())
      continue;
    // Rows decide the number of labels; the other heads have a fixed one.
    Dim rows{tensors.dim(name + ".weight", 0, 1), "labels"};
    if (name == "classifier")
      context.labels = rows.size;
    if (context.task == Task::MultipleChoice)
      rows = {1, "choice"};
    if (name == "qa_outputs" || name == kNextSentence)
      rows = {2, "classes"};
    if (rows.size < 1)
      tensors.problem(name + ".weight: has no rows");
    output.classifier = tensors.linear(name, name, rows, hidden);
  }
}

bool isKnown(const std::string &name, const std::string &prefix) {
  for (const std::string &start :
       {prefix + "pooler.dense.", std::string("cls.predictions."),
        std::string(kNextSentence) + ".", std::string("classifier."),
        std::string("qa_outputs.")})
    if (startsWith(name, start))
      return true;
  return name.find(".attention.self.distance_embedding.") != std::string::npos;
}

} // namespace

bool importBert(ImportContext &context) {
  BertConfig bert;
  std::string prefix;
  TensorBinder &tensors = context.tensors;
  if (!readConfig(context, bert) || !findPrefix(context, prefix) ||
      !chooseTask(context, "Bert"))
    return false;

  int64_t stored = countLayers(tensors, prefix);
  if (stored < bert.layers ||
      (stored > bert.layers && !context.options.allowUnused)) {
    context.config.fail("num_hidden_layers",
                        "is " + std::to_string(bert.layers) +
                            ", but the checkpoint has tensors of " +
                            std::to_string(stored) + " layers");
    return context.config.ok(context.error);
  }

  ModelSpec &spec = context.spec;
  spec.hidden = bert.hidden;
  spec.layers = bert.layers;
  spec.heads = bert.heads;
  spec.keyValueHeads = bert.heads;
  spec.headSize = bert.hidden / bert.heads;
  spec.feedForward = bert.feedForward;
  spec.vocabulary = bert.vocabulary;
  spec.maxTokens = bert.positions;
  spec.tokenTypes = bert.types;
  spec.activation = bert.activation;

  Heads heads = chooseHeads(context);
  if (!selectOutputs(context, offerOutputs(context, heads, prefix)))
    return false;
  bindBase(context, bert, prefix);
  bindOutputs(context, bert, prefix);
  return tensors.finish(
      [&](const std::string &name) { return isKnown(name, prefix); },
      context.options.allowUnused, context.notes, context.error);
}

} // namespace encast
