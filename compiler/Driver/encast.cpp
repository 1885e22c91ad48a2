//===- encast.cpp - the command line of the compiler ----------------------===//

#include "encast.h"
#include "compiler/Driver/Compile.h"
#include "compiler/Driver/Diagnostics.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace encast;
namespace cl = llvm::cl;

int main(int argc, char **argv) {
  cl::SubCommand compileCommand("compile",
                                "compile a model into a shared library");
  cl::OptionCategory category("encast compile");
  auto in = cl::sub(compileCommand);
  auto group = cl::cat(category);
  cl::opt<std::string> model(cl::Positional, cl::value_desc("MODEL"),
                             cl::desc("a Hugging Face folder, or a printed "
                                      "stage (.mlir)"),
                             in, group);
  cl::opt<std::string> output("o", cl::value_desc("OUT.so"),
                              cl::desc("the artifact to write"), in, group);
  cl::opt<std::string> target(
      "target", cl::value_desc("T[,T...]"),
      cl::desc("CPUs to compile for: name[+feature|-feature]*, one variant "
               "each; host if not given"),
      in, group);
  cl::opt<std::string> precision("precision", cl::value_desc("P"),
                                 cl::desc("f32"), cl::init("f32"), in, group);
  cl::list<std::string> outputs("outputs", cl::value_desc("a,b"),
                                cl::desc("outputs to offer; all if not given"),
                                cl::CommaSeparated, in, group);
  cl::opt<std::string> task("task", cl::value_desc("TASK"),
                            cl::desc("what the model is for; from its "
                                     "architecture if not given"),
                            in, group);
  cl::opt<std::string> emit(
      "emit", cl::value_desc("STAGE"),
      cl::desc("stop at a stage and print it: " + stageNames()), in, group);
  cl::opt<std::string> weights(
      "weights", cl::value_desc("FILE"),
      cl::desc("write the weights to this file beside the artifact"), in,
      group);
  cl::opt<std::string> weightsRoot(
      "weights-root", cl::value_desc("DIR"),
      cl::desc("where a printed stage finds its checkpoint files"), in, group);
  cl::opt<bool> allowUnused(
      "allow-unused", cl::desc("accept checkpoint tensors that are not known"),
      in, group);
  cl::SetVersionPrinter([](llvm::raw_ostream &out) {
    out << "encast " << ENCAST_VERSION_MAJOR << "." << ENCAST_VERSION_MINOR
        << "\n";
  });
  cl::HideUnrelatedOptions(category, compileCommand);
  std::string complaint;
  llvm::raw_string_ostream complaints(complaint);
  if (!cl::ParseCommandLineOptions(
          argc, argv, "casts transformer encoders into shared libraries\n",
          &complaints)) {
    llvm::StringRef line = llvm::StringRef(complaint).split('\n').first;
    line.consume_front(llvm::sys::path::filename(argv[0]));
    line.consume_front(": ");
    reportError(line);
    return 1;
  }
  if (!compileCommand) {
    reportError("expected a command: encast compile MODEL -o OUT.so");
    return 1;
  }

  if (model.empty()) {
    reportError("expected a model: encast compile MODEL -o OUT.so");
    return 1;
  }

  CompileOptions options;
  options.model = model;
  options.output = output;
  options.targets = target;
  options.outputs.assign(outputs.begin(), outputs.end());
  options.task = task;
  options.weightsFile = weights;
  options.weightsRoot = weightsRoot;
  options.allowUnused = allowUnused;
  if (precision != "f32") {
    reportError("--precision: '" + precision + "' is not known, expected f32");
    return 1;
  }
  if (emit.getNumOccurrences()) {
    std::optional<Stage> stage = parseStage(emit);
    if (!stage) {
      reportError("--emit: '" + emit + "' is not a stage, expected one of " +
                  stageNames());
      return 1;
    }
    options.stage = *stage;
  }
  if (options.output.empty() && options.stage == Stage::So) {
    reportError("-o is required");
    return 1;
  }
  return compile(options) ? 0 : 1;
}
