//===- BenchTileAttention.cpp - attention against the peak of tiles -------===//
///
/// \file
/// Times attention on tiles in alternation with the f32 kernel. See README.md
/// for the method and bench-tile-attention --help for the options.
//===----------------------------------------------------------------------===//

#include "KernelTesting.h"
#include "Probe.h"
#include "TileAttentionTesting.h"
#include "TileTesting.h"
#include "codegen/Target/TargetCpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <getopt.h>
#include <memory>
#include <sched.h>
#include <string>
#include <vector>

using namespace encast;

namespace {

// A sample repeats a problem until it lasts about this long.
constexpr double kSampleSeconds = 1e-3;
// A sample is quiet if before and after it the loop of tile loads reached this
// share of the loop without loads, whatever the clock. A busy sibling thread
// leaves it a quarter.
constexpr double kQuiet = 0.85;
// How often a sample waits for a quiet core.
constexpr int kPatience = 6;

struct Sample {
  double gflops, peak;
  bool quiet;
};

/// A problem that is timed again and again.
struct Case {
  std::string arithmetic, problem;
  double flops;    ///< Of one call of run.
  double products; ///< Of tiles for a product of the problem; 0: FMA.
  std::function<void()> run;
  int repeats = 1;
  std::vector<Sample> samples;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double tileProducts(Arithmetic arithmetic) {
  switch (arithmetic) {
  case Arithmetic::F32:
    return 0;
  case Arithmetic::Bf16:
    return 1;
  case Arithmetic::Bf16x3:
  case Arithmetic::Bf16x3w:
    return 3;
  case Arithmetic::Bf16x6:
    return 6;
  }
  return 0;
}

class Bench {
public:
  explicit Bench(std::string filter) : filter(std::move(filter)) {}

  /// Calls of at most `queries` queries, one after the other from the middle of
  /// the sequence on.
  void add(Arithmetic arithmetic, int64_t keys, int64_t heads, int64_t queries,
           int64_t window);
  void measure(int rounds);
  void print() const;

private:
  bool isQuiet() const {
    return probe.measure() >= kQuiet * tilePeak.measure();
  }
  void waitForQuietCore() const;

