//===- HostCpu.h - the machine at hand and the target it fits ---*- C++ -*-===//
///
/// \file
/// What cpuid and sysfs say, as plain data, so that the choice of a target can
/// be tested for machines that are not at hand.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_TARGET_HOSTCPU_H
#define ENCAST_CODEGEN_TARGET_HOSTCPU_H

#include "codegen/Target/TargetCpu.h"

#include <cstdint>
#include <string>

namespace encast {

struct HostCpu {
  std::string vendor;    ///< As cpuid spells it, e.g. "AuthenticAMD".
  uint32_t family = 0;   ///< With the extended family.
  uint32_t model = 0;    ///< With the extended model.
  uint32_t features = 0; ///< ENCAST_CPU_* bits.
  int64_t l1Bytes = 0;   ///< Data cache of a core; 0 if unknown.
  int64_t l2Bytes = 0;   ///< Same.
};

/// Reads cpuid and sysfs. Never fails; what cannot be read is 0 or empty.
HostCpu readHostCpu();

/// The target whose features are exactly the host's, made from the row that is
/// nearest to it: the fewest features to add or remove, caches of the nearest
/// size, then the model. Rows of another vendor are not considered. False with
/// `error` if the host lacks AVX2.
bool nearestTarget(const HostCpu &host, TargetCpu &target, std::string &error);

} // namespace encast

#endif // ENCAST_CODEGEN_TARGET_HOSTCPU_H
