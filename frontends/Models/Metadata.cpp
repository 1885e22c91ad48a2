//===- Metadata.cpp - what a folder says about its model ------------------===//

#include "frontends/Models/Metadata.h"

#include <algorithm>
#include <charconv>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <set>

namespace encast {
namespace {

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

void write(Writer &writer, const std::string &text) {
  writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

void writeMember(Writer &writer, const char *key, const std::string &text) {
  if (text.empty())
    return;
  writer.Key(key);
  write(writer, text);
}

/// Names of the logits: id2label where it has them, LABEL_i elsewhere.
std::vector<std::string> readLabels(ImportContext &context) {
  JsonFields &config = context.config;
  std::vector<std::string> labels;
  if (context.labels > 1 << 20)
    return labels; // No classifier has that many names.
  for (int64_t i = 0; i < context.labels; ++i)
    labels.push_back("LABEL_" + std::to_string(i));
  int64_t claimed = config.integer("num_labels", 2, 0, INT64_MAX);
  std::string source =
      config.has("num_labels") ? "num_labels" : "num_labels, by default,";
  if (const JsonValue *names = config.get("id2label")) {
    source = "id2label";
    claimed = static_cast<int64_t>(names->elements.size());
    if (!names->is(JsonValue::Kind::Object))
      config.fail("id2label",
                  "expected an object, but got " + names->describe());
    for (size_t i = 0; i < names->keys.size(); ++i) {
      const std::string &key = names->keys[i];
      const JsonValue &value = names->elements[i];
      int64_t index = -1;
      auto [end, code] =
          std::from_chars(key.data(), key.data() + key.size(), index);
      if (code != std::errc() || end != key.data() + key.size() || index < 0)
        config.fail("id2label",
                    "expected non-negative integers as keys, but got \"" + key +
                        "\"");
      if (!value.is(JsonValue::Kind::String) &&
          !value.is(JsonValue::Kind::Integer))
        config.fail("id2label",
                    key + ": expected a string, but got " + value.describe());
      claimed = std::max(claimed, index < INT64_MAX ? index + 1 : index);
      if (index >= 0 && index < context.labels)
        labels[static_cast<size_t>(index)] =
            value.is(JsonValue::Kind::String) ? value.string : value.describe();
    }
  }
  // The rows of multiple choice are scores of a choice, not labels.
  if (context.task == Task::MultipleChoice)
    labels.clear();
  else if (!labels.empty() && claimed != context.labels)
    context.notes.push_back(
        config.where() + ": " + source + " says " + std::to_string(claimed) +
        " labels, but the classifier has " + std::to_string(context.labels) +
        " rows; the rows decide");
  return labels;
}

/// The value of a line `license: x` in the front matter of a model card; empty
/// if there is none, or if it is more than a plain word.
std::string readLicense(const std::string &path) {
  MappedFile file;
  std::string ignored;
  if (!fileExists(path) || !file.open(path, ignored))
    return "";
  std::string_view text = file.text().substr(0, 1 << 16);
  auto nextLine = [&] {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' '))
      line.remove_suffix(1);
    return line;
  };
  if (nextLine() != "---")
    return "";
  constexpr std::string_view key = "license:";
  while (!text.empty()) {
    std::string_view line = nextLine();
    if (line == "---")
      return "";
    if (line.substr(0, key.size()) != key)
      continue;
    line.remove_prefix(key.size());
    while (!line.empty() && line.front() == ' ')
      line.remove_prefix(1);
    if (line.size() >= 2 && (line.front() == '"' || line.front() == '\'') &&
        line.back() == line.front())
      line = line.substr(1, line.size() - 2);
    constexpr std::string_view allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_";
    if (line.find_first_not_of(allowed) != std::string_view::npos)
      return "";
    return std::string(line);
  }
  return "";
}

/// Matrices that linears multiply by; one that several share counts once.
struct MatrixCount {
  int64_t all = 0, exactlyBf16 = 0;
};

MatrixCount countMatrices(const ModelSpec &spec) {
  MatrixCount count;
  std::set<std::pair<std::string, std::string>> seen;
  auto add = [&](const LinearSpec &linear) {
    const TensorRef &weight = linear.weight;
    if (!weight.present() || !seen.emplace(weight.file, weight.name).second)
      return;
    ++count.all;
    count.exactlyBf16 += weight.exactlyBf16;
  };
  for (const BlockSpec &block : spec.blocks) {
    const AttentionSpec &attention = block.attention;
    const ShortConvSpec &conv = block.conv;
    const FeedForwardSpec &feedForward = block.feedForward;
    for (const LinearSpec *linear :
         {&attention.query, &attention.key, &attention.value, &attention.output,
          &conv.gate, &conv.scale, &conv.input, &conv.output, &feedForward.gate,
          &feedForward.up, &feedForward.down})
      add(*linear);
  }
  add(spec.pooler);
  for (const SentenceModule &module : spec.sentence) {
    add(module.dense);
    add(module.residual);
  }
  for (const OutputSpec &output : spec.outputs) {
    add(output.transform);
    add(output.classifier);
  }
  return count;
}

/// Refuses what makes sentence-transformers give other modules anything but the
/// last hidden state of the model that config.json describes.
void requireLastHiddenState(JsonFields &transformer) {
  auto require = [&](const char *field, const char *expected,
                     const JsonValue *given) {
    if (!given || !given->is(JsonValue::Kind::String) ||
        given->string != expected)
      transformer.fail(field, "expected \"" + std::string(expected) +
                                  "\" before other modules, but got " +
                                  (given ? given->describe() : "nothing"));
  };
  for (auto [field, expected] :
       {std::pair("transformer_task", "feature-extraction"),
        std::pair("module_output_name", "token_embeddings")})
    if (const JsonValue *given = transformer.get(field))
      require(field, expected, given);
  if (const JsonValue *modalities = transformer.get("modality_config")) {
    const JsonValue *text = modalities->find("text");
    for (auto [field, expected] :
         {std::pair("method", "forward"),
          std::pair("method_output_name", "last_hidden_state")})
      require("modality_config", expected, text ? text->find(field) : nullptr);
  }
  // These reach from_pretrained, which takes any field of config.json.
  static constexpr std::string_view harmless[] = {
      "trust_remote_code",   "revision",
      "code_revision",       "token",
      "cache_dir",           "local_files_only",
      "torch_dtype",         "dtype",
      "attn_implementation", "device_map",
      "low_cpu_mem_usage",   "use_safetensors",
      "add_pooling_layer"};
  for (const char *field :
       {"config_args", "config_kwargs", "model_args", "model_kwargs"})
    if (const JsonValue *given = transformer.get(field))
      for (const std::string &name : given->keys)
        if (std::find(std::begin(harmless), std::end(harmless), name) ==
            std::end(harmless))
          transformer.fail(field, name + ": fields in place of those of "
                                         "config.json are not supported");
}

/// Reads `path` as an object; an empty one if the file does not exist.
bool readOptional(const std::string &path, JsonValue &document,
                  std::string &error) {
  document = JsonValue();
  document.kind = JsonValue::Kind::Object;
  return !fileExists(path) || readJsonFile(path, {}, document, error);
}

/// What Sentence Transformers 6 saves as the length of a text, and others as no
/// limit, a number beyond integers; 0 if there is none.
bool readTokenizerLimit(const std::string &folder, int64_t maxTokens,
                        int64_t &limit, std::string &error) {
  JsonValue document;
  if (!readOptional(joinPath(folder, "tokenizer_config.json"), document, error))
    return false;
  const JsonValue *length = document.find("model_max_length");
  limit = length && length->is(JsonValue::Kind::Integer) && length->integer > 0
              ? std::min(length->integer, maxTokens)
              : 0;
  return true;
}

} // namespace

