//===- ModelSpec.h - a model as plain data ----------------------*- C++ -*-===//
///
/// \file
/// What a model family file fills from config.json and tensor names, and the
/// only thing BuildEncoder reads. No MLIR. Differences between families are
/// fields here, never the family's name.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_MODELS_MODELSPEC_H
#define ENCAST_FRONTENDS_MODELS_MODELSPEC_H

#include <cstdint>
#include <string>
#include <vector>

namespace encast {

/// A checkpoint tensor; `file` is relative to the model's folder.
struct TensorRef {
  std::string file, name;
  std::vector<int64_t> shape;
  std::string type; ///< "f32", "f16" or "bf16", as stored.
  bool present() const { return !name.empty(); }
};

/// y = x W^T + b; weight [out, in], bias [out] may be absent.
struct LinearSpec {
  std::string name; ///< e.g. "encoder.layer.0.attention.self.query".
  TensorRef weight, bias;
};

/// Layer normalization; bias may be absent.
struct NormSpec {
  std::string name;
  TensorRef weight, bias;
  double epsilon = 1e-12;
};

/// One post-norm transformer block:
///   x = norm1(x + output(attention(query(x), key(x), value(x))))
///   x = norm2(x + down(activation(up(x))))
struct BlockSpec {
  LinearSpec query, key, value, output;
  NormSpec attentionNorm;
  LinearSpec up, down;
  NormSpec feedForwardNorm;
};

/// x = norm(words[id] + types[token type] + positions[position]).
struct EmbeddingSpec {
  TensorRef words, positions, types;
  NormSpec norm;
};

/// What is computed from the last hidden state x [T, H]; one per output.
struct OutputSpec {
  enum class Kind {
    LastHiddenState,   ///< x
    Pooler,            ///< tanh(dense(x[first]))
    SentenceEmbedding, ///< the sentence-transformers chain
    PooledLogits,      ///< classifier(pooled): `logits`, `nsp_logits`
    TokenLogits,       ///< classifier(x)
    VocabularyLogits,  ///< decoder(norm(activation(transform(x))))
    TokenColumn        ///< one column of classifier(x): start and end logits
  };
  std::string name; ///< As contract: "logits", "token_logits", ...
  Kind kind = Kind::LastHiddenState;
  /// PooledLogits, TokenLogits, TokenColumn; the decoder of VocabularyLogits,
  /// whose weight may be the word table.
  LinearSpec classifier;
  LinearSpec transform; ///< VocabularyLogits.
  NormSpec transformNorm;
  std::string transformActivation;
  int64_t column = 0; ///< TokenColumn.
};

enum class PoolingMode {
  Cls,
  Max,
  Mean,
  MeanSqrtLength,
  WeightedMean,
  LastToken
};

/// One module of a sentence-transformers chain behind the transformer.
struct SentenceModule {
  enum class Kind { Pooling, Dense, Normalize, LayerNorm };
  Kind kind = Kind::Normalize;
  std::vector<PoolingMode> pooling; ///< Concatenated in this order.
  LinearSpec dense;                 ///< Dense.
  bool useResidual = false; ///< Dense: adds its input behind the activation,
  LinearSpec residual;      ///< through this where the sizes differ.
  std::string activation = "none"; ///< Dense: a name of Activations.def.
  NormSpec norm;                   ///< LayerNorm.
};

struct ModelSpec {
  std::string family; ///< "bert"
  int64_t hidden = 0, layers = 0, heads = 0, feedForward = 0, vocabulary = 0;
  int64_t maxTokens = 0, tokenTypes = 0;
  int64_t padId = -1;
  std::string activation; ///< Of the feed-forward, a name of Activations.def.
  EmbeddingSpec embedding;
  std::vector<BlockSpec> blocks;
  LinearSpec pooler; ///< May be absent.
  std::vector<SentenceModule> sentence;
  std::vector<OutputSpec> outputs; ///< All that are asked, in contract's order.
  int64_t defaultOutput = 0;       ///< Index into outputs.
  std::string metadataJson; ///< Labels, prompts, max_seq_length, licence.
  /// Files that tensors come from: path relative to the folder, SHA-256 in hex.
  std::vector<std::pair<std::string, std::string>> sources;
};

/// What the user asks of the importer.
struct ImportOptions {
  std::vector<std::string> outputs; ///< Empty: all that the checkpoint defines.
  std::string task;                 ///< --task; empty: from `architectures`.
  bool allowUnused = false;
};

/// Reads a Hugging Face folder. False with `error`, which names file, field or
/// tensor and the expected and given values. `notes` are for the user to see.
bool importHuggingFace(const std::string &folder, const ImportOptions &options,
                       ModelSpec &spec, std::vector<std::string> &notes,
                       std::string &error);

} // namespace encast

#endif // ENCAST_FRONTENDS_MODELS_MODELSPEC_H
