//===- SentenceChain.cpp - the modules behind the transformer -------------===//

#include "frontends/Models/SentenceChain.h"
#include "frontends/Formats/Json.h"

namespace encast {
namespace {

constexpr int64_t kMaxFeatures = 1 << 20;

struct PoolingRow {
  const char *flag, *name; ///< Old boolean key, and value of pooling_mode.
  PoolingMode mode;
};

// In the order in which several flags concatenate.
constexpr PoolingRow kPooling[] = {
    {"pooling_mode_cls_token", "cls", PoolingMode::Cls},
    {"pooling_mode_max_tokens", "max", PoolingMode::Max},
    {"pooling_mode_mean_tokens", "mean", PoolingMode::Mean},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens",
     PoolingMode::MeanSqrtLength},
    {"pooling_mode_weightedmean_tokens", "weightedmean",
     PoolingMode::WeightedMean},
    {"pooling_mode_lasttoken", "lasttoken", PoolingMode::LastToken},
};

struct KindRow {
  const char *name; ///< Last part of a module's Python path.
  SentenceModule::Kind kind;
};

constexpr KindRow kKinds[] = {
    {"Pooling", SentenceModule::Kind::Pooling},
    {"Dense", SentenceModule::Kind::Dense},
    {"Normalize", SentenceModule::Kind::Normalize},
    {"LayerNorm", SentenceModule::Kind::LayerNorm},
};

struct ActivationRow {
  const char *path, *activation;
};

constexpr ActivationRow kDenseActivations[] = {
    {"torch.nn.modules.linear.Identity", "none"},
    {"torch.nn.modules.activation.Tanh", "tanh"},
    {"torch.nn.modules.activation.ReLU", "relu"},
    {"torch.nn.modules.activation.GELU", "gelu"},
    {"torch.nn.modules.activation.SiLU", "silu"},
    {"torch.nn.modules.activation.Sigmoid", "sigmoid"},
};

/// Reads `field`, which must agree with what stands before the module.
void requireSize(JsonFields &fields, const char *field, int64_t features) {
  int64_t given = fields.integer(field, features, 1, kMaxFeatures);
  if (given != features)
    fields.fail(field, "expected " + std::to_string(features) +
                           ", the size that the module before it gives, but "
                           "got " +
                           std::to_string(given));
}

/// What a module reads and writes: the sentence vector behind a Pooling, the
/// token vectors in a chain without one, whose older modules do not say so.
void requireInput(JsonFields &fields, bool onTokens) {
  const char *expected = onTokens ? "token_embeddings" : "sentence_embedding";
  for (const char *field : {"module_input_name", "module_output_name"}) {
    std::string name = fields.string(field, expected);
    if (name != expected)
      fields.fail(field, "expected \"" + std::string(expected) + "\" " +
                             (onTokens ? "in a chain without a Pooling"
                                       : "behind a Pooling") +
                             ", but got \"" + name + "\"");
  }
}

void readPooling(JsonFields &fields, int64_t &features,
                 SentenceModule &module) {
  requireSize(fields, "word_embedding_dimension", features);
  requireSize(fields, "embedding_dimension", features);
  auto addByName = [&](const JsonValue &value) {
    std::string valid;
    for (const PoolingRow &row : kPooling) {
      if (value.is(JsonValue::Kind::String) && value.string == row.name) {
        module.pooling.push_back(row.mode);
        return;
      }
      valid += (valid.empty() ? "" : ", ") + std::string(row.name);
    }
    fields.fail("pooling_mode",
                "expected one of " + valid + ", but got " + value.describe());
  };
  for (const std::string &name : fields.names()) {
    bool known = false;
    for (const PoolingRow &row : kPooling)
      known |= name == row.flag;
    if (!known && startsWith(name, "pooling_mode_") &&
        fields.boolean(name, false))
      fields.fail(name, "is not a known way to pool");
  }
  if (const JsonValue *mode = fields.get("pooling_mode")) {
    if (!mode->is(JsonValue::Kind::Array))
      addByName(*mode);
    else if (mode->elements.empty())
      fields.fail("pooling_mode", "is an empty array");
    else
      for (const JsonValue &element : mode->elements)
        addByName(element);
  } else {
    for (const PoolingRow &row : kPooling)
      if (fields.boolean(row.flag, false))
        module.pooling.push_back(row.mode);
    if (module.pooling.empty())
      module.pooling.push_back(PoolingMode::Mean);
  }
  features *= static_cast<int64_t>(module.pooling.size());
}

void readDense(JsonFields &fields, TensorBinder &tensors, int64_t &features,
               SentenceModule &module) {
  requireSize(fields, "in_features", features);
  if (!fields.has("out_features"))
    fields.fail("out_features", "is missing");
  int64_t out = fields.integer("out_features", features, 1, kMaxFeatures);
  bool bias = fields.boolean("bias", true);
  std::string path =
      fields.string("activation_function", "torch.nn.modules.activation.Tanh");
  std::string valid;
  bool known = false;
  for (const ActivationRow &row : kDenseActivations) {
    if (path == row.path) {
      module.activation = row.activation;
      known = true;
    }
    valid += (valid.empty() ? "" : ", ") + std::string(row.path);
  }
  if (!known)
    fields.fail("activation_function",
                "expected one of " + valid + ", but got \"" + path + "\"");
  Dim outDim{out, "out_features"}, inDim{features, "in_features"};
  module.dense = tensors.linear("linear", "linear", outDim, inDim, bias);
  module.useResidual = fields.boolean("use_residual", false);
  if (module.useResidual && out != features)
    module.residual =
        tensors.linear("residual", "residual", outDim, inDim, false);
  features = out;
}

void readLayerNorm(JsonFields &fields, TensorBinder &tensors, int64_t features,
                   SentenceModule &module) {
  requireSize(fields, "dimension", features);
  // torch.nn.LayerNorm's default; the module has no field for it.
  module.norm = tensors.norm("norm", "norm", {features, "dimension"}, 1e-5);
}

/// Reads an element of modules.json and appends it to the chain.
void readModule(JsonFields &fields, bool isFirst, SentenceChain &chain,
                std::vector<std::string> &notes) {
  std::string type = fields.string("type", "");
  std::string path = fields.string("path", "");
  if (!path.empty() && !isPlainRelativePath(path))
    fields.fail("path", "expected a path inside the model's folder, but got "
                        "\"" +
                            path + "\"");
  if (!startsWith(type, "sentence_transformers.") &&
      !startsWith(type, "pylate."))
    fields.fail("type", "expected a class of sentence_transformers or pylate, "
                        "but got \"" +
                            type + "\"");
  std::string name = type.substr(type.rfind('.') + 1);
  if (isFirst) {
    chain.transformer = path;
    if (name != "Transformer")
      fields.fail("type",
                  "expected a Transformer first, but got \"" + type + "\"");
    return;
  }
  if (name == "Dropout")
    return; // Does nothing at inference.
  if (name == "MultiVectorMask" && !chain.pools()) {
    notes.push_back(fields.where() + ": rows of tokens that scoring leaves "
                                     "out are given too");
    return;
  }
  for (const KindRow &row : kKinds) {
    if (name != row.name)
      continue;
    if (row.kind == SentenceModule::Kind::Pooling) {
      if (chain.pools())
        fields.fail("type", "expected one Pooling, but got a second");
      else if (!chain.modules.empty())
        fields.fail("type", "expected nothing that works on every token "
                            "before a Pooling");
    }
    chain.modules.push_back({row.kind, path});
    return;
  }
  fields.fail("type", "expected Pooling, Dense, Normalize, LayerNorm or "
                      "Dropout, but got \"" +
                          type + "\"");
}

/// The vectors of tokens are normalized without a module for it, but not in
/// folders that MultiVectorEncoder has saved: these have one where they want
/// it.
bool normalizesTokens(const std::string &folder, const SentenceChain &chain,
                      bool &result, std::string &error) {
  result = false;
  if (chain.modules.empty() || chain.pools())
    return true;
  for (const SentenceChain::Module &module : chain.modules)
    if (module.kind == SentenceModule::Kind::Normalize)
      return true;
  result = true;
  std::string path = joinPath(folder, "config_sentence_transformers.json");
  if (!fileExists(path))
    return true;
  JsonValue document;
  if (!readJsonFile(path, {}, document, error))
    return false;
  JsonFields fields(document, path);
  result = fields.string("model_type", "") != "MultiVectorEncoder";
  return fields.ok(error);
}

} // namespace

