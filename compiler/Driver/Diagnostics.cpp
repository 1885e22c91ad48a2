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
/// Same, of progress: a terminal has 80 columns.
static constexpr size_t kProgressHead = 35, kProgressTail = 30;

/// Whether the last line of the terminal shows progress.
static bool progressIsShown = false;

/// `text` without its middle, if it has more characters than `head` and `tail`.
static std::string shorten(const std::string &text, size_t head, size_t tail) {
  if (text.size() <= head + tail)
    return text;
  auto isInside = [&](size_t at) { return (text[at] & 0xc0) == 0x80; };
  tail = text.size() - tail;
  while (isInside(head)) // of a character in UTF-8
    --head;
  while (isInside(tail))
    ++tail;
  return text.substr(0, head) + " ... " + text.substr(tail);
}

/// `encast: ` and the text. Names of files, tensors and fields may hold any
/// character: those that would move the cursor become \xNN.
static std::string lineOf(const std::string &text) {
  std::string line = "encast: ";
  for (unsigned char c : text) {
    if (c < ' ' || c == 0x7f)
      line += {'\\', 'x', llvm::hexdigit(c >> 4, /*LowerCase=*/true),
               llvm::hexdigit(c & 15, /*LowerCase=*/true)};
    else
      line += c;
  }
  return line;
}

void encast::clearProgress() {
  if (progressIsShown)
    llvm::errs() << "\r\x1b[K";
  progressIsShown = false;
}

static void printLine(const llvm::Twine &message) {
  clearProgress();
  llvm::errs() << lineOf(shorten(message.str(), kMessageHead, kMessageTail))
               << "\n";
}

void encast::showProgress(const llvm::Twine &what) {
  if (!llvm::errs().is_displayed())
    return;
  clearProgress();
  llvm::errs() << lineOf(shorten(what.str(), kProgressHead, kProgressTail));
  progressIsShown = true;
}

void encast::reportError(const llvm::Twine &message) {
  printLine("error: " + message);
}

void encast::reportNote(const llvm::Twine &message) {
  printLine("note: " + message);
}

void encast::reportSummary(const llvm::Twine &message) { printLine(message); }

bool encast::writeToStdout(llvm::StringRef text) {
  clearProgress();
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
