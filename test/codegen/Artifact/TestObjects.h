//===- TestObjects.h - step objects made by LLVM ----------------*- C++ -*-===//
#ifndef ENCAST_TEST_CODEGEN_ARTIFACT_TESTOBJECTS_H
#define ENCAST_TEST_CODEGEN_ARTIFACT_TESTOBJECTS_H

#include <cstdint>
#include <vector>

namespace encast {

/// Compiles LLVM IR, with optimisation, to a position-independent object (or
/// not).
std::vector<uint8_t> compileIR(const char *ir,
                               const char *triple = "x86_64-unknown-linux-gnu",
                               bool positionIndependent = true);

} // namespace encast

#endif // ENCAST_TEST_CODEGEN_ARTIFACT_TESTOBJECTS_H
