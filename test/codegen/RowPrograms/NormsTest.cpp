//===- NormsTest.cpp - normalized rows against loops in double ------------===//
///
/// \file
/// Against loops in double, and bit for bit against the formulas in f32.
//===----------------------------------------------------------------------===//

#include "RowProgramTesting.h"

using namespace mlir;
using namespace encast;
using namespace encast::test;

namespace {

class NormsTest : public ProgramsTest {};
ENCAST_INSTANTIATE_PROGRAMS_TEST(NormsTest);

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

Expected layerNorm(const std::vector<float> &x, const std::vector<float> &gain,
                   const std::vector<float> &shift, double epsilon) {
  double n = double(x.size()), chain = reductionRoundings(x.size());
  double sum = 0, magnitude = 0;
  for (float value : x) {
    sum += value;
    magnitude += std::fabs(value);
  }
  double mean = sum / n, meanError = (chain + 1) * kRounding * magnitude / n;
  double squares = 0, squaresError = 0;
  std::vector<double> centred, error;
  for (float value : x) {
    double c = value - mean, e = meanError + kRounding * std::fabs(c);
    centred.push_back(c);
    error.push_back(e);
    squares += c * c;
    squaresError += 2 * std::fabs(c) * e + e * e;
  }
  squaresError += (chain + 1) * kRounding * squares;
  double variance = squares / n + epsilon;
  double scale = 1 / std::sqrt(variance);
  double scaleError = squaresError / n / variance / 2 + 3 * kRounding;
  Expected expected;
  for (size_t i = 0; i < x.size(); ++i) {
    double normal = centred[i] * scale;
    double y = normal * gain[i] + shift[i];
    double bound = std::fabs(gain[i]) *
                       (error[i] * scale +
                        std::fabs(normal) * (scaleError + 2 * kRounding)) +
                   2 * kRounding * std::fabs(y);
    expected.y.push_back(y);
    // Products of errors are below a hundredth of the sum.
    expected.bound.push_back(1.01 * bound);
  }
  return expected;
}

TEST_P(NormsTest, LayerNormAgreesWithDouble) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getLayerNorm(module, size, 1e-12, /*hasBias=*/true);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), gain(randomRow(size, 2)),
        shift(randomRow(size, 3)), y(std::vector<float>(size, -7));
    programs.call(sized("layer_norm", size) + "_1e-12", x.data(), gain.data(),
                  shift.data(), y.data());
    if (size == 1) { // The variance is 0, so that y is the bias.
      EXPECT_EQ(y.values(), shift.values());
      continue;
    }
    expectNear(y.values(),
               layerNorm(x.values(), gain.values(), shift.values(), 1e-12),
               "size " + std::to_string(size));
  }
}

// The formula in the header is a promise about bits.
TEST_P(NormsTest, LayerNormFollowsItsFormulaBitForBit) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getLayerNorm(module, size, 1e-12, /*hasBias=*/true);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), gain(randomRow(size, 2)),
        shift(randomRow(size, 3)), y(std::vector<float>(size, -7));
    float mean = reduceRow<64>(x.values(), std::plus<float>()) / float(size);
    float variance = reduceRow<64>(x.values(),
                                   [&](float sum, float value) {
                                     float centred = value - mean;
                                     return std::fma(centred, centred, sum);
                                   }) /
                     float(size);
    float scale = 1 / std::sqrt(variance + 1e-12f);
    std::vector<float> expected;
    for (int64_t i = 0; i < size; ++i) {
      float normal = (x.data()[i] - mean) * scale;
      expected.push_back(std::fma(normal, gain.data()[i], shift.data()[i]));
    }
    programs.call(sized("layer_norm", size) + "_1e-12", x.data(), gain.data(),
                  shift.data(), y.data());
    ASSERT_EQ(bitsOf(y.values()), bitsOf(expected)) << "size " << size;
  }
}

TEST_P(NormsTest, LayerNormWithoutBiasAgreesWithDouble) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getLayerNorm(module, size, 1e-5, /*hasBias=*/false);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), gain(randomRow(size, 2)),
        y(std::vector<float>(size, -7));
    programs.call(sized("layer_norm", size) + "_1e-05_no_bias", x.data(),
                  gain.data(), y.data());
    expectNear(
        y.values(),
        layerNorm(x.values(), gain.values(), std::vector<float>(size, 0), 1e-5),
        "size " + std::to_string(size));
  }
}

