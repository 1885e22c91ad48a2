//===- Polynomials.h - coefficients of the vector functions -----*- C++ -*-===//
///
/// \file
/// Printed by fit_polynomials.py, which says how they are made. Lowest power
/// first.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_POLYNOMIALS_H
#define ENCAST_CODEGEN_KERNELS_POLYNOMIALS_H

namespace encast {

/// 2^f for |f| <= 1/2; relative error 1.53e-7 when evaluated in f32.
constexpr float kExp2[] = {
    0x1p+0f,         // 1
    0x1.62e42ap-1f,  // 0.693147004
    0x1.ebf9c2p-3f,  // 0.240222469
    0x1.c6b6dap-5f,  // 0.0555071123
    0x1.3ce8b2p-7f,  // 0.00967129413
    0x1.5bd97cp-10f, // 0.00132694072
};

/// The same for results that are rounded to bf16; relative error 1.01e-4.
constexpr float kExp2OfBf16[] = {
    0x1p+0f,        // 1
    0x1.62f5fap-1f, // 0.693282902
    0x1.f00c4cp-3f, // 0.242210954
    0x1.c2a254p-5f, // 0.0550090447
};

/// Phi(x) = 1/2 + x * P(min(x^2 - kGeluCentre, kGeluCentre)), the distribution
/// function of the normal distribution; absolute error 1.48e-7 in f32, after
/// the result is clamped to [0, 1].
constexpr float kGelu[] = {
    0x1.166cf2p-3f,   // 0.135949984
    -0x1.48605ep-8f,  // -0.00501062674
    0x1.1ef76ep-12f,  // 0.000273672602
    -0x1.0f129ep-16f, // -1.61571934e-05
    0x1.00fe4ep-20f,  // 9.57374937e-07
    -0x1.d6233ap-25f, // -5.47312204e-08
    0x1.9432eap-29f,  // 2.94093394e-09
    -0x1.4d07fap-33f, // -1.51445037e-10
    0x1.0d6410p-37f,  // 7.65654901e-12
    -0x1.651722p-42f, // -3.17159954e-13
    0x1.3fb172p-47f,  // 8.87326728e-15
    -0x1.ff9cd6p-52f, // -4.43753229e-16
    0x1.38cd1cp-55f,  // 3.3913975e-17
    -0x1.18f80cp-60f, // -9.51959774e-19
};
constexpr float kGeluCentre = 0x1.b0a3d8p+3f; // 13.5200005

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_POLYNOMIALS_H
