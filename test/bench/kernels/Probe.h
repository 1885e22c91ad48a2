//===- Probe.h - how fast the machine is right now --------------*- C++ -*-===//
///
/// \file
/// Short loops that are timed before and after each sample. A shared machine
/// changes its speed from one millisecond to the next, so a sample is compared
/// with the peak next to it, and kept only if nobody disturbed it.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_BENCH_KERNELS_PROBE_H
#define ENCAST_TEST_BENCH_KERNELS_PROBE_H

#include "KernelTesting.h"

namespace encast {

/// Seconds that this thread has run: what others run in between is not counted.
double now();

/// Fused multiply-adds on registers alone: the most that a kernel could reach.
class FmaPeak {
public:
  explicit FmaPeak(int vectorBytes);
  /// GFLOP/s over about 30 microseconds.
  double measure() const;

private:
  const int vectorBytes;
  const ExecutableCode code;
};

/// Independent integer additions. A busy sibling thread takes half of the
/// decoded instructions of a core, which this loop shows and FmaPeak does not.
class FrontEndProbe {
public:
  FrontEndProbe();
  /// Billions of additions per second over about 20 microseconds.
  double measure() const;

private:
  const ExecutableCode code;
};

/// Products of tiles on registers alone: the most that a bf16 kernel could
/// reach. Needs configured tiles (TileScope).
class TilePeak {
public:
  TilePeak();
  /// GFLOP/s over about 30 microseconds.
  double measure() const;

private:
  const ExecutableCode code;
};

/// The step of a kernel, four products and four loads of tiles from the L1. A
/// sibling thread that is busy takes three quarters of this loop's speed, and
/// next to nothing of TilePeak's. Needs configured tiles.
class TileLoadProbe {
public:
  TileLoadProbe();
  /// GFLOP/s over about 40 microseconds.
  double measure() const;

private:
  const ExecutableCode code;
};

} // namespace encast

#endif // ENCAST_TEST_BENCH_KERNELS_PROBE_H
