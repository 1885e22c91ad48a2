//===- KernelBench.cpp - timing beside the peak of an instruction ---------===//

#include "KernelBench.h"
#include "TileTesting.h"
#include "codegen/Kernels/LinearTiles.h"
#include "codegen/Target/TargetCpu.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <getopt.h>
#include <sched.h>

using namespace encast;

// A sample repeats a problem until it lasts about this long.
static constexpr double kSampleSeconds = 1e-3;
// How often a sample waits for a quiet core.
static constexpr int kPatience = 6;
// Quiet is a front end that reaches this share of its best (the clock changes
// it by a fifth), tile loads that reach this share of the loop without, and
// peaks before and after that agree this well.
static constexpr double kQuietFrontEnd = 0.75;
static constexpr double kQuietTileLoads = 0.85;
static constexpr double kQuietPeaks = 0.9;

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Multiplier encast::multiplierOf(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::F32 ? Multiplier::Fma512 : Multiplier::Tiles;
}

double encast::productsOf(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::F32
             ? 1
             : double(planeProducts(arithmetic).size());
}

KernelBenchOptions::KernelBenchOptions(int argc, char **argv,
                                       const std::string &bench,
                                       const std::string &times)
    : bench(bench) {
  const option options[] = {{"filter", required_argument, nullptr, 'f'},
                            {"rounds", required_argument, nullptr, 'r'},
                            {"json", required_argument, nullptr, 'j'},
                            {"help", no_argument, nullptr, 'h'},
                            {}};
  const std::string help =
      "usage: " + bench +
      " [--filter TEXT] [--rounds N] [--json FILE]\n\nTimes " + times +
      ", on one core.\n"
      "  --filter TEXT  only lines whose kernel and problem contain TEXT\n"
      "  --rounds N     samples of each line (default 15)\n"
      "  --json FILE    writes the table as JSON, too\n";
  for (int name; (name = getopt_long(argc, argv, "", options, nullptr)) != -1;)
    switch (name) {
    case 'f':
      filter = optarg;
      break;
    case 'r':
      rounds = std::max(1, std::atoi(optarg));
      break;
    case 'j':
      json = optarg;
      break;
    case 'h':
      std::fputs(help.c_str(), stdout);
      std::exit(0);
    default:
      std::fputs(help.c_str(), stderr);
      std::exit(1);
    }
  if (optind < argc) {
    std::fputs(help.c_str(), stderr);
    std::exit(1);
  }
}

void encast::requireKernelRow(const std::string &bench, const char *kernelRow) {
  auto fail = [&](const std::string &reason) {
    std::fprintf(stderr, "%s: error: %s\n", bench.c_str(), reason.c_str());
    std::exit(1);
  };
  const KernelRow &row = *findKernelRow(kernelRow);
  const uint32_t missing = row.cpuFeatures & ~hostFeatures();
  if (missing != 0)
    fail("this CPU lacks " + featureNames(missing));
  if (row.arithmetic != Arithmetic::F32 && !mayUseTiles())
    fail("the system refuses the use of tiles");
}

/// `generate` is generateLinear or generateAttention.
template <typename Generate, typename Shape>
static std::unique_ptr<ExecutableCode>
executableCode(Generate generate, const KernelRow &row, const Shape &shape) {
  std::vector<uint8_t> code;
  std::string error;
  if (!generate(row, shape, code, error)) {
    std::fprintf(stderr, "%s: error: %s\n", program_invocation_short_name,
                 error.c_str());
    std::exit(1);
  }
  return std::make_unique<ExecutableCode>(code);
}

std::unique_ptr<ExecutableCode> encast::linearCode(const KernelRow &row,
                                                   const LinearShape &shape) {
  return executableCode(generateLinear, row, shape);
}

std::unique_ptr<ExecutableCode>
encast::attentionCode(const KernelRow &row, const AttentionShape &shape) {
  return executableCode(generateAttention, row, shape);
}

KernelBench::KernelBench(KernelBenchOptions options)
    : options(std::move(options)) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed))
        cores.push_back(core);
}

double KernelBench::readGate(Multiplier multiplier) {
  if (multiplier == Multiplier::Tiles) {
    const TileScope tiles;
    return tileLoads.measure() / tilePeak.measure();
  }
  const double additions = frontEnd.measure();
  bestFrontEnd = std::max(bestFrontEnd, additions);
  return additions;
}

double KernelBench::leastQuiet(Multiplier multiplier) const {
  return multiplier == Multiplier::Tiles ? kQuietTileLoads
                                         : kQuietFrontEnd * bestFrontEnd;
}

