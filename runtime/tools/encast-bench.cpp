//===- encast-bench.cpp - how fast an artifact runs -----------------------===//
///
/// \file
/// Lengths and the peak of multiply-adds take turns, so that all see the same
/// moods of the machine; each number is the median of its samples.
//===----------------------------------------------------------------------===//

#include "runtime/tools/PeakFlops.h"
#include "runtime/tools/ToolSupport.h"
#include <algorithm>
#include <cstdarg>
#include <getopt.h>
#include <map>
#include <optional>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>

using namespace encast::tools;

namespace {

constexpr const char *kUsage =
    "encast-bench MODEL.so --lengths=128,512 [--batch N] [--threads N] "
    "[--output NAME] [--variant NAME] [--steps] [--json FILE]";

struct Options {
  std::string model, output, variant, json;
  std::vector<int64_t> lengths;
  int64_t batch = 1, threads = 0;
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
  static const option table[] = {{"lengths", required_argument, nullptr, 'l'},
                                 {"batch", required_argument, nullptr, 'b'},
                                 {"threads", required_argument, nullptr, 't'},
                                 {"output", required_argument, nullptr, 'n'},
                                 {"variant", required_argument, nullptr, 'v'},
                                 {"steps", no_argument, nullptr, 's'},
                                 {"json", required_argument, nullptr, 'j'},
                                 {"help", no_argument, nullptr, 'h'},
                                 {}};
  Options options;
  opterr = 0;
  for (int name; (name = getopt_long(argc, argv, "h", table, nullptr)) != -1;)
    switch (name) {
    case 'l':
      options.lengths = parseLengths(optarg);
      break;
    case 'b':
      options.batch = parseNumber("--batch", optarg, 1, 1000000);
      break;
    case 't':
      options.threads = parseNumber("--threads", optarg, 0, 4096);
      break;
    case 'n':
      options.output = optarg;
      break;
    case 'v':
      options.variant = optarg;
      break;
    case 's':
      options.steps = true;
      break;
    case 'j':
      options.json = optarg;
      break;
    case 'h':
      printOutput(std::string("usage: ") + kUsage + "\n");
      exit(0);
    default:
      failOption(argv, kUsage);
    }
  options.model = onlyArgument(argc, argv, optind, kUsage);
  if (options.lengths.empty())
    fail(std::string("command line: --lengths is needed; usage: ") + kUsage);
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

  void run();
  int64_t tokens() const { return ids.size(); }
  double nanoseconds() const { return median(times); }
  double shortest() const {
    return *std::min_element(times.begin(), times.end());
  }
  size_t samples() const { return times.size(); }
  void forgetSamples() {
    times.clear();
    for (Step &step : steps)
      step.times.clear();
  }
  double flops() const;

  struct Step {
    encast_step_stats facts;
    std::vector<double> times;
    double nanoseconds() const { return median(times); }
  };

  const int64_t length;
  std::vector<Step> steps;
  int64_t arenaBytes = 0;
  int threads = 0;

private:
  const std::string where;
  Session session;
  std::vector<int64_t> ids, offsets = {0};
  std::vector<float> rows;
  encast_output_info output;
  std::vector<double> times;
};

Case::Case(const Options &options, encast_model *model, int64_t length)
    : length(length), where(options.model),
      session(createSession(model, options.model, options.threads, 0)) {
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
  int64_t index = findOutput(model, options.model, options.output);
  output = outputInfo(model, index);
  rows.resize((output.per_token ? tokens() : options.batch) * output.columns);
  encast_error error = ENCAST_ERROR_INIT;
  check(encast_session_reserve(session.get(), tokens(), options.batch,
                               uint64_t(1) << index, &error),
        error, where);
  arenaBytes = sessionStats(session.get()).arena_bytes;
  threads = sessionStats(session.get()).threads;
  for (const encast_step_stats &step : stepStats(session.get()))
    steps.push_back({step, {}});
}

void Case::run() {
  encast_input inputs[] = {{sizeof(encast_input), "ids", ids.data(), tokens()},
                           {sizeof(encast_input), "offsets", offsets.data(),
                            static_cast<int64_t>(offsets.size())}};
  encast_output target = {sizeof(encast_output), output.name, rows.data(),
                          static_cast<int64_t>(rows.size())};
  encast_error error = ENCAST_ERROR_INIT;
  check(encast_run(session.get(), inputs, 2, &target, 1, &error), error, where);
  times.push_back(sessionStats(session.get()).nanoseconds);
  std::vector<encast_step_stats> last = stepStats(session.get());
  for (size_t i = 0; i < last.size(); ++i) {
    steps[i].facts = last[i];
    steps[i].times.push_back(last[i].nanoseconds);
  }
}

double Case::flops() const {
  double sum = 0;
  for (const Step &step : steps)
    sum += step.facts.flops;
  return sum;
}

/// All lengths and the peak, in turns.
struct Measurement {
  std::vector<std::unique_ptr<Case>> cases;
  std::vector<double> peaks;

