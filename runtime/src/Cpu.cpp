//===- Cpu.cpp - what the machine at hand can run -------------------------===//

#include "runtime/src/Cpu.h"
#include <cerrno>
#include <cpuid.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace encast::runtime {
namespace {

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
  explicit Leaf(uint32_t leaf, uint32_t subleaf = 0) {
    __get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx);
  }
};

bool hasBit(uint32_t word, int bit) { return word >> bit & 1; }

/// Register state that the system saves: XCR0.
uint64_t savedState() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

/// Palette 1 with eight tiles of 16 rows of 64 bytes. A virtual machine may
/// claim the instructions and have no palette.
bool hasTilePalette() {
  Leaf palettes(0x1d), first(0x1d, 1);
  return palettes.eax >= 1 && first.eax >> 16 >= 1024 &&
         (first.ebx & 0xffff) >= 64 && first.ebx >> 16 >= 8 &&
         (first.ecx & 0xffff) >= 16;
}

} // namespace

// Bits: Intel Software Developer's Manual, volume 2A, CPUID.
uint64_t cpuFeatures() {
  Leaf basic(1), extended(7), extended1(7, 1), amd(0x80000001);
  constexpr int osxsave = 27;
  if (!hasBit(basic.ecx, osxsave))
    return 0;
  uint64_t state = savedState();
  auto saves = [state](uint64_t bits) { return (state & bits) == bits; };

  uint64_t features = 0;
  bool fma = hasBit(basic.ecx, 12), movbe = hasBit(basic.ecx, 22),
       f16c = hasBit(basic.ecx, 29), lzcnt = hasBit(amd.ecx, 5);
  bool bmi1 = hasBit(extended.ebx, 3), avx2 = hasBit(extended.ebx, 5),
       bmi2 = hasBit(extended.ebx, 8);
  if (avx2 && fma && f16c && bmi1 && bmi2 && movbe && lzcnt && saves(0x6))
    features |= ENCAST_CPU_AVX2;
  else
    return 0;
  if (hasBit(extended1.eax, 4))
    features |= ENCAST_CPU_AVX_VNNI;
  bool f = hasBit(extended.ebx, 16), dq = hasBit(extended.ebx, 17),
       cd = hasBit(extended.ebx, 28), bw = hasBit(extended.ebx, 30),
       vl = hasBit(extended.ebx, 31);
  if (f && dq && cd && bw && vl && saves(0xe6)) {
    features |= ENCAST_CPU_AVX512;
    if (hasBit(extended.ecx, 11))
      features |= ENCAST_CPU_AVX512_VNNI;
    if (hasBit(extended1.eax, 5))
      features |= ENCAST_CPU_AVX512_BF16;
  }
  constexpr uint64_t tileState = 0x60000;
  if (hasBit(extended.edx, 24) && saves(tileState) && hasTilePalette()) {
    if (hasBit(extended.edx, 25))
      features |= ENCAST_CPU_AMX_INT8;
    // With VBMI, which kernels on tiles use and every CPU with AMX has.
    if (hasBit(extended.edx, 22) && hasBit(extended.ecx, 1))
      features |= ENCAST_CPU_AMX_BF16;
  }
  return features;
}

void appendFeatureNames(uint64_t features, Text &text) {
  const char *separator = "";
  auto append = [&](const char *name) {
    text.append(separator);
    text.append(name);
    separator = "+";
  };
#define APPEND(feature, number, name)                                          \
  if (features & ENCAST_CPU_##feature)                                         \
    append(name);
  ENCAST_CPU_FEATURES(APPEND)
#undef APPEND
  if (features & ~uint64_t(ENCAST_CPU_KNOWN))
    append("newer instructions");
}

int requestTileState() {
  constexpr long requestPermission = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, requestPermission, tileData) ? errno : 0;
}

unsigned long leastSignalStack() {
  constexpr unsigned long tag = 51; // AT_MINSIGSTKSZ, newer than some headers
  return getauxval(tag);
}

} // namespace encast::runtime
