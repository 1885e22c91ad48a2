//===- encast-bench.cpp - how fast an artifact runs -----------------------===//
///
/// \file
/// Lengths and the peaks of multiply-adds take turns, so that all see the same
/// moods of the machine; each number is the median of its samples. The limit of
/// a step is the time that its matrix products take at the peak of the
/// instructions that its kernel uses. On AMX tiles, which a neighbour may slow
/// to a fifth, samples beside a disturbed probe do not count.
//===----------------------------------------------------------------------===//

#include "runtime/tools/PeakFlops.h"
#include "runtime/tools/ToolSupport.h"
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>

using namespace encast::tools;

namespace {

constexpr const char *kUsage =
    "encast-bench MODEL.so --lengths=128,512 [--batch N] [--threads N] "
    "[--output NAME] [--variant NAME] [--huge-page-weights] [--steps] "
    "[--json FILE]";

struct Options : ModelOptions {
  std::string json;
  std::vector<int64_t> lengths;
  int64_t batch = 1;
  bool steps = false;
};

std::vector<int64_t> parseLengths(const std::string &list) {
  std::vector<int64_t> lengths;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = std::min(list.find(',', begin), list.size());
    lengths.push_back(parseNumber(
        "--lengths", list.substr(begin, end - begin).c_str(), 1, INT32_MAX));
    begin = end + 1;
  }
  return lengths;
}

Options parseOptions(int argc, char **argv) {
  Options options;
  std::string lengths;
  CommandLine line(kUsage);
  line.model(options);
  line.text("lengths", lengths);
  line.number("batch", options.batch, 1, 1000000);
  line.flag("steps", options.steps);
  line.text("json", options.json);
  options.path = line.parse(argc, argv);
  if (lengths.empty())
    line.failFor("--lengths is needed");
  if (isSameFile(options.path, options.json))
    fail("command line: MODEL and --json name the same file, " + options.json);
  options.lengths = parseLengths(lengths);
  return options;
}