// A row whose mean is a thousand times its deviation keeps its variance.
TEST_P(NormsTest, LayerNormSubtractsTheMeanBeforeItSquares) {
  Programs programs(GetParam(), [](ModuleOp module) {
    getLayerNorm(module, 384, 1e-12, /*hasBias=*/true);
  });
  std::vector<float> values = randomRow(384, 1);
  for (float &value : values)
    value += 1000;
  Row x(values), gain(std::vector<float>(384, 1)),
      shift(std::vector<float>(384, 0)), y(std::vector<float>(384, 0));
  programs.call("layer_norm_384_1e-12", x.data(), gain.data(), shift.data(),
                y.data());
  expectNear(y.values(),
             layerNorm(values, gain.values(), shift.values(), 1e-12),
             "mean of 1000");
}

TEST_P(NormsTest, LayerNormWorksInPlace) {
  Programs programs(GetParam(), [](ModuleOp module) {
    getLayerNorm(module, 67, 1e-12, /*hasBias=*/true);
  });
  Row x(randomRow(67, 1)), gain(randomRow(67, 2)), shift(randomRow(67, 3)),
      y(std::vector<float>(67, 0));
  programs.call("layer_norm_67_1e-12", x.data(), gain.data(), shift.data(),
                y.data());
  programs.call("layer_norm_67_1e-12", x.data(), gain.data(), shift.data(),
                x.data());
  EXPECT_EQ(bitsOf(x.values()), bitsOf(y.values()));
}

//===----------------------------------------------------------------------===//
// rms_norm
//===----------------------------------------------------------------------===//

Expected rmsNorm(const std::vector<float> &x, const std::vector<float> &gain,
                 double epsilon) {
  double n = double(x.size()), squares = 0;
  for (float value : x)
    squares += double(value) * value;
  double scale = 1 / std::sqrt(squares / n + epsilon);
  Expected expected;
  for (size_t i = 0; i < x.size(); ++i) {
    expected.y.push_back(x[i] * scale * gain[i]);
    // The root halves the errors of the sum, of the division and of epsilon.
    double roundings = (reductionRoundings(x.size()) + 3) / 2 + 4;
    expected.bound.push_back(1.01 * roundings * kRounding *
                             std::fabs(expected.y.back()));
  }
  return expected;
}

/// The formula in the header, in f32.
std::vector<float> rmsNormBits(const std::vector<float> &x,
                               const std::vector<float> &gain, float epsilon) {
  float sum = reduceRow<64>(
      x, [](float sum, float value) { return std::fma(value, value, sum); });
  float scale = 1 / std::sqrt(sum / float(x.size()) + epsilon);
  std::vector<float> y;
  for (size_t i = 0; i < x.size(); ++i)
    y.push_back((x[i] * scale) * gain[i]);
  return y;
}

TEST_P(NormsTest, RmsNormAgreesWithDoubleAndWorksInPlace) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getRmsNorm(module, size, 1e-5);
  });
  for (int64_t size : sizes()) {
    std::string name = sized("rms_norm", size) + "_1e-05";
    Row x(randomRow(size, 1)), gain(randomRow(size, 2)),
        y(std::vector<float>(size, -7));
    std::vector<float> values = x.values();
    programs.call(name, x.data(), gain.data(), y.data());
    expectNear(y.values(), rmsNorm(values, gain.values(), 1e-5), name);
    ASSERT_EQ(bitsOf(y.values()),
              bitsOf(rmsNormBits(values, gain.values(), 1e-5f)))
        << name;
    programs.call(name, x.data(), gain.data(), x.data());
    ASSERT_EQ(bitsOf(x.values()), bitsOf(y.values())) << name;
  }
}

TEST_P(NormsTest, RmsNormOfZerosIsZero) {
  Programs programs(GetParam(),
                    [](ModuleOp module) { getRmsNorm(module, 20, 1e-5); });
  Row x(std::vector<float>(20, 0)), gain(randomRow(20, 2)),
      y(std::vector<float>(20, -7));
  programs.call("rms_norm_20_1e-05", x.data(), gain.data(), y.data());
  EXPECT_EQ(y.values(), std::vector<float>(20, 0));
}

// Zeros or the bias would pass for results; what is not finite is reported.
TEST_P(NormsTest, SumsOfSquaresThatOverflowGiveNaN) {
  Programs programs(GetParam(), [](ModuleOp module) {
    getLayerNorm(module, 20, 1e-5, true);
    getRmsNorm(module, 20, 1e-5);
    getNormalize(module, 20);
  });
  std::vector<float> large = randomRow(20, 1);
  for (float &value : large)
    value *= 1e20f;
  Row x(large), gain(randomRow(20, 2)), bias(randomRow(20, 3)),
      y(std::vector<float>(20, -7));
  auto expectNaN = [&] {
    for (float value : y.values())
      EXPECT_TRUE(std::isnan(value));
  };
  programs.call("layer_norm_20_1e-05", x.data(), gain.data(), bias.data(),
                y.data());
  expectNaN();
  programs.call("rms_norm_20_1e-05", x.data(), gain.data(), y.data());
  expectNaN();
  programs.call("normalize_20", x.data(), y.data());
  expectNaN();
}

