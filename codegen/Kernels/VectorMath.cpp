//===- VectorMath.cpp - exp2 and activations in registers -----------------===//

#include "codegen/Kernels/VectorMath.h"
#include "codegen/Kernels/Polynomials.h"

#include <algorithm>
#include <iterator>

using namespace encast;

// 1.5 * 2^23: adding it rounds to the nearest integer, which then stands in the
// low bits of the sum.
static constexpr float kRoundToInteger = 0x1.8p+23f;
// Values up to this one, which is rounded to -126, have a power of 0.
static constexpr float kZeroEnd = -125.5f;
static constexpr float kMaxExponent = 126.0f;

static constexpr double kLog2E = 1.4426950408889634;
static constexpr double kSqrt2OverPi = 0.7978845608028654;

using Lanes = std::vector<MathLane>;

// Values whose activations are computed side by side.
static constexpr int kLanesAtOnce = 4;

// Each operation is emitted for all lanes before the next one: that is how
// their latencies overlap. The source of a minimum or maximum that holds data
// comes last, because the instructions return the last one if either is NaN.

// x = n + f: n an integer, nearest or even, f in [-1/2, 1/2], both exact. The
// power is 2^f times 2^n, which is exact because n is at least -125, or times
// 0. A NaN is not less or equal to any number, and stays.
void encast::emitExp2(VectorAssembler &as, const Lanes &lanes) {
  const uint8_t notLessOrEqual = 22;
  const auto keep = [](size_t lane) { return Xbyak::Opmask(int(lane) + 1); };
  if (as.isAvx512()) {
    const uint8_t toNearestOrEven = 8; // raising no exception
    for (size_t i = 0; i < lanes.size(); ++i)
      as.vcmpps(keep(i), lanes[i].value, as.constant(kZeroEnd), notLessOrEqual);
    for (auto &[x, t] : lanes)
      as.vreduceps(t[0], x, toNearestOrEven);
    for (auto &[x, t] : lanes)
      as.vsubps(x, x, t[0]);
  } else {
    for (auto &[x, t] : lanes)
      as.vaddps(t[0], x, as.constant(kRoundToInteger));
    for (auto &[x, t] : lanes)
      as.vsubps(t[1], t[0], as.constant(kRoundToInteger));
    for (auto &[x, t] : lanes)
      as.vsubps(x, x, t[1]);
  }
  for (auto &[x, t] : lanes)
    as.broadcastConstant(t[1], kExp2[std::size(kExp2) - 1]);
  for (int i = int(std::size(kExp2)) - 2; i >= 0; --i)
    for (auto &[x, t] : lanes)
      as.vfmadd213ps(t[1], as.isAvx512() ? t[0] : x, as.constant(kExp2[i]));
  if (as.isAvx512()) {
    for (size_t i = 0; i < lanes.size(); ++i)
      as.vscalefps(lanes[i].value | keep(i) | Xbyak::util::T_z,
                   lanes[i].temps[1], lanes[i].value);
    return;
  }
  // n is added to the exponent; the other bits of t0 are shifted out.
  for (auto &[x, t] : lanes)
    as.vcmpps(x, t[0], as.constant(kRoundToInteger - 126), notLessOrEqual);
  for (auto &[x, t] : lanes)
    as.vpslld(t[0], t[0], 23);
  for (auto &[x, t] : lanes)
    as.vpaddd(t[1], t[0], t[1]);
  for (auto &[x, t] : lanes)
    as.vandps(x, x, t[1]);
}

/// x = x * Phi(x).
static void emitGelu(VectorAssembler &as, const Lanes &lanes) {
  // t0 = min(x^2 - centre, centre)
  for (auto &[x, t] : lanes) {
    as.broadcastConstant(t[0], -kGeluCentre);
    as.vfmadd231ps(t[0], x, x);
  }
  for (auto &[x, t] : lanes)
    as.vminps(t[0], t[0], as.constant(kGeluCentre));
  for (auto &[x, t] : lanes)
    as.broadcastConstant(t[1], kGelu[std::size(kGelu) - 1]);
  for (int i = int(std::size(kGelu)) - 2; i >= 0; --i)
    for (auto &[x, t] : lanes)
      as.vfmadd213ps(t[1], t[0], as.constant(kGelu[i]));
  // Beyond the fit x * P grows without bound to the right side of [0, 1].
  for (auto &[x, t] : lanes)
    as.vfmadd213ps(t[1], x, as.constant(0.5f));
  for (auto &[x, t] : lanes)
    as.vmaxps(t[1], t[1], as.constant(0.0f));
  for (auto &[x, t] : lanes)
    as.vminps(t[1], t[1], as.constant(1.0f));
  for (auto &[x, t] : lanes)
    as.vmulps(x, x, t[1]);
}

