//===- ModelFolder.h - model folders made by tests --------------*- C++ -*-===//
///
/// \file
/// Writes safetensors files, and temporary folders with the files of tiny
/// models, which tests then bend out of shape.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_SUPPORT_MODELFOLDER_H
#define ENCAST_TEST_SUPPORT_MODELFOLDER_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace encast::test {

/// A tensor to be written: zeros unless `bytes` is set.
struct StoredTensor {
  std::string type = "F32";
  std::vector<int64_t> shape;
  std::string bytes;
};

using StoredTensors = std::map<std::string, StoredTensor>;

/// The bytes of a safetensors file whose header is `header` as it stands.
std::string safeTensorsBytes(const std::string &header,
                             const std::string &data);

/// The bytes of a valid safetensors file.
std::string safeTensorsBytes(const StoredTensors &tensors);

/// A temporary folder, removed with all its files by the destructor.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  const std::string &path() const { return folder; }
  std::string path(const std::string &file) const {
    return folder + "/" + file;
  }
  /// Writes `file`, making its parent folders.
  void write(const std::string &file, const std::string &bytes) const;

private:
  std::string folder;
};

/// The files of a model that tests change before write().
struct ModelFolder {
  /// config.json as field to JSON text.
  std::map<std::string, std::string> config;
  StoredTensors tensors;
  /// Other files, by name.
  std::map<std::string, std::string> files;
  /// A checkpoint is one file unless this is more than 1.
  int shards = 1;

  /// Adds a tensor [rows, columns], or [rows] if columns is 0. Each gets
  /// values of its own.
  void add(const std::string &name, int64_t rows, int64_t columns = 0,
           const std::string &type = "F32");
  /// Adds `name`.weight [out, in] and `name`.bias [out].
  void addLinear(const std::string &name, int64_t out, int64_t in);
  void addNorm(const std::string &name, int64_t size);
  void write(const TemporaryFolder &folder) const;
};

struct BertFolder : ModelFolder {
  static constexpr int64_t hidden = 8, feedForward = 12, layers = 2;
  static constexpr int64_t vocabulary = 11, positions = 16, types = 2;

  /// A base model with pooler, its tensors behind `prefix`.
  explicit BertFolder(const std::string &prefix = "");

  /// Adds the masked LM head, its decoder tied to the word table.
  void addMaskedLM();
};

struct ModernBertFolder : ModelFolder {
  static constexpr int64_t hidden = 8, feedForward = 12, layers = 4;
  static constexpr int64_t vocabulary = 11, positions = 64;

  /// A base model without biases, its tensors behind `prefix`.
  explicit ModernBertFolder(const std::string &prefix = "");

  /// Adds what all heads have in front of their last linear.
  void addHead();
};

struct Lfm2Folder : ModelFolder {
  static constexpr int64_t hidden = 16, feedForward = 24, layers = 3;
  static constexpr int64_t vocabulary = 11, positions = 64;
  static constexpr int64_t heads = 4, keyValueHeads = 2, headSize = 4;

  /// A bidirectional base model with attention in layer 1, its tensors behind
  /// `prefix`.
  explicit Lfm2Folder(const std::string &prefix = "");
};

} // namespace encast::test

#endif // ENCAST_TEST_SUPPORT_MODELFOLDER_H
