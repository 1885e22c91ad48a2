//===- HostCpu.cpp - what cpuid and sysfs say -----------------------------===//

#include "codegen/Target/HostCpu.h"

#include "encast_abi.h"

#include <cpuid.h>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

using namespace encast;

namespace {
struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};
} // namespace

/// The leaf, or zeros if the CPU has none of that number.
static Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx))
    return Registers();
  return r;
}

static bool hasBits(uint64_t value, uint64_t bits) {
  return (value & bits) == bits;
}

/// Register state that the operating system saves (XCR0); 0 without XSAVE.
static uint64_t savedState() {
  const uint32_t osxsave = 1u << 27;
  if (!hasBits(cpuid(1).ecx, osxsave))
    return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

/// State components that a process may ask for (bit 18: tile data), which a
/// kernel can withhold although XCR0 shows them.
static uint64_t permittedState() {
  const long archGetXcompSupp = 0x1021;
  uint64_t components = 0;
  if (syscall(SYS_arch_prctl, archGetXcompSupp, &components) != 0)
    return 0;
  return components;
}

/// Palette 1 with eight tiles of 16 rows of 64 bytes, without which a virtual
/// machine may still claim the instructions.
static bool hasTilePalette() {
  const Registers palettes = cpuid(0x1d), first = cpuid(0x1d, 1);
  return palettes.eax >= 1 && first.eax >> 16 >= 1024 &&
         (first.ebx & 0xffff) >= 64 && first.ebx >> 16 >= 8 &&
         (first.ecx & 0xffff) >= 16;
}

uint32_t encast::hostFeatures() {
  const Registers basic = cpuid(1), extended = cpuid(7), sub = cpuid(7, 1);
  const Registers amd = cpuid(0x80000001);
  const uint64_t state = savedState();

  // x86-64-v3: SSE3, SSSE3, FMA, CX16, SSE4.1, SSE4.2, MOVBE, POPCNT, AVX,
  // F16C; BMI1, AVX2, BMI2; LAHF, LZCNT; and the state of xmm and ymm.
  const uint32_t v3Basic = 1u << 0 | 1u << 9 | 1u << 12 | 1u << 13 | 1u << 19 |
                           1u << 20 | 1u << 22 | 1u << 23 | 1u << 28 | 1u << 29;
  const uint32_t v3Extended = 1u << 3 | 1u << 5 | 1u << 8;
  const uint32_t v3Amd = 1u << 0 | 1u << 5;
  if (!hasBits(basic.ecx, v3Basic) || !hasBits(extended.ebx, v3Extended) ||
      !hasBits(amd.ecx, v3Amd) || !hasBits(state, 0x6))
    return 0;
  uint32_t features = ENCAST_CPU_AVX2;
  if (hasBits(sub.eax, 1u << 4))
    features |= ENCAST_CPU_AVX_VNNI;

  // F, DQ, CD, BW, VL; and the state of opmasks and zmm.
  const uint32_t v4 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  if (!hasBits(extended.ebx, v4) || !hasBits(state, 0xe0))
    return features;
  features |= ENCAST_CPU_AVX512;
  if (hasBits(extended.ecx, 1u << 11))
    features |= ENCAST_CPU_AVX512_VNNI;
  if (hasBits(sub.eax, 1u << 5))
    features |= ENCAST_CPU_AVX512_BF16;

  const uint64_t tileState = uint64_t(3) << 17, amxTile = 1u << 24;
  if (!hasBits(extended.edx, amxTile) || !hasBits(state, tileState) ||
      !hasBits(permittedState(), tileState) || !hasTilePalette())
    return features;
  if (hasBits(extended.edx, 1u << 25))
    features |= ENCAST_CPU_AMX_INT8;
  // With VBMI, which kernels on tiles use and every CPU with AMX has.
  if (hasBits(extended.edx, 1u << 22) && hasBits(extended.ecx, 1u << 1))
    features |= ENCAST_CPU_AMX_BF16;
  return features;
}

static std::string readLine(const std::string &path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

/// Size of the first data or unified cache of that level, 0 if unknown.
static int64_t cacheBytes(int level) {
  const std::string root = "/sys/devices/system/cpu/cpu0/cache/index";
  for (int index = 0; index < 16; ++index) {
    const std::string cache = root + std::to_string(index);
    const std::string type = readLine(cache + "/type");
    if (readLine(cache + "/level") != std::to_string(level) ||
        (type != "Data" && type != "Unified"))
      continue;
    // "48K": all sizes are given in KiB.
    const std::string size = readLine(cache + "/size");
    char *end = nullptr;
    const long long kibibytes = std::strtoll(size.c_str(), &end, 10);
    if (*end != 'K' || kibibytes < 0 || kibibytes > (1 << 30))
      return 0;
    return int64_t(kibibytes) * 1024;
  }
  return 0;
}

HostCpu encast::readHostCpu() {
  HostCpu host;
  const Registers vendor = cpuid(0);
  const uint32_t name[3] = {vendor.ebx, vendor.edx, vendor.ecx};
  char text[sizeof(name) + 1] = {};
  std::memcpy(text, name, sizeof(name));
  host.vendor = text;

  const uint32_t version = cpuid(1).eax;
  host.family = version >> 8 & 0xf;
  host.model = version >> 4 & 0xf;
  if (host.family == 6 || host.family == 15)
    host.model += (version >> 16 & 0xf) << 4;
  if (host.family == 15)
    host.family += version >> 20 & 0xff;

  host.features = hostFeatures();
  host.l1Bytes = cacheBytes(1);
  host.l2Bytes = cacheBytes(2);
  return host;
}
