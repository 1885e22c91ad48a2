//===- encast-run.cpp - token ids in, an .npy file out --------------------===//

#include "runtime/tools/IdsReader.h"
#include "runtime/tools/ToolSupport.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <unistd.h>

using namespace encast::tools;

namespace {

constexpr const char *kUsage =
    "encast-run MODEL.so --ids FILE|- --out FILE.npy [--output NAME] "
    "[--threads N] [--memory-cap BYTES] [--variant NAME] [--huge-page-weights] "
    "[--stats FILE.json]";
constexpr int64_t kMostTokens = 65536; ///< Of a batch, if no cap is given.

struct Options : ModelOptions {
  std::string ids, out, stats;
  int64_t memoryCap = 0;
};

Options parseOptions(int argc, char **argv) {
  Options options;
  CommandLine line(kUsage);
  line.model(options);
  line.text("ids", options.ids);
  line.text("out", options.out);
  line.text("stats", options.stats);
  line.number("memory-cap", options.memoryCap, 1, INT64_MAX);
  options.path = line.parse(argc, argv);
  if (options.ids.empty() || options.out.empty())
    line.failFor("--ids and --out are needed");
  const std::pair<const char *, const std::string &> files[] = {
      {"MODEL", options.path},
      {"--ids", options.ids},
      {"--out", options.out},
      {"--stats", options.stats}};
  for (size_t second : {2, 3})
    for (size_t first = 0; first < second; ++first)
      if (isSameFile(files[first].second, files[second].second))
        fail(std::string("command line: ") + files[first].first + " and " +
             files[second].first + " name the same file, " +
             files[second].second);
  return options;
}

/// The file of ids in messages.
std::string idsName(const Options &options) {
  return options.ids == "-" ? "stdin" : options.ids;
}

std::string readIdsText(const Options &options) {
  FILE *file = options.ids == "-" ? stdin : fopen(options.ids.c_str(), "rb");
  if (!file)
    fail(idsName(options) + ": cannot open the file: " + strerror(errno));
  std::string text;
  char buffer[65536];
  for (size_t count; (count = fread(buffer, 1, sizeof(buffer), file));)
    text.append(buffer, count);
  if (ferror(file))
    fail(idsName(options) + ": cannot read the file: " + strerror(errno));
  if (file != stdin)
    fclose(file);
  return text;
}

/// Half of the memory that this process could take now.
int64_t halfOfFreeMemory() {
  int64_t bytes = 0;
  encast_memory_available(&bytes, nullptr);
  return bytes / 2;
}

/// A trailing run of pad ids is most likely a mistake: it is attended.
void warnOfPadding(const std::string &where, const IdsFile &file,
                   int64_t padId) {
  constexpr int most = 10;
  int lines = 0;
  for (size_t line = 0; line + 1 < file.offsets.size(); ++line) {
    int64_t begin = file.offsets[line], end = begin + file.attended[line];
    int64_t pads = 0;
    while (begin < end - pads && file.ids[end - pads - 1] == padId)
      ++pads;
    if (!pads)
      continue;
    if (lines++ < most)
      printLine("warning", where + ": line " + std::to_string(line + 1) +
                               " ends with " + std::to_string(pads) +
                               " pad ids (id " + std::to_string(padId) +
                               "), which are attended like any other");
  }
  if (lines > most)
    printLine("warning", where + ": " + std::to_string(lines - most) +
                             " more lines end with pad ids");
}

/// How far the work is.
struct Progress {
  int64_t linesDone = 0, linesOfBatch = 0, lines = 0;

  /// The callback of the session: the share of a batch that is done.
  static void show(void *data, double done) {
    const auto &progress = *static_cast<Progress *>(data);
    double lines = progress.linesDone + done * progress.linesOfBatch;
    showProgress("%ld of %ld lines, %d %%", progress.linesDone, progress.lines,
                 int(100 * lines / progress.lines));
  }
};

/// Packs lines into batches, runs them and writes their rows.
class Runner {
public:
  Runner(const Options &options, encast_model *model, encast_session *session,
         const IdsFile &file, int64_t outputIndex)
      : options(options), session(session), file(file),
        output(outputInfo(model, outputIndex)),
        copiedBytes(modelInfo(model).copied_weights_bytes),
        outputBit(uint64_t(1) << outputIndex), where(idsName(options)) {}

  /// Decides all batches and reserves memory for the largest.
  void pack();
  /// Runs all batches; the rows go to `out` in the order of the lines.
  void run(OutputFile &out, Progress &progress);

