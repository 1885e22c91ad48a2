//===- TileBench.h - timing beside the peak of tiles ------------*- C++ -*-===//
///
/// \file
/// What the benches of tile kernels share: cases, samples that alternate with
/// the peak of their instruction, the gate, the table and the options.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_BENCH_KERNELS_TILEBENCH_H
#define ENCAST_TEST_BENCH_KERNELS_TILEBENCH_H

#include "Probe.h"

#include <functional>
#include <string>
#include <vector>

namespace encast {

/// A problem that is timed again and again.
struct TileCase {
  std::string kernel; ///< Arithmetic, "f32" or "onednn bf16".
  std::string problem;
  double flops;    ///< Of one call of run.
  double products; ///< Of tiles for a product of the problem; 0: FMA.
  /// Configures tiles itself, since oneDNN leaves them released.
  std::function<void()> run;
};

class TileBench {
public:
  /// Takes cases whose kernel and problem contain `filter`. A sample is quiet
  /// if before and after it the loop that loads tiles reached `quietShare` of
  /// the one on registers, whatever the clock. A busy sibling thread leaves a
  /// quarter.
  TileBench(std::string filter, double quietShare);

  bool takes(const std::string &kernel, const std::string &problem) const {
    return (kernel + " " + problem).find(filter) != std::string::npos;
  }
  void add(TileCase entry) {
    if (takes(entry.kernel, entry.problem))
      cases.push_back({std::move(entry), 1, {}});
  }
  /// A sample of each case a round.
  void measure(int rounds);
  /// The table, of quiet samples where there are any.
  void print() const;

private:
  struct Sample {
    double gflops;
    double peak;  ///< For the same products, the mean of before and after.
    double quiet; ///< The lower one of before and after.
  };
  struct Timed {
    TileCase problem;
    int repeats; ///< Calls of a sample.
    std::vector<Sample> samples;
  };

  /// The loop that loads tiles, of the one on registers.
  double quiet() const;
  /// GFLOP/s of the peak for a case.
  double peakOf(const TileCase &entry) const;
  void waitForQuietCore() const;

  const std::string filter;
  const double quietShare;
  std::vector<Timed> cases;
  const FmaPeak fmaPeak{64};
  const TilePeak tilePeak;
  const TileLoadProbe tileLoads;
  std::vector<int> cores; // that this process may use
};

/// The options of `bench`, a name for messages and help that says what it
/// times. Ends the program after --help, a wrong option, or where this CPU
/// lacks what `kernelRow` needs or the system refuses tiles.
struct TileBenchOptions {
  TileBenchOptions(int argc, char **argv, const std::string &bench,
                   const std::string &times, const char *kernelRow);
  std::string filter;
  int rounds = 15;
};

} // namespace encast

#endif // ENCAST_TEST_BENCH_KERNELS_TILEBENCH_H
