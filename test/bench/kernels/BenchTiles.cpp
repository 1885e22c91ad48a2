//===- BenchTiles.cpp - bf16 kernels against the peak of tiles ------------===//
///
/// \file
/// Times the linear kernels that use tiles, alone and put together to a
/// feed-forward block, in alternation with the f32 kernel and oneDNN. See
/// README.md for the method and bench-tiles --help for the options.
//===----------------------------------------------------------------------===//

#include "KernelBench.h"
#include "KernelTesting.h"
#include "OneDnn.h"
#include "TileTesting.h"
#include "codegen/Kernels/TilePacking.h"
#include "codegen/Target/TargetCpu.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <vector>

using namespace encast;

namespace {

// Weights are cold if the same bytes come back only after this many others.
constexpr int64_t kRotationBytes = int64_t(448) << 20;

/// Zeroed memory: as an arena, in pages of 2 MB where there are any, which the
/// L2 can hold without conflicts, or as a file of weights, in small ones.
class Buffer {
public:
  explicit Buffer(int64_t bytes, bool smallPages = false)
      : bytes(size_t(bytes) + kHugePage) {
    pages =
        static_cast<char *>(mmap(nullptr, this->bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (pages == MAP_FAILED) {
      std::perror("bench-tiles: error: memory");
      std::exit(1);
    }
    first = pages + (kHugePage - reinterpret_cast<size_t>(pages) % kHugePage);
    madvise(pages, this->bytes, smallPages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
  }
  ~Buffer() { munmap(pages, bytes); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  char *at(int64_t offset) const { return first + offset; }
  /// Random bf16, also pairs of which are f32: a core multiplies zeros at a
  /// higher clock.
  void fill(int64_t count) {
    Random random(1);
    for (int64_t i = 0; i < count; i += 2) {
      const uint16_t value = roundToBf16(random.uniform() / 16);
      std::memcpy(at(i), &value, sizeof(value));
    }
  }

private:
  static constexpr size_t kHugePage = size_t(2) << 20;
  const size_t bytes;
  char *pages, *first;
};

/// One linear kernel with its code and bias; operands come with the call.
class Kernel {
public:
  static constexpr size_t kMaxColumns = 4608;

  Kernel(Arithmetic arithmetic, LinearShape given)
      : shape(withArithmetic(given, arithmetic)),
        row(*selectKernelRow(KernelFamily::Linear, arithmetic, hostFeatures())),
        code(linearCode(row, shape)),
        workspace(linearWorkspaceBytes(row, shape)) {}

  int64_t weightBytes(int64_t panels) const {
    if (shape.arithmetic == Arithmetic::F32)
      return panels * shape.k * kPanelColumns * 4;
    const int planes = packedWeightPlanes(shape.arithmetic);
    return panels / 2 * tilePairElements(shape.k, std::max(1, planes)) *
           (planes == 0 ? 4 : 2);
  }

  void run(const void *a, const void *b, void *c, int64_t rows, int64_t panels,
           const void *ahead = nullptr) const {
    LinearArgs args = {};
    args.a = a;
    args.b = b;
    args.c = c;
    args.bias = bias.data();
    args.rows = rows;
    args.panels = panels;
    args.cPanelBytes =
        (shape.gated ? 8 : 16) * int64_t(shape.cPlanes > 0 ? 2 : 4);
    args.workspace = workspace.at(0);
    args.ahead = ahead;
    (*code)(&args);
  }

  const LinearShape shape;

private:
  static LinearShape withArithmetic(LinearShape shape, Arithmetic arithmetic) {
    shape.arithmetic = arithmetic;
    return shape;
  }

  const KernelRow &row;
  const std::unique_ptr<ExecutableCode> code;
  const Buffer workspace;
  const std::vector<float> bias = std::vector<float>(kMaxColumns);
};

/// Rows of operands for an arithmetic.
int64_t rowBytes(Arithmetic arithmetic, int64_t columns) {
  if (arithmetic == Arithmetic::F32)
    return columns * 4;
  return 2 * planeRowStride(columns, activationPlanes(arithmetic));
}

int64_t rowElements(Arithmetic arithmetic, int64_t columns) {
  return rowBytes(arithmetic, columns) /
         (arithmetic == Arithmetic::F32 ? 4 : 2);
}

class Bench : public KernelBench {
public:
  explicit Bench(KernelBenchOptions options)
      : KernelBench(std::move(options)),
        weights(kRotationBytes, /*smallPages=*/true) {
    weights.fill(kRotationBytes);
  }

  void addLinear(Arithmetic arithmetic, int64_t n, int64_t k, int64_t m,
                 bool cold);
  void addOneDnn(int64_t n, int64_t k, int64_t m, bool cold);
  void addFeedForward(Arithmetic arithmetic, int64_t hidden, int64_t inner,
                      int64_t rows, int64_t chunk);

private:
  /// Weights that nobody has read for long, or the first ones.
  const char *nextWeights(int64_t bytes, bool cold) {
    if (!cold)
      return weights.at(0);
    if (offset + bytes > kRotationBytes)
      offset = 0;
    const char *start = weights.at(offset);
    offset += (bytes + 63) / 64 * 64;
    return start;
  }

  Buffer weights;
  int64_t offset = 0; // shared, or one case would warm the weights of the next
};

/// Bias, and results in bf16 for bf16, else in f32.
void Bench::addLinear(Arithmetic arithmetic, int64_t n, int64_t k, int64_t m,
                      bool cold) {
  LinearShape shape;
  shape.k = k;
  shape.lda = rowElements(arithmetic, k);
  shape.ldc = n + 32;
  shape.bias = true;
  shape.cPlanes = arithmetic == Arithmetic::Bf16 ? 1 : 0;
  shape.cPlaneStride = planeStride(n);
  auto kernel = std::make_shared<Kernel>(arithmetic, shape);
  auto a = std::make_shared<Buffer>(m * rowBytes(arithmetic, k));
  a->fill(m * rowBytes(arithmetic, k));
  auto c = std::make_shared<Buffer>(m * shape.ldc * 4);
  add({std::string(arithmeticName(arithmetic)),
       "n=" + std::to_string(n) + " k=" + std::to_string(k) +
           " m=" + std::to_string(m) + (cold ? " cold" : " warm"),
       2.0 * m * n * k, multiplierOf(arithmetic),
       [=] {
         const int64_t panels = n / kPanelColumns;
         const char *b = nextWeights(kernel->weightBytes(panels), cold);
         const TileScope tiles;
         kernel->run(a->at(0), b, c->at(0), m, panels);
       },
       productsOf(arithmetic)});
}

void Bench::addOneDnn(int64_t n, int64_t k, int64_t m, bool cold) {
  std::shared_ptr<OneDnnProduct> product =
      OneDnnProduct::create(m, n, k, /*bf16=*/true);
  if (!product)
    return;
  auto a = std::make_shared<Buffer>(m * k * 2);
  a->fill(m * k * 2);
  auto c = std::make_shared<Buffer>(m * n * 4);
  add({"onednn bf16",
       "n=" + std::to_string(n) + " k=" + std::to_string(k) +
           " m=" + std::to_string(m) + (cold ? " cold" : " warm"),
       2.0 * m * n * k, Multiplier::Tiles, [=] {
         product->run(a->at(0),
                      nextWeights(int64_t(product->weightBytes()), cold),
                      c->at(0));
       }});
}

/// Gated up-projection of `chunk` inner columns, then what these add to the
/// down-projection, and so on. Weights are cold.
void Bench::addFeedForward(Arithmetic arithmetic, int64_t hidden, int64_t inner,
                           int64_t rows, int64_t chunk) {
  LinearShape up;
  up.k = hidden;
  up.lda = rowElements(arithmetic, hidden);
  up.gated = true;
  up.activation = Activation::Silu;
  up.ldc = rowElements(arithmetic, chunk);
  up.cPlanes = activationPlanes(arithmetic);
  up.cPlaneStride = planeStride(chunk);
  LinearShape down;
  down.k = chunk;
  down.lda = up.ldc;
  down.ldc = hidden;
  down.accumulate = true;
  auto first = std::make_shared<Kernel>(arithmetic, up);
  auto second = std::make_shared<Kernel>(arithmetic, down);
  auto a = std::make_shared<Buffer>(rows * rowBytes(arithmetic, hidden));
  a->fill(rows * rowBytes(arithmetic, hidden));
  auto act = std::make_shared<Buffer>(rows * rowBytes(arithmetic, chunk));
  auto c = std::make_shared<Buffer>(rows * hidden * 4);
  add({std::string(arithmeticName(arithmetic)),
       "ffn h=" + std::to_string(hidden) + " f=" + std::to_string(inner) +
           " m=" + std::to_string(rows) + " chunk=" + std::to_string(chunk),
       6.0 * rows * hidden * inner, multiplierOf(arithmetic),
       [=] {
         const int64_t upPanels = 2 * chunk / kPanelColumns;
         const int64_t downPanels = hidden / kPanelColumns;
         const int64_t upBytes = first->weightBytes(upPanels);
         const int64_t downBytes = second->weightBytes(downPanels);
         const TileScope tiles;
         const char *up = nextWeights(upBytes, true);
         for (int64_t column = 0; column < inner; column += chunk) {
           const char *down = nextWeights(downBytes, true);
           first->run(a->at(0), up, act->at(0), rows, upPanels, down);
           up = column + chunk < inner ? nextWeights(upBytes, true) : nullptr;
           second->run(act->at(0), down, c->at(0), rows, downPanels, up);
         }
       },
       productsOf(arithmetic)});
}

} // namespace

int main(int argc, char **argv) {
  const KernelBenchOptions options(argc, argv, "bench-tiles",
                                   "linear kernels that use tiles");
  requireKernelRow(options.bench, "linear_bf16_32x32_amx");
  Bench bench(options);
  const Arithmetic all[] = {Arithmetic::F32, Arithmetic::Bf16,
                            Arithmetic::Bf16x3w, Arithmetic::Bf16x3,
                            Arithmetic::Bf16x6};
  // Warm, all operands of 128 rows are in the L2, planes included.
  for (auto [n, m, cold] : {std::tuple(128, 128, false),
                            {256, 256, false},
                            {4608, 128, true},
                            {4608, 256, true}}) {
    for (Arithmetic arithmetic : all)
      bench.addLinear(arithmetic, n, 1024, m, cold);
    bench.addOneDnn(n, 1024, m, cold);
  }
  // Few rows stream the weights at the speed of the memory.
  for (int m : {32, 64})
    for (Arithmetic arithmetic : {Arithmetic::F32, Arithmetic::Bf16x6})
      bench.addLinear(arithmetic, 4608, 1024, m, /*cold=*/true);
  for (auto [hidden, inner] : {std::pair(1024, 2560), {768, 1152}})
    for (Arithmetic arithmetic : all)
      for (int rows : {128, 160, 256, 384, 512})
        for (int chunk : {256, 384, 512})
          if (inner % chunk == 0)
            bench.addFeedForward(arithmetic, hidden, inner, rows, chunk);
  bench.report();
  return 0;
}
