//===- KernelArgs.h - what generated code passes to kernels -----*- C++ -*-===//
///
/// \file
/// The kernel ABI: one pointer to a struct of 8-byte fields in rdi, System V
/// otherwise. Kernels are leaves: they call nothing, keep the callee-saved
/// registers and expect and leave upper vector state clean (vzeroupper).
/// Kernels that use tiles find all eight configured with 16 rows of 64 bytes,
/// and leave the configuration as it is.
/// Sizes that are known when compiling are baked into the kernel; these structs
/// hold the rest. The calls of a plan list their fields in order
/// (compiler/Conversion), and codegen/LLVM fills them in.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_KERNELARGS_H
#define ENCAST_CODEGEN_KERNELS_KERNELARGS_H

#include <cstdint>

namespace encast {

/// C[m, n] = epilogue(sum over k of A[m, k] * B[n, k]), for `rows` rows and
/// `panels` panels of 16 columns. In f32 every sum is one chain of fused
/// multiply-adds from 0 (accumulating: from what c holds) in the order k = 0,
/// 1, ..., whatever the tile, so that the bits depend on the row of A and the
/// panel of B alone; products of bf16 terms (Arithmetic) are summed in blocks
/// of 32 k, in their order. The epilogue adds the bias, applies the activation
/// (gated: to the gate, then multiplies by the other half), then adds the
/// residual, each rounded once.
struct LinearArgs {
  const void *a; ///< f32 [rows, k], row stride lda; or bf16 planes. Rows and
                 ///< columns beyond the last are not read.
  const void *b; ///< Packed panels (LinearShape), 64-byte aligned.
  void *c; ///< First row and panel; row stride ldc (baked). All columns of
           ///< each panel are written, padding included.
  const float *bias; ///< [panels * 16], first column of the range; ordered as
                     ///< the columns of the panels.
  const float *residual; ///< Like a row-major f32 c, with row stride ldr
                         ///< (baked) and panels 16 (gated 8) columns apart.
  int64_t rows;          ///< >= 1.
  int64_t panels; ///< >= 1; even where a panel tile is a pair (bf16 kernels).
  int64_t cPanelBytes; ///< From a panel of c to the next: columns that a panel
                       ///< makes (16, gated 8) * bytes of an element if
                       ///< row-major, rows of the slot * 64 if panel-major
                       ///< (f32, ldc = 16).
  void *workspace; ///< linearWorkspaceBytes(row, shape) bytes, 64-byte aligned,
                   ///< this thread's own; unused if that is 0.
  const void *ahead; ///< What the thread reads next, the b of another call; may
                     ///< be null. Kernels that fetch the next panels ahead go
                     ///< on with it behind the last ones.
};

/// Flash attention of the query heads that share a head of keys and values:
/// out = softmax(q k^T * scale) v for a tile of queries over the keys of their
/// sequence, all or those of a window; a query that sees no key, because it is
/// further than the window behind the last one, gives 0. q, k and v are
/// panel-major: planes of [rows of the slot][16], ceil(headSize / 16) of them
/// for each head, the last one with undefined padding; query heads follow each
/// other. Every query is a lane: scores are chains over the head dimension,
/// sums of probabilities and of values are chains over the keys in their order,
/// and the running maximum is updated at multiples of kAttentionKeyBlock keys,
/// so the bits depend on the query and its sequence alone.
struct AttentionArgs {
  const float *q; ///< First query row of the first query head's first plane.
  const float *k; ///< First key row of the head's first plane.
  const float *v; ///< Same.
  float *out;     ///< [queries, queryHeads * headSize], row stride ldo (baked);
                  ///< only these columns are written. 4-byte aligned.
  int64_t queries;      ///< >= 1, any number.
  int64_t keys;         ///< >= 1, any number; queries may lie behind them.
  int64_t qPlaneBytes;  ///< From a plane of q to the next.
  int64_t kvPlaneBytes; ///< Same for k and v.
  void *workspace;      ///< attentionWorkspaceBytes(row, shape) bytes, 64-byte
                        ///< aligned, this thread's own.
  int64_t position; ///< Of the first query in its sequence, the others follow;
                    ///< read with a window only.
};

/// Packs tokens of one sequence and one head of keys and values as tile
/// attention reads them. Rows up to the next multiple of 32 behind the last
/// token of the sequence become zero. Other rows of the same block of 32 may be
/// packed at the same time.
struct AttentionPackArgs {
  const void *k; ///< bf16 planes of the first token, the head's first column.
  const void *v; ///< Same.
  void *packedK; ///< Packed row of the first token; rows have
                 ///< packedRowBytes(shape).
  void *packedV; ///< Same.
  int64_t rows;  ///< >= 1, of one sequence.
  const int32_t *positions; ///< [rows + 1] of the tokens in their sequence; 0
                            ///< behind the last token of the sequence.
};

/// Flash attention by tiles of bf16, of the query heads that share a head of
/// keys and values, over the keys of a sequence or those of a window. Keys are
/// walked in blocks that start at the sequence's first key, so the bits depend
/// on the query and its sequence alone. A query that sees no key gives 0.
struct TileAttentionArgs {
  const void *q; ///< bf16 planes of the first query, first column of the first
                 ///< query head; heads are padded to a multiple of 32 columns.
                 ///< Row and plane strides are baked.
  const void *packedK; ///< First packed row of the sequence, of this head.
  const void *packedV; ///< Same.
  void *out; ///< First query, first column of the first query head: f32 row
             ///< stride ldo, or bf16 planes. May be q if heads, planes and rows
             ///< of both lie at the same places.
  int64_t queries;  ///< >= 1, any number.
  int64_t keys;     ///< >= 1, any number; queries may lie behind them.
  int64_t position; ///< As in AttentionArgs.
  void *workspace;  ///< attentionWorkspaceBytes(row, shape) bytes, 64-byte
                    ///< aligned, this thread's own.
  int64_t ahead;    ///< Packed rows from those of this head on to those that
                    ///< the thread reads next, for the same queries of another
                    ///< head: a window fetches them. 0: none.
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_KERNELARGS_H