double KernelBench::peakOf(const KernelCase &entry) const {
  if (entry.multiplier != Multiplier::Tiles)
    return (entry.multiplier == Multiplier::Fma512 ? fma512 : fma256).measure();
  const TileScope tiles;
  return tilePeak.measure() / entry.products;
}

/// Goes to another core if this one is disturbed, and on, for a while.
void KernelBench::waitForQuietCore(Multiplier multiplier) {
  for (int i = 0; i < kPatience && !cores.empty() &&
                  readGate(multiplier) < leastQuiet(multiplier);
       ++i) {
    const int core = cores[size_t(i) % cores.size()];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
}

void KernelBench::measure() {
  for (Timed &entry : cases) {
    entry.problem.run(); // touches what it needs
    const double start = now();
    entry.problem.run();
    entry.repeats =
        std::max(1, int(kSampleSeconds / std::max(1e-7, now() - start)));
  }
  for (int round = 0; round < options.rounds; ++round)
    for (Timed &entry : cases) {
      const Multiplier multiplier = entry.problem.multiplier;
      waitForQuietCore(multiplier);
      Sample sample;
      sample.quiet = readGate(multiplier);
      // The clock follows the load, so a peak stands between kernels of its own
      // kind.
      entry.problem.run();
      sample.peakBefore = peakOf(entry.problem);
      const double start = now();
      for (int i = 0; i < entry.repeats; ++i)
        entry.problem.run();
      const double seconds = now() - start;
      sample.peakAfter = peakOf(entry.problem);
      sample.gflops = entry.problem.flops * entry.repeats / seconds * 1e-9;
      sample.quiet = std::min(sample.quiet, readGate(multiplier));
      entry.samples.push_back(sample);
    }
}

/// Of quiet samples, or of all where there are none.
KernelBench::Result KernelBench::resultOf(const Timed &entry) const {
  std::vector<Sample> kept;
  for (const Sample &sample : entry.samples)
    if (sample.quiet >= leastQuiet(entry.problem.multiplier) &&
        std::min(sample.peakBefore, sample.peakAfter) >=
            kQuietPeaks * std::max(sample.peakBefore, sample.peakAfter))
      kept.push_back(sample);
  const size_t quiet = kept.size();
  if (kept.empty())
    kept = entry.samples;
  std::vector<double> gflops, peaks, ratios;
  for (const Sample &sample : kept) {
    gflops.push_back(sample.gflops);
    peaks.push_back((sample.peakBefore + sample.peakAfter) / 2);
    ratios.push_back(gflops.back() / peaks.back());
  }
  return {median(gflops), *std::max_element(gflops.begin(), gflops.end()),
          median(peaks),  median(ratios),
          quiet,          entry.samples.size()};
}

bool KernelBench::writeJson() const {
  std::FILE *file = std::fopen(options.json.c_str(), "w");
  if (!file)
    return false;
  const char *separator = "[\n";
  for (const Timed &entry : cases) {
    const Result result = resultOf(entry);
    std::fprintf(file,
                 "%s {\"kernel\": \"%s\", \"problem\": \"%s\", \"gflops\": "
                 "%.2f, \"best\": %.2f, \"peak\": %.2f, \"ratio\": %.4f, "
                 "\"quiet_samples\": %zu, \"samples\": %zu}",
                 separator, entry.problem.kernel.c_str(),
                 entry.problem.problem.c_str(), result.gflops, result.best,
                 result.peak, result.ratio, result.quiet, result.total);
    separator = ",\n";
  }
  std::fputs(cases.empty() ? "[]\n" : "\n]\n", file);
  return std::fclose(file) == 0;
}

void KernelBench::report() {
  measure();
  std::printf("%-26s %-42s %8s %8s %8s %6s %s\n", "kernel", "problem",
              "GFLOP/s", "best", "peak", "ratio", "quiet samples");
  for (const Timed &entry : cases) {
    const Result result = resultOf(entry);
    std::printf("%-26s %-42s %8.1f %8.1f %8.1f %6.3f %zu of %zu\n",
                entry.problem.kernel.c_str(), entry.problem.problem.c_str(),
                result.gflops, result.best, result.peak, result.ratio,
                result.quiet, result.total);
  }
  if (!options.json.empty() && !writeJson()) {
    std::fprintf(stderr, "%s: error: %s: cannot write\n", options.bench.c_str(),
                 options.json.c_str());
    std::exit(1);
  }
}