  double peak() const { return median(peaks); }
  void measure(int threads);
};

void Measurement::measure(int threads) {
  constexpr double budget = 3e9; // nanoseconds
  double round = 0;
  for (auto &length : cases) {
    length->run(); // touches weights and arena
    length->run();
    round += length->shortest();
    length->forgetSamples();
  }
  int rounds = std::clamp(static_cast<int>(budget / round), 7, 201);
  for (int i = 0; i < rounds; ++i) {
    for (auto &length : cases)
      length->run();
    peaks.push_back(measurePeak(threads));
  }
}

__attribute__((format(printf, 1, 2))) std::string text(const char *format,
                                                       ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  return line;
}

constexpr const char *kStepHeader = "   ms/thread   share      GF/s  of peak\n";

/// One line of the table of steps: its share of all threads' time, and of the
/// peak while it ran.
std::string stepLine(const std::string &name, double nanoseconds, double flops,
                     const Case &length, double peak) {
  double wall = nanoseconds / length.threads;
  std::string line =
      text("%12.3f %5.1f %%", wall * 1e-6, 100 * wall / length.nanoseconds());
  line += flops > 0 && wall > 0 ? text(" %9.1f %6.1f %%  ", flops / wall,
                                       100 * flops / wall / peak)
                                : std::string(20, ' ');
  return line + name + "\n";
}

std::string stepsTable(const Case &length, double peak) {
  std::string table =
      text("\nsteps at length %ld\n", length.length) + kStepHeader;
  std::map<std::string, std::pair<double, double>> kernels;
  double sum = 0;
  for (const Case::Step &step : length.steps) {
    double nanoseconds = step.nanoseconds();
    if (!nanoseconds)
      continue;
    sum += nanoseconds;
    kernels[step.facts.kernel].first += nanoseconds;
    kernels[step.facts.kernel].second += step.facts.flops;
    table += stepLine(std::string(step.facts.name) + ": " + step.facts.kernel,
                      nanoseconds, step.facts.flops, length, peak);
  }
  double rest = length.nanoseconds() * length.threads - sum;
  table += stepLine("waiting for other threads, checks, control tables",
                    std::max(rest, 0.0), 0, length, peak);
  table += text("\nkernels at length %ld\n", length.length) + kStepHeader;
  for (const auto &[name, total] : kernels)
    table += stepLine(name, total.first, total.second, length, peak);
  return table;
}

std::string resultText(const Options &options, const Measurement &measured,
                       const encast_model_info_t &info) {
  const Case &first = *measured.cases[0];
  double peak = measured.peak();
  std::string result =
      text("%s: %s, variant %s, %d threads, batch %ld; peak of multiply-adds "
           "(%s) %.1f GF/s\n",
           options.model.c_str(), info.family, info.variant, first.threads,
           options.batch, peakInstructions(), peak);
  result += "  length   median ms      min ms    tokens/s      GF/s  of peak  "
            "arena MB  runs\n";
  for (const auto &length : measured.cases) {
    double rate = length->flops() / length->nanoseconds();
    result += text(
        "%8ld %11.3f %11.3f %11.0f %9.1f %6.1f %% %9.1f %5zu\n", length->length,
        length->nanoseconds() * 1e-6, length->shortest() * 1e-6,
        length->tokens() / length->nanoseconds() * 1e9, rate, 100 * rate / peak,
        length->arenaBytes / 1e6, length->samples());
  }
  for (const auto &length : measured.cases)
    if (options.steps)
      result += stepsTable(*length, peak);
  return result;
}

std::string resultJson(const Options &options, const Measurement &measured,
                       const encast_model_info_t &info) {
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> json(buffer);
  auto number = [&](const char *name, double value) {
    json.Key(name);
    json.Double(value);
  };
  auto integer = [&](const char *name, int64_t value) {
    json.Key(name);
    json.Int64(value);
  };
  auto string = [&](const char *name, const char *value) {
    json.Key(name);
    json.String(value);
  };
  json.StartObject();
  integer("schema", 1);
  string("model", options.model.c_str());
  string("artifact_id", info.artifact_id);
  string("variant", info.variant);
  integer("threads", measured.cases[0]->threads);
  integer("batch", options.batch);
  string("peak_instructions", peakInstructions());
  number("peak_gflops", measured.peak());
  json.Key("lengths");
  json.StartArray();
  for (const auto &length : measured.cases) {
    json.StartObject();
    integer("length", length->length);
    integer("tokens", length->tokens());
    integer("runs", length->samples());
    number("median_nanoseconds", length->nanoseconds());
    number("min_nanoseconds", length->shortest());
    number("tokens_per_second", length->tokens() / length->nanoseconds() * 1e9);
    number("flops", length->flops());
    number("share_of_peak",
           length->flops() / length->nanoseconds() / measured.peak());
    integer("arena_bytes", length->arenaBytes);
    json.Key("steps");
    json.StartArray();
    for (const Case::Step &step : length->steps) {
      json.StartObject();
      string("step", step.facts.step);
      string("name", step.facts.name);
      string("kernel", step.facts.kernel);
      integer("layer", step.facts.layer);
      number("nanoseconds", step.nanoseconds());
      integer("flops", step.facts.flops);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess();
  Options options = parseOptions(argc, argv);
  Model model = openModel(options.model, options.variant);
  encast_model_info_t info = modelInfo(model.get());
  std::optional<OutputFile> file; // fails before the measurement, not after it
  if (!options.json.empty())
    file.emplace(options.json);
  Measurement measured;
  for (int64_t length : options.lengths)
    measured.cases.push_back(
        std::make_unique<Case>(options, model.get(), length));
  measured.measure(measured.cases[0]->threads);
  if (file) {
    file->write(resultJson(options, measured, info));
    file->commit();
  }
  printOutput(resultText(options, measured, info));
  return 0;
}
