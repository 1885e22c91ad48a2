//===- Cpu.h - what the machine at hand can run -----------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_CPU_H
#define ENCAST_RUNTIME_SRC_CPU_H

#include "encast_abi.h"
#include "runtime/src/Errors.h"
#include <cstdint>

namespace encast::runtime {

/// ENCAST_CPU_* bits that both the CPU and the system support.
uint64_t cpuFeatures();

/// Appends the names of ENCAST_CPU_* bits as targets spell them, joined by
/// "+"; bits without a name are "newer instructions".
void appendFeatureNames(uint64_t features, Text &text);

/// Whether code that needs these ENCAST_CPU_* bits uses AMX tiles.
constexpr bool usesTiles(uint64_t features) {
  return features & (ENCAST_CPU_AMX_INT8 | ENCAST_CPU_AMX_BF16);
}

/// Asks the system for the right to use AMX tiles, without which the first tile
/// instruction that touches data is illegal, whatever cpuFeatures says. Counts
/// for the whole process and its children; may be asked again. Returns 0 or an
/// error number: ENOSPC if a thread's alternate signal stack is smaller than
/// leastSignalStack(), EOPNOTSUPP or EINVAL if the system knows no tiles.
int requestTileState();

/// Bytes of an alternate signal stack that has room for all register state.
unsigned long leastSignalStack();

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_CPU_H
