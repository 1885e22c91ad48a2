//===- KernelBench.h - timing beside the peak of an instruction -*- C++ -*-===//
///
/// \file
/// What the benches of kernels share: cases, samples that alternate with the
/// peak of their instruction, the gate, the table and the options.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_BENCH_KERNELS_KERNELBENCH_H
#define ENCAST_TEST_BENCH_KERNELS_KERNELBENCH_H

#include "Probe.h"
#include "codegen/Kernels/Kernels.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace encast {

/// The instruction that makes the products of a case.
enum class Multiplier { Fma256, Fma512, Tiles };

/// The instruction on machines with tiles, and its products for one in that
/// arithmetic.
Multiplier multiplierOf(Arithmetic arithmetic);
double productsOf(Arithmetic arithmetic);

/// A problem that is timed again and again.
struct KernelCase {
  std::string kernel;  ///< Row of Kernels.def, arithmetic, or a library's name.
  std::string problem; ///< As printed, e.g. "n=1152 k=384 m=64 cold".
  double flops;        ///< Of one call of run.
  Multiplier multiplier;
  /// Configures tiles itself, since oneDNN leaves them released.
  std::function<void()> run;
  double products = 1; ///< Of the instruction for a product of the problem.
};

/// The options of `bench`, a name for messages and help that says what it
/// times. Ends the program after --help or a wrong option.
struct KernelBenchOptions {
  KernelBenchOptions(int argc, char **argv, const std::string &bench,
                     const std::string &times);
  std::string bench, filter, json;
  int rounds = 15;
};

/// Ends the program where this CPU lacks what the row of Kernels.def needs, or
/// the system refuses tiles that it uses.
void requireKernelRow(const std::string &bench, const char *kernelRow);

/// Machine code of a kernel, in pages of its own. Ends the program with the
/// reason if the row makes none of that shape.
std::unique_ptr<ExecutableCode> linearCode(const KernelRow &row,
                                           const LinearShape &shape);
std::unique_ptr<ExecutableCode> attentionCode(const KernelRow &row,
                                              const AttentionShape &shape);

/// Cases of one bench, on one core. A sample of FMAs is quiet if the front end
/// is near its best before and after it, which a busy sibling thread halves;
/// one of tiles, if the loop that loads tiles is near the loop on registers, of
/// which a busy sibling leaves a quarter. The peaks around must agree, too.
class KernelBench {
public:
  explicit KernelBench(KernelBenchOptions options);

  /// Whether the kernel and the problem contain what --filter says.
  bool takes(const std::string &kernel, const std::string &problem) const {
    return (kernel + " " + problem).find(options.filter) != std::string::npos;
  }
  void add(KernelCase entry) {
    if (takes(entry.kernel, entry.problem))
      cases.push_back({std::move(entry), 1, {}});
  }
  /// Takes samples, a round for one of each case; prints the table and writes
  /// the file that --json names. Ends the program if it cannot.
  void report();

private:
  struct Sample {
    double gflops;
    double peakBefore, peakAfter; ///< For the same products.
    double quiet;                 ///< The lower one of before and after.
  };
  struct Timed {
    KernelCase problem;
    int repeats; ///< Calls of a sample.
    std::vector<Sample> samples;
  };
  struct Result {
    double gflops, best, peak, ratio;
    size_t quiet, total;
  };

  /// What the gate reads: of tiles the share of loads, else additions.
  double readGate(Multiplier multiplier);
  /// What it must read at least.
  double leastQuiet(Multiplier multiplier) const;
  /// GFLOP/s of the peak for a case.
  double peakOf(const KernelCase &entry) const;
  void waitForQuietCore(Multiplier multiplier);
  void measure();
  Result resultOf(const Timed &entry) const;
  bool writeJson() const;

  const KernelBenchOptions options;
  std::vector<Timed> cases;
  const FmaPeak fma256{32};
  const FmaPeak fma512{64};
  const TilePeak tilePeak;
  const TileLoadProbe tileLoads;
  const FrontEndProbe frontEnd;
  double bestFrontEnd = 0;
  std::vector<int> cores; // that this process may use
};

} // namespace encast

#endif // ENCAST_TEST_BENCH_KERNELS_KERNELBENCH_H
