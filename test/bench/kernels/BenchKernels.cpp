//===- BenchKernels.cpp - kernels against the peak next to them -----------===//
///
/// \file
/// Times every row of Kernels.def on the shapes of real models. See README.md
/// for the method and bench-kernels --help for the options.
//===----------------------------------------------------------------------===//

#include "KernelTesting.h"
#include "OneDnn.h"
#include "Probe.h"
#include "codegen/Target/TargetCpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <getopt.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace encast;

namespace {

// Weights are cold if the same bytes come back only after this many others.
constexpr size_t kRotationBytes = size_t(448) << 20;
constexpr size_t kRotationFloats = kRotationBytes / sizeof(float);
// A sample repeats a problem until it lasts about this long.
constexpr double kSampleSeconds = 0.7e-3;
// A sample is quiet if the front end reached this share of what it reaches in
// the best tenth of all samples (a busy sibling thread halves it, the clock
// changes it by a fifth), and the peaks before and after agree this well.
constexpr double kQuietFrontEnd = 0.75;
constexpr double kQuietPeaks = 0.90;

struct Sample {
  double gflops, frontEnd, peakBefore, peakAfter;
  double peak() const { return (peakBefore + peakAfter) / 2; }
};

/// A problem that is timed again and again.
struct Case {
  std::string kernel;  ///< Row of Kernels.def, or "onednn".
  std::string problem; ///< As printed, e.g. "n=1152 k=384 m=64 cold".
  std::string json;    ///< The same as members of an object.
  int vectorBytes;     ///< Of the peak to compare with.
  double flops;        ///< Of one call of run.
  std::function<void()> run;
  int repeats = 1;
  std::vector<Sample> samples;
};

/// Columns of the panels and k of a linear; gated, the activation of the gates.
struct LinearSize {
  int64_t n, k;
  Activation gate = Activation::None;
};

struct AttentionSize {
  int64_t headSize, queryHeads = 1, window = -1;
};

struct Result {
  double gflops, best, ratio, peak;
  size_t kept, total;
};

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[size_t(share * double(values.size() - 1))];
}

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

