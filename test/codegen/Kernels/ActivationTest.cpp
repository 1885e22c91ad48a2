//===- ActivationTest.cpp - activations of epilogues against double -------===//

#include "KernelTest.h"

#include <cmath>
#include <limits>

using namespace encast;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double reference(Activation activation, double x) {
  switch (activation) {
  case Activation::None:
    return x;
  case Activation::Gelu:
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  case Activation::GeluTanh:
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  case Activation::Relu:
    return std::fmax(x, 0);
  case Activation::Silu:
    return x * sigmoid(x);
  case Activation::QuickGelu:
    return x * sigmoid(1.702 * x);
  case Activation::Tanh:
    return std::tanh(x);
  case Activation::Sigmoid:
    return sigmoid(x);
  }
  return 0;
}

/// Bound of the absolute error: a few roundings of the result, of the fit, and
/// of an exponent that is rounded in f32, whose effect fades with the sigmoid.
double bound(Activation activation, double x) {
  const double unit = 0x1p-24;
  switch (activation) {
  case Activation::None:
  case Activation::Relu:
    return 0;
  case Activation::Gelu:
    return std::fabs(x) * (1.5e-7 + unit);
  case Activation::Tanh:
    return 8 * unit;
  case Activation::Sigmoid:
    return 4 * unit;
  case Activation::GeluTanh:
  case Activation::Silu:
  case Activation::QuickGelu:
    return std::fabs(x) * 5 * unit;
  }
  return 0;
}

const Activation kAll[] = {
#define ENCAST_ACTIVATION(enumerator, name) Activation::enumerator,
#include "codegen/Kernels/Activations.def"
};

class ActivationOfLinear : public KernelTest {
protected:
  /// The activation of each value, through a product by 1.
  static std::vector<float> apply(const KernelRow &row, Activation activation,
                                  const std::vector<float> &values) {
    LinearShape shape;
    shape.k = shape.lda = 1;
    shape.ldc = kPanelColumns;
    shape.activation = activation;
    LinearProblem problem({int64_t(values.size()), 1}, shape, 0);
    for (size_t i = 0; i < values.size(); ++i)
      problem.a[i] = values[i];
    for (int64_t column = 0; column < kPanelColumns; ++column)
      problem.setB(0, column, 1);
    problem.run(row, *linearKernel(row, shape));
    std::vector<float> results;
    for (size_t i = 0; i < values.size(); ++i) {
      const float first = problem.c[problem.cIndex(i, 0)];
      for (int64_t column = 1; column < kPanelColumns; ++column) {
        const float other = problem.c[problem.cIndex(i, column)];
        EXPECT_TRUE(first == other || (first != first && other != other));
      }
      results.push_back(first);
    }
    return results;
  }
};

TEST_P(ActivationOfLinear, StaysWithinItsBound) {
  std::vector<float> values = {0.0f, -0.0f, 1e-30f, -1e-30f, 1e30f, -1e30f};
  for (int i = -40000; i <= 40000; ++i) {
    values.push_back(float(i) * 0x1p-12f); // dense around 0
    values.push_back(float(i) * 0x1p-8f);  // up to 156
  }
  for (Activation activation : kAll) {
    const std::vector<float> results = apply(GetParam(), activation, values);
    double worst = 0, where = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = values[i];
      const double error = std::fabs(results[i] - reference(activation, x));
      ASSERT_LE(error, bound(activation, x) + 1e-37 * (1 + std::fabs(x)))
          << activationName(activation) << " of " << x << " is " << results[i];
      const double relative = error / std::fmax(1, std::fabs(x));
      if (relative > worst) {
        worst = relative;
        where = x;
      }
    }
    RecordProperty(std::string(activationName(activation)),
                   testing::PrintToString(worst));
    std::cout << activationName(activation) << ": largest error " << worst
              << " (of max(1, |x|)) at " << where << "\n";
  }
}

// Computed in higher precision, independent of the formulas above.
TEST_P(ActivationOfLinear, AgreesWithPublishedValues) {
  const std::vector<float> x = {-3, -1, -0.5, 0.5, 1, 2, 3};
  const struct {
    Activation activation;
    std::vector<double> expected;
  } cases[] = {
      {Activation::Gelu,
       {-0.0040497, -0.1586553, -0.1542688, 0.3457312, 0.8413447, 1.9544997,
        2.9959503}},
      {Activation::GeluTanh,
       {-0.0036374, -0.1588080, -0.1542860, 0.3457140, 0.8411920, 1.9545977,
        2.9963626}},
      {Activation::QuickGelu,
       {-0.0180713, -0.1542042, -0.1496116, 0.3503884, 0.8457958, 1.9356586,
        2.9819287}},
      {Activation::Silu,
       {-0.1422776, -0.2689414, -0.1887703, 0.3112297, 0.7310586, 1.7615942,
        2.8577224}},
  };
  for (const auto &test : cases) {
    const std::vector<float> results = apply(GetParam(), test.activation, x);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(results[i], test.expected[i],
                  0.5e-7 + bound(test.activation, x[i]))
          << activationName(test.activation) << " of " << x[i];
  }
}

TEST_P(ActivationOfLinear, IsExactFarFromZero) {
  const std::vector<float> x = {20, 1e10f, -20, -1e10f};
  EXPECT_EQ(apply(GetParam(), Activation::Gelu, x),
            (std::vector<float>{20, 1e10f, 0, 0}));
  EXPECT_EQ(apply(GetParam(), Activation::Tanh, x),
            (std::vector<float>{1, 1, -1, -1}));
}

TEST_P(ActivationOfLinear, KeepsNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Activation activation : kAll)
    EXPECT_TRUE(std::isnan(apply(GetParam(), activation, {nan})[0]))
        << activationName(activation);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ActivationOfLinear,
                         testing::ValuesIn(rowsOfFamily(KernelFamily::Linear)),
                         rowName);

TEST(ActivationNames, ReadBack) {
  for (Activation activation : kAll) {
    Activation parsed = Activation::None;
    EXPECT_TRUE(parseActivation(activationName(activation), parsed));
    EXPECT_EQ(parsed, activation);
  }
  Activation unchanged = Activation::Silu;
  EXPECT_FALSE(parseActivation("mish", unchanged));
  EXPECT_EQ(unchanged, Activation::Silu);
}

} // namespace
