//===- Probe.cpp - how fast the machine is right now ----------------------===//

#include "Probe.h"
#include "TileTesting.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>

using namespace encast;
using namespace Xbyak;

double encast::now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

namespace {
/// All loops are void(const int64_t *rounds), what they read may follow.
class ProbeAssembler : public VectorAssembler {
public:
  using VectorAssembler::VectorAssembler;

  std::vector<uint8_t> finished() {
    std::vector<uint8_t> code;
    std::string error;
    if (!finish(code, error)) {
      std::fprintf(stderr, "bench: error: %s\n", error.c_str());
      std::exit(1);
    }
    return code;
  }

  /// As many accumulators as a kernel has: three quarters of the registers.
  int accumulators() const { return registers() * 3 / 4; }

  std::vector<uint8_t> fma() {
    Label next;
    mov(rax, ptr[rdi]);
    for (int i = 0; i < registers(); ++i)
      clear(vec(i));
    align(64);
    L(next);
    for (int i = 0; i < accumulators(); ++i)
      vfmadd231ps(vec(i), vec(accumulators()), vec(accumulators() + 1));
    dec(rax);
    jnz(next);
    vzeroupper();
    ret();
    return finished();
  }

  static constexpr int kAdds = 16;

  std::vector<uint8_t> additions() {
    Label next;
    const Reg64 sums[] = {rcx, rdx, rsi, r8};
    mov(rax, ptr[rdi]);
    align(64);
    L(next);
    for (int i = 0; i < kAdds; ++i)
      add(sums[i % 4], r9);
    dec(rax);
    jnz(next);
    ret();
    return finished();
  }

  /// `operands` is where four tiles lie, behind the rounds.
  std::vector<uint8_t> tiles(bool load) {
    Label next;
    mov(rax, ptr[rdi]);
    mov(rcx, ptr[rdi + 8]);
    mov(edx, 64);
    for (int i = 0; i < 4; ++i)
      tilezero(Tmm(i));
    tileloadd(tmm6, ptr[rcx + rdx]);
    tileloadd(tmm7, ptr[rcx + rdx + 1024]);
    tileloadd(tmm4, ptr[rcx + rdx + 2048]);
    align(64);
    L(next);
    for (int half = 0; half < 2; ++half)
      for (int column = 0; column < 2; ++column) {
        if (load && half == 0)
          tileloadd(Tmm(6 + column), ptr[rcx + rdx + size_t(column) * 1024]);
        if (load && column == 0)
          tileloadd(tmm4, ptr[rcx + rdx + 2048 + size_t(half) * 1024]);
        tdpbf16ps(Tmm(2 * half + column), tmm4, Tmm(6 + column));
      }
    dec(rax);
    jnz(next);
    ret();
    return finished();
  }
};

/// What the loops of tiles read.
struct TileLoop {
  int64_t rounds;
  const void *operands;
};

/// Four tiles of either sign from 0.5 to 1. A core multiplies tiles of zeros at
/// a clock 1.23 times higher (Sapphire Rapids class Xeon): a peak that no
/// kernel could reach. Zeros make FMAs at most a few per cent faster.
const uint16_t *tileOperands() {
  alignas(64) static uint16_t operands[4 * 16 * 32];
  Random random(1);
  for (uint16_t &bits : operands) {
    const float value = random.uniform() / 2;
    bits = roundToBf16(value < 0 ? value - 0.5f : value + 0.5f);
  }
  return operands;
}

constexpr double kTileFlops = 2.0 * 16 * 16 * 32;
} // namespace

FmaPeak::FmaPeak(int vectorBytes)
    : vectorBytes(vectorBytes), code(ProbeAssembler(vectorBytes).fma()) {}

double FmaPeak::measure() const {
  const int64_t rounds = 6000;
  const int accumulators = ProbeAssembler(vectorBytes).accumulators();
  const double start = now();
  code(&rounds);
  const double lanes = double(vectorBytes) / sizeof(float);
  return 2 * lanes * accumulators * double(rounds) / (now() - start) * 1e-9;
}

FrontEndProbe::FrontEndProbe() : code(ProbeAssembler(32).additions()) {}

double FrontEndProbe::measure() const {
  const int64_t rounds = 12000;
  const double start = now();
  code(&rounds);
  return ProbeAssembler::kAdds * double(rounds) / (now() - start) * 1e-9;
}

TilePeak::TilePeak() : code(ProbeAssembler(64).tiles(/*load=*/false)) {}

/// GFLOP/s of a loop of tile products.
static double measureTiles(const ExecutableCode &code, int64_t rounds) {
  static const uint16_t *operands = tileOperands();
  const TileLoop loop = {rounds, operands};
  const double start = now();
  code(&loop);
  return 4 * kTileFlops * double(rounds) / (now() - start) * 1e-9;
}

double TilePeak::measure() const { return measureTiles(code, 1200); }

TileLoadProbe::TileLoadProbe()
    : code(ProbeAssembler(64).tiles(/*load=*/true)) {}

double TileLoadProbe::measure() const { return measureTiles(code, 1500); }
