//===- Diagnostics.cpp - what users read when something is wrong ----------===//

#include "compiler/Driver/Diagnostics.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace encast;

void encast::reportError(const llvm::Twine &message) {
  llvm::errs() << "encast: error: " << message << "\n";
}

void encast::reportNote(const llvm::Twine &message) {
  llvm::errs() << "encast: note: " << message << "\n";
}

bool encast::writeToStdout(llvm::StringRef text) {
  llvm::raw_fd_ostream &out = llvm::outs();
  out << text;
  out.flush();
  std::error_code failure = out.error();
  if (failure)
    reportError("standard output: " + failure.message());
  out.clear_error();
  return !failure;
}

/// The name of a layer or tensor, else a place in a file, else nothing.
static std::string placeOf(Location location) {
  std::string name, place;
  location->walk([&](Location inner) {
    if (auto named = dyn_cast<NameLoc>(inner); named && name.empty())
      name = named.getName().str();
    if (auto line = dyn_cast<FileLineColLoc>(inner); line && place.empty())
      place = (line.getFilename().getValue() + ":" + Twine(line.getLine()) +
               ":" + Twine(line.getColumn()))
                  .str();
    return WalkResult::advance();
  });
  return name.empty() ? place : name;
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context)
    : ScopedDiagnosticHandler(context, [](Diagnostic &diagnostic) {
        std::string place = placeOf(diagnostic.getLocation());
        std::string text =
            (place.empty() ? "" : place + ": ") + diagnostic.str();
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          reportError(text);
        else
          reportNote(text);
        return success();
      }) {}
