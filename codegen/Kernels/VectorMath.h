//===- VectorMath.h - exp2 and activations in registers ---------*- C++ -*-===//
///
/// \file
/// Emitters of elementwise functions. The roundings and their order are the
/// same for both vector widths, and none is an approximation of the hardware
/// (no rcp, no rsqrt), so a lane gets the same bits everywhere.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_VECTORMATH_H
#define ENCAST_CODEGEN_KERNELS_VECTORMATH_H

#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <vector>

namespace encast {

/// A value to be replaced by a function of it, and registers to work in.
struct MathLane {
  using Vec = VectorAssembler::Vec;
  explicit MathLane(const Vec &value, const Vec &temp0 = Vec(),
                    const Vec &temp1 = Vec(), const Vec &temp2 = Vec())
      : value(value), temps{temp0, temp1, temp2} {}
  Vec value;
  Vec temps[3];
};

/// 2^value, for values up to 127. Values up to -125.5, -infinity included, give
/// exactly 0, so the result is never denormal; 2^0 is exactly 1. Relative error
/// 1.6e-7. Uses temps 0 and 1; up to 4 lanes, which are interleaved to hide
/// latency.
void emitExp2(VectorAssembler &as, const std::vector<MathLane> &lanes);

/// Temps of a lane that emitActivation() uses.
int activationTemps(Activation activation);
/// The activation of each value. A NaN stays NaN.
void emitActivation(VectorAssembler &as, Activation activation,
                    const std::vector<MathLane> &lanes);
/// The same of any number of values, a few at a time; `firstTemp` and the
/// registers behind it are free to work in.
void emitActivations(VectorAssembler &as, Activation activation,
                     const std::vector<VectorAssembler::Vec> &values,
                     int firstTemp);

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_VECTORMATH_H
