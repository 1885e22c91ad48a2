//===- Kernels.cpp - the table of kernel generators -----------------------===//

#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/AttentionDots.h"
#include "codegen/Kernels/AttentionF32.h"
#include "codegen/Kernels/AttentionPack.h"
#include "codegen/Kernels/AttentionTiles.h"
#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/LinearDots.h"
#include "codegen/Kernels/LinearF32.h"
#include "codegen/Kernels/LinearTiles.h"

#include "encast_abi.h"

#include <cmath>

using namespace encast;

static constexpr std::string_view kActivationNames[] = {
#define ENCAST_ACTIVATION(enumerator, name) name,
#include "codegen/Kernels/Activations.def"
};

std::string_view encast::activationName(Activation activation) {
  return kActivationNames[static_cast<int>(activation)];
}

bool encast::parseActivation(std::string_view name, Activation &activation) {
  int index = 0;
  for (std::string_view known : kActivationNames) {
    if (known == name) {
      activation = static_cast<Activation>(index);
      return true;
    }
    ++index;
  }
  return false;
}

int64_t encast::operandCount(KernelFamily family) {
  constexpr int64_t fieldBytes = 8;
  switch (family) {
  case KernelFamily::Linear:
    return sizeof(LinearArgs) / fieldBytes;
  case KernelFamily::Attention:
    return sizeof(AttentionArgs) / fieldBytes;
  case KernelFamily::TileAttention:
    return sizeof(TileAttentionArgs) / fieldBytes;
  case KernelFamily::AttentionPack:
    return sizeof(AttentionPackArgs) / fieldBytes;
  }
  return 0;
}

static constexpr std::string_view kArithmeticNames[] = {"f32", "bf16", "bf16x3",
                                                        "bf16x3w", "bf16x6"};

std::string_view encast::arithmeticName(Arithmetic arithmetic) {
  return kArithmeticNames[static_cast<int>(arithmetic)];
}

int encast::activationPlanes(Arithmetic arithmetic) {
  switch (arithmetic) {
  case Arithmetic::F32:
    return 0;
  case Arithmetic::Bf16:
    return 1;
  case Arithmetic::Bf16x3:
    return 2;
  case Arithmetic::Bf16x3w:
  case Arithmetic::Bf16x6:
    return 3;
  }
  return 0;
}

int encast::weightPlanes(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::Bf16x3w ? 1 : activationPlanes(arithmetic);
}

int encast::packedWeightPlanes(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::Bf16x6 ? 0 : weightPlanes(arithmetic);
}

const std::vector<KernelRow> &encast::kernelRows() {
  static const std::vector<KernelRow> rows = {
#define ENCAST_LINEAR_KERNEL(name, arithmetic, features, vectorBytes, rows,    \
                             panels)                                           \
  {#name,  KernelFamily::Linear, Arithmetic::arithmetic, features, rows,       \
   panels, vectorBytes},
#define ENCAST_ATTENTION_KERNEL(name, family, arithmetic, features,            \
                                vectorBytes, queries)                          \
  {#name, KernelFamily::family, Arithmetic::arithmetic, features, queries,     \
   0,     vectorBytes},
#include "codegen/Kernels/Kernels.def"
  };
  return rows;
}

bool encast::usesTiles(const KernelRow &row) {
  return row.cpuFeatures & ENCAST_CPU_AMX_BF16;
}

bool encast::usesDots(const KernelRow &row) {
  return !usesTiles(row) && row.cpuFeatures & ENCAST_CPU_AVX512_BF16;
}

const KernelRow *encast::findKernelRow(std::string_view name) {
  for (const KernelRow &row : kernelRows())
    if (row.name == name)
      return &row;
  return nullptr;
}

const KernelRow *encast::selectKernelRow(KernelFamily family,
                                         Arithmetic arithmetic,
                                         uint32_t cpuFeatures) {
  const KernelRow *best = nullptr;
  for (const KernelRow &row : kernelRows())
    if (row.family == family && row.arithmetic == arithmetic &&
        (row.cpuFeatures & ~cpuFeatures) == 0)
      best = &row;
  return best;
}

// Displacements in kernels are signed 32-bit: 12 rows of a stride, or 8 panels
// of k steps, stay below 2^30 bytes.
static constexpr int64_t kMaxK = int64_t(1) << 20;
static constexpr int64_t kMaxStride = int64_t(1) << 24;
static constexpr int64_t kMaxHeadSize = 256;
static constexpr int64_t kMaxQueryHeads = 1024;
static constexpr int64_t kMaxWindow = int64_t(1) << 30;
static constexpr int64_t kMaxPlanes = 3;
// 48 rows of out are advanced over at once.
static constexpr int64_t kMaxOutStride = int64_t(1) << 22;
// Tile attention advances over 256 rows of q or out at once.
static constexpr int64_t kMaxTileStride = int64_t(1) << 20;