bool readSentenceChain(const std::string &folder, SentenceChain &chain,
                       std::vector<std::string> &notes, std::string &error) {
  chain = SentenceChain();
  std::string path = joinPath(folder, "modules.json");
  if (!fileExists(path))
    return true;
  JsonValue document;
  if (!readJsonFile(path, {}, document, error))
    return false;
  if (!document.is(JsonValue::Kind::Array) || document.elements.empty()) {
    error = path + ": expected an array of modules, but got " +
            (document.elements.empty() ? "an empty one" : document.describe());
    return false;
  }
  for (size_t i = 0; i < document.elements.size(); ++i) {
    JsonFields fields(document.elements[i],
                      path + ": module " + std::to_string(i));
    readModule(fields, i == 0, chain, notes);
    if (!fields.ok(error))
      return false;
  }
  bool normalizes;
  if (!normalizesTokens(folder, chain, normalizes, error))
    return false;
  if (normalizes)
    chain.modules.push_back({SentenceModule::Kind::Normalize, ""});
  return true;
}

bool bindSentenceChain(const std::string &folder, const SentenceChain &chain,
                       int64_t hidden, bool allowUnused,
                       CheckpointReader &reader,
                       std::vector<SentenceModule> &modules,
                       std::set<std::string> &files,
                       std::vector<std::string> &notes, std::string &error) {
  using Kind = SentenceModule::Kind;
  int64_t features = hidden;
  for (const SentenceChain::Module &entry : chain.modules) {
    std::string where = joinPath(folder, entry.path);
    std::string path = joinPath(where, "config.json");
    JsonValue document;
    document.kind = JsonValue::Kind::Object;
    // Normalize has had no config before it learnt to work on tokens.
    if ((entry.kind != Kind::Normalize ||
         (!entry.path.empty() && fileExists(path))) &&
        !readJsonFile(path, {}, document, error))
      return false;
    std::vector<CheckpointTensor> stored;
    bool hasTensors =
        entry.kind == Kind::Dense || entry.kind == Kind::LayerNorm;
    if (hasTensors && !reader.list(entry.path, stored, error))
      return false;
    TensorBinder tensors(stored, where);
    JsonFields fields(document, path);
    SentenceModule module;
    module.kind = entry.kind;
    switch (entry.kind) {
    case Kind::Pooling:
      readPooling(fields, features, module);
      if (!fields.boolean("include_prompt", true))
        notes.push_back(path + ": include_prompt: is false, but prompt tokens "
                               "cannot be told from others in ids: with a "
                               "prompt, pool last_hidden_state behind it");
      break;
    case Kind::Dense:
      requireInput(fields, !chain.pools());
      readDense(fields, tensors, features, module);
      break;
    case Kind::Normalize:
      requireInput(fields, !chain.pools());
      break;
    case Kind::LayerNorm:
      if (!chain.pools())
        fields.fail("dimension",
                    "a LayerNorm works behind a Pooling, and there is none");
      readLayerNorm(fields, tensors, features, module);
      break;
    }
    if (!fields.ok(error) ||
        !tensors.finish([](const std::string &) { return false; }, allowUnused,
                        notes, error))
      return false;
    std::string prefix = entry.path + ".";
    for (std::string *name :
         {&module.dense.name, &module.residual.name, &module.norm.name})
      if (!name->empty())
        *name = prefix + *name;
    files.insert(tensors.files().begin(), tensors.files().end());
    modules.push_back(std::move(module));
  }
  return true;
}

} // namespace encast
