//===- Kernels.h - the table of kernel generators ---------------*- C++ -*-===//
///
/// \file
/// What the compiler knows of kernels: a row of Kernels.def names a generator,
/// what it needs of the CPU and how it tiles; a shape holds what a kernel bakes
/// in. Generators never ask the machine they run on, and equal requests give
/// equal bytes. No MLIR and no LLVM here.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_KERNELS_H
#define ENCAST_CODEGEN_KERNELS_KERNELS_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace encast {

/// Columns of a weight panel, the same for every f32 kernel.
constexpr int64_t kPanelColumns = 16;
/// Keys between two updates of the running maximum in attention.
constexpr int64_t kAttentionKeyBlock = 128;
/// Queries of one call that share a sweep over the keys, a multiple of every
/// attention row's rowTile. Calls of this many queries read keys and values
/// from the L2 instead of from memory, which matters from about 2048 keys on.
constexpr int64_t kAttentionQueryGroup = 192;

/// Elementwise functions of an epilogue, on f32. Listed in Activations.def with
/// their name in IR; formulas in the table of activations of the README.
enum class Activation {
#define ENCAST_ACTIVATION(enumerator, name) enumerator,
#include "codegen/Kernels/Activations.def"
};
/// "none", "gelu", "gelu_tanh", "relu", "silu", "quick_gelu", "tanh",
/// "sigmoid".
std::string_view activationName(Activation activation);
/// The inverse; false if no activation has that name.
bool parseActivation(std::string_view name, Activation &activation);

enum class KernelFamily { Linear, Attention };

/// A row of Kernels.def.
struct KernelRow {
  const char *name; ///< e.g. "linear_f32_8x48_avx512".
  KernelFamily family;
  uint32_t cpuFeatures; ///< ENCAST_CPU_* bits it needs (encast_abi.h).
  int rowTile;     ///< Rows (queries) of the full register tile; any number of
                   ///< rows works, multiples of this are fast.
  int panelTile;   ///< Panels of the full register tile; Linear only.
  int vectorBytes; ///< Width of the vector registers.
};

/// All rows, the better one later within a family and instruction set.
const std::vector<KernelRow> &kernelRows();
/// The row of that name, or null.
const KernelRow *findKernelRow(std::string_view name);
/// The best row of the family for a CPU with these ENCAST_CPU_* bits, or null.
const KernelRow *selectKernelRow(KernelFamily family, uint32_t cpuFeatures);

/// What a linear kernel bakes in. Strides count floats.
struct LinearShape {
  int64_t k = 1;    ///< >= 1.
  int64_t lda = 1;  ///< >= k.
  int64_t ldc = 16; ///< Row stride of c; 16 if panel-major.
  int64_t ldr = 0;  ///< Row stride of the residual; unused without one.
  bool bias = false;
  bool residual = false;
  Activation activation = Activation::None;
};

/// What an attention kernel bakes in.
struct AttentionShape {
  int64_t headSize = 1; ///< 1 to 256.
  int64_t ldo = 1;      ///< Row stride of out, in floats.
  float scale = 1.0f;   ///< Of the scores before the softmax; the kernel folds
                        ///< log2(e) * scale into q once per query.
};

/// Machine code of one kernel, position independent, entry at its first byte,
/// read-only data behind the code. False with `error` if the row's family does
/// not match or the shape is out of range.
bool generateLinear(const KernelRow &row, const LinearShape &shape,
                    std::vector<uint8_t> &code, std::string &error);
bool generateAttention(const KernelRow &row, const AttentionShape &shape,
                       std::vector<uint8_t> &code, std::string &error);
/// Bytes of AttentionArgs::workspace.
int64_t attentionWorkspaceBytes(const KernelRow &row,
                                const AttentionShape &shape);

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_KERNELS_H