/// False with `error` unless low <= value <= high.
static bool checkRange(const KernelRow &row, const char *what, int64_t value,
                       int64_t low, int64_t high, std::string &error) {
  if (value >= low && value <= high)
    return true;
  error = std::string(row.name) + ": " + what + " is " + std::to_string(value) +
          ", expected " + std::to_string(low) + " to " + std::to_string(high);
  return false;
}

static bool checkFamily(const KernelRow &row, KernelFamily family,
                        const char *expected, std::string &error) {
  if (row.family == family)
    return true;
  error = std::string(row.name) + " is not " + expected + " kernel";
  return false;
}

static bool checkArithmetic(const KernelRow &row, Arithmetic arithmetic,
                            std::string &error) {
  if (row.arithmetic == arithmetic)
    return true;
  error = std::string(row.name) + ": arithmetic is " +
          std::string(arithmeticName(arithmetic)) + ", expected " +
          std::string(arithmeticName(row.arithmetic));
  return false;
}

/// False with `error`, that the kernel has no such option, if it is asked for.
static bool checkAbsent(const KernelRow &row, const char *option, bool asked,
                        std::string &error) {
  if (asked)
    error = std::string(row.name) + ": has no " + option;
  return !asked;
}

/// The same for what only bf16 kernels do, and for strides of planes.
static bool checkTileLinear(const KernelRow &row, const LinearShape &shape,
                            std::string &error) {
  const int64_t planes = activationPlanes(row.arithmetic);
  const int64_t columns = shape.gated ? kPanelColumns : 2 * kPanelColumns;
  if (!checkAbsent(row, "f32 products of bf16 weights", shape.bf16Weights,
                   error) ||
      !checkRange(row, "lda", shape.lda, planes * planeStride(shape.k),
                  kMaxStride, error) ||
      !checkRange(row, "planes of c", shape.cPlanes, 0, kMaxPlanes, error))
    return false;
  if (shape.cPlanes == 0)
    return checkRange(row, "ldc", shape.ldc, kPanelColumns, kMaxStride, error);
  if (!checkRange(row, "plane stride of c", shape.cPlaneStride, columns,
                  kMaxStride, error) ||
      !checkRange(row, "ldc", shape.ldc,
                  (shape.cPlanes - 1) * shape.cPlaneStride + columns,
                  kMaxStride, error))
    return false;
  return checkAbsent(row, "planes of c that it accumulates", shape.accumulate,
                     error);
}

static bool checkF32Linear(const KernelRow &row, const LinearShape &shape,
                           std::string &error) {
  const int64_t columns = shape.gated ? kPanelColumns / 2 : kPanelColumns;
  return checkRange(row, "lda", shape.lda, shape.k, kMaxStride, error) &&
         checkRange(row, "ldc", shape.ldc, columns, kMaxStride, error) &&
         checkAbsent(row, "planes of c", shape.cPlanes != 0, error);
}

bool encast::generateLinear(const KernelRow &row, const LinearShape &shape,
                            std::vector<uint8_t> &code, std::string &error) {
  const bool tiles = row.arithmetic != Arithmetic::F32;
  if (!checkFamily(row, KernelFamily::Linear, "a linear", error) ||
      !checkArithmetic(row, shape.arithmetic, error) ||
      !checkRange(row, "k", shape.k, 1, kMaxK, error) ||
      !(tiles ? checkTileLinear(row, shape, error)
              : checkF32Linear(row, shape, error)))
    return false;
  const int64_t columns =
      shape.gated && !tiles ? kPanelColumns / 2 : kPanelColumns;
  if (shape.residual &&
      !checkRange(row, "ldr", shape.ldr, columns, kMaxStride, error))
    return false;
  if (shape.gated && shape.accumulate) {
    error = std::string(row.name) + ": c of a gated linear holds no sums to "
                                    "accumulate";
    return false;
  }
  if (usesTiles(row))
    return LinearTiles(row, shape).generate(code, error);
  if (tiles)
    return LinearDots(shape).generate(code, error);
  return LinearF32(row, shape).generate(code, error);
}

/// What only the f32 kernel does, and what it does not.
static bool checkF32Attention(const KernelRow &row, const AttentionShape &shape,
                              std::string &error) {
  return checkRange(row, "ldo", shape.ldo, shape.queryHeads * shape.headSize,
                    kMaxOutStride, error) &&
         checkAbsent(row, "row stride of q", shape.ldq != 0, error) &&
         checkAbsent(row, "planes of q", shape.qPlaneStride != 0, error) &&
         checkAbsent(row, "planes of out",
                     shape.outPlanes != 0 || shape.outPlaneStride != 0,
                     error) &&
         checkAbsent(row, "keys and values to pack",
                     shape.ldkv != 0 || shape.kvPlaneStride != 0, error);
}

