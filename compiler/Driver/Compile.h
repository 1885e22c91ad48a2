//===- Compile.h - from a model to an artifact or a stage -------*- C++ -*-===//

#ifndef ENCAST_COMPILER_DRIVER_COMPILE_H
#define ENCAST_COMPILER_DRIVER_COMPILE_H

#include "compiler/Pipeline/Pipeline.h"
#include "dialects/Encoder/Encoder.h"
#include <optional>
#include <string>
#include <vector>

namespace encast {

/// What the user asks of `encast compile`.
struct CompileOptions {
  std::string model;       ///< A folder, or a printed stage (.mlir).
  std::string output;      ///< Empty: stdout (with a stage only).
  std::string targets;     ///< --target; empty: host, or what the stage holds.
  std::string weightsFile; ///< --weights, a name in the artifact's folder or a
                           ///< path to it; `file`: the artifact's name with
                           ///< .weights; empty: in the artifact.
  std::string weightsRoot; ///< --weights-root; empty: beside the model.
  std::string task;
  std::vector<std::string> outputs;
  /// --precision; none: f32, or what the stage holds.
  std::optional<encoder::Precision> precision;
  bool allowUnused = false;
  Stage stage = Stage::So; ///< --emit.
};

/// Compiles; false if it failed, with the reason on stderr and nothing written.
bool compile(const CompileOptions &options);

} // namespace encast

#endif // ENCAST_COMPILER_DRIVER_COMPILE_H
