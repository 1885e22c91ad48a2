//===- HostCpuTest.cpp - the target that a machine fits -------------------===//

#include "codegen/Target/HostCpu.h"

#include "encast_abi.h"

#include "runtime/src/Cpu.h"
#include <gtest/gtest.h>

using namespace encast;

namespace {

const uint32_t kAvx2 = ENCAST_CPU_AVX2;
const uint32_t kAvx512 = kAvx2 | ENCAST_CPU_AVX512;
const uint32_t kIceLake = kAvx512 | ENCAST_CPU_AVX512_VNNI;
const uint32_t kSapphireRapids = kIceLake | ENCAST_CPU_AVX512_BF16 |
                                 ENCAST_CPU_AVX_VNNI | ENCAST_CPU_AMX_INT8 |
                                 ENCAST_CPU_AMX_BF16;

HostCpu machine(std::string vendor, uint32_t family, uint32_t model,
                uint32_t features, int64_t l1KiB, int64_t l2KiB) {
  HostCpu host;
  host.vendor = vendor;
  host.family = family;
  host.model = model;
  host.features = features;
  host.l1Bytes = l1KiB * 1024;
  host.l2Bytes = l2KiB * 1024;
  return host;
}

std::string nearestName(const HostCpu &host) {
  TargetCpu target;
  std::string error;
  EXPECT_TRUE(nearestTarget(host, target, error)) << error;
  EXPECT_EQ(target.features, host.features);
  // The name says it all: it resolves to the same target anywhere.
  TargetCpu again;
  EXPECT_TRUE(parseTarget(target.name, again, error)) << error;
  EXPECT_EQ(again.name, target.name);
  EXPECT_EQ(again.features, target.features);
  EXPECT_EQ(again.rank, target.rank);
  return target.name;
}

TEST(HostTarget, IsTheRowOfARealMachine) {
  EXPECT_EQ(nearestName(machine("GenuineIntel", 6, 0x3c, kAvx2, 32, 256)),
            "haswell");
  EXPECT_EQ(nearestName(machine("GenuineIntel", 6, 0x9e, kAvx2, 32, 256)),
            "skylake");
  EXPECT_EQ(nearestName(machine("AuthenticAMD", 0x17, 0x31, kAvx2, 32, 512)),
            "znver2");
  EXPECT_EQ(nearestName(machine("AuthenticAMD", 0x19, 0x21, kAvx2, 32, 512)),
            "znver3");
  EXPECT_EQ(nearestName(machine("GenuineIntel", 6, 0x55, kAvx512, 32, 1024)),
            "skylake-avx512");
  EXPECT_EQ(nearestName(machine("GenuineIntel", 6, 0x6a, kIceLake, 48, 1280)),
            "icelake-server");
  EXPECT_EQ(nearestName(machine("AuthenticAMD", 0x19, 0x11,
                                kIceLake | ENCAST_CPU_AVX512_BF16, 32, 1024)),
            "znver4");
  EXPECT_EQ(
      nearestName(machine("GenuineIntel", 6, 0xcf, kSapphireRapids, 48, 2048)),
      "emeraldrapids");
}

TEST(HostTarget, FollowsFeaturesAndCachesWhereAVirtualMachineHidesItsModel) {
  EXPECT_EQ(
      nearestName(machine("GenuineIntel", 6, 0xa7, kSapphireRapids, 48, 2048)),
      "sapphirerapids");
  EXPECT_EQ(nearestName(machine(
                "GenuineIntel", 6, 0x8f,
                kSapphireRapids & ~(ENCAST_CPU_AMX_INT8 | ENCAST_CPU_AMX_BF16),
                48, 2048)),
            "sapphirerapids-amx-int8-amx-bf16");
  EXPECT_EQ(nearestName(machine("AuthenticAMD", 0x19, 0x11, kAvx2, 32, 512)),
            "znver2");
}

TEST(HostTarget, IsGenericForAnUnknownVendor) {
  EXPECT_EQ(nearestName(machine("SomeVendor", 7, 1, kAvx2, 0, 0)), "x86-64-v3");
  EXPECT_EQ(nearestName(machine("SomeVendor", 7, 1, kIceLake, 64, 1024)),
            "x86-64-v4+avx512vnni");
}

TEST(HostTarget, RefusesAMachineWithoutAvx2) {
  TargetCpu target;
  std::string error;
  EXPECT_FALSE(nearestTarget(machine("GenuineIntel", 6, 0x2a, 0, 32, 256),
                             target, error));
  EXPECT_NE(error.find("lacks avx2"), std::string::npos) << error;
}

TEST(HostTarget, OfThisMachineNeedsNothingItLacks) {
  if (!(hostFeatures() & ENCAST_CPU_AVX2))
    GTEST_SKIP() << "host lacks avx2";
  TargetCpu target;
  std::string error;
  ASSERT_TRUE(parseTarget("host", target, error)) << error;
  EXPECT_EQ(target.features & ~hostFeatures(), 0u);
  EXPECT_EQ(readHostCpu().features, hostFeatures());
}

TEST(HostTarget, TakesFeaturesMoreOrLess) {
  if (!(hostFeatures() & ENCAST_CPU_AVX2))
    GTEST_SKIP() << "host lacks avx2";
  TargetCpu target;
  std::string error;
  ASSERT_TRUE(parseTarget("host-amx-bf16", target, error)) << error;
  EXPECT_EQ(target.features, hostFeatures() & ~ENCAST_CPU_AMX_BF16);
  EXPECT_FALSE(parseTarget("host+nothing", target, error));
  EXPECT_FALSE(parseTarget("hosts", target, error));
}

// What is compiled for this machine loads on it.
TEST(HostTarget, HasTheFeaturesThatTheRuntimeSees) {
  EXPECT_EQ(hostFeatures(), runtime::cpuFeatures());
}

// Kernels on tiles permute bytes.
TEST(HostTarget, HasVbmiWhereItMultipliesBf16OnTiles) {
  if (!(hostFeatures() & ENCAST_CPU_AMX_BF16))
    GTEST_SKIP() << "host lacks amx-bf16";
  EXPECT_TRUE(__builtin_cpu_supports("avx512vbmi"));
}

} // namespace
