//===- PeakFlops.cpp - what the machine's multiply-adds could do ----------===//

#include "runtime/tools/PeakFlops.h"
#include <chrono>
#include <cstdint>
#include <immintrin.h>
#include <thread>
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

bool hasAvx512() { return __builtin_cpu_supports("avx512f"); }
bool hasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/// Operations per nanosecond of the calling thread.
double measureThread() {
  constexpr int64_t rounds = 100000;
  auto begin = std::chrono::steady_clock::now();
  int64_t operations = hasAvx512() ? multiplyAvx512(rounds)
                       : hasAvx2() ? multiplyAvx2(rounds)
                                   : multiplySse2(rounds);
  std::chrono::duration<double, std::nano> taken =
      std::chrono::steady_clock::now() - begin;
  return operations / taken.count();
}

} // namespace

double measurePeak(int threads) {
  std::vector<double> rates(threads);
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back([&rates, i] { rates[i] = measureThread(); });
  rates[0] = measureThread();
  for (std::thread &other : others)
    other.join();
  double sum = 0;
  for (double rate : rates)
    sum += rate;
  return sum;
}

const char *peakInstructions() {
  return hasAvx512() ? "avx512" : hasAvx2() ? "avx2" : "sse2";
}

} // namespace encast::tools