template <typename Number> Number median(std::vector<Number> samples) {
  auto middle = samples.begin() + samples.size() / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

/// Runs of one length.
class Case {
public:
  Case(const Options &options, encast_model *model, int64_t length);

  /// A sample, whose `quiet` is 0.
  void run();
  /// How quiet the machine was around the last sample.
  void rateLast(double quiet) { samples.back().quiet = quiet; }
  void forgetSamples() { samples.clear(); }
  /// Drops samples that were not that quiet, unless hardly any is left.
  void keepQuiet(double least);

  int64_t tokens() const { return ids.size(); }
  double nanoseconds() const {
    return medianOf([](const Sample &sample) { return sample.nanoseconds; });
  }
  double shortest() const;
  double flops() const;
  /// Summed over threads, of the call `index`.
  double stepNanoseconds(size_t index) const {
    return medianOf([=](const Sample &sample) { return sample.steps[index]; });
  }
  size_t runs() const { return allRuns; }
  size_t quietRuns() const { return quietOnes; }

  const int64_t length;
  std::vector<encast_step_stats> steps; ///< Of the last run.
  int64_t arenaBytes = 0;
  int threads = 0;

private:
  struct Sample {
    double nanoseconds, quiet;
    std::vector<double> steps; ///< Nanoseconds.
  };
  template <typename Get> double medianOf(Get get) const {
    std::vector<double> values;
    values.reserve(samples.size());
    for (const Sample &sample : samples)
      values.push_back(get(sample));
    return median(values);
  }

  const std::string where;
  Session session;
  std::vector<int64_t> ids, offsets = {0};
  std::vector<float> rows;
  encast_output_info output;
  std::vector<Sample> samples;
  size_t allRuns = 0, quietOnes = 0;
};

Case::Case(const Options &options, encast_model *model, int64_t length)
    : length(length), where(options.path),
      session(createSession(model, options, 0)) {
  encast_model_info_t info = modelInfo(model);
  if (length > info.max_tokens)
    fail("--lengths: " + std::to_string(length) +
         " tokens, but the model's limit is " +
         std::to_string(info.max_tokens));
  uint64_t random = 1;
  for (int64_t i = 0; i < options.batch; ++i) {
    for (int64_t j = 0; j < length; ++j) {
      random = random * 6364136223846793005 + 1442695040888963407;
      ids.push_back((random >> 33) % info.vocabulary);
    }
    offsets.push_back(ids.size());
  }
  int64_t index = findOutput(model, options);
  output = outputInfo(model, index);
  rows.resize((output.per_token ? tokens() : options.batch) * output.columns);
  encast_error error = ENCAST_ERROR_INIT;
  check(encast_session_reserve(session.get(), tokens(), options.batch,
                               uint64_t(1) << index, &error),
        error, where);
  arenaBytes = sessionStats(session.get()).arena_bytes;
  threads = sessionStats(session.get()).threads;
  steps = stepStats(session.get());
}

void Case::run() {
  encast_input inputs[] = {{sizeof(encast_input), "ids", ids.data(), tokens()},
                           {sizeof(encast_input), "offsets", offsets.data(),
                            static_cast<int64_t>(offsets.size())}};
  encast_output target = {sizeof(encast_output), output.name, rows.data(),
                          static_cast<int64_t>(rows.size())};
  encast_error error = ENCAST_ERROR_INIT;
  check(encast_run(session.get(), inputs, 2, &target, 1, &error), error, where);
  double nanoseconds = sessionStats(session.get()).nanoseconds;
  steps = stepStats(session.get());
  samples.push_back({nanoseconds, 0, {}});
  for (const encast_step_stats &step : steps)
    samples.back().steps.push_back(step.nanoseconds);
}

void Case::keepQuiet(double least) {
  constexpr size_t fewest = 3;
  allRuns = samples.size();
  std::vector<Sample> quiet;
  for (const Sample &sample : samples)
    if (sample.quiet >= least)
      quiet.push_back(sample);
  quietOnes = quiet.size();
  if (quietOnes >= fewest)
    samples = quiet;
}

double Case::shortest() const {
  double least = samples[0].nanoseconds;
  for (const Sample &sample : samples)
    least = std::min(least, sample.nanoseconds);
  return least;
}

double Case::flops() const {
  double sum = 0;
  for (const encast_step_stats &step : steps)
    sum += step.flops;
  return sum;
}

/// All lengths and the peaks, in turns.
class Measurement {
public:
  std::vector<std::unique_ptr<Case>> cases;

  void measure(int threads);
  /// Infinite if this machine cannot multiply so.
  double peak(Multiplier multiplier) const {
    auto found = peaks.find(multiplier);
    return found == peaks.end() ? INFINITY : median(found->second);
  }
  const std::map<Multiplier, std::vector<double>> &allPeaks() const {
    return peaks;
  }
  /// Nanoseconds on all threads that a call cannot go below.
  double limit(const encast_step_stats &step) const {
    return step.flops * products(step) / peak(multiplierOf(step));
  }
  double limit(const Case &length) const {
    double sum = 0;
    for (const encast_step_stats &step : length.steps)
      sum += limit(step);
    return sum;
  }

private:
  static double products(const encast_step_stats &step) {
    return parseKernelName(step.kernel).products;
  }
  /// What row programs use is not known; they make few products.
  static Multiplier multiplierOf(const encast_step_stats &step) {
    KernelName name = parseKernelName(step.kernel);
    return *name.arithmetic ? name.multiplier : widestMultiplier();
  }

  std::map<Multiplier, std::vector<double>> peaks;
};

void Measurement::measure(int threads) {
  constexpr double budget = 3e9, longRun = 1e9; // nanoseconds
  std::vector<double> times;
  for (auto &length : cases) {
    length->run(); // touches weights and arena
    if (length->shortest() < longRun)
      length->run();
    times.push_back(length->shortest());
    length->forgetSamples();
  }
  double longest = *std::max_element(times.begin(), times.end());
  double round = std::accumulate(times.begin(), times.end(), 0.0);
  peaks[widestMultiplier()];
  for (const encast_step_stats &step : cases[0]->steps)
    if (canMultiply(multiplierOf(step)))
      peaks[multiplierOf(step)];
  bool usesTiles = peaks.count(Multiplier::AmxBf16);
  auto probe = [&] { return usesTiles ? measureTileLoads(threads) : 0; };
  int fewest = round < longRun ? 7 : 3;
  int rounds = std::clamp(static_cast<int>(budget / round), fewest, 201);
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    for (size_t j = 0; j < cases.size(); ++j) {
      // Short runs come more than once beside long ones.
      constexpr double most = 8, share = 0.25;
      double repeats = std::min(most, share * longest / times[j]);
      double before = probe();
      for (int k = 0; k == 0 || k < repeats; ++k) {
        cases[j]->run();
        double after = probe();
        cases[j]->rateLast(std::min(before, after));
        best = std::max({best, before, after});
        before = after;
      }
    }
    for (auto &[multiplier, samples] : peaks)
      samples.push_back(measurePeak(multiplier, threads));
  }
  constexpr double quiet = 0.85;
  for (auto &length : cases)
    length->keepQuiet(quiet * best);
}

