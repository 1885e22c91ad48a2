/*===- probe.c - how quiet is this CPU, and what are its peaks ------------===*/
/*
 * Loops of about 0.25 ms, in assembly so that no compiler changes them, 24
 * times each, so that a reading is what the CPU keeps up, not what it reaches
 * for a moment:
 *
 *   adds   four chains of additions: front end and integer units, which a
 *          neighbour on the same core takes a share of
 *   fma    fourteen chains of FMAs: vector units, and the peak of f32
 *   tiles  four chains of bf16 tile products, each k-step with its four tile
 *          loads from L1, which cost nothing on a quiet core: the peak of bf16
 *          on AMX. A neighbour on the core takes three quarters of this loop,
 *          and nothing of one without loads.
 *   dots   fourteen chains of bf16 dot products: the peak of bf16 in vectors,
 *          where there are no tiles
 */
/*===----------------------------------------------------------------------===*/

#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

#define FOUR(x) x x x x
#define SIXTEEN(x) FOUR(x) FOUR(x) FOUR(x) FOUR(x)

/* Additions in a nanosecond. */
static double adds(void) {
  const long rounds = 40000;
  long left = rounds, a = 1, b = 2, c = 3, d = 4;
  double start = now();
  __asm__ volatile("1:\n\t" SIXTEEN("add %5, %1\n\tadd %5, %2\n\tadd %5, "
                                    "%3\n\tadd %5, %4\n\t") "dec %0\n\tjnz 1b"
                   : "+r"(left), "+r"(a), "+r"(b), "+r"(c), "+r"(d)
                   : "r"(left)
                   : "cc");
  return (double)rounds * 64 / (now() - start);
}

/* What FMAs and tiles multiply: values of either sign from 0.5 to 1. A core
 * multiplies zeros at a higher clock than data, which would be a peak that no
 * model can reach. */
static float operands_f32[2][16] __attribute__((aligned(64)));
static uint16_t operands_bf16[4][512] __attribute__((aligned(64)));

/* Fills them; to be called first. */
void probe_prepare(void) {
  uint32_t random = 1;
  for (int i = 0; i < 4 * 512; ++i) {
    random = random * 1664525 + 1013904223;
    operands_bf16[i / 512][i % 512] =
        (uint16_t)(0x3f00 | (random >> 16 & 0x8000) | (random >> 24 & 0x7f));
    operands_f32[i / 16 % 2][i % 16] =
        (random >> 31 ? -1 : 1) * (1 - (float)(random >> 8) * 0x1p-25f);
  }
}

#define PRODUCT(name, reg, n) name " %%" reg "14, %%" reg "15, %%" reg #n "\n\t"
#define FOURTEEN(name, reg)                                                    \
  PRODUCT(name, reg, 0)                                                        \
  PRODUCT(name, reg, 1)                                                        \
  PRODUCT(name, reg, 2)                                                        \
  PRODUCT(name, reg, 3)                                                        \
  PRODUCT(name, reg, 4)                                                        \
  PRODUCT(name, reg, 5)                                                        \
  PRODUCT(name, reg, 6)                                                        \
  PRODUCT(name, reg, 7)                                                        \
  PRODUCT(name, reg, 8)                                                        \
  PRODUCT(name, reg, 9)                                                        \
  PRODUCT(name, reg, 10)                                                       \
  PRODUCT(name, reg, 11)                                                       \
  PRODUCT(name, reg, 12)                                                       \
  PRODUCT(name, reg, 13)
#define VECTOR_LOOP(name, reg, data)                                           \
  __asm__ volatile(                                                            \
      "vzeroall\n\tvmovups (%1), %%" reg "14\n\tvmovups (%2), %%" reg          \
      "15\n1:\n\t" FOURTEEN(name, reg) "dec %0\n\tjnz 1b\n\tvzeroupper"        \
      : "+r"(left)                                                             \
      : "r"(data[0]), "r"(data[1])                                             \
      : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",        \
        "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",    \
        "xmm14", "xmm15")

/* f32 operations in a nanosecond (an FMA is two), of the widest vectors. */
static double fma(void) {
  const long rounds = 100000;
  long left = rounds;
  int wide = __builtin_cpu_supports("avx512f");
  double start = now();
  if (wide)
    VECTOR_LOOP("vfmadd231ps", "zmm", operands_f32);
  else
    VECTOR_LOOP("vfmadd231ps", "ymm", operands_f32);
  return (double)rounds * 14 * 2 * (wide ? 16 : 8) / (now() - start);
}

/* bf16 operations of dot products in a nanosecond. */
static double dots(void) {
  const long rounds = 100000;
  long left = rounds;
  double start = now();
  VECTOR_LOOP("vdpbf16ps", "zmm", operands_bf16);
  return (double)rounds * 14 * 2 * 32 / (now() - start);
}

/* Asks the kernel for tiles, for all threads of the process; 1 if it may. Call
 * it only on a CPU with AMX. */
int probe_allow_tiles(void) {
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

#define TDP(c, a, b) "tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c "\n\t"
#define TWO_BY_TWO TDP(0, 4, 6) TDP(1, 4, 7) TDP(2, 5, 6) TDP(3, 5, 7)
#define LOAD(t, offset) "tileloadd " #offset "(%1,%2,1), %%tmm" #t "\n\t"
#define LOADS LOAD(4, 0) LOAD(5, 1024) LOAD(6, 2048) LOAD(7, 3072)

/* bf16 operations of tiles in a nanosecond (a multiply-add is two). */
__attribute__((target("amx-tile,amx-bf16"))) static double tiles(void) {
  const struct {
    uint8_t palette, start, unused[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } __attribute__((aligned(64))) shape = {
      .palette = 1,
      .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
      .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
  const long rounds = 7000, operations = 4L * 2 * 16 * 16 * 32;
  long left = rounds;
  __asm__ volatile("ldtilecfg %0" : : "m"(shape));
  double start = now();
  __asm__ volatile("1:\n\t" LOADS TWO_BY_TWO "dec %0\n\tjnz 1b"
                   : "+r"(left)
                   : "r"(operands_bf16), "r"(64L)
                   : "cc", "memory");
  double end = now();
  __asm__ volatile("tilerelease");
  return (double)(rounds * operations) / (end - start);
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The median. */
static double measure(double (*loop)(void)) {
  enum { REPEATS = 24 };
  double readings[REPEATS];
  for (int i = 0; i < REPEATS; ++i)
    readings[i] = loop();
  qsort(readings, REPEATS, sizeof(double), ascending);
  return readings[REPEATS / 2];
}

/* The peaks first, while the clock is still as the load before has left it: it
 * recovers from heavy vector code in some milliseconds. `count` is 2, or 3:
 * FMAs, additions, tiles if `use_tiles`, else dots. */
void probe_measure(double *results, int count, int use_tiles) {
  results[0] = measure(fma);
  if (count > 2)
    results[2] = measure(use_tiles ? tiles : dots);
  results[1] = measure(adds);
}
