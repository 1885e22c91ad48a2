//===- KernelName.h - what the name of a kernel says ------------*- C++ -*-===//
///
/// \file
/// The kernel of a call is called as its row of Kernels.def, then what is baked
/// in: linear_bf16x3w_32x32_amx.k1024.a3104 makes products of values of three
/// bf16 terms with weights of one, on AMX tiles. Row programs have names of
/// other kinds.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_TOOLS_KERNELNAME_H
#define ENCAST_RUNTIME_TOOLS_KERNELNAME_H

#include <string_view>

namespace encast::tools {

/// Instructions that multiply and add.
enum class Multiplier { Sse2, Avx2, Avx512, Avx512Bf16, AmxBf16 };

struct KernelName {
  const char *arithmetic = ""; ///< "f32", "bf16x3w", ...; "": a row program.
  int products = 1;            ///< Multiplications for one of the model.
  /// What a row program takes is not said; it has few products.
  Multiplier multiplier = Multiplier::Avx2;
};

KernelName parseKernelName(std::string_view kernel);

} // namespace encast::tools

#endif // ENCAST_RUNTIME_TOOLS_KERNELNAME_H
