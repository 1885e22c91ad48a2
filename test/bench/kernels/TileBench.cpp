//===- TileBench.cpp - timing beside the peak of tiles --------------------===//

#include "TileBench.h"
#include "TileTesting.h"
#include "codegen/Target/TargetCpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <getopt.h>
#include <sched.h>

using namespace encast;

// A sample repeats a problem until it lasts about this long.
static constexpr double kSampleSeconds = 1e-3;
// How often a sample waits for a quiet core.
static constexpr int kPatience = 6;

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TileBench::TileBench(std::string filter, double quietShare)
    : filter(std::move(filter)), quietShare(quietShare) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed))
        cores.push_back(core);
}

double TileBench::quiet() const {
  const TileScope tiles;
  return tileLoads.measure() / tilePeak.measure();
}

double TileBench::peakOf(const TileCase &entry) const {
  if (entry.products == 0)
    return fmaPeak.measure();
  const TileScope tiles;
  return tilePeak.measure() / entry.products;
}

/// Goes to another core if this one is disturbed, and on, for a while.
void TileBench::waitForQuietCore() const {
  for (int i = 0; i < kPatience && !cores.empty() && quiet() < quietShare;
       ++i) {
    const int core = cores[size_t(i) % cores.size()];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
}

void TileBench::measure(int rounds) {
  for (Timed &entry : cases) {
    entry.problem.run(); // touches what it needs
    const double start = now();
    entry.problem.run();
    entry.repeats =
        std::max(1, int(kSampleSeconds / std::max(1e-7, now() - start)));
  }
  for (int round = 0; round < rounds; ++round)
    for (Timed &entry : cases) {
      waitForQuietCore();
      const double quietBefore = quiet();
      // Tiles slow the clock down, so a peak stands between kernels of its own
      // kind.
      entry.problem.run();
      const double before = peakOf(entry.problem);
      const double start = now();
      for (int i = 0; i < entry.repeats; ++i)
        entry.problem.run();
      const double seconds = now() - start;
      const double after = peakOf(entry.problem);
      entry.samples.push_back(
          {entry.problem.flops * entry.repeats / seconds * 1e-9,
           (before + after) / 2, std::min(quietBefore, quiet())});
    }
}

void TileBench::print() const {
  std::printf("%-12s %-42s %8s %8s %8s %6s %s\n", "arithmetic", "problem",
              "GFLOP/s", "best", "peak", "ratio", "quiet samples");
  for (const Timed &entry : cases) {
    std::vector<Sample> kept;
    for (const Sample &sample : entry.samples)
      if (sample.quiet >= quietShare)
        kept.push_back(sample);
    const size_t quiet = kept.size();
    if (kept.empty())
      kept = entry.samples;
    std::vector<double> gflops, ratios, peaks;
    for (const Sample &sample : kept) {
      gflops.push_back(sample.gflops);
      ratios.push_back(sample.gflops / sample.peak);
      peaks.push_back(sample.peak);
    }
    std::printf("%-12s %-42s %8.1f %8.1f %8.1f %6.3f %zu of %zu\n",
                entry.problem.kernel.c_str(), entry.problem.problem.c_str(),
                median(gflops), *std::max_element(gflops.begin(), gflops.end()),
                median(peaks), median(ratios), quiet, entry.samples.size());
  }
}

TileBenchOptions::TileBenchOptions(int argc, char **argv,
                                   const std::string &bench,
                                   const std::string &times,
                                   const char *kernelRow) {
  const option options[] = {{"filter", required_argument, nullptr, 'f'},
                            {"rounds", required_argument, nullptr, 'r'},
                            {"help", no_argument, nullptr, 'h'},
                            {}};
  const std::string help =
      "usage: " + bench + " [--filter TEXT] [--rounds N]\n\nTimes " + times +
      ", on one core.\n"
      "  --filter TEXT  only lines whose arithmetic and problem contain TEXT\n"
      "  --rounds N     samples of each line (default 15)\n";
  auto fail = [&](const std::string &reason) {
    std::fprintf(stderr, "%s: error: %s\n", bench.c_str(), reason.c_str());
    std::exit(1);
  };
  for (int name; (name = getopt_long(argc, argv, "", options, nullptr)) != -1;)
    switch (name) {
    case 'f':
      filter = optarg;
      break;
    case 'r':
      rounds = std::max(1, std::atoi(optarg));
      break;
    case 'h':
      std::fputs(help.c_str(), stdout);
      std::exit(0);
    default:
      std::fputs(help.c_str(), stderr);
      std::exit(1);
    }
  const uint32_t missing =
      findKernelRow(kernelRow)->cpuFeatures & ~hostFeatures();
  if (missing != 0)
    fail("this CPU lacks " + featureNames(missing));
  if (!mayUseTiles())
    fail("the system refuses the use of tiles");
}