//===----------------------------------------------------------------------===//
// Norms in bf16 planes
//===----------------------------------------------------------------------===//

TEST_P(NormsTest, PlanesHoldTheTermsOfTheF32Norm) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : fewSizes())
      for (int planes = 0; planes <= 3; ++planes) {
        getRmsNorm(module, size, 1e-5, {planes});
        getLayerNorm(module, size, 1e-5, /*hasBias=*/true, {planes});
        getLayerNorm(module, size, 1e-5, /*hasBias=*/false, {planes});
      }
  });
  for (int64_t size : fewSizes()) {
    Row x(randomRow(size, 1)), gain(randomRow(size, 2)),
        shift(randomRow(size, 3)), y(std::vector<float>(size, -7));
    for (int planes = 1; planes <= 3; ++planes) {
      GuardedRow<uint16_t> z(
          std::vector<uint16_t>(planes * ((size + 31) / 32 * 32), 7));
      std::string suffix = "_planes_" + std::to_string(planes);
      std::string name = sized("rms_norm", size) + "_1e-05";
      programs.call(name, x.data(), gain.data(), y.data());
      programs.call(name + suffix, x.data(), gain.data(), z.data());
      ASSERT_EQ(z.values(), toPlanes(y.values(), planes)) << name + suffix;
      name = sized("layer_norm", size) + "_1e-05";
      programs.call(name, x.data(), gain.data(), shift.data(), y.data());
      programs.call(name + suffix, x.data(), gain.data(), shift.data(),
                    z.data());
      ASSERT_EQ(z.values(), toPlanes(y.values(), planes)) << name + suffix;
      name += "_no_bias";
      programs.call(name, x.data(), gain.data(), y.data());
      programs.call(name + suffix, x.data(), gain.data(), z.data());
      ASSERT_EQ(z.values(), toPlanes(y.values(), planes)) << name + suffix;
    }
  }
}

//===----------------------------------------------------------------------===//
// normalize
//===----------------------------------------------------------------------===//

TEST_P(NormsTest, NormalizeAgreesWithDoubleAndWorksInPlace) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getNormalize(module, size);
  });
  for (int64_t size : sizes()) {
    std::vector<float> values = randomRow(size, 1);
    double squares = 0;
    for (float value : values)
      squares += double(value) * value;
    Expected expected;
    for (float value : values) {
      expected.y.push_back(value / std::sqrt(squares));
      // The root halves the error of the sum.
      expected.bound.push_back(1.01 * (reductionRoundings(size) / 2 + 2) *
                               kRounding * std::fabs(expected.y.back()));
    }
    Row x(values), y(std::vector<float>(size, -7));
    programs.call(sized("normalize", size), x.data(), y.data());
    expectNear(y.values(), expected, "size " + std::to_string(size));
    programs.call(sized("normalize", size), x.data(), x.data());
    EXPECT_EQ(bitsOf(x.values()), bitsOf(y.values()));
  }
}

TEST_P(NormsTest, NormalizeDividesByNoLessThanItsFloor) {
  Programs programs(GetParam(),
                    [](ModuleOp module) { getNormalize(module, 20); });
  Row zero(std::vector<float>(20, 0)), small(std::vector<float>(20, 1e-20f)),
      y(std::vector<float>(20, -7));
  programs.call("normalize_20", zero.data(), y.data());
  EXPECT_EQ(y.values(), std::vector<float>(20, 0));
  programs.call("normalize_20", small.data(), y.data());
  EXPECT_EQ(y.values(), std::vector<float>(20, 1e-20f / 1e-12f));
}

TEST_P(NormsTest, NormalizeFollowsItsFormulaBitForBit) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getNormalize(module, size);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), y(std::vector<float>(size, -7));
    float norm =
        std::sqrt(reduceRow<64>(x.values(), [](float sum, float value) {
          return std::fma(value, value, sum);
        }));
    std::vector<float> expected;
    for (float value : x.values())
      expected.push_back(value / std::max(norm, 1e-12f));
    programs.call(sized("normalize", size), x.data(), y.data());
    ASSERT_EQ(bitsOf(y.values()), bitsOf(expected)) << "size " << size;
  }
}

} // namespace