constexpr const char *kStepHeader =
    "   ms/thread   share      GF/s    limit ms  of limit\n";

/// One line of the table of steps: its share of all threads' time, its limit
/// and how near it is. Times are in nanoseconds, `nanoseconds` summed over
/// threads.
std::string stepLine(const std::string &name, double nanoseconds, double flops,
                     double limit, const Case &length) {
  double wall = nanoseconds / length.threads;
  std::string line =
      text("%12.3f %5.1f %%", wall * 1e-6, 100 * wall / length.nanoseconds());
  line += flops > 0 && wall > 0 ? text(" %9.1f %11.3f %7.1f %%  ", flops / wall,
                                       limit * 1e-6, 100 * limit / wall)
                                : std::string(33, ' ');
  return line + name + "\n";
}

std::string stepsTable(const Case &length, const Measurement &measured) {
  struct Total {
    double nanoseconds = 0, flops = 0, limit = 0;
  };
  std::string table =
      text("\nsteps at length %ld\n", length.length) + kStepHeader;
  std::map<std::string, Total> kernels;
  double sum = 0;
  for (size_t i = 0; i < length.steps.size(); ++i) {
    const encast_step_stats &step = length.steps[i];
    double nanoseconds = length.stepNanoseconds(i);
    if (!nanoseconds)
      continue;
    sum += nanoseconds;
    double limit = measured.limit(step);
    Total &total = kernels[step.kernel];
    total.nanoseconds += nanoseconds;
    total.flops += step.flops;
    total.limit += limit;
    table += stepLine(std::string(step.name) + ": " + step.kernel, nanoseconds,
                      step.flops, limit, length);
  }
  double rest = length.nanoseconds() * length.threads - sum;
  table += stepLine("waiting for other threads, checks, control tables",
                    std::max(rest, 0.0), 0, 0, length);
  table += text("\nkernels at length %ld\n", length.length) + kStepHeader;
  for (const auto &[name, total] : kernels)
    table +=
        stepLine(name, total.nanoseconds, total.flops, total.limit, length);
  return table;
}

/// Bytes of weights in memory, in huge pages (copied, or in such of the page
/// cache) and in all.
struct WeightPages {
  int64_t huge = 0, all = 0;
};

WeightPages weightPages(const Options &options,
                        const encast_model_info_t &info) {
  WeightPages pages;
  pages.huge = pages.all = info.copied_weights_bytes;
  // Artifact and weights beside it are what is mapped from their folder.
  std::error_code unknown;
  std::string folder =
      std::filesystem::canonical(options.path, unknown).parent_path().string() +
      "/";
  std::ifstream maps("/proc/self/smaps");
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    long kilobytes = 0;
    size_t slash = line.find('/');
    if (line.find(' ') < line.find(':')) // A mapping; else a field of it.
      ours = slash != line.npos &&
             line.compare(slash, folder.size(), folder) == 0 &&
             line.find('/', slash + folder.size()) == line.npos;
    else if (ours && sscanf(line.c_str(), "Rss: %ld", &kilobytes) == 1)
      pages.all += 1024 * kilobytes;
    else if (ours &&
             sscanf(line.c_str(), "FilePmdMapped: %ld", &kilobytes) == 1)
      pages.huge += 1024 * kilobytes;
  }
  return pages;
}

