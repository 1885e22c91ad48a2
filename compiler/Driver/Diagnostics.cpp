//===- Diagnostics.cpp - what users read when something is wrong ----------===//

#include "compiler/Driver/Diagnostics.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace encast;

/// What is printed of a message: names in it may have any length, and what is
/// wrong stands behind them.
static constexpr size_t kMessageHead = 3000, kMessageTail = 1000;

/// Prints one line behind `encast: `. Names of files, tensors and fields may
/// hold any character: those that would move the cursor are printed as \xNN.
static void printLine(const llvm::Twine &message) {
  std::string text = message.str(), line;
  if (text.size() > kMessageHead + kMessageTail) {
    auto isInside = [&](size_t at) { return (text[at] & 0xc0) == 0x80; };
    size_t head = kMessageHead, tail = text.size() - kMessageTail;
    while (isInside(head)) // of a character in UTF-8
      --head;
    while (isInside(tail))
      ++tail;
    text = text.substr(0, head) + " ... " + text.substr(tail);
  }
  for (unsigned char c : text) {
    if (c < ' ' || c == 0x7f)
      line += {'\\', 'x', llvm::hexdigit(c >> 4, /*LowerCase=*/true),
               llvm::hexdigit(c & 15, /*LowerCase=*/true)};
    else
      line += c;
  }
  llvm::errs() << "encast: " << line << "\n";
}

void encast::reportError(const llvm::Twine &message) {
  printLine("error: " + message);
}

void encast::reportNote(const llvm::Twine &message) {
  printLine("note: " + message);
}

void encast::reportSummary(const llvm::Twine &message) { printLine(message); }

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

/// The place in the file that was parsed and the name of a layer or tensor, as
/// far as they are known.
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
  if (!name.empty() && !place.empty())
    return place + ": " + name;
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
