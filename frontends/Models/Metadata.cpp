//===- Metadata.cpp - what a folder says about its model ------------------===//

#include "frontends/Models/Metadata.h"

#include <algorithm>
#include <charconv>
#include <optional>
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

/// What config.json says beside the model itself, and what other files say.
struct Facts {
  std::string type, architecture, problem, defaultPrompt, similarity;
  std::vector<std::string> labels;
  std::vector<std::pair<std::string, std::string>> prompts;
  // Of queries and documents of PyLate, which callers prepare.
  std::vector<std::pair<const char *, std::string>> prefixes;
  std::vector<std::pair<const char *, int64_t>> lengths;
  std::vector<std::pair<const char *, bool>> expansions;
  int64_t maxLength = 0; ///< 0: not said.
  std::optional<bool> lowerCase;
};

bool readConfig(ImportContext &context, Facts &facts) {
  JsonFields &config = context.config;
  facts.type = config.string("model_type", "");
  if (const JsonValue *classes = config.get("architectures"))
    if (!classes->elements.empty())
      facts.architecture = classes->elements[0].string;
  facts.problem = config.string("problem_type", "");
  facts.labels = readLabels(context);
  return config.ok(context.error);
}

bool readTransformer(ImportContext &context, const std::string &folder,
                     Facts &facts) {
  std::string path = joinPath(folder, "sentence_bert_config.json");
  JsonValue document;
  if (!readOptional(path, document, context.error))
    return false;
  JsonFields fields(document, path);
  if (fields.has("max_seq_length"))
    facts.maxLength = fields.integer("max_seq_length", 0, 1, INT32_MAX);
  else if (context.chain && !readTokenizerLimit(folder, context.spec.maxTokens,
                                                facts.maxLength, context.error))
    return false;
  if (fields.has("do_lower_case"))
    facts.lowerCase = fields.boolean("do_lower_case", false);
  if (context.chain)
    requireLastHiddenState(fields);
  return fields.ok(context.error);
}

void readPrompts(JsonFields &fields, Facts &facts) {
  if (const JsonValue *prompts = fields.get("prompts")) {
    if (!prompts->is(JsonValue::Kind::Object))
      fields.fail("prompts",
                  "expected an object, but got " + prompts->describe());
    for (size_t i = 0; i < prompts->keys.size(); ++i) {
      const JsonValue &prompt = prompts->elements[i];
      if (!prompt.is(JsonValue::Kind::String))
        fields.fail("prompts", prompts->keys[i] +
                                   ": expected a string, but got " +
                                   prompt.describe());
      facts.prompts.emplace_back(prompts->keys[i], prompt.string);
    }
  }
  const std::string &name = facts.defaultPrompt =
      fields.string("default_prompt_name", "");
  if (!name.empty() &&
      std::none_of(facts.prompts.begin(), facts.prompts.end(),
                   [&](const auto &prompt) { return prompt.first == name; }))
    fields.fail("default_prompt_name",
                "\"" + name + "\" is not a name in prompts");
}

bool readSentence(ImportContext &context, const std::string &folder,
                  Facts &facts) {
  std::string path = joinPath(folder, "config_sentence_transformers.json");
  JsonValue document;
  if (!readOptional(path, document, context.error))
    return false;
  JsonFields fields(document, path);
  readPrompts(fields, facts);
  facts.similarity = fields.string("similarity_fn_name", "");
  bool onTokens = context.chain == OutputSpec::Kind::TokenEmbeddings;
  if (facts.similarity.empty() && context.chain)
    facts.similarity = onTokens ? "MaxSim" : "cosine";
  if (onTokens) {
    for (const char *key : {"query_prefix", "document_prefix"})
      facts.prefixes.emplace_back(key, fields.string(key, ""));
    for (const char *key : {"query_length", "document_length"})
      if (fields.has(key))
        facts.lengths.emplace_back(key, fields.integer(key, 0, 1, INT32_MAX));
    for (const char *key : {"do_query_expansion", "attend_to_expansion_tokens"})
      if (fields.has(key))
        facts.expansions.emplace_back(key, fields.boolean(key, false));
  }
  return fields.ok(context.error);
}

void writeNumber(Writer &writer, const char *key, int64_t value) {
  writer.Key(key);
  writer.Int64(value);
}

void writeFlag(Writer &writer, const char *key, bool value) {
  writer.Key(key);
  writer.Bool(value);
}

void writeScore(Writer &writer, const ScoreRule &score) {
  if (score.formula.empty())
    return;
  writeMember(writer, "score_formula", score.formula);
  if (score.logitScale) {
    writer.Key("logit_scale");
    writer.Double(*score.logitScale);
  }
  writer.Key("score_bias");
  writer.Double(score.bias);
}

void writeFacts(Writer &writer, const Facts &facts,
                const ImportContext &context, const std::string &folder) {
  writeMember(writer, "model_type", facts.type);
  writeMember(writer, "architecture", facts.architecture);
  writeMember(writer, "task", taskName(context.task));
  if (!facts.labels.empty()) {
    writer.Key("labels");
    writer.StartArray();
    for (const std::string &label : facts.labels)
      write(writer, label);
    writer.EndArray();
  }
  writeMember(writer, "problem_type", facts.problem);
  if (!facts.prompts.empty()) {
    writer.Key("prompts");
    writer.StartObject();
    for (const auto &[name, prompt] : facts.prompts) {
      write(writer, name);
      write(writer, prompt);
    }
    writer.EndObject();
  }
  writeMember(writer, "default_prompt", facts.defaultPrompt);
  writeMember(writer, "similarity", facts.similarity);
  for (const auto &[key, prefix] : facts.prefixes)
    writeMember(writer, key, prefix);
  for (const auto &[key, length] : facts.lengths)
    writeNumber(writer, key, length);
  for (const auto &[key, value] : facts.expansions)
    writeFlag(writer, key, value);
  writeScore(writer, context.score);
  if (facts.maxLength)
    writeNumber(writer, "max_seq_length", facts.maxLength);
  if (facts.lowerCase)
    writeFlag(writer, "do_lower_case", *facts.lowerCase);
  writeMember(writer, "license", readLicense(joinPath(folder, "README.md")));
  MatrixCount matrices = countMatrices(context.spec);
  writeNumber(writer, "matrices", matrices.all);
  writeNumber(writer, "bf16_exact_matrices", matrices.exactlyBf16);
}

} // namespace

bool collectMetadata(ImportContext &context, const std::string &folder,
                     const std::string &transformerFolder) {
  Facts facts;
  if (!readConfig(context, facts) ||
      !readTransformer(context, transformerFolder, facts) ||
      !readSentence(context, folder, facts))
    return false;
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  writer.StartObject();
  writeFacts(writer, facts, context, folder);
  writer.EndObject();
  context.spec.metadataJson.assign(buffer.GetString(), buffer.GetSize());
  return true;
}

} // namespace encast
