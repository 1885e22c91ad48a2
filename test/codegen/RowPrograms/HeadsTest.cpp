//===- HeadsTest.cpp - heads as attention reads them ----------------------===//
///
/// \file
/// Norm, rotation and factor against loops in double and bit for bit against
/// their formulas, in each layout of y.
//===----------------------------------------------------------------------===//

#include "RowProgramTesting.h"

using namespace mlir;
using namespace encast;
using namespace encast::test;

namespace {

class HeadsTest : public ProgramsTest {};
ENCAST_INSTANTIATE_PROGRAMS_TEST(HeadsTest);

constexpr int64_t kHeads = 3;
constexpr int64_t kPositions = 5;
constexpr double kEpsilon = 1e-5;
constexpr double kFactor = 0.18033688011112042;

/// Halves that are whole vectors, that share one, that cross one, and that are
/// none; sizes of real models.
const int64_t kHeadSizes[] = {1,  2,  5,  6,  15, 16,  17,  20,
                              24, 31, 32, 33, 34, 40,  46,  48,
                              50, 64, 72, 80, 96, 100, 128, 256};

/// Padded to a multiple of 32 columns in one or two steps, or not at all.
const int64_t kFewHeadSizes[] = {1, 20, 24, 32, 34, 50, 64};

/// norm, rope, factor; a head of odd size cannot be rotated.
std::vector<HeadsOptions> allOptions(int64_t headSize) {
  std::vector<HeadsOptions> all;
  for (int number = 0; number < 8; ++number) {
    HeadsOptions options;
    if (number & 1)
      options.norm = kEpsilon;
    options.rope = number & 2;
    if (number & 4)
      options.factor = kFactor;
    if (!options.rope || headSize % 2 == 0)
      all.push_back(options);
  }
  return all;
}

std::string programName(int64_t headSize, const HeadsOptions &options,
                        int64_t heads = kHeads) {
  return "heads_" + std::to_string(heads) + "x" + std::to_string(headSize) +
         (options.norm ? "_norm_1e-05" : "") + (options.rope ? "_rope" : "") +
         (options.factor != 1 ? "_times_0.18033688011112042" : "") +
         (options.panelMajor ? "_panels" : "") +
         (options.output.planes ? sized("_planes", options.output.planes) : "");
}

/// Heads of one token and what they are normalized and rotated with.
struct Operands {
  explicit Operands(int64_t headSize, int64_t heads = kHeads)
      : headSize(headSize), heads(heads), x(randomRow(heads * headSize, 1)),
        gain(randomRow(headSize, 2)),
        table(std::vector<float>(kPositions * headSize)),
        position({kPositions - 1}) {
    // Rows that are not read would poison the result.
    std::vector<float> rotations(kPositions * headSize, NAN);
    for (int64_t k = 0; k < headSize / 2; ++k) {
      double angle =
          double(kPositions - 1) * std::pow(100, -2.0 * k / headSize);
      float *row = rotations.data() + (kPositions - 1) * headSize;
      row[k] = float(std::cos(angle));
      row[headSize / 2 + k] = float(std::sin(angle));
    }
    std::copy(rotations.begin(), rotations.end(), table.data());
  }

  /// Calls the program with y and, if there is one, what follows it.
  template <typename... Y>
  void call(Programs &programs, const HeadsOptions &options, Y... y) {
    std::string name = programName(headSize, options, heads);
    if (options.norm && options.rope)
      programs.call(name, x.data(), gain.data(), position.data(), table.data(),
                    y...);
    else if (options.norm)
      programs.call(name, x.data(), gain.data(), y...);
    else if (options.rope)
      programs.call(name, x.data(), position.data(), table.data(), y...);
    else
      programs.call(name, x.data(), y...);
  }

  /// The formulas in the header, in f32.
  std::vector<float> bits(const HeadsOptions &options) {
    std::vector<float> y;
    int64_t half = headSize / 2;
    const float *c = table.data() + (kPositions - 1) * headSize, *s = c + half;
    for (int64_t head = 0; head < heads; ++head) {
      std::vector<float> n = headOfX(head);
      if (options.norm) {
        float sum = reduceRow<16>(n, [](float sum, float value) {
          return std::fma(value, value, sum);
        });
        float scale = 1 / std::sqrt(sum / float(headSize) + float(kEpsilon));
        for (int64_t i = 0; i < headSize; ++i)
          n[i] = (n[i] * scale) * gain.data()[i];
      }
      for (int64_t i = 0; options.rope && i < half; ++i) {
        float a = n[i], b = n[half + i];
        n[i] = std::fma(a, c[i], -(b * s[i]));
        n[half + i] = std::fma(b, c[i], a * s[i]);
      }
      for (float value : n)
        y.push_back(options.factor != 1 ? value * float(kFactor) : value);
    }
    return y;
  }

