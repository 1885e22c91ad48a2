//===- PeakFlops.h - what the machine's multiply-adds could do --*- C++ -*-===//

#ifndef ENCAST_RUNTIME_TOOLS_PEAKFLOPS_H
#define ENCAST_RUNTIME_TOOLS_PEAKFLOPS_H

#include "runtime/tools/KernelName.h"

namespace encast::tools {

/// "sse2", "avx2", "avx512" (f32), "avx512bf16" or "amx-bf16".
const char *multiplierName(Multiplier multiplier);

/// Whether this process may run it. Asks the system for AMX tiles.
bool canMultiply(Multiplier multiplier);

/// The widest f32 instructions that this CPU has.
Multiplier widestMultiplier();

/// Runs independent multiply-adds in registers only, on `threads` threads at
/// once for a millisecond or less. Returns operations (two per multiply-add)
/// per nanosecond, of all threads together.
double measurePeak(Multiplier multiplier, int threads);

/// The same of a 2 x 2 block of AMX tiles whose operands are loaded from L1
/// each time, as kernels do, and with the time that a thread does not run. A
/// neighbour on the same core slows loads to a fifth and register-only loops
/// not at all: this tells whether a sample is worth keeping.
double measureTileLoads(int threads);

} // namespace encast::tools

#endif // ENCAST_RUNTIME_TOOLS_PEAKFLOPS_H