bool collectMetadata(ImportContext &context, const std::string &folder,
                     const std::string &transformerFolder) {
  JsonFields &config = context.config;
  std::string type = config.string("model_type", "");
  std::string architecture;
  if (const JsonValue *classes = config.get("architectures"))
    if (!classes->elements.empty())
      architecture = classes->elements[0].string;
  std::string problem = config.string("problem_type", "");
  std::vector<std::string> labels = readLabels(context);

  std::string path = joinPath(transformerFolder, "sentence_bert_config.json");
  JsonValue document;
  if (!readOptional(path, document, context.error))
    return false;
  JsonFields transformer(document, path);
  int64_t maxLength = 0;
  if (transformer.has("max_seq_length"))
    maxLength = transformer.integer("max_seq_length", 0, 1, INT32_MAX);
  else if (context.chain &&
           !readTokenizerLimit(transformerFolder, context.spec.maxTokens,
                               maxLength, context.error))
    return false;
  bool hasCase = transformer.has("do_lower_case");
  bool lowerCase = transformer.boolean("do_lower_case", false);
  if (context.chain)
    requireLastHiddenState(transformer);

  path = joinPath(folder, "config_sentence_transformers.json");
  JsonValue sentenceDocument;
  if (!readOptional(path, sentenceDocument, context.error))
    return false;
  JsonFields sentence(sentenceDocument, path);
  const JsonValue *prompts = sentence.get("prompts");
  if (prompts) {
    if (!prompts->is(JsonValue::Kind::Object))
      sentence.fail("prompts",
                    "expected an object, but got " + prompts->describe());
    for (size_t i = 0; i < prompts->keys.size(); ++i)
      if (!prompts->elements[i].is(JsonValue::Kind::String))
        sentence.fail("prompts", prompts->keys[i] +
                                     ": expected a string, but got " +
                                     prompts->elements[i].describe());
  }
  std::string defaultPrompt = sentence.string("default_prompt_name", "");
  if (!defaultPrompt.empty() && (!prompts || !prompts->find(defaultPrompt)))
    sentence.fail("default_prompt_name",
                  "\"" + defaultPrompt + "\" is not a name in prompts");
  std::string similarity = sentence.string("similarity_fn_name", "");
  bool onTokens = context.chain == OutputSpec::Kind::TokenEmbeddings;
  if (similarity.empty() && context.chain)
    similarity = onTokens ? "MaxSim" : "cosine";
  // Of queries and documents of PyLate, which callers prepare.
  std::vector<std::pair<const char *, std::string>> prefixes;
  std::vector<std::pair<const char *, int64_t>> lengths;
  std::vector<std::pair<const char *, bool>> expansions;
  if (onTokens) {
    for (const char *key : {"query_prefix", "document_prefix"})
      prefixes.emplace_back(key, sentence.string(key, ""));
    for (const char *key : {"query_length", "document_length"})
      if (sentence.has(key))
        lengths.emplace_back(key, sentence.integer(key, 0, 1, INT32_MAX));
    for (const char *key : {"do_query_expansion", "attend_to_expansion_tokens"})
      if (sentence.has(key))
        expansions.emplace_back(key, sentence.boolean(key, false));
  }
  if (!config.ok(context.error) || !transformer.ok(context.error) ||
      !sentence.ok(context.error))
    return false;

  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  writer.StartObject();
  writeMember(writer, "model_type", type);
  writeMember(writer, "architecture", architecture);
  writeMember(writer, "task", taskName(context.task));
  if (!labels.empty()) {
    writer.Key("labels");
    writer.StartArray();
    for (const std::string &label : labels)
      write(writer, label);
    writer.EndArray();
  }
  writeMember(writer, "problem_type", problem);
  if (prompts && !prompts->keys.empty()) {
    writer.Key("prompts");
    writer.StartObject();
    for (size_t i = 0; i < prompts->keys.size(); ++i) {
      write(writer, prompts->keys[i]);
      write(writer, prompts->elements[i].string);
    }
    writer.EndObject();
  }
  writeMember(writer, "default_prompt", defaultPrompt);
  writeMember(writer, "similarity", similarity);
  for (const auto &[key, prefix] : prefixes)
    writeMember(writer, key, prefix);
  for (const auto &[key, length] : lengths) {
    writer.Key(key);
    writer.Int64(length);
  }
  for (const auto &[key, value] : expansions) {
    writer.Key(key);
    writer.Bool(value);
  }
  const ScoreRule &score = context.score;
  if (!score.formula.empty()) {
    writeMember(writer, "score_formula", score.formula);
    if (score.logitScale) {
      writer.Key("logit_scale");
      writer.Double(*score.logitScale);
    }
    writer.Key("score_bias");
    writer.Double(score.bias);
  }
  if (maxLength) {
    writer.Key("max_seq_length");
    writer.Int64(maxLength);
  }
  if (hasCase) {
    writer.Key("do_lower_case");
    writer.Bool(lowerCase);
  }
  writeMember(writer, "license", readLicense(joinPath(folder, "README.md")));
  MatrixCount matrices = countMatrices(context.spec);
  writer.Key("matrices");
  writer.Int64(matrices.all);
  writer.Key("bf16_exact_matrices");
  writer.Int64(matrices.exactlyBf16);
  writer.EndObject();
  context.spec.metadataJson.assign(buffer.GetString(), buffer.GetSize());
  return true;
}

} // namespace encast
