//===- SafeTensors.h - checked reading of safetensors files -----*- C++ -*-===//
///
/// \file
/// The container of Hugging Face checkpoints:
///
///     u64 N, little endian | N bytes of JSON | data of the tensors
///
/// The JSON maps a name to {"dtype", "shape", "data_offsets": [begin, end]},
/// offsets from the end of the JSON. Nothing in it is believed: every size is
/// checked before it is used, and the tensors must cover the data exactly.
/// Source: github.com/huggingface/safetensors, README.md.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_FORMATS_SAFETENSORS_H
#define ENCAST_FRONTENDS_FORMATS_SAFETENSORS_H

#include "frontends/Formats/MappedFile.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace encast {

/// A tensor in the file: row-major, little endian, at any alignment.
struct TensorView {
  std::string name;
  std::string_view type; ///< As the file spells it: "F32", "BF16", ...
  std::vector<int64_t> shape;
  const uint8_t *data = nullptr; ///< Into the file's bytes.
  uint64_t sizeBytes = 0;
};

/// `[2, 384]`, as errors print it.
std::string shapeText(const std::vector<int64_t> &shape);

/// The tensors of one safetensors file. Views are valid as long as this is.
class SafeTensors {
public:
  /// The official limit of the header.
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;

  /// Maps and checks `path`. False with `error`, which names the file, and the
  /// tensor where one is at fault.
  bool open(const std::string &path, std::string &error);

  /// Checks `size` bytes, which must outlive this. `error` is as above without
  /// the file's name.
  bool parse(const uint8_t *bytes, size_t size, std::string &error);

  /// In the order of their names.
  const std::vector<TensorView> &tensors() const { return views; }
  /// Null if there is no tensor of that name.
  const TensorView *find(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>> &metadata() const {
    return strings;
  }
  const MappedFile &file() const { return mapped; }

private:
  MappedFile mapped;
  std::vector<TensorView> views;
  std::vector<std::pair<std::string, std::string>> strings;
};

} // namespace encast

#endif // ENCAST_FRONTENDS_FORMATS_SAFETENSORS_H