std::string resultText(const Options &options, const Measurement &measured,
                       const WeightPages &pages,
                       const encast_model_info_t &info) {
  const Case &first = *measured.cases[0];
  std::string result =
      text("%s: %s, variant %s, %d threads, batch %ld; peak of multiply-adds:",
           options.path.c_str(), info.family, info.variant, first.threads,
           options.batch);
  const char *separator = "";
  for (const auto &peak : measured.allPeaks()) {
    result += text("%s %s %.1f GF/s", separator, multiplierName(peak.first),
                   measured.peak(peak.first));
    separator = ",";
  }
  result +=
      text("\nweights in memory: %.1f MB, of them %.1f MB in huge pages%s",
           pages.all / 1e6, pages.huge / 1e6,
           !options.hugePageWeights && pages.huge < pages.all / 10 * 9
               ? "; --huge-page-weights copies those that matter"
               : "");
  result +=
      "\n  length   median ms      min ms    tokens/s      GF/s    limit ms"
      "  of limit  arena MB  quiet runs\n";
  for (const auto &length : measured.cases) {
    double median = length->nanoseconds(), limit = measured.limit(*length);
    result += text(
        "%8ld %11.3f %11.3f %11.0f %9.1f %11.3f %7.1f %% %9.1f %5zu of %zu\n",
        length->length, median * 1e-6, length->shortest() * 1e-6,
        length->tokens() / median * 1e9, length->flops() / median, limit * 1e-6,
        100 * limit / median, length->arenaBytes / 1e6, length->quietRuns(),
        length->runs());
  }
  for (const auto &length : measured.cases)
    if (options.steps)
      result += stepsTable(*length, measured);
  return result;
}

void writeLength(JsonWriter &json, const Case &length,
                 const Measurement &measured) {
  double median = length.nanoseconds(), limit = measured.limit(length);
  json.StartObject();
  json.integer("length", length.length);
  json.integer("tokens", length.tokens());
  json.integer("runs", length.runs());
  json.integer("quiet_runs", length.quietRuns());
  json.number("median_nanoseconds", median);
  json.number("min_nanoseconds", length.shortest());
  json.number("tokens_per_second", length.tokens() / median * 1e9);
  json.number("flops", length.flops());
  json.number("share_of_peak",
              length.flops() / median / measured.peak(widestMultiplier()));
  json.number("limit_nanoseconds", limit);
  json.number("share_of_limit", limit / median);
  json.integer("arena_bytes", length.arenaBytes);
  json.Key("steps");
  json.StartArray();
  for (size_t i = 0; i < length.steps.size(); ++i) {
    const encast_step_stats &step = length.steps[i];
    beginStepRow(json, step, static_cast<int64_t>(length.stepNanoseconds(i)),
                 step.flops);
    json.string("arithmetic", parseKernelName(step.kernel).arithmetic);
    json.number("limit_nanoseconds", measured.limit(step) * length.threads);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

std::string resultJson(const Options &options, const Measurement &measured,
                       const WeightPages &pages,
                       const encast_model_info_t &info) {
  JsonWriter json;
  json.StartObject();
  json.integer("schema", 1);
  json.string("model", options.path);
  json.string("artifact_id", info.artifact_id);
  json.string("variant", info.variant);
  json.integer("threads", measured.cases[0]->threads);
  json.integer("batch", options.batch);
  json.integer("copied_weights_bytes", info.copied_weights_bytes);
  json.integer("resident_weights_bytes", pages.all);
  json.integer("resident_weights_in_huge_pages_bytes", pages.huge);
  json.string("peak_instructions", multiplierName(widestMultiplier()));
  json.number("peak_gflops", measured.peak(widestMultiplier()));
  json.Key("peaks");
  json.StartArray();
  for (const auto &peak : measured.allPeaks()) {
    json.StartObject();
    json.string("instructions", multiplierName(peak.first));
    json.number("gflops", measured.peak(peak.first));
    json.EndObject();
  }
  json.EndArray();
  json.Key("lengths");
  json.StartArray();
  for (const auto &length : measured.cases)
    writeLength(json, *length, measured);
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
  std::optional<OutputFile> file; // fails before the measurement, not after it
  if (!options.json.empty())
    file.emplace(options.json);
  Measurement measured;
  for (int64_t length : options.lengths)
    measured.cases.push_back(
        std::make_unique<Case>(options, model.get(), length));
  measured.measure(measured.cases[0]->threads);
  WeightPages pages = weightPages(options, info);
  if (file) {
    file->write(resultJson(options, measured, pages, info));
    file->finish();
  }
  printOutput(resultText(options, measured, pages, info));
  if (file)
    file->commit();
  return 0;
}
