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
#include <optional>
#include <string>
#include <vector>

namespace encast {

/// A checkpoint tensor, or rows of it; `file` is relative to the model's
/// folder.
struct TensorRef {
  std::string file, name;
  std::vector<int64_t> shape;      ///< As stored.
  std::string type;                ///< "f32", "f16" or "bf16", as stored.
  int64_t firstRow = 0, rows = -1; ///< Rows used; -1: all.
  bool exactlyBf16 = false; ///< Every value is one of bf16 (matrices only).
  bool present() const { return !name.empty(); }
};

/// y = x W^T + b; weight [out, in], bias [out] may be absent.
struct LinearSpec {
  std::string name; ///< e.g. "encoder.layer.0.attention.self.query".
  TensorRef weight, bias;
  bool present() const { return weight.present(); }
};

/// Layer or root-mean-square normalization; the bias may be absent, and so may
/// the whole norm (no weight).
struct NormSpec {
  enum class Kind { Layer, RootMeanSquare };
  std::string name;
  TensorRef weight, bias;
  double epsilon = 1e-12;
  Kind kind = Kind::Layer;
  bool present() const { return weight.present(); }
};

/// Rotary position embedding of whole heads, pairs (k, k + headSize / 2), with
/// frequencies theta^(-2k / headSize). Source: Su et al., "RoFormer" (2021),
/// section 3.2.2.
struct RopeSpec {
  double theta = 0; ///< 0: none.
};

/// output(attention(query(x), key(x), value(x)))
struct AttentionSpec {
  LinearSpec query, key, value, output;
  NormSpec queryNorm, keyNorm; ///< Of each head, [headSize]; may be absent.
  RopeSpec rope;               ///< Behind the norms.
  int64_t window = -1; ///< Keys at most this far from the query; -1: all.
};

/// output(scale(x) * conv(gate(x) * input(x))), where conv sums over the token
/// before, the token itself and the token behind, for each channel; zero
/// outside of the sequence.
struct ShortConvSpec {
  std::string name;
  LinearSpec gate, scale, input;
  TensorRef weight, bias; ///< [hidden, 1, 3]; [hidden], may be absent.
  LinearSpec output;
};

/// down(activation(gate(x)) * up(x)), or down(activation(up(x))) without a
/// gate.
struct FeedForwardSpec {
  LinearSpec gate, up, down;
};

/// One transformer block. Post-norm:
///   x = mixerNorm(x + mixer(x))
///   x = feedForwardNorm(x + feedForward(x))
/// Pre-norm (ModelSpec::preNorm):
///   x = x + mixer(mixerNorm(x))
///   x = x + feedForward(feedForwardNorm(x))
struct BlockSpec {
  enum class Mixer { Attention, ShortConv };
  Mixer mixer = Mixer::Attention;
  AttentionSpec attention;             ///< Mixer::Attention.
  ShortConvSpec conv;                  ///< Mixer::ShortConv.
  NormSpec mixerNorm, feedForwardNorm; ///< Absent: identity.
  FeedForwardSpec feedForward;
};

/// x = norm(words[id] + types[token type] + positions[position]); tables and
/// the norm may be absent, all but the words.
struct EmbeddingSpec {
  TensorRef words, positions, types;
  NormSpec norm;
};

enum class PoolingMode {
  Cls,
  Max,
  Mean,
  MeanSqrtLength,
  WeightedMean,
  LastToken
};

/// What is computed from the last hidden state x [T, H]; one per output.
struct OutputSpec {
  enum class Kind {
    LastHiddenState,   ///< x
    Pooler,            ///< tanh(dense(x[first]))
    SentenceEmbedding, ///< the sentence-transformers chain
    TokenEmbeddings,   ///< the chain's modules without pooling, on all tokens
    PooledLogits,      ///< classifier(pooled): `logits`, `nsp_logits`
    TokenLogits,       ///< classifier(transformed x)
    VocabularyLogits,  ///< the same over the vocabulary (decoder)
    TokenColumn ///< one column of classifier(transformed x): start, end logits
  };
  std::string name; ///< As contract: "logits", "token_logits", ...
  Kind kind = Kind::LastHiddenState;
  /// PooledLogits, TokenLogits, TokenColumn; the decoder of VocabularyLogits,
  /// whose weight may be the word table.
  LinearSpec classifier;
  /// In front of the classifier: transformNorm(transformActivation(transform)),
  /// each may be absent. Of PooledLogits only where `pooling` is given.
  LinearSpec transform;
  NormSpec transformNorm;
  std::string transformActivation = "none"; ///< A name of Activations.def.
  /// PooledLogits: how tokens are pooled in front of the transform; absent: the
  /// pooler.
  std::optional<PoolingMode> pooling;
  int64_t column = 0; ///< TokenColumn.
};

/// One module of a sentence-transformers chain behind the transformer. Without
/// Pooling the chain is of TokenEmbeddings.
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
  int64_t keyValueHeads = 0; ///< Divides heads.
  int64_t headSize = 0;
  int64_t maxTokens = 0, tokenTypes = 0;
  int64_t padId = -1;
  std::string activation; ///< Of the feed-forward, a name of Activations.def.
  EmbeddingSpec embedding;
  bool preNorm = false;
  std::vector<BlockSpec> blocks;
  NormSpec finalNorm; ///< Behind the last block; may be absent.
  LinearSpec pooler;  ///< May be absent.
  std::vector<SentenceModule> sentence;
  /// Callers may give attended_length: tokens behind it are queries but no
  /// keys, and the convolution sees them (ColBERT's query expansion).
  bool attendedLength = false;
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
/// Both quote names as the files have them, with any character: whoever prints
/// them makes a line of it.
bool importHuggingFace(const std::string &folder, const ImportOptions &options,
                       ModelSpec &spec, std::vector<std::string> &notes,
                       std::string &error);

} // namespace encast

#endif // ENCAST_FRONTENDS_MODELS_MODELSPEC_H
