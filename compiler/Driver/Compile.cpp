//===- Compile.cpp - from a model to an artifact or a stage ---------------===//
///
/// \file
///   folder --import--> ModelSpec --> encoder module --clone per target--+
///   stage.mlir --parse--> modules, one per variant ---------------------+
///        +--------------------------------------------------------------+
///        +--> passes --> print, or ArtifactModel --> model.so
//===----------------------------------------------------------------------===//

#include "compiler/Driver/Compile.h"
#include "codegen/Artifact/OutputFile.h"
#include "compiler/Driver/ArtifactModel.h"
#include "compiler/Driver/CheckpointSource.h"
#include "compiler/Driver/Diagnostics.h"
#include "dialects/Kernel/Kernel.h"
#include "frontends/BuildEncoder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include <chrono>

using namespace mlir;
using namespace encast;

namespace {

/// A module of one variant on its way, and the stage that it has reached.
struct Variant {
  OwningOpRef<ModuleOp> module;
  Stage stage;
  std::string target; ///< Empty until it is chosen.
};

class Compilation {
public:
  explicit Compilation(const CompileOptions &options)
      : options(options), context(registry()), printer(&context) {
    // The order of diagnostics and memory stay the same in every run.
    context.disableMultithreading();
  }

  bool run();

private:
  CompileOptions options;
  MLIRContext context;
  DiagnosticPrinter printer;
  std::vector<Variant> variants;
  std::string weightsRoot;
  const std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();

  static DialectRegistry registry() {
    DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }

