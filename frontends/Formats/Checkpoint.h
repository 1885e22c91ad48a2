//===- Checkpoint.h - the safetensors files of a model folder ---*- C++ -*-===//
///
/// \file
/// Finds tensors below a root folder by (file, name), and lists the checkpoint
/// of one folder, be it a single model.safetensors or shards with an index.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_FORMATS_CHECKPOINT_H
#define ENCAST_FRONTENDS_FORMATS_CHECKPOINT_H

#include "frontends/Formats/SafeTensors.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace encast {

/// A tensor and the file it stands in, relative to the reader's root.
struct CheckpointTensor {
  std::string file;
  const TensorView *view;
};

/// Opens safetensors files below a root, each once. Views stay valid as long as
/// the reader. Not thread-safe: opening fills a cache.
class CheckpointReader {
public:
  /// `root` is the folder that file names are relative to.
  explicit CheckpointReader(std::string root) : root(std::move(root)) {}

  /// From now on `file` is opened only if its SHA-256 is `hex` (64 lower-case
  /// digits), as recorded when a stage was printed.
  void expectSha256(const std::string &file, const std::string &hex) {
    expected[file] = hex;
  }

  /// Finds a tensor. False with `error`, which names file and tensor: the file
  /// leads out of the root, cannot be opened, is not valid or not the one
  /// expected, or lacks the tensor.
  bool tensor(const std::string &file, const std::string &name,
              const TensorView *&view, std::string &error);

  /// What errors call `file`: its path, the root included.
  std::string path(const std::string &file) const;

  /// Lists the checkpoint in `folder` (relative to the root, may be empty) in
  /// the order of tensor names: model.safetensors, or else the shards of
  /// model.safetensors.index.json, whose map and shards must agree.
  bool list(const std::string &folder, std::vector<CheckpointTensor> &tensors,
            std::string &error);

  /// The SHA-256 of `file` in hex, computed once.
  bool sha256(const std::string &file, std::string &hex, std::string &error);

private:
  struct OpenFile {
    SafeTensors tensors;
    std::string sha256; ///< Empty until asked for.
  };
  bool open(const std::string &file, OpenFile *&opened, std::string &error);
  bool listShards(const std::string &folder,
                  std::vector<CheckpointTensor> &tensors, std::string &error);

  std::string root;
  std::map<std::string, std::unique_ptr<OpenFile>> files;
  std::map<std::string, std::string> expected;
};

/// True if `path` is relative, not empty and has no empty, "." or ".." part.
bool isPlainRelativePath(const std::string &path);

} // namespace encast

#endif // ENCAST_FRONTENDS_FORMATS_CHECKPOINT_H