  Expected near(const HeadsOptions &options) {
    Expected expected;
    int64_t half = headSize / 2;
    const float *c = table.data() + (kPositions - 1) * headSize, *s = c + half;
    for (int64_t head = 0; head < heads; ++head) {
      std::vector<float> x = headOfX(head);
      std::vector<double> n(x.begin(), x.end()), error(headSize, 0);
      if (options.norm) {
        double squares = 0;
        for (double value : n)
          squares += value * value;
        double roundings = (reductionRoundings(headSize) + 3) / 2 + 4;
        for (int64_t i = 0; i < headSize; ++i) {
          n[i] *=
              gain.data()[i] / std::sqrt(squares / double(headSize) + kEpsilon);
          error[i] = roundings * kRounding * std::fabs(n[i]);
        }
      }
      for (int64_t i = 0; options.rope && i < half; ++i) {
        double a = n[i], b = n[half + i], ea = error[i], eb = error[half + i];
        double cosine = std::fabs(c[i]), sine = std::fabs(s[i]);
        double rounding = 2 * kRounding;
        n[i] = a * c[i] - b * s[i];
        error[i] = ea * cosine + eb * sine +
                   rounding * (std::fabs(a) * cosine + std::fabs(b) * sine);
        n[half + i] = b * c[i] + a * s[i];
        error[half + i] =
            eb * cosine + ea * sine +
            rounding * (std::fabs(b) * cosine + std::fabs(a) * sine);
      }
      for (int64_t i = 0; i < headSize; ++i) {
        expected.y.push_back(n[i] * options.factor);
        expected.bound.push_back(1.01 * options.factor *
                                 (error[i] + 2 * kRounding * std::fabs(n[i])));
      }
    }
    return expected;
  }

  std::vector<float> headOfX(int64_t head) {
    float *first = x.data() + head * headSize;
    return {first, first + headSize};
  }

  int64_t headSize, heads;
  Row x, gain, table;
  GuardedRow<int32_t> position;
};

TEST_P(HeadsTest, RowsAgreeWithDoubleAndFollowTheFormulaBitForBit) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t headSize : kHeadSizes)
      for (const HeadsOptions &options : allOptions(headSize))
        getHeads(module, kHeads, headSize, options);
  });
  for (int64_t headSize : kHeadSizes) {
    Operands operands(headSize);
    for (const HeadsOptions &options : allOptions(headSize)) {
      Row y(std::vector<float>(kHeads * headSize, -7));
      operands.call(programs, options, y.data());
      std::string name = programName(headSize, options);
      ASSERT_EQ(bitsOf(y.values()), bitsOf(operands.bits(options))) << name;
      expectNear(y.values(), operands.near(options), name);
    }
  }
}

TEST_P(HeadsTest, AnyNumberOfHeadsIsDone) {
  HeadsOptions options;
  options.norm = kEpsilon;
  options.rope = true;
  const int64_t counts[] = {1, 2, 8, 33};
  Programs programs(GetParam(), [&](ModuleOp module) {
    for (int64_t heads : counts)
      for (int64_t headSize : {20, 64, 128})
        getHeads(module, heads, headSize, options);
  });
  for (int64_t heads : counts)
    for (int64_t headSize : {20, 64, 128}) {
      Operands operands(headSize, heads);
      Row y(std::vector<float>(heads * headSize, -7));
      operands.call(programs, options, y.data());
      ASSERT_EQ(bitsOf(y.values()), bitsOf(operands.bits(options)))
          << programName(headSize, options, heads);
    }
}

TEST_P(HeadsTest, PanelsHoldPaddedHeadsAndNothingElseIsWritten) {
  auto panelMajor = [](HeadsOptions options) {
    options.panelMajor = true;
    return options;
  };
  Programs programs(GetParam(), [&](ModuleOp module) {
    for (int64_t headSize : kHeadSizes)
      for (const HeadsOptions &options : allOptions(headSize))
        getHeads(module, kHeads, headSize, panelMajor(options));
  });
  const int64_t rows = 4;
  for (int64_t headSize : kHeadSizes) {
    Operands operands(headSize);
    int64_t panels = (headSize + 15) / 16;
    for (const HeadsOptions &options : allOptions(headSize))
      for (int64_t row : {int64_t(0), rows - 1}) {
        std::vector<float> expected(kHeads * panels * rows * 16, -7);
        std::vector<float> values = operands.bits(options);
        for (int64_t head = 0; head < kHeads; ++head)
          for (int64_t column = 0; column < panels * 16; ++column) {
            int64_t plane = head * panels + column / 16;
            expected[(plane * rows + row) * 16 + column % 16] =
                column < headSize ? values[head * headSize + column] : 0;
          }
        Row y(std::vector<float>(expected.size(), -7));
        operands.call(programs, panelMajor(options), y.data() + row * 16,
                      rows * 64);
        ASSERT_EQ(bitsOf(y.values()), bitsOf(expected))
            << programName(headSize, panelMajor(options));
      }
  }
}

TEST_P(HeadsTest, PlanesHoldTermsOfPaddedHeads) {
  auto inPlanes = [](HeadsOptions options, int planes) {
    options.output.planes = planes;
    return options;
  };
  Programs programs(GetParam(), [&](ModuleOp module) {
    for (int64_t headSize : kFewHeadSizes)
      for (const HeadsOptions &options : allOptions(headSize))
        for (int planes = 1; planes <= 3; ++planes)
          getHeads(module, kHeads, headSize, inPlanes(options, planes));
  });
  for (int64_t headSize : kFewHeadSizes) {
    Operands operands(headSize);
    int64_t padded = (headSize + 31) / 32 * 32;
    for (const HeadsOptions &options : allOptions(headSize)) {
      std::vector<float> values = operands.bits(options), row;
      for (int64_t head = 0; head < kHeads; ++head) {
        auto first = values.begin() + head * headSize;
        row.insert(row.end(), first, first + headSize);
        row.resize((head + 1) * padded, 0);
      }
      for (int planes = 1; planes <= 3; ++planes) {
        GuardedRow<uint16_t> y(
            std::vector<uint16_t>(planes * kHeads * padded, 7));
        operands.call(programs, inPlanes(options, planes), y.data());
        ASSERT_EQ(y.values(), toPlanes(row, planes))
            << programName(headSize, inPlanes(options, planes));
      }
    }
  }
}

} // namespace
