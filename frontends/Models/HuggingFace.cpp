//===- HuggingFace.cpp - a Hugging Face folder to a ModelSpec -------------===//
///
/// \file
/// What all families share: which folder holds the transformer, which family it
/// is, what marks a model whose computation is not the one its type says.
//===----------------------------------------------------------------------===//

#include "frontends/Models/ImportContext.h"
#include "frontends/Models/Metadata.h"
#include "frontends/Models/SentenceChain.h"

namespace encast {
namespace {

using ImportFunction = bool (*)(ImportContext &);

struct FamilyRow {
  const char *type;
  ImportFunction import;
  std::string_view classes; ///< Of a repository's code; empty: none.
  int64_t padId;            ///< Where the configuration does not name one.
};

constexpr FamilyRow kFamilies[] = {
#define ENCAST_FAMILY(type, function, classes, padId)                          \
  {type, function, classes, padId},
#include "frontends/Models/Families.def"
};

/// Finds the family, and refuses what changes the computation of any family.
const FamilyRow *chooseFamily(JsonFields &config) {
  const FamilyRow *family = nullptr;
  std::string type = config.string("model_type", "");
  std::string valid;
  for (const FamilyRow &row : kFamilies) {
    if (type == row.type)
      family = &row;
    valid += (valid.empty() ? "" : ", ") + std::string(row.type);
  }
  if (!family)
    config.fail("model_type", !config.has("model_type")
                                  ? "is missing, expected one of " + valid
                                  : "expected one of " + valid +
                                        ", but got \"" + type + "\"");

  // Remote code may compute anything; the best known case is named.
  auto isJina = [](const std::string &text) {
    return text.find("jinaai/jina-bert") != std::string::npos;
  };
  const char *jina = " marks a Jina model, which is not supported";
  std::string origin = config.string("_name_or_path", "");
  if (isJina(origin))
    config.fail("_name_or_path", "\"" + origin + "\"" + jina);
  if (const JsonValue *map = config.get("auto_map")) {
    if (!map->is(JsonValue::Kind::Object))
      config.fail("auto_map", "expected an object, but got " + map->describe());
    for (size_t i = 0; i < map->keys.size(); ++i) {
      const JsonValue &code = map->elements[i];
      if (map->keys[i] == "AutoTokenizer")
        continue; // Ids are given, however they were made.
      // "repository--module.Class"
      std::string name = code.string.substr(code.string.rfind('.') + 1);
      if (family && !family->classes.empty() &&
          startsWith(name, std::string(family->classes)))
        continue;
      config.fail("auto_map", isJina(code.string)
                                  ? code.describe() + jina
                                  : "the model runs code of its own (" +
                                        map->keys[i] +
                                        "), which is not supported");
    }
  }
  if (config.has("quantization_config"))
    config.fail("quantization_config",
                "quantized checkpoints are not supported");
  if (config.has("transformers_weights"))
    config.fail("transformers_weights",
                "weights of another name than model.safetensors are not "
                "supported");
  if (const JsonValue *pruned = config.get("pruned_heads"))
    if (!pruned->elements.empty())
      config.fail("pruned_heads", "pruned models are not supported");
  return family;
}

} // namespace

bool importHuggingFace(const std::string &folder, const ImportOptions &options,
                       ModelSpec &spec, std::vector<std::string> &notes,
                       std::string &error) {
  spec = ModelSpec();
  if (!isDirectory(folder)) {
    error =
        folder + (fileExists(folder) ? ": expected a folder with config.json"
                                     : ": does not exist");
    return false;
  }
  SentenceChain chain;
  if (!readSentenceChain(folder, chain, notes, error))
    return false;
  std::string transformer = joinPath(folder, chain.transformer);
  std::string path = joinPath(transformer, "config.json");
  JsonValue document;
  if (!readJsonFile(path, {}, document, error))
    return false;
  JsonFields config(document, path);
  const FamilyRow *family = chooseFamily(config);
  if (!config.ok(error))
    return false;
  // Stanford's ColBERT keeps its projection inside the BERT checkpoint.
  if (chain.modules.empty() &&
      fileExists(joinPath(folder, "artifact.metadata"))) {
    error = joinPath(folder, "artifact.metadata") +
            ": marks a ColBERT checkpoint, which is not supported";
    return false;
  }

  path = joinPath(transformer, "adapter_config.json");
  if (fileExists(path)) {
    error = path + ": marks an adapter beside the model, which is not "
                   "supported; merge it into the weights";
    return false;
  }

  CheckpointReader reader(folder);
  std::vector<CheckpointTensor> stored;
  if (!reader.list(chain.transformer, stored, error))
    return false;
  TensorBinder tensors(stored, transformer);
  std::optional<OutputSpec::Kind> chainOutput;
  if (!chain.modules.empty())
    chainOutput = chain.pools() ? OutputSpec::Kind::SentenceEmbedding
                                : OutputSpec::Kind::TokenEmbeddings;
  ImportContext context{options, config, tensors, chainOutput,
                        spec,    notes,  error};
  spec.family = family->type;
  // null stands for none.
  bool named = config.mentions("pad_token_id");
  spec.padId =
      named && !config.has("pad_token_id")
          ? -1
          : config.integer("pad_token_id", family->padId, -1, INT32_MAX);
  if (!config.ok(error) || !family->import(context))
    return false;
  if (!named && spec.padId >= spec.vocabulary)
    spec.padId = -1;
  if (spec.padId >= spec.vocabulary)
    config.fail("pad_token_id", "expected an id of the vocabulary, at most " +
                                    std::to_string(spec.vocabulary - 1) +
                                    ", but got " + std::to_string(spec.padId));
  if (!config.ok(error))
    return false;

  // The chain is read even if nobody asks for its output: a folder that cannot
  // be understood is not half imported.
  std::set<std::string> files = tensors.files(), chainFiles;
  std::vector<SentenceModule> modules;
  if (!bindSentenceChain(folder, chain, spec.hidden, options.allowUnused,
                         reader, modules, chainFiles, notes, error))
    return false;
  for (const OutputSpec &output : spec.outputs)
    if (output.kind == chainOutput) {
      spec.sentence = modules;
      files.insert(chainFiles.begin(), chainFiles.end());
    }
  spec.attendedLength = chainOutput == OutputSpec::Kind::TokenEmbeddings;
  if (!collectMetadata(context, folder, transformer))
    return false;
  for (const std::string &file : files) {
    std::string hex;
    if (!reader.sha256(file, hex, error))
      return false;
    spec.sources.emplace_back(file, hex);
  }
  return true;
}

} // namespace encast
