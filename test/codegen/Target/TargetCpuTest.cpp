//===- TargetCpuTest.cpp - names, features and lists of targets -----------===//

#include "codegen/Target/TargetCpu.h"

#include "encast_abi.h"

#include <gtest/gtest.h>

#include <set>

using namespace encast;

namespace {

TargetCpu parse(std::string_view text) {
  TargetCpu target;
  std::string error;
  EXPECT_TRUE(parseTarget(text, target, error)) << error;
  return target;
}

std::string parseError(std::string_view text) {
  TargetCpu target;
  std::string error;
  EXPECT_FALSE(parseTarget(text, target, error)) << target.name;
  return error;
}

TEST(Target, EveryRowResolvesToItsOwnNameWithRisingRank) {
  uint64_t lastRank = 0;
  for (const std::string &name : targetNames()) {
    const TargetCpu target = parse(name);
    EXPECT_EQ(target.name, name);
    EXPECT_GT(target.rank, lastRank) << name;
    lastRank = target.rank;
    EXPECT_EQ(target.vectorBytes,
              target.features & ENCAST_CPU_AVX512 ? 64 : 32);
    EXPECT_GE(target.l1Bytes, 32 << 10);
    EXPECT_GE(target.l2Bytes, 256 << 10);
    EXPECT_EQ(target.features & ~uint32_t(ENCAST_CPU_KNOWN), 0u);
  }
}

// Otherwise LLVM could emit what the loader does not check for.
TEST(Target, LetsLLVMUseOnlyWhatTheFeatureBitsPromise) {
  for (const std::string &name : targetNames())
    for (const char *change : {"", "-avx512", "+avx512"}) {
      const TargetCpu target = parse(name + change);
      EXPECT_EQ(target.llvmName, target.features & ENCAST_CPU_AVX512
                                     ? "x86-64-v4"
                                     : "x86-64-v3");
    }
  EXPECT_EQ(parse("znver3").llvmTune, "znver3");
  EXPECT_EQ(parse("x86-64-v4").llvmTune, "generic");
}

TEST(Target, AddsAndRemovesFeatures) {
  const TargetCpu added = parse("x86-64-v4+avx512vnni");
  EXPECT_EQ(added.name, "x86-64-v4+avx512vnni");
  EXPECT_EQ(added.features, uint32_t(ENCAST_CPU_AVX2 | ENCAST_CPU_AVX512 |
                                     ENCAST_CPU_AVX512_VNNI));
  EXPECT_GT(added.rank, parse("x86-64-v4").rank);

  // The names of targets and features hold dashes themselves.
  EXPECT_EQ(parse("sapphirerapids-amx-int8").name, "sapphirerapids-amx-int8");
  EXPECT_EQ(parse("skylake-avx512+avx512vnni").name,
            "skylake-avx512+avx512vnni");
  EXPECT_EQ(parse("skylake-avx512-avx512").features, uint32_t(ENCAST_CPU_AVX2));
}

TEST(Target, AddingBringsWhatIsRequiredAndRemovingTakesWhatRequiresIt) {
  EXPECT_EQ(parse("znver3+avx512vnni").name, "znver3+avx512+avx512vnni");
  EXPECT_EQ(parse("cooperlake-avx512").name,
            "cooperlake-avx512-avx512vnni-avx512bf16");
  EXPECT_EQ(parse("cooperlake-avx512").vectorBytes, 32);
}

TEST(Target, SpellsAnEqualTargetInOneWay) {
  EXPECT_EQ(parse("haswell+avx512+avx512vnni").name,
            parse("haswell+avx512vnni+avx512").name);
  EXPECT_EQ(parse("haswell+avx512-avx512").name, "haswell");
}

TEST(Target, RefusesUnknownNamesAndListsTheKnown) {
  const std::string error = parseError("pentium");
  EXPECT_NE(error.find("unknown target 'pentium'"), std::string::npos) << error;
  for (const std::string &name : targetNames())
    EXPECT_NE(error.find(name), std::string::npos) << error;
  // A name must end where a sign stands.
  EXPECT_NE(parseError("znver33"), "");
  EXPECT_NE(parseError(""), "");
}

TEST(Target, RefusesUnknownFeaturesAndListsTheKnown) {
  EXPECT_EQ(parseError("znver3+mmx"),
            "target 'znver3+mmx' has the unknown feature 'mmx', expected avx2, "
            "avx512, avx512vnni, avx512bf16, avxvnni, amx-int8, amx-bf16");
  EXPECT_NE(parseError("znver3+"), "");
  EXPECT_NE(parseError("znver3-"), "");
  EXPECT_NE(parseError("znver3+avx512 "), "");
}

TEST(Target, RefusesToGoBelowAvx2) {
  EXPECT_EQ(parseError("haswell-avx2"),
            "target 'haswell-avx2' lacks avx2, the least that code is "
            "generated for");
}

TEST(TargetList, KeepsItsOrder) {
  std::vector<TargetCpu> targets;
  std::string error;
  ASSERT_TRUE(parseTargets("x86-64-v4,x86-64-v3", targets, error)) << error;
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[0].name, "x86-64-v4");
  EXPECT_EQ(targets[1].name, "x86-64-v3");
}

TEST(TargetList, RefusesDuplicatesAndEmptyEntries) {
  std::vector<TargetCpu> targets;
  std::string error;
  EXPECT_FALSE(parseTargets("haswell,haswell+avx2", targets, error));
  EXPECT_EQ(error, "target 'haswell+avx2' appears twice in the list, it is "
                   "haswell");
  for (const char *text :
       {"", ",", "haswell,", ",haswell", "haswell,,znver3"}) {
    EXPECT_FALSE(parseTargets(text, targets, error)) << text;
    EXPECT_EQ(error, "the list of targets has an empty entry");
  }
}

TEST(FeatureNames, AreJoinedInTheOrderOfTheirBits) {
  EXPECT_EQ(featureNames(ENCAST_CPU_AVX512 | ENCAST_CPU_AVX2), "avx2+avx512");
  EXPECT_EQ(featureNames(0), "");
}

} // namespace