/// value = 1 / (1 + 2^value): the sigmoid of -value / log2(e).
static void emitSigmoidOfExponent(VectorAssembler &as, const Lanes &lanes) {
  for (auto &[x, t] : lanes) {
    as.broadcastConstant(t[0], kMaxExponent);
    as.vminps(x, t[0], x);
  }
  emitExp2(as, lanes);
  for (auto &[x, t] : lanes)
    as.vaddps(x, x, as.constant(1.0f));
  for (auto &[x, t] : lanes) {
    as.broadcastConstant(t[0], 1.0f);
    as.vdivps(x, t[0], x);
  }
}

/// x = sigmoid(scale * x).
static void emitSigmoid(VectorAssembler &as, double scale, const Lanes &lanes) {
  for (auto &[x, t] : lanes)
    as.vmulps(x, x, as.constant(float(-scale * kLog2E)));
  emitSigmoidOfExponent(as, lanes);
}

/// x = x * sigmoid(scale * x * (1 + cubic * x^2)).
static void emitTimesSigmoid(VectorAssembler &as, double scale, double cubic,
                             const Lanes &lanes) {
  const double linear = -scale * kLog2E;
  Lanes exponents;
  for (auto &[x, t] : lanes)
    exponents.emplace_back(t[2], t[0], t[1]);
  if (cubic == 0) {
    for (auto &[x, t] : lanes)
      as.vmulps(t[2], x, as.constant(float(linear)));
  } else {
    for (auto &[x, t] : lanes)
      as.vmulps(t[0], x, x);
    for (auto &[x, t] : lanes) {
      as.broadcastConstant(t[2], float(linear));
      as.vfmadd231ps(t[2], t[0], as.constant(float(linear * cubic)));
    }
    for (auto &[x, t] : lanes)
      as.vmulps(t[2], t[2], x);
  }
  emitSigmoidOfExponent(as, exponents);
  for (auto &[x, t] : lanes)
    as.vmulps(x, x, t[2]);
}

int encast::activationTemps(Activation activation) {
  switch (activation) {
  case Activation::None:
    return 0;
  case Activation::Relu:
    return 1;
  case Activation::Gelu:
  case Activation::Tanh:
  case Activation::Sigmoid:
    return 2;
  case Activation::GeluTanh:
  case Activation::Silu:
  case Activation::QuickGelu:
    return 3;
  }
  return 0;
}

void encast::emitActivation(VectorAssembler &as, Activation activation,
                            const Lanes &lanes) {
  switch (activation) {
  case Activation::None:
    return;
  case Activation::Relu:
    for (auto &[x, t] : lanes) {
      as.clear(t[0]);
      as.vmaxps(x, t[0], x);
    }
    return;
  case Activation::Gelu:
    return emitGelu(as, lanes);
  case Activation::GeluTanh:
    // (1 + tanh(u)) / 2 is sigmoid(2 u).
    return emitTimesSigmoid(as, 2 * kSqrt2OverPi, 0.044715, lanes);
  case Activation::Silu:
    return emitTimesSigmoid(as, 1.0, 0.0, lanes);
  case Activation::QuickGelu:
    return emitTimesSigmoid(as, 1.702, 0.0, lanes);
  case Activation::Sigmoid:
    return emitSigmoid(as, 1.0, lanes);
  case Activation::Tanh:
    // tanh(x) = 2 sigmoid(2 x) - 1
    emitSigmoid(as, 2.0, lanes);
    for (auto &[x, t] : lanes) {
      as.broadcastConstant(t[0], -1.0f);
      as.vfmadd132ps(x, t[0], as.constant(2.0f));
    }
    return;
  }
}

void encast::emitActivations(VectorAssembler &as, Activation activation,
                             const std::vector<VectorAssembler::Vec> &values,
                             int firstTemp) {
  const int temps = activationTemps(activation);
  if (temps == 0)
    return;
  const int atOnce =
      std::min(kLanesAtOnce, (as.registers() - firstTemp) / temps);
  Lanes lanes;
  for (size_t i = 0; i < values.size(); ++i) {
    MathLane lane(values[i]);
    for (int t = 0; t < temps; ++t)
      lane.temps[t] = as.vec(firstTemp + int(lanes.size()) * temps + t);
    lanes.push_back(lane);
    if (int(lanes.size()) < atOnce && i + 1 < values.size())
      continue;
    emitActivation(as, activation, lanes);
    lanes.clear();
  }
}
