//===- Diagnostics.h - what users read when something is wrong --*- C++ -*-===//

#ifndef ENCAST_COMPILER_DRIVER_DIAGNOSTICS_H
#define ENCAST_COMPILER_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/Twine.h"

namespace encast {

/// Prints `encast: error: message` to stderr.
void reportError(const llvm::Twine &message);
/// Prints `encast: note: message` to stderr.
void reportNote(const llvm::Twine &message);
/// Prints `encast: message` to stderr: what was done.
void reportSummary(const llvm::Twine &message);
/// Shows `encast: what` on a terminal, until something else is printed or
/// shown; nothing where stderr is no terminal. Not thread safe.
void showProgress(const llvm::Twine &what);
/// Takes what showProgress shows off the terminal.
void clearProgress();
/// Prints `text` to stdout; reports an error and returns false if it does not
/// get there.
bool writeToStdout(llvm::StringRef text);

/// While it lives, prints the diagnostics of MLIR with the layer or tensor that
/// they are about, or the place in the file that was parsed:
///   encast: error: encoder.layer.3.output.LayerNorm: 'encoder.layer_norm' op
///   ...
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  explicit DiagnosticPrinter(mlir::MLIRContext *context);
};

} // namespace encast

#endif // ENCAST_COMPILER_DRIVER_DIAGNOSTICS_H
