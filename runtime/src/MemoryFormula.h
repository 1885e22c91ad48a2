//===- MemoryFormula.h - bytes of the arena ---------------------*- C++ -*-===//
///
/// \file
/// The one place that knows how much memory a run takes and where in the arena
/// what lies, and the same for copies of weights:
///
///   | ids types positions selected first pick | colour 0, 1, ... |
///   | block of thread 0, 1, ... | workspace of thread 0, 1, ... |
///
/// Everything starts at a multiple of ENCAST_ALIGNMENT, and the whole is
/// rounded up to pages.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_MEMORYFORMULA_H
#define ENCAST_RUNTIME_SRC_MEMORYFORMULA_H

#include "runtime/src/Artifact.h"
#include <cstdint>

namespace encast::runtime {

/// The control tables hold one int32 per row, and rows are numbered in int32.
constexpr int64_t kMostRows = INT32_MAX;
constexpr int64_t kPageBytes = 4096, kHugePageBytes = 2 << 20;

/// Bytes per token and per sequence of all control tables, for tools; one of
/// them has an element more.
constexpr int64_t kControlBytesPerToken = 5 * sizeof(int32_t);
constexpr int64_t kControlBytesPerSequence = 2 * sizeof(int32_t);

/// Offsets from the first byte of the arena.
struct ArenaLayout {
  int64_t ids, types; ///< int32 [T]
  int64_t positions;  ///< int32 [T + 1]
  int64_t selected;   ///< int32 [T + B]
  int64_t first;      ///< int32 [B]
  int64_t pick;       ///< int32 [T]
  int64_t colours;    ///< Of colour 0.
  int64_t blocks, blockStride;
  int64_t workspaces, workspaceStride;
  int64_t bytes; ///< Of the arena.
};

/// Lays out the arena for T tokens in B sequences (both in [0, kMostRows]) on
/// `threads` threads that ask for `outputs`. `colourOffsets`, of
/// variant.colours elements, receives each colour's offset from
/// `layout.colours`. False if a size overflows.
bool layOutArena(const ArtifactView &view, const encast_abi_variant &variant,
                 int64_t tokens, int64_t sequences, uint64_t outputs,
                 int threads, int64_t *colourOffsets, ArenaLayout &layout);

/// Lays out the copies of a variant's weights in huge pages: of those that
/// kernels stream, or of all if the artifact marks none. `offsets`, of
/// view->blobs.count elements, receives each blob's offset in the copy; -1: it
/// is not copied. Returns the bytes of all, a multiple of kHugePageBytes; -1 if
/// that overflows.
int64_t layOutCopies(const ArtifactView &view,
                     const encast_abi_variant &variant, int64_t *offsets);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_MEMORYFORMULA_H
