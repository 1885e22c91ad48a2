//===- ArtifactWriter.h - write a model.so ----------------------*- C++ -*-===//
///
/// \file
/// Turns code, tables and weight recipes into one shared library, laid out as
/// encast_abi.h says; the only writer of its structs.
///
///   kernels (bytes) --MC--> kernels.o -+
///   step functions (LLVM) --> steps.o -+-- lld --> .so --append--> model.so
///   tables --MC--> descriptor.o -------+             weights (recipes,
///   streamed)
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ARTIFACT_ARTIFACTWRITER_H
#define ENCAST_CODEGEN_ARTIFACT_ARTIFACTWRITER_H

#include "codegen/Artifact/WeightRecipe.h"
#include <cstdint>
#include <string>
#include <vector>

namespace encast {

/// Machine code of a kernel; becomes a hidden FUNC symbol of exact size.
struct KernelCode {
  std::string symbol;
  std::vector<uint8_t> bytes;
};

/// Fields as in encast_abi.h, with strings and indices instead of offsets.
struct ArtifactSlot {
  std::string name;
  uint32_t kind, index;
};
struct ArtifactForm {
  uint32_t colour;
  uint64_t outputs;
  int64_t bytesPerToken, bytesPerSequence, bytes;
};
struct ArtifactCall {
  std::string name, kernel, function; ///< function: symbol in `object`.
  uint32_t modes, panels, panelTile;
  uint64_t outputs;
  int64_t flopsPerRow, flopsPerRowAndKey;
  uint32_t window = 0;
  bool perHead = false;
};
struct ArtifactStep {
  std::string name;
  uint32_t domain, layer, maxRows, rowTile, splitRows, heads;
  std::vector<ArtifactCall> calls;
};
struct ArtifactVariant {
  std::string name;
  uint64_t cpuFeatures, rank;
  int64_t blockBytes, workspaceBytes;
  uint64_t colours;
  std::vector<ArtifactSlot> slots;
  std::vector<ArtifactForm> forms;
  std::vector<WeightRecipe> weights; ///< context->weights[i]
  std::vector<ArtifactStep> steps;
  std::vector<KernelCode> kernels; ///< Symbols are unique over all variants.
  std::vector<uint8_t> object;     ///< ELF relocatable with the step functions.
};
struct ArtifactOutput {
  std::string name;
  int64_t columns;
  bool perToken, allRows;
};
struct ArtifactModel {
  std::string family;
  std::string metadata; ///< JSON
  int64_t vocabulary, maxTokens, tokenTypes, padId, hidden, layers;
  uint64_t defaultOutput;
  std::vector<ArtifactOutput> outputs;
  std::vector<ArtifactVariant> variants;
  bool attendedLength = false; ///< ENCAST_FEATURE_ATTENDED_LENGTH
};

/// Writes `path` (and `weightsPath`, if not empty, for the weights) under
/// temporary names in the same folder, then renames; on failure nothing is left
/// and nothing replaced. The same model gives the same bytes. Equal weights are
/// stored once, and one at a time is in memory. memset, memcpy and memmove are
/// provided to objects that call them. Thread safe, links one at a time. False
/// with `error` naming the file, weight, symbol or call. `path` and
/// `weightsPath` are in one folder and are not devices; a symbol is defined
/// once; an object needs no other library, no relocation when loading and no
/// code run then.
bool writeArtifact(const ArtifactModel &model, WeightSource &source,
                   const std::string &path, const std::string &weightsPath,
                   std::string &error);

} // namespace encast

#endif // ENCAST_CODEGEN_ARTIFACT_ARTIFACTWRITER_H