class Bench {
public:
  Bench(std::string filter, bool hugePages)
      : filter(std::move(filter)),
        weights(static_cast<float *>(
            mmap(nullptr, kRotationBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (weights == MAP_FAILED) {
      std::perror("bench-kernels: error: weights");
      std::exit(1);
    }
    madvise(weights, kRotationBytes,
            hugePages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    Random random(1);
    for (size_t i = 0; i < kRotationFloats; ++i)
      weights[i] = random.uniform();
  }
  ~Bench() { munmap(weights, kRotationBytes); }
  Bench(const Bench &) = delete;
  Bench &operator=(const Bench &) = delete;

  void addLinearCases();
  void addAttentionCases();
  void measure(int rounds);
  void print() const;
  bool writeJson(const char *path, bool hugePages) const;

private:
  void add(Case entry) {
    if ((entry.kernel + " " + entry.problem).find(filter) != std::string::npos)
      cases.push_back(std::move(entry));
  }
  void addLinear(const LinearSize &size, int64_t m);
  void addAttention(const KernelRow &row, const AttentionSize &size,
                    int64_t length);
  Result resultOf(const Case &entry) const;

  /// The next `bytes` of the rotating weights, on a cache line.
  const float *nextWeights(size_t &offset, size_t bytes) const {
    const size_t floats = (bytes + 63) / 64 * 64 / sizeof(float);
    if (offset + floats > kRotationFloats)
      offset = 0;
    const float *start = weights + offset;
    offset += floats;
    return start;
  }

  const FmaPeak &peakOf(int vectorBytes) const {
    return vectorBytes == 64 ? *peak512 : peak256;
  }

  const std::string filter;
  float *const weights;
  std::vector<Case> cases;
  const FmaPeak peak256{32};
  const std::unique_ptr<FmaPeak> peak512{
      selectKernelRow(KernelFamily::Linear, Arithmetic::F32, hostFeatures())
                  ->vectorBytes == 64
          ? new FmaPeak(64)
          : nullptr};
  const FrontEndProbe frontEnd;
};

/// True for rows of that family in f32.
bool canRun(const KernelRow &row, KernelFamily family) {
  return row.family == family && row.arithmetic == Arithmetic::F32 &&
         (row.cpuFeatures & ~hostFeatures()) == 0;
}

void Bench::addLinearCases() {
  const LinearSize sizes[] = {
      {1152, 384},
      {384, 384},
      {1536, 384},
      {384, 1536},
      {2304, 768},
      {768, 768},
      {3072, 768},
      {768, 3072},
      {1024, 1024},
      {4096, 1024},
      {1024, 4096},
      {2304, 768, Activation::Gelu},  // ModernBERT-base
      {5120, 1024, Activation::Silu}, // LFM2.5-230M
  };
  for (const LinearSize &size : sizes)
    for (int64_t m : {1, 8, 32, 64, 128, 256})
      addLinear(size, m);
}

void Bench::addLinear(const LinearSize &linear, int64_t m) {
  const int64_t n = linear.n, k = linear.k;
  const bool gated = linear.gate != Activation::None;
  auto a = std::make_shared<std::vector<float>>(m * k);
  auto c = std::make_shared<std::vector<float>>(m * n);
  Random random(2);
  for (float &value : *a)
    value = random.uniform();
  const std::string size = "n=" + std::to_string(n) +
                           " k=" + std::to_string(k) +
                           " m=" + std::to_string(m) + (gated ? " gated" : "");
  const std::string json =
      "\"n\": " + std::to_string(n) + ", \"k\": " + std::to_string(k) +
      ", \"m\": " + std::to_string(m) + (gated ? ", \"gated\": true" : "");

  for (bool cold : {true, false}) {
    const std::string problem = size + (cold ? " cold" : " warm");
    const std::string members =
        json + ", \"weights\": \"" + (cold ? "cold" : "warm") + "\"";
    auto offset = std::make_shared<size_t>(0);
    for (const KernelRow &row : kernelRows()) {
      if (!canRun(row, KernelFamily::Linear))
        continue;
      LinearShape shape;
      shape.k = shape.lda = k;
      shape.ldc = gated ? n / 2 : n;
      shape.gated = gated;
      shape.activation = linear.gate;
      std::vector<uint8_t> code;
      std::string error;
      if (!generateLinear(row, shape, code, error)) {
        std::fprintf(stderr, "bench-kernels: error: %s\n", error.c_str());
        std::exit(1);
      }
      auto kernel = std::make_shared<ExecutableCode>(code);
      add({row.name,
           problem,
           members,
           row.vectorBytes,
           2.0 * m * n * k,
           [=] {
             LinearArgs args = {};
             args.a = a->data();
             args.b = nextWeights(*offset, n * k * sizeof(float));
             args.c = c->data();
             args.rows = m;
             args.panels = n / kPanelColumns;
             args.cPanelBytes =
                 (gated ? 1 : 2) * kPanelColumns / 2 * sizeof(float);
             (*kernel)(&args);
             if (!cold)
               *offset = 0;
           },
           1,
           {}});
    }
    std::shared_ptr<OneDnnProduct> product =
        gated ? nullptr : OneDnnProduct::create(m, n, k);
    if (product)
      add({"onednn",
           problem,
           members,
           peak512 ? 64 : 32,
           2.0 * m * n * k,
           [=] {
             product->run(a->data(),
                          nextWeights(*offset, product->weightBytes()),
                          c->data());
             if (!cold)
               *offset = 0;
           },
           1,
           {}});
  }
}

void Bench::addAttentionCases() {
  for (const KernelRow &row : kernelRows())
    if (canRun(row, KernelFamily::Attention)) {
      for (const AttentionSize &size :
           {AttentionSize{32}, AttentionSize{64}, AttentionSize{64, 2}})
        for (int64_t length : {1, 32, 128, 512, 2048, 8192})
          addAttention(row, size, length);
      for (int64_t length : {512, 8192})
        addAttention(row, {64, 1, 64}, length);
    }
}

void Bench::addAttention(const KernelRow &row, const AttentionSize &attention,
                         int64_t length) {
  AttentionShape shape;
  shape.headSize = attention.headSize;
  shape.queryHeads = attention.queryHeads;
  shape.window = attention.window;
  shape.ldo = shape.headSize * shape.queryHeads;
  shape.scale = 0.125f;
  std::vector<uint8_t> code;
  std::string error;
  if (!generateAttention(row, shape, code, error)) {
    std::fprintf(stderr, "bench-kernels: error: %s\n", error.c_str());
    std::exit(1);
  }
  auto kernel = std::make_shared<ExecutableCode>(code);
  // Long sequences: some tiles of queries are as good as all of them. A length
  // of 1 stands for one query (a classification token) over 512 keys.
  const int64_t queries = std::min<int64_t>(length, 480);
  const int64_t keys = length == 1 ? 512 : length;
  // Of a window, those from the middle on.
  const int64_t position = shape.window < 0 ? 0 : (keys - queries) / 2;
  AttentionProblem::Size size{queries, keys, 0, position};
  auto problem = std::make_shared<AttentionProblem>(size, shape, 3);
  auto workspace =
      std::make_shared<GuardedFloats>(attentionWorkspaceBytes(row, shape) / 4);
  int64_t pairs = 0;
  for (int64_t query = 0; query < queries; ++query)
    for (int64_t key = 0; key < keys; ++key)
      pairs += problem->sees(query, key);
  std::string name = "d=" + std::to_string(shape.headSize);
  std::string json = "\"head_size\": " + std::to_string(shape.headSize);
  if (shape.queryHeads > 1) {
    name += " heads=" + std::to_string(shape.queryHeads);
    json += ", \"query_heads\": " + std::to_string(shape.queryHeads);
  }
  if (shape.window >= 0) {
    name += " window=" + std::to_string(shape.window);
    json += ", \"window\": " + std::to_string(shape.window);
  }
  add({row.name,
       name + " queries=" + std::to_string(queries) +
           " keys=" + std::to_string(keys),
       json + ", \"queries\": " + std::to_string(queries) +
           ", \"keys\": " + std::to_string(keys),
       row.vectorBytes,
       4.0 * double(pairs * shape.queryHeads * shape.headSize),
       [=] {
         AttentionArgs args = {};
         args.q = problem->q.data();
         args.k = problem->k.data();
         args.v = problem->v.data();
         args.out = problem->out.data();
         args.queries = queries;
         args.keys = keys;
         args.qPlaneBytes = args.kvPlaneBytes =
             problem->size.slotRows * kPanelColumns * sizeof(float);
         args.workspace = workspace->data();
         args.position = problem->size.position;
         (*kernel)(&args);
       },
       1,
       {}});
}

void Bench::measure(int rounds) {
  for (Case &entry : cases) {
    entry.run(); // touches what it needs
    const double start = now();
    entry.run();
    entry.repeats =
        std::max(1, int(kSampleSeconds / std::max(1e-7, now() - start)));
  }
  for (int round = 0; round < rounds; ++round)
    for (Case &entry : cases) {
      const FmaPeak &peak = peakOf(entry.vectorBytes);
      Sample sample;
      sample.frontEnd = frontEnd.measure();
      // The clock follows the load within microseconds, so the peak is taken
      // right behind the kernel each time.
      entry.run();
      sample.peakBefore = peak.measure();
      const double start = now();
      for (int i = 0; i < entry.repeats; ++i)
        entry.run();
      sample.gflops = entry.flops * entry.repeats / (now() - start) * 1e-9;
      sample.peakAfter = peak.measure();
      sample.frontEnd = std::min(sample.frontEnd, frontEnd.measure());
      entry.samples.push_back(sample);
    }
}

Result Bench::resultOf(const Case &entry) const {
  std::vector<double> frontEnds;
  for (const Case &other : cases)
    for (const Sample &sample : other.samples)
      frontEnds.push_back(sample.frontEnd);
  const double bestFrontEnd = quantile(std::move(frontEnds), 0.9);
  std::vector<Sample> kept;
  for (const Sample &sample : entry.samples)
    if (sample.frontEnd >= kQuietFrontEnd * bestFrontEnd &&
        std::min(sample.peakBefore, sample.peakAfter) >=
            kQuietPeaks * std::max(sample.peakBefore, sample.peakAfter))
      kept.push_back(sample);
  const size_t quiet = kept.size();
  if (kept.empty())
    kept = entry.samples;
  std::vector<double> gflops, ratios, peaks;
  for (const Sample &sample : kept) {
    gflops.push_back(sample.gflops);
    ratios.push_back(sample.gflops / sample.peak());
    peaks.push_back(sample.peak());
  }
  return {median(gflops), *std::max_element(gflops.begin(), gflops.end()),
          median(ratios), median(peaks),
          quiet,          entry.samples.size()};
}

void Bench::print() const {
  std::printf("%-26s %-32s %8s %8s %8s %6s %s\n", "kernel", "problem",
              "GFLOP/s", "best", "peak", "ratio", "quiet samples");
  for (const Case &entry : cases) {
    const Result result = resultOf(entry);
    std::printf("%-26s %-32s %8.1f %8.1f %8.1f %6.3f %zu of %zu\n",
                entry.kernel.c_str(), entry.problem.c_str(), result.gflops,
                result.best, result.peak, result.ratio, result.kept,
                result.total);
  }
}

bool Bench::writeJson(const char *path, bool hugePages) const {
  std::FILE *file = std::fopen(path, "w");
  if (!file)
    return false;
  TargetCpu target;
  std::string error;
  resolveHostTarget(target, error);
  std::fprintf(file,
               "{\n  \"target\": \"%s\",\n  \"weight_page_bytes\": %d,\n"
               "  \"kernels\": [\n",
               target.name.c_str(), hugePages ? 2 << 20 : 4 << 10);
  for (const Case &entry : cases) {
    const Result result = resultOf(entry);
    std::fprintf(file,
                 "    {\"kernel\": \"%s\", %s, \"gflops\": %.2f, \"best\": "
                 "%.2f, \"peak\": %.2f, \"ratio\": %.4f, \"quiet_samples\": "
                 "%zu, \"samples\": %zu}%s\n",
                 entry.kernel.c_str(), entry.json.c_str(), result.gflops,
                 result.best, result.peak, result.ratio, result.kept,
                 result.total, &entry == &cases.back() ? "" : ",");
  }
  std::fprintf(file, "  ]\n}\n");
  return std::fclose(file) == 0;
}

const char kHelp[] =
    "usage: bench-kernels [--filter TEXT] [--rounds N] [--json FILE]\n"
    "                     [--huge-pages]\n"
    "\n"
    "Times the kernels of Kernels.def that this CPU can run, on one core.\n"
    "  --filter TEXT  only lines whose kernel and problem contain TEXT\n"
    "  --rounds N     samples of each line (default 15)\n"
    "  --json FILE    writes the table as JSON, too\n"
    "  --huge-pages   weights in pages of 2 MB instead of 4 KB\n";

} // namespace

int main(int argc, char **argv) {
  // oneDNN's threads must be limited before its library is initialised.
  if (!std::getenv("OMP_NUM_THREADS")) {
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  const option options[] = {{"filter", required_argument, nullptr, 'f'},
                            {"rounds", required_argument, nullptr, 'r'},
                            {"json", required_argument, nullptr, 'j'},
                            {"huge-pages", no_argument, nullptr, 'p'},
                            {"help", no_argument, nullptr, 'h'},
                            {}};
  std::string filter;
  const char *json = nullptr;
  int rounds = 15;
  bool hugePages = false;
  for (int option;
       (option = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    switch (option) {
    case 'f':
      filter = optarg;
      break;
    case 'r':
      rounds = std::atoi(optarg);
      break;
    case 'j':
      json = optarg;
      break;
    case 'p':
      hugePages = true;
      break;
    case 'h':
      std::fputs(kHelp, stdout);
      return 0;
    default:
      std::fputs(kHelp, stderr);
      return 1;
    }
  }
  if (rounds < 1 || optind < argc) {
    std::fputs(kHelp, stderr);
    return 1;
  }
  if (!selectKernelRow(KernelFamily::Linear, Arithmetic::F32, hostFeatures())) {
    std::fprintf(stderr, "bench-kernels: error: this CPU lacks avx2\n");
    return 1;
  }
  Bench bench(filter, hugePages);
  bench.addLinearCases();
  bench.addAttentionCases();
  bench.measure(rounds);
  bench.print();
  if (json && !bench.writeJson(json, hugePages)) {
    std::fprintf(stderr, "bench-kernels: error: %s: cannot write\n", json);
    return 1;
  }
  return 0;
}
