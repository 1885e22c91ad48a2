/*===- probe.c - how quiet is this CPU, and what is its FMA peak ----------===*/
/*
 * Two register-only loops of about 0.05 ms, in assembly so that no compiler
 * changes them:
 *
 *   adds   four chains of additions: front end and integer units, which a
 *          neighbour on the same core takes a share of
 *   fma    sixteen chains of FMAs: vector units, and the peak that ratios refer
 *          to
 */
/*===----------------------------------------------------------------------===*/

#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

#define FOUR(x) x x x x
#define SIXTEEN(x) FOUR(x) FOUR(x) FOUR(x) FOUR(x)

/* Additions in a nanosecond. */
double probe_adds(void) {
  const long rounds = 8000;
  long left = rounds, a = 1, b = 2, c = 3, d = 4;
  double start = now();
  __asm__ volatile("1:\n\t" SIXTEEN("add %5, %1\n\tadd %5, %2\n\tadd %5, "
                                    "%3\n\tadd %5, %4\n\t") "dec %0\n\tjnz 1b"
                   : "+r"(left), "+r"(a), "+r"(b), "+r"(c), "+r"(d)
                   : "r"(left)
                   : "cc");
  return (double)rounds * 64 / (now() - start);
}

#define FMA(reg, n) "vfmadd231ps %%" reg #n ", %%" reg #n ", %%" reg #n "\n\t"
#define ALL_FMAS(reg)                                                          \
  FMA(reg, 0)                                                                  \
  FMA(reg, 1)                                                                  \
  FMA(reg, 2)                                                                  \
  FMA(reg, 3)                                                                  \
  FMA(reg, 4)                                                                  \
  FMA(reg, 5)                                                                  \
  FMA(reg, 6)                                                                  \
  FMA(reg, 7)                                                                  \
  FMA(reg, 8)                                                                  \
  FMA(reg, 9)                                                                  \
  FMA(reg, 10)                                                                 \
  FMA(reg, 11) FMA(reg, 12) FMA(reg, 13) FMA(reg, 14) FMA(reg, 15)
#define CLOBBERED                                                              \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",        \
      "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

/* f32 operations in a nanosecond (an FMA is two), of the widest vectors. */
double probe_fma(void) {
  const long rounds = 20000;
  long left = rounds;
  int wide = __builtin_cpu_supports("avx512f");
  double start = now();
  if (wide)
    __asm__ volatile("vzeroall\n1:\n\t" ALL_FMAS("zmm") "dec %0\n\tjnz 1b\n\t"
                                                        "vzeroupper"
                     : "+r"(left)
                     :
                     : CLOBBERED);
  else
    __asm__ volatile("vzeroall\n1:\n\t" ALL_FMAS("ymm") "dec %0\n\tjnz 1b\n\t"
                                                        "vzeroupper"
                     : "+r"(left)
                     :
                     : CLOBBERED);
  return (double)rounds * 16 * 2 * (wide ? 16 : 8) / (now() - start);
}
