//===- Artifact.h - checked view of an artifact -----------------*- C++ -*-===//
///
/// \file
/// validateArtifact decides whether bytes are an artifact that this runtime can
/// load. It is pure: no file, no allocation, no execution.
///
///   bytes --ElfFile--> sections --artifact id--> intact?
///                         |
///                         +--> descriptor --tables, strings, indices--> view
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_ARTIFACT_H
#define ENCAST_RUNTIME_SRC_ARTIFACT_H

#include "encast.h"
#include "encast_abi.h"
#include "runtime/src/Hash.h"
#include <cstdint>

namespace encast::runtime {

class ElfFile;
class OpenFile;

/// A descriptor that validateArtifact accepted, in the file or in memory. The
/// bytes belong to whoever made it.
class ArtifactView {
public:
  ArtifactView() = default;
  explicit ArtifactView(const encast_abi_descriptor *descriptor)
      : start(descriptor) {}

  const encast_abi_descriptor *operator->() const { return start; }
  /// The string at `offset`; "" for 0.
  const char *string(uint64_t offset) const {
    return offset ? base() + offset : "";
  }
  template <typename Row> const Row *rows(const encast_abi_table &table) const {
    return reinterpret_cast<const Row *>(base() + table.offset);
  }
  const encast_abi_output &output(uint64_t index) const {
    return rows<encast_abi_output>(start->outputs)[index];
  }
  const encast_abi_variant &variant(uint64_t index) const {
    return rows<encast_abi_variant>(start->variants)[index];
  }
  encast_abi_function function(const encast_abi_call &call) const {
    return reinterpret_cast<encast_abi_function>(
        reinterpret_cast<intptr_t>(start) + call.function);
  }
  /// A bit for each output.
  uint64_t allOutputs() const {
    return ~uint64_t(0) >> (64 - start->outputs.count);
  }
  /// Whether callers may give attended_length.
  bool takesAttendedLength() const {
    return start->required_features & ENCAST_FEATURE_ATTENDED_LENGTH;
  }
  Hash128 id() const { return {start->artifact_id[0], start->artifact_id[1]}; }

private:
  const char *base() const { return reinterpret_cast<const char *>(start); }

  const encast_abi_descriptor *start = nullptr;
};

/// What validateArtifact found.
struct ArtifactFile {
  ArtifactView view; ///< Into the bytes given.
  /// Of the weights section in the file; 0 if the weights lie beside it.
  uint64_t weightsOffset = 0;
  uint64_t codeBytes = 0; ///< Of all executable sections.
};

/// Checks `size` bytes, aligned to 8, that hold a whole artifact file: ELF
/// structure, ABI version, artifact id, every table, string and index of the
/// descriptor, and the weights section (its place and size, not its contents).
/// `found` points into `bytes`.
/// Errors: BAD_ARTIFACT, ABI_MISMATCH.
encast_status validateArtifact(const uint8_t *bytes, uint64_t size,
                               ArtifactFile &found, encast_error *error);

/// Checks that `file`, which lies beside the artifact, holds its weights, by
/// size and by the table at its end. Errors: BAD_ARTIFACT, IO_ERROR.
encast_status checkWeightsFile(const OpenFile &file, const ArtifactView &view,
                               encast_error *error);

/// The artifact id as encast_abi.h defines it.
Hash128 computeArtifactId(const ElfFile &elf);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_ARTIFACT_H
