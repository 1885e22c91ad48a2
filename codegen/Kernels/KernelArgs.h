//===- KernelArgs.h - what generated code passes to kernels -----*- C++ -*-===//
///
/// \file
/// The kernel ABI: one pointer to a struct of 8-byte fields in rdi, System V
/// otherwise. Kernels are leaves: they call nothing, keep the callee-saved
/// registers and expect and leave upper vector state clean (vzeroupper).
/// Sizes that are known when compiling are baked into the kernel; these structs
/// hold the rest. codegen/LLVM fills them by field number, so a new field is
/// appended and its number added to the enum beside the struct.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_KERNELARGS_H
#define ENCAST_CODEGEN_KERNELS_KERNELARGS_H

#include <cstdint>

namespace encast {

/// C[m, n] = epilogue(sum over k of A[m, k] * B[n, k]), for `rows` rows and
/// `panels` panels of 16 columns. Every sum is one chain of fused multiply-adds
/// from 0 in the order k = 0, 1, ..., whatever the tile, so that the bits
/// depend on the row of A and the panel of B alone. The epilogue adds the bias,
/// applies the activation, then adds the residual, each rounded once.
struct LinearArgs {
  const float *a;    ///< [rows, k], row stride lda (baked).
  const float *b;    ///< Packed panels [panels][k][16], 64-byte aligned.
  float *c;          ///< First row and panel; row stride ldc (baked). All 16
                     ///< columns of each panel are written, padding included.
  const float *bias; ///< [panels * 16], first column of the range.
  const float *residual; ///< Like c, with row stride ldr (baked) and panels
                         ///< 16 columns apart.
  int64_t rows;          ///< >= 1.
  int64_t panels;        ///< >= 1.
  int64_t cPanelBytes;   ///< From a panel of c to the next: 64 if row-major,
                         ///< rows of the slot * 64 if panel-major (ldc = 16).
};
enum class LinearArg {
  A,
  B,
  C,
  Bias,
  Residual,
  Rows,
  Panels,
  CPanelBytes,
  Count
};

/// Flash attention of one head: out = softmax(q k^T * scale) v for a tile of
/// queries over all keys of their sequence. q, k and v are panel-major: planes
/// of [rows of the slot][16], ceil(headSize / 16) of them, the last one with
/// undefined padding. Every query is a lane: scores are chains over the head
/// dimension, sums of probabilities and of values are chains over the keys in
/// their order, and the running maximum is updated at multiples of
/// kAttentionKeyBlock keys, so the bits depend on the query and its sequence
/// alone.
struct AttentionArgs {
  const float *q; ///< First query row of the head's first plane.
  const float *k; ///< First key row of the head's first plane.
  const float *v; ///< Same.
  float *out; ///< [queries, headSize], row stride ldo (baked); only headSize
              ///< columns are written. 4-byte aligned.
  int64_t queries;      ///< >= 1, any number.
  int64_t keys;         ///< >= 1, any number.
  int64_t qPlaneBytes;  ///< From a plane of q to the next.
  int64_t kvPlaneBytes; ///< Same for k and v.
  void *workspace;      ///< attentionWorkspaceBytes(row, shape) bytes, 64-byte
                        ///< aligned, this thread's own.
};
enum class AttentionArg {
  Q,
  K,
  V,
  Out,
  Queries,
  Keys,
  QPlaneBytes,
  KVPlaneBytes,
  Workspace,
  Count
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_KERNELARGS_H
