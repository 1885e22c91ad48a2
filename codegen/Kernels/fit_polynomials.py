#!/usr/bin/env python3
"""Fits the polynomials of Polynomials.h and prints them (needs NumPy).

    python3 fit_polynomials.py

Lawson's algorithm: weighted least squares in Chebyshev polynomials, where each
weight is multiplied by the error at its point until the error is level, which
is the minimax fit. Coefficients are then rounded to f32 from the lowest power
on, and those above are fitted again. The errors printed are those of the f32
evaluation as the kernels do it: Horner's rule, one rounding a step.
"""
from math import erf, sqrt

import numpy as np

F32 = np.float32


def minimax(basis, target):
    """Coefficients c that minimise max |basis @ c - target|."""
    weights = np.ones(len(target))
    for _ in range(200):
        root = np.sqrt(weights)
        coefficients = np.linalg.lstsq(basis * root[:, None], target * root,
                                       rcond=None)[0]
        weights *= np.abs(basis @ coefficients - target) + 1e-30
        weights /= weights.mean()
    return coefficients


def fit_rounded(u, factor, target, fixed, count):
    """f32 coefficients of factor * (c0 + c1 u + ...), c0.. = fixed given."""
    scale = np.abs(u).max()
    rounded = [float(F32(value)) for value in fixed]
    while len(rounded) < count:
        known = len(rounded)
        rest = target - factor * np.polynomial.polynomial.polyval(
            u, rounded or [0.0])
        chebyshev = np.polynomial.chebyshev.chebvander(u / scale,
                                                       count - known - 1)
        weight = factor * u**known
        fitted = minimax(chebyshev * weight[:, None], rest)
        powers = np.polynomial.chebyshev.cheb2poly(fitted)
        rounded.append(float(F32(powers[0])))
    return rounded


def fma(a, b, c):
    # A product of two f32 is exact in f64; the sum is rounded once more.
    return (a.astype(np.float64) * b + np.float64(c)).astype(F32)


def horner(coefficients, u):
    value = np.full_like(u, F32(coefficients[-1]))
    for c in coefficients[-2::-1]:
        value = fma(value, u, c)
    return value


def show(name, coefficients):
    print(f"constexpr float {name}[] = {{")
    for c in coefficients:
        print(f"    {float(F32(c)).hex()}f, // {float(F32(c)):.9g}")
    print("};")


def points(low, high, count):
    return low + (high - low) * 0.5 * (1 - np.cos(
        np.pi * (np.arange(count) + 0.5) / count))


def exp2(name, count):
    f = points(-0.5, 0.5, 4000)
    c = fit_rounded(f, 2.0**-f, np.ones_like(f), [1.0], count)
    show(name, c)
    x = np.linspace(-0.5, 0.5, 2000001).astype(F32)
    error = horner(c, x) / 2.0**x.astype(np.float64) - 1
    print(f"// relative error {np.abs(error).max():.3g}\n")


def gelu():
    # Phi(x) - 1/2 = x * P(x^2 - limit^2 / 2), limit the clamp of |x|.
    centre = float(F32(5.2 * 5.2 / 2))
    x = points(0.0, sqrt(2 * centre), 4000)
    phi = np.array([erf(v / sqrt(2)) / 2 for v in x])
    c = fit_rounded(x * x - centre, x, phi, [], 14)
    show("kGelu", c)
    print(f"constexpr float kGeluCentre = {centre.hex()}f; // {centre:.9g}")
    x = np.linspace(-12, 12, 2400001).astype(F32)
    u = np.minimum(fma(x, x, -centre), F32(centre))
    phi = np.clip(fma(horner(c, u), x, 0.5), F32(0), F32(1))
    exact = np.array([0.5 + erf(v / sqrt(2)) / 2 for v in x.tolist()])
    print(f"// absolute error of Phi {np.abs(phi - exact).max():.3g}")


if __name__ == "__main__":
    exp2("kExp2", 6)
    exp2("kExp2OfBf16", 4)
    gelu()
