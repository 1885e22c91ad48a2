//===- BenchKernels.cpp - kernels against the peak next to them -----------===//
///
/// \file
/// Times every row of Kernels.def on the shapes of real models. See README.md
/// for the method and bench-kernels --help for the options.
//===----------------------------------------------------------------------===//

#include "KernelBench.h"
#include "KernelTesting.h"
#include "OneDnn.h"
#include "codegen/Target/TargetCpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
/// Columns of the panels and k of a linear; gated, the activation of the gates.
struct LinearSize {
  int64_t n, k;
  Activation gate = Activation::None;
};

struct AttentionSize {
  int64_t headSize, queryHeads = 1, window = -1;
};

/// Their leading halves, the second one in front.
float pairOfBf16(float first, float second) {
  uint32_t low, high;
  std::memcpy(&low, &first, sizeof(low));
  std::memcpy(&high, &second, sizeof(high));
  high = (high & 0xffff0000) | low >> 16;
  std::memcpy(&second, &high, sizeof(high));
  return second;
}

class Bench : public KernelBench {
public:
  explicit Bench(KernelBenchOptions options)
      : KernelBench(std::move(options)),
        weights(static_cast<float *>(
            mmap(nullptr, kRotationBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (weights == MAP_FAILED) {
      std::perror("bench-kernels: error: weights");
      std::exit(1);
    }
    madvise(weights, kRotationBytes, MADV_NOHUGEPAGE); // as a file's
    // Both halves of a float are numbers of bf16, too.
    Random random(1);
    for (size_t i = 0; i < kRotationFloats; ++i)
      weights[i] = pairOfBf16(random.uniform(), random.uniform());
  }
  ~Bench() { munmap(weights, kRotationBytes); }
  Bench(const Bench &) = delete;
  Bench &operator=(const Bench &) = delete;

  void addLinearCases();
  void addAttentionCases();

private:
  void addLinear(const LinearSize &size, int64_t m);
  void addAttention(const KernelRow &row, const AttentionSize &size,
                    int64_t length);

  /// The next `bytes` of the rotating weights, on a cache line.
  const float *nextWeights(size_t &offset, size_t bytes) const {
    const size_t floats = (bytes + 63) / 64 * 64 / sizeof(float);
    if (offset + floats > kRotationFloats)
      offset = 0;
    const float *start = weights + offset;
    offset += floats;
    return start;
  }

  float *const weights;
};

Multiplier multiplierOf(const KernelRow &row) {
  return row.vectorBytes == 64 ? Multiplier::Fma512 : Multiplier::Fma256;
}

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
    for (int64_t m : {1, 8, 32, 64, 96, 128, 256})
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

  for (bool cold : {true, false}) {
    const std::string problem = size + (cold ? " cold" : " warm");
    auto offset = std::make_shared<size_t>(0);
    for (const KernelRow &row : kernelRows()) {
      if (!canRun(row, KernelFamily::Linear))
        continue;
      for (bool bf16 : {false, true}) {
        LinearShape shape;
        shape.k = shape.lda = k;
        shape.ldc = gated ? n / 2 : n;
        shape.gated = gated;
        shape.activation = linear.gate;
        shape.bf16Weights = bf16;
        std::shared_ptr<ExecutableCode> kernel = linearCode(row, shape);
        auto workspace = std::make_shared<GuardedFloats>(
            linearWorkspaceBytes(row, shape) / 4);
        add({row.name, problem + (bf16 ? " bf16" : ""), 2.0 * m * n * k,
             multiplierOf(row), [=] {
               LinearArgs args = {};
               args.a = a->data();
               args.b = nextWeights(*offset, n * k * (bf16 ? 2 : 4));
               args.c = c->data();
               args.rows = m;
               args.panels = n / kPanelColumns;
               args.cPanelBytes =
                   (gated ? 1 : 2) * kPanelColumns / 2 * sizeof(float);
               args.workspace = workspace->data();
               (*kernel)(&args);
               if (!cold)
                 *offset = 0;
             }});
      }
    }
    std::shared_ptr<OneDnnProduct> product =
        gated ? nullptr : OneDnnProduct::create(m, n, k);
    if (product)
      add({"onednn", problem, 2.0 * m * n * k,
           multiplierOf(*selectKernelRow(KernelFamily::Linear, Arithmetic::F32,
                                         hostFeatures())),
           [=] {
             product->run(a->data(),
                          nextWeights(*offset, product->weightBytes()),
                          c->data());
             if (!cold)
               *offset = 0;
           }});
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
  std::shared_ptr<ExecutableCode> kernel = attentionCode(row, shape);
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
  if (shape.queryHeads > 1)
    name += " heads=" + std::to_string(shape.queryHeads);
  if (shape.window >= 0)
    name += " window=" + std::to_string(shape.window);
  add({row.name,
       name + " queries=" + std::to_string(queries) +
           " keys=" + std::to_string(keys),
       4.0 * double(pairs * shape.queryHeads * shape.headSize),
       multiplierOf(row), [=] {
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
       }});
}

} // namespace

int main(int argc, char **argv) {
  // oneDNN's threads must be limited before its library is initialised.
  if (!std::getenv("OMP_NUM_THREADS")) {
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argv);
  }
  const KernelBenchOptions options(
      argc, argv, "bench-kernels",
      "the f32 kernels of Kernels.def that this CPU can run");
  requireKernelRow(options.bench, "linear_f32_6x16_avx2");
  Bench bench(options);
  bench.addLinearCases();
  bench.addAttentionCases();
  bench.report();
  return 0;
}
