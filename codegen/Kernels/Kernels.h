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
/// Queries, times the query heads that share their keys, that one sweep over
/// the keys serves; a multiple of every attention row's rowTile. With a window
/// a sweep serves a block of them.
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

/// What a product of a linear or of attention is made of. bf16 terms of an f32
/// value x are hi = bf16(x), mid = bf16(x - hi), lo = bf16(x - hi - mid), each
/// rounded to nearest even: planes of a value, hi first. A product of values of
/// several planes is a sum of products of planes in f32, in an order in which
/// one side changes at a time (planeProducts). Denormal terms count as zero. A
/// value beyond the largest bf16, 3.39e38, has the planes infinity and NaN.
enum class Arithmetic {
  F32,     ///< Fused multiply-adds.
  Bf16,    ///< hi * hi.
  Bf16x3,  ///< Two planes each: lo*hi + hi*hi + hi*lo; error about 5e-6.
  Bf16x3w, ///< Three planes times one, which is exact: weights that are bf16.
           ///< As exact as f32. Linear only.
  Bf16x6   ///< Three planes each, the six largest products: exact as f32.
};
/// "f32", "bf16", "bf16x3", "bf16x3w", "bf16x6".
std::string_view arithmeticName(Arithmetic arithmetic);
/// Planes of the activations (queries, keys, values, probabilities); 0 if they
/// are f32.
int activationPlanes(Arithmetic arithmetic);
/// Planes of the weights in the products; 0 if they are f32.
int weightPlanes(Arithmetic arithmetic);
/// Planes of the weights in memory; 0 if they lie there in f32, which Bf16x6
/// splits as it reads them.
int packedWeightPlanes(Arithmetic arithmetic);

/// bf16 planes of a row lie one behind the other: plane p of column c at
/// element p * planeStride(columns) + c; the columns that fill up a plane are
/// zero. Rows are planeRowStride elements apart, which shares no cache sets.
constexpr int64_t planeStride(int64_t columns) {
  return (columns + 31) / 32 * 32;
}
constexpr int64_t planeRowStride(int64_t columns, int64_t planes) {
  return planes * planeStride(columns) + 32;
}

enum class KernelFamily { Linear, Attention, TileAttention, AttentionPack };

/// Fields of the struct of KernelArgs.h that kernels of the family take.
int64_t operandCount(KernelFamily family);

/// A row of Kernels.def.
struct KernelRow {
  const char *name; ///< e.g. "linear_f32_8x48_avx512".
  KernelFamily family;
  Arithmetic arithmetic;
  uint32_t cpuFeatures; ///< ENCAST_CPU_* bits it needs (encast_abi.h).
  int rowTile;     ///< Rows (queries) of the full register tile; any number of
                   ///< rows works, multiples of this are fast.
  int panelTile;   ///< Panels of the full register tile; Linear only.
  int vectorBytes; ///< Width of the vector registers.
};

/// Whether a kernel multiplies tiles of AMX, or bf16 in vectors.
bool usesTiles(const KernelRow &row);
bool usesDots(const KernelRow &row);
/// All rows, the better one later within a family, arithmetic and instruction
/// set.
const std::vector<KernelRow> &kernelRows();
/// The row of that name, or null.
const KernelRow *findKernelRow(std::string_view name);
/// The best row of the family and arithmetic for a CPU with these ENCAST_CPU_*
/// bits, or null.
const KernelRow *selectKernelRow(KernelFamily family, Arithmetic arithmetic,
                                 uint32_t cpuFeatures);

