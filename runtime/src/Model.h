//===- Model.h - a loaded artifact ------------------------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_MODEL_H
#define ENCAST_RUNTIME_SRC_MODEL_H

#include "runtime/src/Arena.h"
#include "runtime/src/Artifact.h"
#include "runtime/src/Log.h"
#include "runtime/src/MappedFile.h"
#include <atomic>

/// Immutable after encast_model_open but for the count of sessions.
struct encast_model {
  encast::runtime::ArtifactView view; ///< In the loaded library.
  const encast_abi_variant *variant = nullptr;
  const void **weights = nullptr; ///< [variant's weights]
  encast::runtime::Mapping weightsMapping;
  encast::runtime::Arena copies; ///< Of weights, with huge_page_weights.
  encast::runtime::Log log;
  void *library = nullptr; ///< From dlopen.
  char id[33] = {};        ///< Artifact id in hexadecimal digits.
  std::atomic<int64_t> sessions{0};
  std::atomic<bool> weightsRead{false}; ///< Or left to runs.

  /// The index of the output of this name; -1 if there is none.
  int64_t findOutput(const char *name) const;
  /// Reads the weights that runs take from the mapping into the page tables.
  void populateWeights() const;
};

#endif // ENCAST_RUNTIME_SRC_MODEL_H