/// The row stride of `planes` planes of `columns` columns each.
static bool checkPlanes(const KernelRow &row, const char *what,
                        int64_t rowStride, int64_t stride, int64_t planes,
                        int64_t columns, std::string &error) {
  const std::string name = what;
  return (planes == 1 || checkRange(row, ("plane stride of " + name).c_str(),
                                    stride, columns, kMaxTileStride, error)) &&
         checkRange(row, ("row stride of " + name).c_str(), rowStride,
                    (planes - 1) * stride + columns, kMaxTileStride, error);
}

static bool checkTileAttention(const KernelRow &row,
                               const AttentionShape &shape,
                               std::string &error) {
  const int64_t planes = activationPlanes(row.arithmetic);
  const int64_t columns = shape.queryHeads * shape.headSize;
  if (!checkPlanes(row, "q", shape.ldq, shape.qPlaneStride, planes,
                   shape.queryHeads * planeStride(shape.headSize), error) ||
      !checkRange(row, "planes of out", shape.outPlanes, 0, kMaxPlanes, error))
    return false;
  if (shape.outPlanes > 0)
    return checkPlanes(row, "out", shape.ldo, shape.outPlaneStride,
                       shape.outPlanes, columns, error);
  return checkRange(row, "row stride of out", shape.ldo, columns,
                    kMaxTileStride, error);
}

bool encast::generateAttention(const KernelRow &row,
                               const AttentionShape &shape,
                               std::vector<uint8_t> &code, std::string &error) {
  if (row.family == KernelFamily::Linear) {
    error = std::string(row.name) + " is not an attention kernel";
    return false;
  }
  if (!checkArithmetic(row, shape.arithmetic, error) ||
      !checkRange(row, "head size", shape.headSize, 1, kMaxHeadSize, error) ||
      !checkRange(row, "query heads", shape.queryHeads, 1, kMaxQueryHeads,
                  error) ||
      !checkRange(row, "window", shape.window, -1, kMaxWindow, error))
    return false;
  if (!std::isfinite(shape.scale)) {
    error = std::string(row.name) + ": scale is " +
            (std::isnan(shape.scale) ? "nan" : "inf") +
            ", expected a finite number";
    return false;
  }
  switch (row.family) {
  case KernelFamily::AttentionPack:
    return checkPlanes(row, "k and v", shape.ldkv, shape.kvPlaneStride,
                       activationPlanes(row.arithmetic),
                       planeStride(shape.headSize), error) &&
           AttentionPack(row, shape).generate(code, error);
  case KernelFamily::TileAttention:
    return checkTileAttention(row, shape, error) &&
           (usesTiles(row) ? AttentionTiles(row, shape).generate(code, error)
                           : AttentionDots(shape).generate(code, error));
  default:
    return checkF32Attention(row, shape, error) &&
           AttentionF32(row, shape).generate(code, error);
  }
}

bool encast::mayReplaceResidual(const KernelRow &row,
                                const LinearShape &shape) {
  return row.arithmetic != Arithmetic::F32 || !LinearF32(row, shape).cutsK();
}

int64_t encast::linearWorkspaceBytes(const KernelRow &row,
                                     const LinearShape &shape) {
  if (row.arithmetic == Arithmetic::F32)
    return LinearF32(row, shape).workspaceBytes();
  return usesTiles(row) ? LinearTiles(row, shape).workspaceBytes() : 0;
}

int64_t encast::attentionWorkspaceBytes(const KernelRow &row,
                                        const AttentionShape &shape) {
  switch (row.family) {
  case KernelFamily::AttentionPack:
    return 0;
  case KernelFamily::TileAttention:
    return usesTiles(row) ? AttentionTiles(row, shape).workspaceBytes()
                          : AttentionDots(shape).workspaceBytes();
  default:
    return AttentionF32(row, shape).workspaceBytes();
  }
}

int64_t encast::packedRowBytes(const AttentionShape &shape) {
  return activationPlanes(shape.arithmetic) * planeStride(shape.headSize) * 2;
}

double encast::tileQueryFactor(const AttentionShape &shape) {
  constexpr double log2E = 1.4426950408889634;
  double factor = shape.scale * log2E;
  return shape.arithmetic == Arithmetic::Bf16 ? kBf16ScoreUnit * factor
                                              : factor;
}