/// What a linear kernel bakes in. Strides count elements: floats, or bf16 in
/// planes.
///
/// Weights of Arithmetic::F32: panels [panels][k][16] of f32, or bf16Weights,
/// [panels][ceil(k / 2)][16][2] of bf16: two k of each column side by side, the
/// k beyond the last zero. Of the others: pairs of panels
/// [panels / 2][ceil(k / 32)][planes][2 tiles][16][16][2], where [i][n][j] of
/// tile t is column 16 t + n at k = 32 step + 2 i + j (TilePacking.h), in
/// packedWeightPlanes planes of bf16, or, if these are 0, in one plane of f32.
/// Columns and k beyond the last are zero. So columns, and gates, are rounded
/// up to whole pairs, and the columns of c with them.
///
/// Gated: half of the columns are gates, and the result has as many columns as
/// there are gates: activation(gate) * other. In f32 a panel holds 8 gates,
/// then the 8 other columns of the same results, and makes 8 columns of c (and
/// of the residual), which is row-major; in bf16 the first tile of a pair holds
/// 16 gates, the second the other 16. A gated linear does not accumulate.
///
/// Planes of c are filled up with zeros, as the next kernel expects, by the
/// zeros of the weights (and of bias and residual): a pair makes 32 columns of
/// c. A gated pair makes 16, so gates of planes are rounded up to 32.
struct LinearShape {
  Arithmetic arithmetic = Arithmetic::F32;
  int64_t k = 1;    ///< >= 1.
  int64_t lda = 1;  ///< >= k; of planes planeRowStride(k, activationPlanes).
  int64_t ldc = 16; ///< Row stride of c; 16 if panel-major.
  int64_t ldr = 0;  ///< Row stride of the residual; unused without one.
  bool bias = false;
  bool residual = false;
  Activation activation = Activation::None;
  bool gated = false;
  /// F32 arithmetic on weights in bf16: the bits of the same values in f32.
  bool bf16Weights = false;
  /// The sums start from the f32 values that c holds; neither bias, activation
  /// nor residual was applied to them. c is row-major.
  bool accumulate = false;
  /// 0: c is f32. Else c is that many bf16 planes, cPlaneStride elements apart;
  /// bf16 kernels only.
  int cPlanes = 0;
  int64_t cPlaneStride = 0;
};

/// What an attention kernel bakes in.
struct AttentionShape {
  Arithmetic arithmetic = Arithmetic::F32; ///< Of both products.
  int64_t headSize = 1;                    ///< 1 to 256.
  int64_t queryHeads = 1; ///< That share a head of keys and values; >= 1.
  int64_t window = -1;    ///< Keys at most this far from the query; -1: all.
  int64_t ldo = 1;        ///< Row stride of out, in elements.
  float scale = 1.0f;     ///< Of the scores before the softmax; the f32 kernel
                          ///< folds log2(e) * scale into q once per query, for
                          ///< tile attention the rows of q carry it already.
  // Tile attention only, in elements.
  int64_t ldq = 0;          ///< From a query to the next.
  int64_t qPlaneStride = 0; ///< From a plane of q to the next.
  int outPlanes = 0;        ///< 0: out is f32.
  int64_t outPlaneStride = 0;
  // Packing only, in elements.
  int64_t ldkv = 0;          ///< From a token to the next, of k and v.
  int64_t kvPlaneStride = 0; ///< From a plane of k (v) to the next.
};

/// Machine code of one kernel, position independent, entry at its first byte,
/// read-only data behind the code. False with `error` if the row's family does
/// not match or the shape is out of range.
bool generateLinear(const KernelRow &row, const LinearShape &shape,
                    std::vector<uint8_t> &code, std::string &error);
/// Of the families Attention, TileAttention and AttentionPack.
bool generateAttention(const KernelRow &row, const AttentionShape &shape,
                       std::vector<uint8_t> &code, std::string &error);
/// Whether LinearArgs::c may be the residual: sums do not wait in c.
bool mayReplaceResidual(const KernelRow &row, const LinearShape &shape);
/// Bytes of LinearArgs::workspace, 0 if the kernel needs none.
int64_t linearWorkspaceBytes(const KernelRow &row, const LinearShape &shape);
/// Bytes of the workspace of an attention kernel.
int64_t attentionWorkspaceBytes(const KernelRow &row,
                                const AttentionShape &shape);
/// What the rows of q of tile attention carry: scale * log2(e), times 128 for
/// Arithmetic::Bf16, whose exponential is computed in integers.
double tileQueryFactor(const AttentionShape &shape);
/// Bytes of a packed row of keys (of values), a multiple of 64.
int64_t packedRowBytes(const AttentionShape &shape);

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_KERNELS_H
