//===- WeightRecipe.h - how a weight is made from the checkpoint -*- C++ -*-==//
///
/// \file
/// A weight of the artifact is a small expression over checkpoint tensors. The
/// compiler carries it as IR (dialects/Encoder, `encoder.weight`); this is the
/// same as plain data, evaluated once by the artifact writer. Sums and scales
/// are done in double with one rounding at the end.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ARTIFACT_WEIGHTRECIPE_H
#define ENCAST_CODEGEN_ARTIFACT_WEIGHTRECIPE_H

#include <cstdint>
#include <string>
#include <vector>

namespace encast {

enum class ElementType { F32, F16, BF16 };

struct RecipeStep {
  enum class Kind {
    Tensor,       ///< A checkpoint tensor, `file` and `tensor` name it.
    Concat,       ///< Operands one after the other along dimension 0.
    Slice,        ///< Rows [begin, begin + shape[0]) of the operand.
    SliceColumns, ///< Columns [begin, begin + shape[1]) of a matrix.
    Scale,        ///< Operand times `factor`.
    Cast,         ///< Operand in `type`.
    Transpose,    ///< [N, K] or [N, 1, K] to [K, N]. Always f32.
    PadRows,      ///< Dimension 0 in groups of `group` rows, each padded with
                  ///< zero rows to `padded` rows (heads to whole panels).
    Interleave,   ///< `group` rows of the first of two operands of one shape,
                  ///< then the same of the second, and so on; rows that the
                  ///< last groups lack are zero. f32, or bf16 of bf16.
    PackPanels,   ///< [N, K] to panels [ceil(N / 16)][K][16], missing columns
                  ///< zero; [N] to [ceil(N / 16) * 16]. f32; or bf16 of a
                  ///< bf16 matrix, to [ceil(N / 16)][ceil(K / 2)][16][2], two
                  ///< k side by side, the last two one dimension.
    PackTiles,    ///< [N, K] to tiles of bf16, missing columns and k zero:
                  ///< [ceil(N / 32)][ceil(K / 32)][planes][2 tiles][16][16][2]
                  ///< (LinearShape of codegen/Kernels/Kernels.h), the last five
                  ///< one dimension. Plane 0 is the operand as f32, rounded to
                  ///< bf16, plane 1 what is left, rounded, and so on. One plane
                  ///< of type f32 is not rounded, but is in bf16's range.
    RopeTable     ///< [positions, headSize], no operands: of each position the
                  ///< cosines of position * theta^(-2k / headSize), then the
                  ///< sines. Always f32.
  };
  Kind kind;
  std::vector<int> operands;           ///< Indices of earlier steps.
  std::string file, tensor;            ///< Tensor only; file as in the IR.
  std::vector<int64_t> shape;          ///< Of the result.
  ElementType type = ElementType::F32; ///< Of the result.
  int64_t begin = 0;                   ///< Slice, SliceColumns.
  double factor = 1.0;                 ///< Scale.
  int64_t group = 0;                   ///< PadRows, Interleave.
  int64_t padded = 0;                  ///< PadRows.
  int64_t planes = 0;                  ///< PackTiles, 1 or 2.
  double theta = 0;                    ///< RopeTable.
};

/// The last step is the weight.
struct WeightRecipe {
  std::string name; ///< Symbol, names the weight in errors.
  std::vector<RecipeStep> steps;
};

/// Where checkpoint tensors come from; the driver injects it.
class WeightSource {
public:
  virtual ~WeightSource() = default;
  /// The bytes of a tensor, row-major little endian, valid as long as the
  /// source. False with `error` if it is missing or is not of this shape and
  /// type.
  virtual bool read(const std::string &file, const std::string &tensor,
                    const std::vector<int64_t> &shape, ElementType type,
                    const uint8_t *&bytes, std::string &error) = 0;
  /// What errors call a file.
  virtual std::string path(const std::string &file) const { return file; }
};

/// Evaluates a recipe into `bytes`, which takes the result's size. A cast to
/// f32 keeps scales in double, a cast to f16 or bf16 rounds, and so do
/// tiles. False with `error` naming the weight and step if the recipe does not
/// fit together, the tensor and flat index if a value used is not finite, the
/// weight and flat index (of tiles: in their operand) if a value is beyond the
/// range of the type it is rounded to. Temporary memory is a few blocks of
/// rows.
bool evaluateRecipe(const WeightRecipe &recipe, WeightSource &source,
                    std::vector<uint8_t> &bytes, std::string &error);

} // namespace encast

#endif // ENCAST_CODEGEN_ARTIFACT_WEIGHTRECIPE_H
