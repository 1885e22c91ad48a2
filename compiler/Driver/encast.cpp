//===- encast.cpp - the command line of the compiler ----------------------===//

#include "encast.h"
#include "compiler/Driver/Compile.h"
#include "compiler/Driver/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <getopt.h>
#include <unistd.h>

using namespace encast;

namespace {

constexpr const char *kUsage = "encast compile MODEL -o OUT.so [OPTION]...";

struct OptionRow {
  char id;
  const char *name;  ///< Without dashes; null: -id.
  const char *value; ///< What stands for it in the help; null: takes none.
  const char *help;
};

constexpr OptionRow kOptions[] = {
    {'o', nullptr, "OUT.so", "the artifact to write, or the print of --emit"},
    {'t', "target", "T[,T...]",
     "CPUs to compile for, name[+feature|-feature]*, one variant each; host "
     "if not given"},
    {'p', "precision", "P",
     "of products: f32, the default; bf16x3, two bf16 terms; bf16, without "
     "AMX of the weights alone"},
    {'u', "outputs", "a,b", "outputs to offer; all if not given"},
    {'k', "task", "TASK",
     "what the model is for; from its architecture if not given"},
    {'e', "emit", "STAGE", "stop at a stage and print it, one of "},
    {'w', "weights", "FILE",
     "write the weights to this file beside the artifact; 'file': "
     "OUT.so.weights"},
    {'r', "weights-root", "DIR",
     "where a printed stage finds its checkpoint files"},
    {'a', "allow-unused", nullptr,
     "accept checkpoint tensors that are not known"},
    {'h', "help", nullptr, "show this"},
    {'v', "version", nullptr, "show the version"},
};

[[noreturn]] void fail(const llvm::Twine &message) {
  reportError(message);
  exit(1);
}

/// Prints `text` on standard output and ends the program.
[[noreturn]] void show(const std::string &text) {
  if (!writeToStdout(text))
    exit(1);
  exit(0);
}

std::string helpText() {
  std::string text =
      std::string("usage: ") + kUsage +
      "\n\nCasts a transformer encoder, MODEL, into one shared library. MODEL "
      "is a Hugging\nFace folder or a printed stage (.mlir).\n\n";
  llvm::raw_string_ostream out(text);
  for (const OptionRow &row : kOptions) {
    std::string left =
        row.name ? std::string("--") + row.name : std::string("-") + row.id;
    if (row.value)
      left += std::string(row.name ? "=" : " ") + row.value;
    left.resize(22, ' ');
    out << "  " << left << row.help << (row.id == 'e' ? stageNames() : "")
        << "\n";
  }
  return text;
}

void readOption(int id, const std::string &value, CompileOptions &options) {
  switch (id) {
  case 'o':
    options.output = value;
    break;
  case 't':
    options.targets = value;
    break;
  case 'p':
    options.precision = encoder::symbolizePrecision(value);
    if (!options.precision)
      fail("--precision: '" + value +
           "' is not known, expected f32, bf16x3 or bf16");
    break;
  case 'u': {
    llvm::SmallVector<llvm::StringRef> names;
    llvm::StringRef(value).split(names, ',');
    for (llvm::StringRef name : names)
      options.outputs.push_back(name.str());
    break;
  }
  case 'k':
    options.task = value;
    break;
  case 'e':
    if (std::optional<Stage> stage = parseStage(value))
      options.stage = *stage;
    else
      fail("--emit: '" + value + "' is not a stage, expected one of " +
           stageNames());
    break;
  case 'w':
    options.weightsFile = value;
    break;
  case 'r':
    options.weightsRoot = value;
    break;
  case 'a':
    options.allowUnused = true;
    break;
  case 'h':
    show(helpText());
  case 'v':
    show("encast " + std::to_string(ENCAST_VERSION_MAJOR) + "." +
         std::to_string(ENCAST_VERSION_MINOR) + "\n");
  }
}

CompileOptions parseOptions(int argc, char **argv) {
  std::vector<option> table;
  for (const OptionRow &row : kOptions)
    if (row.name)
      table.push_back({row.name, row.value ? required_argument : no_argument,
                       nullptr, row.id});
  table.push_back({});
  CompileOptions options;
  opterr = 0;
  unsetenv("POSIXLY_CORRECT"); // options may stand behind MODEL
  for (int id;
       (id = getopt_long(argc, argv, "o:h", table.data(), nullptr)) != -1;) {
    if (id == '?') {
      // Of several letters behind a dash the next one is not known yet.
      bool isLetter =
          optopt && llvm::none_of(kOptions, [](const OptionRow &row) {
            return row.id == optopt;
          });
      std::string given = isLetter ? std::string("-") + char(optopt)
                                   : std::string(argv[optind - 1]);
      fail(
          "command line: option '" + given +
          "' is unknown, or has a value too few or too many; usage: " + kUsage);
    }
    std::string value = optarg ? optarg : "";
    if (optarg && value.empty())
      fail("command line: an option has an empty value, '" +
           llvm::Twine(argv[optind - 1]) + "'");
    readOption(id, value, options);
  }
  int names = argc - optind;
  if (names < 1 || llvm::StringRef(argv[optind]) != "compile")
    fail("command line: expected the command compile" +
         (names < 1 ? "" : ", but got '" + std::string(argv[optind]) + "'") +
         "; usage: " + kUsage);
  if (names != 2)
    fail("command line: expected one MODEL, but got " + llvm::Twine(names - 1) +
         "; usage: " + kUsage);
  options.model = argv[optind + 1];
  if (!options.weightsFile.empty() && options.stage != Stage::So)
    fail("--weights is about an artifact, which --emit does not write");
  if (options.output.empty() && options.stage == Stage::So)
    fail("command line: -o is required; usage: " + llvm::Twine(kUsage));
  return options;
}

[[noreturn]] void endAfterFatalError(void *, const char *reason, bool) {
  fprintf(stderr, "encast: error: %s\n", reason);
  _exit(1);
}

/// No way out but status 0 or 1, with a line that says why.
void prepareProcess() {
  // If a standard stream is closed, no file must take its place.
  int stream;
  do
    stream = open("/dev/null", O_PATH);
  while (stream >= 0 && stream <= STDERR_FILENO);
  close(stream);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  llvm::install_fatal_error_handler(endAfterFatalError);
  llvm::install_bad_alloc_error_handler(endAfterFatalError);
  llvm::install_out_of_memory_new_handler();
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess();
  bool compiled = compile(parseOptions(argc, argv));
  // Notes that nobody could read are no reason to fail.
  llvm::errs().clear_error();
  return compiled ? 0 : 1;
}