  const std::string filter;
  std::vector<Case> cases;
  const FmaPeak fmaPeak{64};
  const TilePeak tilePeak;
  const TileLoadProbe probe;
};

std::vector<uint8_t> generated(const KernelRow &row,
                               const AttentionShape &shape) {
  std::vector<uint8_t> code;
  std::string error;
  if (!generateAttention(row, shape, code, error)) {
    std::fprintf(stderr, "bench-tile-attention: error: %s\n", error.c_str());
    std::exit(1);
  }
  return code;
}

void Bench::add(Arithmetic arithmetic, int64_t keys, int64_t heads,
                int64_t queries, int64_t window) {
  const std::string name(arithmeticName(arithmetic));
  const std::string problem =
      "keys=" + std::to_string(keys) + " heads=" + std::to_string(heads) +
      " queries=" + std::to_string(queries) +
      (window >= 0 ? " window=" + std::to_string(window) : "");
  if ((name + " " + problem).find(filter) == std::string::npos)
    return;
  AttentionShape shape;
  shape.arithmetic = arithmetic;
  shape.headSize = 64;
  shape.scale = 0.125f;
  shape.queryHeads = heads;
  shape.window = window;
  const double seen = window >= 0 ? 2.0 * double(window) + 1 : double(keys);
  const double flops = 4.0 * double(queries * heads) * seen * 64;
  const int64_t position = (keys - queries) / 2;
  if (arithmetic == Arithmetic::F32) {
    shape.ldo = heads * shape.headSize;
    const KernelRow &row =
        *selectKernelRow(KernelFamily::Attention, arithmetic, hostFeatures());
    auto code = std::make_shared<ExecutableCode>(generated(row, shape));
    AttentionProblem::Size size;
    size.queries = queries;
    size.keys = keys;
    auto operands = std::make_shared<AttentionProblem>(size, shape, 1);
    auto workspace = std::make_shared<GuardedFloats>(
        attentionWorkspaceBytes(row, shape) / 4);
    cases.push_back({name,
                     problem,
                     flops,
                     0,
                     [=] {
                       AttentionArgs args = {};
                       args.q = operands->q.data();
                       args.k = operands->k.data();
                       args.v = operands->v.data();
                       args.out = operands->out.data();
                       args.queries = queries;
                       args.keys = keys;
                       args.qPlaneBytes = args.kvPlaneBytes =
                           operands->size.slotRows * 64;
                       args.workspace = workspace->data();
                       args.position = position;
                       (*code)(&args);
                     },
                     1,
                     {}});
    return;
  }
  shape.outPlanes = activationPlanes(arithmetic);
  auto operands = std::make_shared<TileAttentionProblem>(
      TileAttentionProblem::Size{queries, keys, position}, shape, 1);
  operands->packSlowly();
  const KernelRow &row =
      *selectKernelRow(KernelFamily::TileAttention, arithmetic, hostFeatures());
  auto code = std::make_shared<ExecutableCode>(generated(row, operands->shape));
  auto workspace = std::make_shared<GuardedFloats>(
      attentionWorkspaceBytes(row, operands->shape) / 4);
  cases.push_back({name,
                   problem,
                   flops,
                   tileProducts(arithmetic),
                   [=] {
                     TileAttentionArgs args = {};
                     args.q = operands->q.data();
                     args.packedK = operands->packedK.data();
                     args.packedV = operands->packedV.data();
                     args.out = operands->out.data();
                     args.queries = queries;
                     args.keys = keys;
                     args.position = position;
                     args.workspace = workspace->data();
                     (*code)(&args);
                   },
                   1,
                   {}});
}

/// Goes to the other core if this one is disturbed, and back, for a while.
void Bench::waitForQuietCore() const {
  for (int i = 0; i < kPatience && !isQuiet(); ++i) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(i % 2, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
}

void Bench::measure(int rounds) {
  const TileScope tiles;
  for (Case &entry : cases) {
    entry.run(); // touches what it needs
    const double start = now();
    entry.run();
    entry.repeats =
        std::max(1, int(kSampleSeconds / std::max(1e-7, now() - start)));
  }
  for (int round = 0; round < rounds; ++round)
    for (Case &entry : cases) {
      waitForQuietCore();
      entry.run();
      Sample sample;
      sample.quiet = isQuiet();
      const auto peak = [&] {
        return entry.products > 0 ? tilePeak.measure() / entry.products
                                  : fmaPeak.measure();
      };
      sample.peak = peak() / 2;
      const double start = now();
      for (int i = 0; i < entry.repeats; ++i)
        entry.run();
      sample.gflops = entry.flops * entry.repeats / (now() - start) * 1e-9;
      sample.peak += peak() / 2;
      sample.quiet &= isQuiet();
      entry.samples.push_back(sample);
    }
}

void Bench::print() const {
  std::printf("%-10s %-42s %8s %8s %8s %6s %s\n", "arithmetic", "problem",
              "GFLOP/s", "best", "peak", "ratio", "quiet samples");
  for (const Case &entry : cases) {
    std::vector<Sample> kept;
    for (const Sample &sample : entry.samples)
      if (sample.quiet)
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
    std::printf("%-10s %-42s %8.1f %8.1f %8.1f %6.3f %zu of %zu\n",
                entry.arithmetic.c_str(), entry.problem.c_str(), median(gflops),
                *std::max_element(gflops.begin(), gflops.end()), median(peaks),
                median(ratios), quiet, entry.samples.size());
  }
}

const char kHelp[] =
    "usage: bench-tile-attention [--filter TEXT] [--rounds N]\n"
    "\n"
    "Times attention on tiles, heads of 64 dims, on one core.\n"
    "  --filter TEXT  only lines whose arithmetic and problem contain TEXT\n"
    "  --rounds N     samples of each line (default 15)\n";

} // namespace

int main(int argc, char **argv) {
  const option options[] = {{"filter", required_argument, nullptr, 'f'},
                            {"rounds", required_argument, nullptr, 'r'},
                            {"help", no_argument, nullptr, 'h'},
                            {}};
  std::string filter;
  int rounds = 15;
  for (int name; (name = getopt_long(argc, argv, "", options, nullptr)) != -1;)
    switch (name) {
    case 'f':
      filter = optarg;
      break;
    case 'r':
      rounds = std::max(1, std::atoi(optarg));
      break;
    case 'h':
      std::fputs(kHelp, stdout);
      return 0;
    default:
      std::fputs(kHelp, stderr);
      return 1;
    }
  const uint32_t missing =
      findKernelRow("attention_bf16_32_amx")->cpuFeatures & ~hostFeatures();
  if (missing != 0) {
    std::fprintf(stderr, "bench-tile-attention: error: this CPU lacks %s\n",
                 featureNames(missing).c_str());
    return 1;
  }
  Bench bench(filter);
  const Arithmetic all[] = {Arithmetic::F32, Arithmetic::Bf16,
                            Arithmetic::Bf16x3, Arithmetic::Bf16x6};
  for (int64_t keys : {512, 2048, 8192})
    for (int64_t heads : {1, 2})
      for (int64_t queries : {64, 128, 256, 512})
        for (Arithmetic arithmetic : all)
          bench.add(arithmetic, keys, heads, queries, -1);
  for (int64_t heads : {1, 2})
    for (int64_t queries : {64, 128, 256, 512})
      for (Arithmetic arithmetic : all)
        bench.add(arithmetic, 2048, heads, queries, 64);
  bench.measure(rounds);
  bench.print();
  return 0;
}
