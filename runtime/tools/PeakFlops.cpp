//===- PeakFlops.cpp - what the machine's multiply-adds could do ----------===//

#include "runtime/tools/PeakFlops.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <immintrin.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace encast::tools {
namespace {

// Latency times throughput is 4 x 2 on all CPUs at hand, 5 x 2 on old ones; 14
// independent sums are enough for both and leave registers for the factors. The
// empty asm keeps each sum in a register and the loop in place.
constexpr int kSums = 14;

__attribute__((target("avx512f"))) int64_t multiplyAvx512(int64_t rounds) {
  __m512 sums[kSums];
  for (__m512 &sum : sums)
    sum = _mm512_set1_ps(1.0f);
  __m512 factor = _mm512_set1_ps(0.5f), addend = _mm512_set1_ps(0.25f);
  for (int64_t i = 0; i < rounds; ++i)
    for (__m512 &sum : sums) {
      sum = _mm512_fmadd_ps(sum, factor, addend);
      __asm__ volatile("" : "+v"(sum));
    }
  return rounds * kSums * 2 * 16;
}

__attribute__((target("avx512bf16"))) int64_t
multiplyAvx512Bf16(int64_t rounds) {
  __m512 sums[kSums];
  for (__m512 &sum : sums)
    sum = _mm512_set1_ps(1.0f);
  __m512i halves = _mm512_set1_epi32(0x3f00bf00); // 0.5, -0.5
  __asm__ volatile("" : "+v"(halves));
  for (int64_t i = 0; i < rounds; ++i)
    for (__m512 &sum : sums) {
      sum = _mm512_dpbf16_ps(sum, (__m512bh)halves, (__m512bh)halves);
      __asm__ volatile("" : "+v"(sum));
    }
  return rounds * kSums * 2 * 32;
}

__attribute__((target("avx2,fma"))) int64_t multiplyAvx2(int64_t rounds) {
  __m256 sums[kSums];
  for (__m256 &sum : sums)
    sum = _mm256_set1_ps(1.0f);
  __m256 factor = _mm256_set1_ps(0.5f), addend = _mm256_set1_ps(0.25f);
  for (int64_t i = 0; i < rounds; ++i)
    for (__m256 &sum : sums) {
      sum = _mm256_fmadd_ps(sum, factor, addend);
      __asm__ volatile("" : "+x"(sum));
    }
  return rounds * kSums * 2 * 8;
}

/// Without FMA; a multiplication and an addition each.
int64_t multiplySse2(int64_t rounds) {
  __m128 sums[kSums];
  for (__m128 &sum : sums)
    sum = _mm_set1_ps(1.0f);
  __m128 factor = _mm_set1_ps(0.5f), addend = _mm_set1_ps(0.25f);
  for (int64_t i = 0; i < rounds; ++i)
    for (__m128 &sum : sums) {
      sum = _mm_add_ps(_mm_mul_ps(sum, factor), addend);
      __asm__ volatile("" : "+x"(sum));
    }
  return rounds * kSums * 2 * 4;
}

/// As in the kernels: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr int64_t kTileProduct = int64_t(2) * 16 * 16 * 32; // operations

/// Four factors of bf16, each element of either sign from 0.5 to 1: a core
/// multiplies tiles of zeros at a higher clock than any data.
struct alignas(64) TileFactors {
  uint16_t values[4][16 * 32];
  TileFactors() {
    uint32_t random = 1;
    for (auto &tile : values)
      for (uint16_t &value : tile) {
        random = random * 1664525 + 1013904223;
        value = 0x3f00 | (random >> 16 & 0x8000) | (random >> 24 & 0x7f);
      }
  }
};

const TileFactors &tileFactors() {
  static const TileFactors factors;
  return factors;
}

/// Four sums and two factors.
__attribute__((target("amx-tile,amx-bf16"))) int64_t
multiplyTiles(int64_t rounds) {
  static const TileConfiguration configuration;
  _tile_loadconfig(&configuration);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, tileFactors().values[0], 64);
  _tile_loadd(5, tileFactors().values[1], 64);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return rounds * 4 * kTileProduct;
}

