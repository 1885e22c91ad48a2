//===- Bert.cpp - BERT: config fields and tensor names --------------------===//
///
/// \file
/// MiniLM, BGE, E5, GTE v1, cross-encoders and other models of the class
/// BertModel with any of its heads. Source: Hugging Face Transformers,
/// models/bert/{configuration,modeling}_bert.py.
//===----------------------------------------------------------------------===//

#include "frontends/Models/ImportContext.h"

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
    return readSize(context, field, missing, maximum);
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
  checkHeadSize(config, bert.hidden, bert.heads);
  return config.ok(context.error);
}

/// Jina v2 calls itself BERT, but computes something else.
bool refuseJina(ImportContext &context) {
  for (const auto &[name, tensor] : context.tensors.all())
    if (name.find(".mlp.gated_layers") != std::string::npos ||
        name.find(".mlp.up_gated_layer") != std::string::npos) {
      context.error = context.config.where() + ": tensor " + name +
                      " marks a Jina v2 model, which is not supported";
      return false;
    }
  return true;
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
  auto takes = [&](Task task, const std::string &name) {
    return takesHead(context, task, name);
  };
  const std::string transform = std::string(kTransform) + ".dense";
  heads.maskedLM =
      takes(Task::FillMask, transform) || takes(Task::Pretraining, transform);
  heads.nextSentence = takes(Task::NextSentencePrediction, kNextSentence) ||
                       takes(Task::Pretraining, kNextSentence);
  heads.sequence = takes(Task::TextClassification, "classifier") ||
                   takes(Task::MultipleChoice, "classifier");
  heads.token = takes(Task::TokenClassification, "classifier");
  heads.question = takes(Task::QuestionAnswering, "qa_outputs");
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
  std::string words =
      tensors.tableName(embeddings + "word_embeddings.weight",
                        std::string(kDecoder) + ".weight", bert.tied);
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
  output.classifier.weight = tensors.decoder(context.spec.embedding.words,
                                             std::string(kDecoder) + ".weight",
                                             bert.tied, vocabulary, hidden);
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
  std::vector<OutputSpec> offered = offerBase(context);
  auto offer = [&](const char *name, Kind kind, const char *classifier = "",
                   int64_t column = 0) {
    offered.push_back(makeOutput(name, kind, classifier, column));
  };
  if (context.tensors.has(prefix + "pooler.dense.weight"))
    offer("pooler_output", Kind::Pooler);
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
    output.classifier = name == kNextSentence
                            ? tensors.linear(name, name, {2, "classes"}, hidden)
                            : bindClassifier(context, output, hidden);
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
  if (!readConfig(context, bert) || !refuseJina(context) ||
      !findPrefix(context, {"", "bert."}, {"embeddings.", "encoder."},
                  prefix) ||
      !chooseTask(context, "Bert",
                  {Task::FillMask, Task::Pretraining,
                   Task::NextSentencePrediction, Task::TextClassification,
                   Task::MultipleChoice, Task::TokenClassification,
                   Task::QuestionAnswering}) ||
      !checkLayerCount(context, prefix + "encoder.layer.", bert.layers))
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
