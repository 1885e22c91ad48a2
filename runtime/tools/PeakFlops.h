//===- PeakFlops.h - what the machine's multiply-adds could do --*- C++ -*-===//

#ifndef ENCAST_RUNTIME_TOOLS_PEAKFLOPS_H
#define ENCAST_RUNTIME_TOOLS_PEAKFLOPS_H

namespace encast::tools {

/// Runs independent f32 multiply-adds in registers only, of the widest
/// instructions that this CPU has, on `threads` threads at once for some
/// milliseconds. Returns floating-point operations per nanosecond, of all
/// threads together.
double measurePeak(int threads);

/// The instructions that measurePeak takes: "avx512", "avx2" or "sse2".
const char *peakInstructions();

} // namespace encast::tools

#endif // ENCAST_RUNTIME_TOOLS_PEAKFLOPS_H