__attribute__((target("amx-tile,amx-bf16"))) int64_t
multiplyLoadedTiles(int64_t rounds) {
  static const TileConfiguration configuration;
  const auto &factors = tileFactors().values;
  _tile_loadconfig(&configuration);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_loadd(4, factors[0], 64);
    _tile_loadd(5, factors[1], 64);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, factors[2], 64);
    _tile_dpbf16ps(1, 4, 6);
    _tile_loadd(7, factors[3], 64);
    _tile_dpbf16ps(2, 7, 5);
    _tile_dpbf16ps(3, 7, 6);
  }
  _tile_release();
  return rounds * 4 * kTileProduct;
}

/// The right to use tiles; without it their first use is illegal.
bool requestTiles() {
  constexpr long requestPermission = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

/// Operations per nanosecond of all threads.
struct Rates {
  double added = 0; ///< Each in its own time: a thread put aside costs nothing.
  double joint = 0; ///< From the first that begins to the last that ends.
};

/// Measures multiply(rounds), which returns operations, on all threads at once.
template <typename Function>
Rates measureThreads(int threads, int64_t rounds, Function multiply) {
  struct Turn {
    Clock::time_point begin, end;
    int64_t operations;
  };
  std::vector<Turn> turns(threads);
  std::atomic<int> ready{0};
  auto measure = [&](int thread) {
    multiply(rounds / 16); // a thread's first use of tiles takes longer
    for (++ready; ready < threads;)
      std::this_thread::yield();
    Turn &turn = turns[thread];
    turn.begin = Clock::now();
    turn.operations = multiply(rounds);
    turn.end = Clock::now();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back(measure, i);
  measure(0);
  for (std::thread &other : others)
    other.join();
  Rates rates;
  Clock::time_point first = turns[0].begin, last = turns[0].end;
  int64_t operations = 0;
  for (const Turn &turn : turns) {
    rates.added += turn.operations / nanoseconds(turn.end - turn.begin);
    operations += turn.operations;
    first = std::min(first, turn.begin);
    last = std::max(last, turn.end);
  }
  rates.joint = operations / nanoseconds(last - first);
  return rates;
}

} // namespace

const char *multiplierName(Multiplier multiplier) {
  static const char *const names[] = {"sse2", "avx2", "avx512", "avx512bf16",
                                      "amx-bf16"};
  return names[static_cast<int>(multiplier)];
}

bool canMultiply(Multiplier multiplier) {
  switch (multiplier) {
  case Multiplier::Sse2:
    return true;
  case Multiplier::Avx2:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  case Multiplier::Avx512:
    return __builtin_cpu_supports("avx512f");
  case Multiplier::Avx512Bf16:
    return __builtin_cpu_supports("avx512bf16");
  case Multiplier::AmxBf16:
    return requestTiles() && __builtin_cpu_supports("amx-bf16");
  }
  return false;
}

Multiplier widestMultiplier() {
  for (Multiplier wide : {Multiplier::Avx512, Multiplier::Avx2})
    if (canMultiply(wide))
      return wide;
  return Multiplier::Sse2;
}

double measurePeak(Multiplier multiplier, int threads) {
  switch (multiplier) {
  case Multiplier::Sse2:
    return measureThreads(threads, 100000, multiplySse2).added;
  case Multiplier::Avx2:
    return measureThreads(threads, 100000, multiplyAvx2).added;
  case Multiplier::Avx512:
    return measureThreads(threads, 100000, multiplyAvx512).added;
  case Multiplier::Avx512Bf16:
    return measureThreads(threads, 100000, multiplyAvx512Bf16).added;
  case Multiplier::AmxBf16:
    return measureThreads(threads, 10000, multiplyTiles).added;
  }
  return 0;
}

double measureTileLoads(int threads) {
  // About 50 microseconds.
  return measureThreads(threads, 1500, multiplyLoadedTiles).joint;
}

} // namespace encast::tools
