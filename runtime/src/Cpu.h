//===- Cpu.h - what the machine at hand can run -----------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_CPU_H
#define ENCAST_RUNTIME_SRC_CPU_H

#include "runtime/src/Errors.h"
#include <cstdint>

namespace encast::runtime {

/// ENCAST_CPU_* bits that both the CPU and the system support.
uint64_t cpuFeatures();

/// Appends the names of ENCAST_CPU_* bits as Targets.def spells them, joined by
/// "+"; bits without a name are "newer instructions".
void appendFeatureNames(uint64_t features, Text &text);

/// Asks the system for the right to use AMX tiles; for the whole process, may
/// be called again. Returns 0 or an error number.
int requestTileState();

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_CPU_H
