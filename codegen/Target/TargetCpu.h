//===- TargetCpu.h - the CPU that code is generated for ---------*- C++ -*-===//
///
/// \file
/// A target is a row of Targets.def with features added or removed:
/// `name[+feature|-feature]*`. Generators read a TargetCpu and never ask the
/// machine they run on; only resolveHostTarget() reads cpuid and sysfs, and it
/// returns a name that resolves to the same target anywhere.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_TARGET_TARGETCPU_H
#define ENCAST_CODEGEN_TARGET_TARGETCPU_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace encast {

struct TargetCpu {
  std::string name; ///< As resolved, e.g. "znver3" or "x86-64-v4+avx512vnni".
  std::string llvmName; ///< Target CPU for LLVM, "x86-64-v3" or "x86-64-v4": no
                        ///< instruction that the bits avx2 and avx512 of
                        ///< `features` do not promise. emitObject() adds what
                        ///< avx512bf16 does.
  std::string llvmTune; ///< Tune CPU for LLVM, e.g. "znver3"; only scheduling.
  uint32_t features = 0; ///< ENCAST_CPU_* bits (encast_abi.h).
  int vectorBytes = 32;  ///< Width of the f32 vector registers to use.
  int64_t l1Bytes = 0;   ///< Data cache of a core.
  int64_t l2Bytes = 0;
  /// Whether products of bf16 in vectors are faster than those of f32.
  bool fastDots = false;
  uint64_t rank = 0; ///< Place in Targets.def; the loader takes the highest.
};

/// Parses one target; `host` is the machine at hand. False with `error`, which
/// lists the known names (or features), if it cannot be understood.
bool parseTarget(std::string_view text, TargetCpu &target, std::string &error);
/// Parses a comma-separated list; refuses duplicates and empty entries.
bool parseTargets(std::string_view text, std::vector<TargetCpu> &targets,
                  std::string &error);
/// Names of all rows, in order.
std::vector<std::string> targetNames();
/// ENCAST_CPU_* bits as Targets.def spells them, e.g. "avx2+avx512".
std::string featureNames(uint32_t features);
/// ENCAST_CPU_* bits that this machine and its operating system support.
uint32_t hostFeatures();
/// The row (with features added) that fits this machine best; false with
/// `error` if it lacks even AVX2.
bool resolveHostTarget(TargetCpu &target, std::string &error);

} // namespace encast

#endif // ENCAST_CODEGEN_TARGET_TARGETCPU_H