  bool import();
  bool parse();
  bool chooseTargets(std::vector<TargetCpu> &targets);
  void setPrecision();
  bool lower(Variant &variant, Stage to);
  bool print(raw_ostream &out);
  bool print();
  bool mayWrite(StringRef file);
  bool placeWeights(std::string &file);
  bool write();
  void summarize(StringRef weightsFile);
};

/// Reads the model folder into one module per target.
bool Compilation::import() {
  if (!options.weightsRoot.empty()) {
    reportError("--weights-root says where the weights of a printed stage are; "
                "a model folder has its own");
    return false;
  }
  ImportOptions import;
  import.outputs = options.outputs;
  import.task = options.task;
  import.allowUnused = options.allowUnused;
  ModelSpec spec;
  std::vector<std::string> notes;
  std::string error;
  bool done = importHuggingFace(options.model, import, spec, notes, error);
  if (!done) {
    reportError(error);
    return false;
  }
  for (const std::string &note : notes)
    reportNote(note);
  weightsRoot = options.model;
  variants.push_back({buildEncoder(spec, context), Stage::Encoder, ""});
  return true;
}

/// Locations are not printed: gives operations the name of their layer, weight
/// or step again, for diagnostics.
static void nameLocations(ModuleOp module) {
  module.walk([](Operation *op) {
    auto name = op->getAttrOfType<StringAttr>("name");
    if (!name)
      name = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
    if (name)
      op->setLoc(NameLoc::get(name, op->getLoc()));
  });
}

/// Levels of brackets in a printed stage. What reads it calls itself for each;
/// a stage that encast prints has a dozen.
static constexpr int kMostBrackets = 256;
/// Operations of a function, whose operands passes follow in the same way. A
/// layer has a dozen.
static constexpr int64_t kMostOperations = 1 << 14;

/// Refuses a stage of more.
static LogicalResult checkLength(ModuleOp module) {
  WalkResult result = module.walk([](func::FuncOp function) {
    for (Block &block : function.getBody())
      if (int64_t count = block.getOperations().size();
          count > kMostOperations) {
        function.emitOpError() << "has " << count << " operations, at most "
                               << kMostOperations << " work";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Whether no part of the text, but for strings and comments, stands in more
/// brackets.
static bool nestsLittle(StringRef text) {
  int level = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
    } else if (text.substr(i).starts_with("//")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (StringRef("([{<").contains(c)) {
      if (++level > kMostBrackets)
        return false;
    } else if (StringRef(")]}").contains(c) ||
               (c == '>' && (i == 0 || text[i - 1] != '-'))) {
      level = std::max(level - 1, 0);
    }
  }
  return true;
}

/// Reads a printed stage.
bool Compilation::parse() {
  if (!options.outputs.empty() || !options.task.empty()) {
    reportError("--outputs and --task choose what is read from a model folder; "
                "a printed stage has its outputs");
    return false;
  }
  if (options.allowUnused) {
    reportError("--allow-unused is about a model folder; a printed stage has "
                "chosen its tensors");
    return false;
  }
  auto text = llvm::MemoryBuffer::getFile(options.model);
  if (!text) {
    reportError(options.model +
                ": cannot be read: " + text.getError().message());
    return false;
  }
  if (!nestsLittle((*text)->getBuffer())) {
    reportError(options.model + ": has more than " + Twine(kMostBrackets) +
                " levels of brackets");
    return false;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*text), llvm::SMLoc());
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  OwningOpRef<ModuleOp> top = parseSourceFile<ModuleOp>(sources, config);
  if (!top)
    return false; // Diagnosed by the parser.
  nameLocations(*top);
  if (failed(verify(*top)) || failed(checkLength(*top)))
    return false;
  weightsRoot = llvm::sys::path::parent_path(options.model).str();
  if (weightsRoot.empty())
    weightsRoot = ".";
  // Several variants are printed as modules one behind the other.
  SmallVector<ModuleOp> modules;
  if (stageOf(*top))
    modules.push_back(*top);
  else
    llvm::append_range(modules, top->getOps<ModuleOp>());
  for (ModuleOp module : modules) {
    std::optional<Stage> stage = stageOf(module);
    if (!stage)
      break;
    std::string target, error;
    if (auto name = module->getAttrOfType<StringAttr>(kernel::kTargetAttrName))
      target = name.getValue().str();
    // Functions are named by it.
    if (TargetCpu cpu; *stage != Stage::Encoder &&
                       parseTarget(target, cpu, error) && cpu.name != target) {
      reportError(options.model + ": kernel.target is '" + target +
                  "', expected '" + cpu.name + "'");
      return false;
    }
    if (module == *top) {
      variants.push_back({std::move(top), *stage, target});
      return true;
    }
    module->remove();
    variants.push_back({OwningOpRef<ModuleOp>(module), *stage, target});
  }
  if (variants.empty() || variants.size() != modules.size()) {
    reportError(options.model + ": is not a printed stage of encast");
    return false;
  }
  for (const Variant &variant : variants)
    if (variant.stage == Stage::Encoder && variants.size() > 1) {
      reportError(options.model + ": has a module of the encoder stage beside "
                                  "others, which have their target already");
      return false;
    }
  return true;
}

bool Compilation::chooseTargets(std::vector<TargetCpu> &targets) {
  ModuleOp module = *variants.front().module;
  std::string names = options.targets, error;
  auto printed = module->getAttrOfType<StringAttr>(encoder::kTargetsAttrName);
  if (names.empty() && printed)
    names = printed.getValue().str();
  module->removeAttr(encoder::kTargetsAttrName);
  if (!parseTargets(names.empty() ? "host" : names, targets, error)) {
    reportError("--target: " + error);
    return false;
  }
  // By their own names: `host` is another CPU elsewhere.
  if (options.stage == Stage::Encoder && !names.empty()) {
    auto resolved = llvm::map_range(
        targets, [](const TargetCpu &target) { return target.name; });
    module->setAttr(encoder::kTargetsAttrName,
                    StringAttr::get(&context, llvm::join(resolved, ",")));
  }
  return true;
}

/// The precision of a printed stage stays if none is asked for.
void Compilation::setPrecision() {
  if (!options.precision)
    return;
  ModuleOp module = *variants.front().module;
  NamedAttrList model(
      module->getAttrOfType<DictionaryAttr>(encoder::kModelAttrName));
  model.set("precision", StringAttr::get(&context, encoder::stringifyPrecision(
                                                       *options.precision)));
  module->setAttr(encoder::kModelAttrName, model.getDictionary(&context));
}

bool Compilation::lower(Variant &variant, Stage to) {
  if (!variant.target.empty())
    showProgress("lowering for " + variant.target);
  PassManager passes(&context);
  passes.enableVerifier(true);
  addPasses(passes, variant.stage, to, variant.target, options.precision);
  if (failed(passes.run(*variant.module)))
    return false;
  variant.stage = std::max(variant.stage, to);
  return true;
}

bool Compilation::print(raw_ostream &out) {
  for (Variant &variant : variants) {
    if (options.stage == Stage::Asm) {
      if (failed(printAssembly(*variant.module, out)))
        return false;
      continue;
    }
    OpPrintingFlags flags;
    flags.useLocalScope();
    // Operations of the model name their results; row programs by location.
    flags.printNameLocAsPrefix(options.stage >= Stage::Plan);
    variant.module->print(out, flags);
    out << "\n";
  }
  return true;
}

/// Whether `file` stands in `folder` or below.
static bool isBelow(StringRef file, StringRef folder) {
  namespace path = llvm::sys::path;
  llvm::SmallString<128> place, root;
  StringRef parent = path::parent_path(file);
  if (llvm::sys::fs::real_path(parent.empty() ? "." : parent, place) ||
      llvm::sys::fs::real_path(folder, root))
    return false;
  place += "/";
  root += "/";
  return place.str().starts_with(root);
}

/// Whether nothing that belongs to the model would be written over: what was
/// read, and all in the folders of model and weights that is not called like
/// something that encast makes.
bool Compilation::mayWrite(StringRef file) {
  namespace fs = llvm::sys::fs;
  if (!fs::exists(file))
    return true;
  bool isRead = fs::equivalent(file, options.model);
  for (Variant &variant : variants)
    for (auto source : variant.module->getOps<encoder::SourceOp>()) {
      llvm::SmallString<128> read(weightsRoot);
      llvm::sys::path::append(read, source.getPath());
      isRead |= fs::equivalent(file, read);
    }
  StringRef extension = llvm::sys::path::extension(file);
  bool looksMade =
      extension == ".so" || extension == ".weights" || extension == ".mlir";
  bool isOfModel = !looksMade &&
                   (fs::is_directory(options.model) || // else it is a stage
                    !options.weightsRoot.empty()) &&
                   isBelow(file, weightsRoot);
  if (isRead || isOfModel)
    reportError(file + ": is a file of the model");
  return !isRead && !isOfModel;
}

/// Prints to stdout or to a file.
bool Compilation::print() {
  std::string text, error;
  llvm::raw_string_ostream out(text);
  if (!print(out))
    return false;
  if (options.output.empty())
    return writeToStdout(text);
  OutputFile file;
  bool written = file.create(options.output, error) &&
                 file.write(0, reinterpret_cast<const uint8_t *>(text.data()),
                            text.size(), error) &&
                 file.publish(error);
  if (!written)
    reportError(error);
  return written;
}

/// Where --weights puts the weights; empty for inside the artifact.
bool Compilation::placeWeights(std::string &file) {
  namespace path = llvm::sys::path;
  StringRef folder = path::parent_path(options.output);
  file = options.weightsFile;
  if (file == "file") // What no other artifact in the folder takes.
    file = path::filename(options.output).str() + ".weights";
  if (file.empty())
    return true;
  StringRef given = path::parent_path(file);
  if (!given.empty() && given != folder &&
      !llvm::sys::fs::equivalent(given, folder.empty() ? "." : folder)) {
    reportError("--weights: " + file + " is not in the folder of " +
                options.output);
    return false;
  }
  llvm::SmallString<128> beside(folder);
  path::append(beside, path::filename(file));
  file = beside.str().str();
  return true;
}

bool Compilation::write() {
  SmallVector<ModuleOp> modules;
  for (Variant &variant : variants)
    modules.push_back(*variant.module);
  ArtifactModel model;
  if (failed(buildArtifactModel(modules, model)))
    return false;
  std::string weightsFile;
  if (!placeWeights(weightsFile) || !mayWrite(weightsFile))
    return false;
  CheckpointSource source(weightsRoot);
  for (ModuleOp module : modules)
    for (auto file : module.getOps<encoder::SourceOp>())
      source.expect(file.getPath().str(), file.getSha256().str());
  std::string error;
  if (!writeArtifact(model, source, options.output, weightsFile, error)) {
    reportError(error);
    return false;
  }
  summarize(weightsFile);
  return true;
}

void Compilation::summarize(StringRef weightsFile) {
  uint64_t bytes = 0;
  for (StringRef file : {StringRef(options.output), weightsFile})
    if (uint64_t size; !llvm::sys::fs::file_size(file, size))
      bytes += size;
  std::string targets;
  for (const Variant &variant : variants)
    targets += (targets.empty() ? "" : ", ") + variant.target;
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  reportSummary(
      llvm::formatv("compiled for {0} in {1:f1} s: {2:f1} MB in {3}{4}{5}",
                    targets, seconds.count(), double(bytes) / 1e6,
                    options.output, weightsFile.empty() ? "" : " and ",
                    weightsFile)
          .str());
}

bool Compilation::run() {
  showProgress("reading " + options.model);
  if (llvm::sys::fs::is_directory(options.model)) {
    if (!import())
      return false;
  } else if (!llvm::sys::fs::exists(options.model)) {
    reportError(options.model + ": no such file or folder");
    return false;
  } else if (llvm::sys::path::extension(options.model) == ".mlir") {
    if (!parse())
      return false;
  } else {
    reportError(options.model + ": is neither a model folder nor a printed "
                                "stage (.mlir)");
    return false;
  }
  if (!options.weightsRoot.empty())
    weightsRoot = options.weightsRoot;
  for (Variant &variant : variants) {
    if (variant.stage > options.stage) {
      reportError(options.model + ": is at stage " + stageName(variant.stage) +
                  ", behind " + stageName(options.stage));
      return false;
    }
  }

  // Targets are chosen once, where the module leaves the encoder stage.
  bool chosen = !variants.front().target.empty();
  if (chosen && !options.targets.empty()) {
    reportError("--target: " + options.model + " is compiled for " +
                variants.front().target + " already");
    return false;
  }
  auto model = (*variants.front().module)
                   ->getAttrOfType<DictionaryAttr>(encoder::kModelAttrName);
  if (options.precision && (chosen || model.contains("precision"))) {
    reportError("--precision: " + options.model + " has chosen it already");
    return false;
  }
  if (!chosen) {
    setPrecision();
    std::vector<TargetCpu> targets;
    if (!chooseTargets(targets) || !lower(variants.front(), Stage::Encoder))
      return false;
    if (options.stage > Stage::Encoder) {
      Variant encoder = std::move(variants.front());
      variants.clear();
      for (const TargetCpu &target : targets)
        variants.push_back(
            {encoder.module->clone(), Stage::Encoder, target.name});
    }
  }
  for (Variant &variant : variants)
    if (!lower(variant, std::min(options.stage, Stage::Llvm)))
      return false;
  if (!mayWrite(options.output))
    return false;
  // A link stays, and what it leads to is written.
  llvm::SmallString<128> place;
  if (llvm::sys::fs::is_symlink_file(options.output) &&
      !llvm::sys::fs::real_path(options.output, place)) {
    options.output = place.str().str();
    if (!mayWrite(options.output))
      return false;
  }
  return options.stage == Stage::So ? write() : print();
}

} // namespace

bool encast::compile(const CompileOptions &options) {
  bool done = Compilation(options).run();
  clearProgress();
  return done;
}
