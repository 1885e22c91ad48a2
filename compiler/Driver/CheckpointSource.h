//===- CheckpointSource.h - weights from safetensors files ------*- C++ -*-===//

#ifndef ENCAST_COMPILER_DRIVER_CHECKPOINTSOURCE_H
#define ENCAST_COMPILER_DRIVER_CHECKPOINTSOURCE_H

#include "codegen/Artifact/WeightRecipe.h"
#include "frontends/Formats/Checkpoint.h"

namespace encast {

/// Gives the artifact writer the tensors of a checkpoint. Not thread-safe.
class CheckpointSource final : public WeightSource {
public:
  /// `root` is the folder that file names are relative to.
  explicit CheckpointSource(std::string root) : reader(std::move(root)) {}

  /// Refuses `file` if it has another SHA-256.
  void expect(const std::string &file, const std::string &sha256) {
    reader.expectSha256(file, sha256);
  }

  bool read(const std::string &file, const std::string &tensor,
            const std::vector<int64_t> &shape, ElementType type,
            const uint8_t *&bytes, std::string &error) override;
  std::string path(const std::string &file) const override {
    return reader.path(file);
  }

private:
  CheckpointReader reader;
};

} // namespace encast

#endif // ENCAST_COMPILER_DRIVER_CHECKPOINTSOURCE_H