  int64_t lineCount() const { return file.offsets.size() - 1; }
  int64_t rowCount() const {
    return output.per_token ? file.ids.size() : lineCount();
  }
  const encast_output_info &outputOf() const { return output; }
  size_t batchCount() const { return batches.size(); }
  int64_t runNanoseconds() const { return nanoseconds; }

  struct StepTotal {
    encast_step_stats step;
    int64_t nanoseconds, flops;
  };
  const std::vector<StepTotal> &stepTotals() const { return steps; }

private:
  struct Batch {
    int64_t firstLine, lines;
  };
  int64_t tokensOf(const Batch &batch) const {
    return file.offsets[batch.firstLine + batch.lines] -
           file.offsets[batch.firstLine];
  }
  int64_t arenaBytes(const Batch &batch) const;
  int64_t outputFloats(const Batch &batch) const {
    return (output.per_token ? tokensOf(batch) : batch.lines) * output.columns;
  }
  void runBatch(const Batch &batch, std::vector<float> &rows);
  void addSteps();

  const Options &options;
  encast_session *session;
  const IdsFile &file;
  const encast_output_info output;
  const int64_t copiedBytes;
  const uint64_t outputBit;
  const std::string where;
  std::vector<Batch> batches;
  std::vector<StepTotal> steps;
  int64_t nanoseconds = 0;
};

int64_t Runner::arenaBytes(const Batch &batch) const {
  int64_t bytes = 0;
  encast_error error = ENCAST_ERROR_INIT;
  check(encast_memory_needed(session, tokensOf(batch), batch.lines, outputBit,
                             &bytes, &error),
        error, where + ": line " + std::to_string(batch.firstLine + 1));
  return bytes;
}

void Runner::pack() {
  int64_t freeBytes = halfOfFreeMemory();
  // What is free does not hold the copied weights any more; a cap does.
  int64_t cap = options.memoryCap ? options.memoryCap - copiedBytes : freeBytes;
  int64_t mostTokens = options.memoryCap ? INT64_MAX : kMostTokens;
  auto fits = [&](const Batch &batch) {
    int64_t arena = arenaBytes(batch);
    int64_t rows = outputFloats(batch) * int64_t(sizeof(float));
    return arena <= cap && rows <= std::min(freeBytes, 2 * freeBytes - arena) &&
           tokensOf(batch) <= mostTokens;
  };
  Batch largest = {0, 0};
  int64_t largestBytes = arenaBytes(largest);
  for (int64_t line = 0; line < lineCount();) {
    Batch batch = {line, 1};
    if (tokensOf(batch) > mostTokens)
      fail(where + ": line " + std::to_string(line + 1) + ": has " +
           std::to_string(tokensOf(batch)) + " tokens, but without " +
           "--memory-cap at most " + std::to_string(mostTokens) + " are run");
    int64_t alone = arenaBytes(batch);
    if (alone > cap)
      fail(where + ": line " + std::to_string(line + 1) + ": its " +
           std::to_string(tokensOf(batch)) + " tokens need " +
           std::to_string(alone) + " bytes of memory" +
           (copiedBytes ? " beside " + std::to_string(copiedBytes) +
                              " of copied weights"
                        : "") +
           (options.memoryCap
                ? ", but the cap allows " + std::to_string(options.memoryCap)
                : ", but half of the free memory is " +
                      std::to_string(freeBytes)));
    if (outputFloats(batch) / 2 > freeBytes / int64_t(sizeof(float)))
      fail(where + ": line " + std::to_string(line + 1) + ": output '" +
           output.name + "' takes " +
           std::to_string(outputFloats(batch) * sizeof(float)) +
           " bytes of memory, but only " + std::to_string(2 * freeBytes) +
           " are free");
    while (line + batch.lines < lineCount() && fits({line, batch.lines + 1}))
      ++batch.lines;
    batches.push_back(batch);
    line += batch.lines;
    if (arenaBytes(batch) > largestBytes) {
      largest = batch;
      largestBytes = arenaBytes(batch);
    }
  }
  if (batches.empty())
    return;
  encast_error error = ENCAST_ERROR_INIT;
  check(encast_session_reserve(session, tokensOf(largest), largest.lines,
                               outputBit, &error),
        error, options.path);
}

void Runner::addSteps() {
  std::vector<encast_step_stats> last = stepStats(session);
  if (steps.empty())
    for (const encast_step_stats &step : last)
      steps.push_back({step, 0, 0});
  for (size_t i = 0; i < last.size(); ++i) {
    steps[i].nanoseconds += last[i].nanoseconds;
    steps[i].flops += last[i].flops;
  }
}

void Runner::runBatch(const Batch &batch, std::vector<float> &rows) {
  int64_t first = file.offsets[batch.firstLine], tokens = tokensOf(batch);
  std::vector<int64_t> offsets(file.offsets.begin() + batch.firstLine,
                               file.offsets.begin() + batch.firstLine +
                                   batch.lines + 1);
  for (int64_t &offset : offsets)
    offset -= first;
  std::vector<encast_input> inputs = {
      {sizeof(encast_input), "ids", file.ids.data() + first, tokens},
      {sizeof(encast_input), "offsets", offsets.data(), batch.lines + 1}};
  if (file.givesTypes)
    inputs.push_back({sizeof(encast_input), "token_type_ids",
                      file.types.data() + first, tokens});
  if (file.givesAttended)
    inputs.push_back({sizeof(encast_input), "attended_length",
                      file.attended.data() + batch.firstLine, batch.lines});
  rows.resize(outputFloats(batch));
  encast_output target = {sizeof(encast_output), output.name, rows.data(),
                          static_cast<int64_t>(rows.size())};
  encast_error error = ENCAST_ERROR_INIT;
  check(encast_run(session, inputs.data(), inputs.size(), &target, 1, &error),
        error,
        where + ": lines " + std::to_string(batch.firstLine + 1) + " to " +
            std::to_string(batch.firstLine + batch.lines));
  nanoseconds += sessionStats(session).nanoseconds;
}

void Runner::run(OutputFile &out, Progress &progress) {
  std::vector<float> rows;
  for (const Batch &batch : batches) {
    progress = {batch.firstLine, batch.lines, lineCount()};
    runBatch(batch, rows);
    addSteps();
    out.write(rows.data(), rows.size() * sizeof(float));
  }
  clearProgress();
}

/// The header of an .npy file, version 1.0, of a row-major f32 matrix.
std::string npyHeader(int64_t rows, int64_t columns) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                     std::to_string(rows) + ", " + std::to_string(columns) +
                     "), }";
  constexpr size_t prefix = 10; // magic, version, length
  text.resize((prefix + text.size() + 1 + 63) / 64 * 64 - prefix - 1, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

std::string statsJson(const Runner &runner, const IdsFile &file,
                      const encast_model_info_t &info,
                      encast_session *session) {
  encast_session_stats_t stats = sessionStats(session);
  JsonWriter json;
  json.StartObject();
  json.integer("schema", 1);
  json.string("variant", stats.variant);
  json.integer("threads", stats.threads);
  json.integer("tokens", file.ids.size());
  json.integer("sequences", runner.lineCount());
  json.integer("batches", runner.batchCount());
  json.integer("nanoseconds", runner.runNanoseconds());
  json.integer("arena_bytes", stats.arena_bytes);
  json.integer("copied_weights_bytes", info.copied_weights_bytes);
  json.string("output", runner.outputOf().name);
  json.integer("rows", runner.rowCount());
  json.integer("columns", runner.outputOf().columns);
  json.Key("steps");
  json.StartArray();
  for (const Runner::StepTotal &total : runner.stepTotals()) {
    beginStepRow(json, total.step, total.nanoseconds, total.flops);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return json.text();
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess();
  Options options = parseOptions(argc, argv);
  Model model = openModel(options);
  encast_model_info_t info = modelInfo(model.get());
  int64_t outputIndex = findOutput(model.get(), options);

  std::string where = idsName(options);
  IdsFile file;
  std::string error;
  if (!readIds(readIdsText(options),
               {info.vocabulary, info.token_types, info.max_tokens,
                info.attended_length != 0},
               file, error))
    fail(where + ": " + error);
  if (info.pad_id >= 0)
    warnOfPadding(where, file, info.pad_id);

  Progress progress;
  Session session = createSession(model.get(), options, options.memoryCap,
                                  Progress::show, &progress);
  Runner runner(options, model.get(), session.get(), file, outputIndex);
  runner.pack();
  OutputFile out(options.out);
  std::optional<OutputFile> stats;
  if (!options.stats.empty())
    stats.emplace(options.stats);
  out.write(npyHeader(runner.rowCount(), runner.outputOf().columns));
  runner.run(out, progress);
  // Both are complete before either has its name.
  out.finish();
  if (stats) {
    stats->write(statsJson(runner, file, info, session.get()));
    stats->finish();
  }
  out.commit();
  if (stats)
    stats->commit();
  printSummary(text("%ld sequences, %zu tokens in %zu batches, %.3f s: %s "
                    "[%ld, %ld]%s to ",
                    runner.lineCount(), file.ids.size(), runner.batchCount(),
                    runner.runNanoseconds() * 1e-9, runner.outputOf().name,
                    runner.rowCount(), runner.outputOf().columns,
                    options.output.empty() ? " (the default)" : "") +
               options.out);
  return 0;
}
