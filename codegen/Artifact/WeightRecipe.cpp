//===- WeightRecipe.cpp - how a weight is made from the checkpoint --------===//
///
/// \file
/// Every step maps a range of rows (dimension 0) of its result to ranges of
/// rows of its operands. So the last step pulls a block of rows at a time
/// through the whole expression, and beside the result only blocks are in
/// memory.
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/WeightRecipe.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

namespace encast {
namespace {

using Kind = RecipeStep::Kind;

constexpr int64_t kPanelColumns = 16;
/// A pair of tiles of bf16: 32 columns at 32 k, of one plane 1024 elements.
constexpr int64_t kTileColumns = 16, kPairColumns = 32, kTileK = 32,
                  kTileElements = kTileColumns * kTileK,
                  kPairElements = kPairColumns * kTileK;
constexpr int64_t kMaxPlanes = 2;
constexpr int64_t kMaxGroup = 65536;
/// Elements of a block of rows: with its scratch it stays in L2.
constexpr int64_t kBlockElements = 1 << 16;
/// Most steps visited for one block. Recipes of models have tens; a step that
/// is shared again and again would double the work each time.
constexpr int64_t kMaxVisits = 4096;
/// Most elements of a weight for one of its tensors, unless they are few;
/// padding a row to a panel takes 16, to tiles of three planes 96. Keeps a
/// wrong recipe from asking for more memory than there is.
constexpr int64_t kMaxGrowth = 128, kFewElements = 1 << 20;
/// Most elements of a table that no tensor asks for.
constexpr int64_t kMaxTableElements = 1 << 30;

constexpr uint32_t kF32Exponent = 0x7f800000;
constexpr uint16_t kF16Exponent = 0x7c00, kBF16Exponent = 0x7f80;

int64_t elementBytes(ElementType type) {
  return type == ElementType::F32 ? 4 : 2;
}

const char *typeName(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return "f32";
  case ElementType::F16:
    return "f16";
  case ElementType::BF16:
    return "bf16";
  }
  return "";
}

const char *kindName(Kind kind) {
  switch (kind) {
  case Kind::Tensor:
    return "tensor";
  case Kind::Concat:
    return "concat";
  case Kind::Slice:
    return "slice";
  case Kind::SliceColumns:
    return "slice columns";
  case Kind::Scale:
    return "scale";
  case Kind::Cast:
    return "cast";
  case Kind::Transpose:
    return "transpose";
  case Kind::PadRows:
    return "pad rows";
  case Kind::Interleave:
    return "interleave";
  case Kind::PackPanels:
    return "pack panels";
  case Kind::PackTiles:
    return "pack tiles";
  case Kind::RopeTable:
    return "rope table";
  }
  return "";
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Elements of one row.
int64_t rowElements(const RecipeStep &step) {
  int64_t elements = 1;
  for (size_t i = 1; i < step.shape.size(); ++i)
    elements *= step.shape[i];
  return elements;
}

int64_t elements(const RecipeStep &step) {
  return step.shape[0] * rowElements(step);
}

//===----------------------------------------------------------------------===//
// Conversion of elements
//===----------------------------------------------------------------------===//

template <typename To, typename From> To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

template <typename Raw> Raw loadRaw(const uint8_t *bytes, int64_t index) {
  Raw raw;
  std::memcpy(&raw, bytes + index * sizeof(Raw), sizeof(Raw));
  return raw;
}

float fromF32(uint32_t raw) { return bitCast<float>(raw); }
float fromBF16(uint16_t raw) { return bitCast<float>(uint32_t(raw) << 16); }
/// Of a finite value: 2^112 takes the exponent of f16 to that of f32, and is
/// exact for denormals too.
float fromF16(uint16_t raw) {
  float magnitude = bitCast<float>(uint32_t(raw & 0x7fff) << 13) * 0x1p112f;
  return bitCast<float>(bitCast<uint32_t>(magnitude) | uint32_t(raw & 0x8000)
                                                           << 16);
}

/// The inverse of fromF16 and fromBF16, of a value that the type holds.
uint16_t toHalf(ElementType type, float value) {
  if (type == ElementType::BF16)
    return uint16_t(bitCast<uint32_t>(value) >> 16);
  uint32_t magnitude = bitCast<uint32_t>(std::fabs(value) * 0x1p-112f);
  return uint16_t(magnitude >> 13 | (std::signbit(value) ? 0x8000 : 0));
}

/// Nearest value of the type, ties to even, infinity beyond its range.
double roundTo(ElementType type, double value) {
  if (type == ElementType::F32)
    return static_cast<float>(value);
  bool isF16 = type == ElementType::F16;
  int precision = isF16 ? 11 : 8, leastExponent = isF16 ? -14 : -126;
  double most = isF16 ? 65504.0 : 0x1.fep127;
  double infinity = std::numeric_limits<double>::infinity();
  if (std::fabs(value) > 2 * most)
    return std::copysign(infinity, value);
  int exponent = int(bitCast<uint64_t>(value) >> 52 & 0x7ff) - 1023;
  exponent = std::max(exponent, leastExponent);
  // The last bit of a sum with 1.5 * 2^(52 + n) counts 2^n.
  uint64_t biased = exponent - (precision - 1) + 52 + 1023;
  double shift = 1.5 * bitCast<double>(biased << 52);
  double rounded = (value + shift) - shift;
  return std::copysign(std::fabs(rounded) <= most ? rounded : infinity, value);
}

/// Nearest bf16 of a finite value, ties to even; infinity beyond its range.
float roundToBF16(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  return bitCast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

template <typename Raw>
bool hasNonFinite(const uint8_t *bytes, int64_t count, Raw exponent) {
  bool found = false;
  for (int64_t i = 0; i < count; ++i)
    found |= (loadRaw<Raw>(bytes, i) & exponent) == exponent;
  return found;
}

/// from: [rows, columns], 1 <= rows <= 16; panel: [ceil(columns / depth)][16]
/// [depth], what is missing zero. Goes by tiles of 16 x 16, copied first: rows
/// a power of two apart would evict each other from the L1 cache.
template <int64_t depth, typename Value>
void packPanel(const Value *from, int64_t rows, int64_t columns, Value *panel) {
  for (int64_t k = 0; k < columns; k += kPanelColumns) {
    Value tile[kPanelColumns][kPanelColumns] = {};
    int64_t width = std::min(kPanelColumns, columns - k);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(from + r * columns + k, width, tile[r]);
    for (int64_t c = 0; c < width; c += depth)
      for (int64_t r = 0; r < kPanelColumns; ++r)
        for (int64_t i = 0; i < depth; ++i)
          *panel++ = tile[r][c + i];
  }
}

/// A tile of 16 rows of 32 k, split into planes of bf16.
struct SplitTile {
  float planes[kMaxPlanes][kTileColumns][kTileK];

  /// from: rows of `width` values, `stride` apart; the others become zero.
  /// False if a value rounds to none of bf16.
  template <typename Value>
  bool split(const Value *from, int64_t rows, int64_t width, int64_t stride,
             int64_t count) {
    for (int64_t r = 0; r < kTileColumns; ++r) {
      float left[kTileK] = {};
      if (r < rows)
        std::copy_n(from + r * stride, width, left);
      for (int64_t p = 0; p < count; ++p)
        for (int64_t k = 0; k < kTileK; ++k) {
          planes[p][r][k] = roundToBF16(left[k]);
          left[k] -= planes[p][r][k];
        }
    }
    return !hasNonFinite<uint32_t>(
        reinterpret_cast<const uint8_t *>(&planes[0][0][0]), kTileElements,
        kF32Exponent);
  }

  /// The values that `split` took, as they are, instead of their first plane.
  template <typename Value>
  void keep(const Value *from, int64_t rows, int64_t width, int64_t stride) {
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(from + r * stride, width, planes[0][r]);
  }

  /// to: [16][16][2], a pair of k of each row, then the next pair.
  template <typename Value> void store(int64_t plane, Value *to) const {
    for (int64_t k = 0; k < kTileK; k += 2)
      for (int64_t r = 0; r < kTileColumns; ++r, to += 2) {
        to[0] = planes[plane][r][k];
        to[1] = planes[plane][r][k + 1];
      }
  }
};

//===----------------------------------------------------------------------===//
// Checks before any value is read
//===----------------------------------------------------------------------===//

/// Recipes also come from files of IR that a user edited, so nothing is taken
/// for granted that the evaluation builds on.
class RecipeChecker {
public:
  RecipeChecker(const WeightRecipe &recipe, std::string &error)
      : recipe(recipe), error(error) {}

  bool check() {
    if (recipe.steps.empty()) {
      error = "weight '" + recipe.name + "': the recipe has no steps";
      return false;
    }
    std::vector<int64_t> visits;
    int64_t tensorElements = 0;
    for (index = 0; index < int(recipe.steps.size()); ++index) {
      if (!checkShape() || !checkOperands() || !checkKind())
        return false;
      int64_t visited = 1;
      for (int operand : current().operands)
        visited += visits[operand];
      if (visited > kMaxVisits)
        return fail("evaluating it visits more than " +
                    std::to_string(kMaxVisits) + " steps");
      visits.push_back(visited);
      bool isSource = current().operands.empty();
      if (isSource && __builtin_add_overflow(
                          tensorElements, elements(current()), &tensorElements))
        return fail("the tensors are too large");
    }
    index = int(recipe.steps.size()) - 1;
    if (elements(current()) > kFewElements &&
        elements(current()) / kMaxGrowth > tensorElements)
      return fail("result " + shapeText(current().shape) + " is more than " +
                  std::to_string(kMaxGrowth) +
                  " times larger than the tensors");
    return true;
  }

private:
  const RecipeStep &current() const { return recipe.steps[index]; }
  const RecipeStep &operand(size_t i) const {
    return recipe.steps[current().operands[i]];
  }

  bool fail(const std::string &what) {
    error = "weight '" + recipe.name + "': step " + std::to_string(index) +
            " (" + kindName(current().kind) + "): " + what;
    return false;
  }

  bool checkShape() {
    if (current().shape.empty())
      return fail("expects a shape of at least one dimension");
    // Room for eight bytes an element and a round-up.
    int64_t left = std::numeric_limits<int64_t>::max() / 64;
    for (int64_t size : current().shape) {
      if (size < 1)
        return fail("expects sizes of at least 1, but the shape is " +
                    shapeText(current().shape));
      if (size > left)
        return fail("shape " + shapeText(current().shape) + " is too large");
      left /= size;
    }
    return true;
  }

  bool checkOperands() {
    size_t least = 1, most = 1, given = current().operands.size();
    if (current().kind == Kind::Tensor || current().kind == Kind::RopeTable)
      least = most = 0;
    if (current().kind == Kind::Interleave)
      least = most = 2;
    if (current().kind == Kind::Concat)
      most = recipe.steps.size() * recipe.steps.size();
    if (given < least || given > most)
      return fail("has " + std::to_string(given) + " operands, expects " +
                  std::to_string(least) + (most > least ? " or more" : ""));
    for (int i : current().operands)
      if (i < 0 || i >= index)
        return fail("operand " + std::to_string(i) + " is not an earlier step");
    return true;
  }

  bool expectShape(const std::vector<int64_t> &shape) {
    return current().shape == shape ||
           fail("expects result shape " + shapeText(shape) + ", but got " +
                shapeText(current().shape));
  }

  /// Operand i differs from the result in dimension 0 at most.
  bool expectRowsLike(size_t i) {
    const std::vector<int64_t> &from = operand(i).shape, &to = current().shape;
    return (from.size() == to.size() &&
            std::equal(from.begin() + 1, from.end(), to.begin() + 1)) ||
           fail("rows of operand shape " + shapeText(from) +
                " are not like those of the result " + shapeText(to));
  }

  bool expectTypeOf(size_t i) {
    return operand(i).type == current().type ||
           fail(std::string("operand of type ") + typeName(operand(i).type) +
                ", but the result is " + typeName(current().type));
  }

  bool checkKind() {
    switch (current().kind) {
    case Kind::Tensor:
      return true;
    case Kind::Concat:
      return checkConcat();
    case Kind::Slice:
      return checkSlice();
    case Kind::SliceColumns:
      return checkSliceColumns();
    case Kind::Scale:
      if (!std::isfinite(current().factor))
        return fail("expects a finite factor, but got " +
                    std::to_string(current().factor));
      return expectShape(operand(0).shape);
    case Kind::Cast:
      return expectShape(operand(0).shape);
    case Kind::Transpose:
      return checkTranspose();
    case Kind::PadRows:
      return checkPadRows();
    case Kind::Interleave:
      return checkInterleave();
    case Kind::PackPanels:
      return checkPackPanels();
    case Kind::PackTiles:
      return checkPackTiles();
    case Kind::RopeTable:
      return checkRopeTable();
    }
    return fail("unknown kind");
  }

  bool expectType(ElementType type) {
    return current().type == type ||
           fail(std::string("expects result type ") + typeName(type) +
                ", but got " + typeName(current().type));
  }

  bool expectOperandOf(bool fits, const char *dimensions) {
    return fits || fail(std::string("expects an operand of ") + dimensions +
                        " dimensions, but got " + shapeText(operand(0).shape));
  }

  bool checkConcat() {
    std::vector<int64_t> shape = current().shape;
    shape[0] = 0;
    for (size_t i = 0; i < current().operands.size(); ++i) {
      if (!expectRowsLike(i) || !expectTypeOf(i))
        return false;
      if (__builtin_add_overflow(shape[0], operand(i).shape[0], &shape[0]))
        return fail("the operands have too many rows");
    }
    return expectShape(shape);
  }

  bool checkSlice() {
    int64_t begin = current().begin, rows = current().shape[0];
    int64_t available = operand(0).shape[0];
    if (begin < 0 || begin > available || rows > available - begin)
      return fail("expects rows within the " + std::to_string(available) +
                  " of the operand, but got " + std::to_string(rows) +
                  " rows from " + std::to_string(begin));
    return expectRowsLike(0) && expectTypeOf(0);
  }

  bool checkSliceColumns() {
    if (!expectOperandOf(operand(0).shape.size() == 2, "two"))
      return false;
    std::vector<int64_t> shape = operand(0).shape;
    int64_t begin = current().begin, available = shape[1];
    int64_t columns = current().shape.size() == 2 ? current().shape[1] : 0;
    if (begin < 0 || begin > available || columns > available - begin)
      return fail("expects columns within the " + std::to_string(available) +
                  " of the operand, but got " + std::to_string(columns) +
                  " columns from " + std::to_string(begin));
    if (columns)
      shape[1] = columns;
    return expectShape(shape) && expectTypeOf(0);
  }

  bool checkTranspose() {
    const std::vector<int64_t> &from = operand(0).shape;
    bool isMatrix = from.size() == 2 || (from.size() == 3 && from[1] == 1);
    return expectOperandOf(isMatrix, "two") &&
           expectShape({from.back(), from.front()}) &&
           expectType(ElementType::F32);
  }

  bool checkInterleave() {
    int64_t group = current().group;
    std::vector<int64_t> shape = operand(0).shape;
    if (operand(1).shape != shape)
      return fail("operands have shapes " + shapeText(shape) + " and " +
                  shapeText(operand(1).shape));
    if (group < 1 || group > kMaxGroup)
      return fail("expects a group of 1 to " + std::to_string(kMaxGroup) +
                  ", but got " + std::to_string(group));
    int64_t groups = (shape[0] + group - 1) / group;
    if (__builtin_mul_overflow(groups, 2 * group, &shape[0]))
      return fail("the result has too many rows");
    if (current().type == ElementType::BF16)
      return expectShape(shape) && expectTypeOf(0) && expectTypeOf(1);
    return expectShape(shape) && expectType(ElementType::F32);
  }

  bool checkPackTiles() {
    const std::vector<int64_t> &from = operand(0).shape;
    int64_t planes = current().planes;
    if (planes < 1 || planes > kMaxPlanes)
      return fail("expects 1 to " + std::to_string(kMaxPlanes) +
                  " planes, but got " + std::to_string(planes));
    return expectOperandOf(from.size() == 2, "two") &&
           expectShape({(from[0] + kPairColumns - 1) / kPairColumns,
                        (from[1] + kTileK - 1) / kTileK,
                        planes * kPairElements}) &&
           ((planes == 1 && current().type == ElementType::F32) ||
            expectType(ElementType::BF16));
  }

  bool checkRopeTable() {
    const std::vector<int64_t> &shape = current().shape;
    if (!std::isfinite(current().theta) || current().theta <= 0)
      return fail("expects a finite theta above 0, but got " +
                  std::to_string(current().theta));
    if (shape.size() != 2 || shape[1] % 2)
      return fail("expects two dimensions, the second even, but got " +
                  shapeText(shape));
    if (shape[0] > kMaxTableElements / shape[1])
      return fail("table " + shapeText(shape) + " has more than " +
                  std::to_string(kMaxTableElements) + " elements");
    return expectType(ElementType::F32);
  }

  bool checkPadRows() {
    int64_t group = current().group, padded = current().padded;
    std::vector<int64_t> shape = operand(0).shape;
    if (group < 1 || padded < group)
      return fail("expects 1 <= group <= padded, but got group " +
                  std::to_string(group) + " and padded " +
                  std::to_string(padded));
    if (shape[0] % group != 0)
      return fail("operand has " + std::to_string(shape[0]) +
                  " rows, not a multiple of group " + std::to_string(group));
    if (__builtin_mul_overflow(shape[0] / group, padded, &shape[0]))
      return fail("the result has too many rows");
    return expectShape(shape) && expectTypeOf(0);
  }

  bool checkPackPanels() {
    const std::vector<int64_t> &from = operand(0).shape;
    if (!expectOperandOf(from.size() <= 2, "one or two"))
      return false;
    int64_t panels = (from[0] + kPanelColumns - 1) / kPanelColumns;
    if (current().type == ElementType::BF16 && from.size() == 2)
      return expectTypeOf(0) &&
             expectShape({panels, (from[1] + 1) / 2, 2 * kPanelColumns});
    if (!expectType(ElementType::F32))
      return false;
    if (from.size() == 1)
      return expectShape({panels * kPanelColumns});
    return expectShape({panels, from[1], kPanelColumns});
  }

  const WeightRecipe &recipe;
  std::string &error;
  int index = 0;
};

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Pulls rows through the steps as `Value`: float holds all three types, double
/// is for recipes with sums and scales. Values are rounded by a cast to a
/// half-size type, where tiles are packed and at the end, nowhere else.
template <typename Value> class Evaluator {
public:
  Evaluator(const WeightRecipe &recipe, const WeightSource &source,
            const std::vector<const uint8_t *> &tensors, std::string &error)
      : recipe(recipe), source(source), tensors(tensors), error(error),
        scratch(recipe.steps.size()) {}

  /// bytes: room for the last step's result.
  bool run(uint8_t *bytes) {
    int last = int(recipe.steps.size()) - 1;
    const RecipeStep &step = recipe.steps[last];
    int64_t rowSize = rowElements(step), rowCount = step.shape[0];
    int64_t blockRows = std::max<int64_t>(1, kBlockElements / rowSize);
    std::vector<Value> block(std::min(blockRows, rowCount) * rowSize);
    for (int64_t begin = 0; begin < rowCount; begin += blockRows) {
      int64_t count = std::min(blockRows, rowCount - begin);
      int64_t elements = count * rowSize, first = begin * rowSize;
      if (!rows(last, begin, count, block.data()))
        return false;
      bool isRounded =
          std::is_same_v<Value, float> || step.kind == Kind::PackTiles;
      if (!isRounded && !round(last, first, elements, block.data()))
        return false;
      store(step.type, block.data(), elements,
            bytes + first * elementBytes(step.type));
    }
    return true;
  }

private:
  /// out: rows [begin, begin + count) of a step's result.
  bool rows(int index, int64_t begin, int64_t count, Value *out) {
    const RecipeStep &step = recipe.steps[index];
    int64_t rowSize = rowElements(step);
    switch (step.kind) {
    case Kind::Tensor:
      return load(index, begin * rowSize, count * rowSize, out);
    case Kind::Concat:
      for (int operand : step.operands) {
        int64_t available = recipe.steps[operand].shape[0];
        int64_t part = std::min(count, available - begin);
        if (part > 0) {
          if (!rows(operand, begin, part, out))
            return false;
          out += part * rowSize;
          count -= part;
        }
        begin = std::max<int64_t>(0, begin - available);
      }
      return true;
    case Kind::Slice:
      return rows(step.operands[0], step.begin + begin, count, out);
    case Kind::SliceColumns:
      return sliceColumns(index, begin, count, out);
    case Kind::Scale:
      if (!rows(step.operands[0], begin, count, out))
        return false;
      for (int64_t i = 0; i < count * rowSize; ++i)
        out[i] = Value(out[i] * step.factor);
      return true;
    case Kind::Cast:
      return rows(step.operands[0], begin, count, out) &&
             (step.type == ElementType::F32 ||
              round(index, begin * rowSize, count * rowSize, out));
    case Kind::Transpose:
      return transpose(index, begin, count, out);
    case Kind::PadRows:
      return padRows(step, begin, count, out);
    case Kind::Interleave:
      return interleave(step, begin, count, out);
    case Kind::PackPanels:
      return packRows(index, begin, count, out);
    case Kind::PackTiles:
      return packTiles(index, begin, count, out);
    case Kind::RopeTable:
      fillRopeTable(step, begin, count, out);
      return true;
    }
    return false;
  }

  /// Calls `use` with blocks of rows [begin, begin + count) of a step's operand
  /// that scratch memory has room for: the rows, the first one's number and how
  /// many they are.
  template <typename Use>
  bool forEachBlock(int index, int64_t begin, int64_t count, Use use) {
    int operand = recipe.steps[index].operands[0];
    int64_t rowSize = rowElements(recipe.steps[operand]);
    int64_t blockRows = std::max<int64_t>(1, kBlockElements / rowSize);
    std::vector<Value> &block = scratch[index];
    block.resize(std::min(blockRows, count) * rowSize);
    for (int64_t row = begin; row < begin + count; row += blockRows) {
      int64_t part = std::min(blockRows, begin + count - row);
      if (!rows(operand, row, part, block.data()))
        return false;
      use(block.data(), row, part);
    }
    return true;
  }

  bool sliceColumns(int index, int64_t begin, int64_t count, Value *out) {
    const RecipeStep &step = recipe.steps[index];
    int64_t columns = recipe.steps[step.operands[0]].shape[1];
    return forEachBlock(index, begin, count,
                        [&](const Value *block, int64_t, int64_t rowCount) {
                          for (int64_t r = 0; r < rowCount; ++r)
                            out = std::copy_n(block + r * columns + step.begin,
                                              step.shape[1], out);
                        });
  }

  bool transpose(int index, int64_t begin, int64_t count, Value *out) {
    int64_t n = recipe.steps[index].shape[1], k = recipe.steps[index].shape[0];
    return forEachBlock(index, 0, n,
                        [&](const Value *block, int64_t row, int64_t rowCount) {
                          for (int64_t r = 0; r < rowCount; ++r)
                            for (int64_t c = 0; c < count; ++c)
                              out[c * n + row + r] = block[r * k + begin + c];
                        });
  }

  bool interleave(const RecipeStep &step, int64_t begin, int64_t count,
                  Value *out) {
    int64_t rowSize = rowElements(step);
    int64_t available = recipe.steps[step.operands[0]].shape[0];
    while (count > 0) {
      int64_t run = begin / step.group; // Of one operand.
      int64_t first = begin % step.group;
      int64_t part = std::min(count, step.group - first);
      int64_t row = run / 2 * step.group + first;
      int64_t given = std::clamp<int64_t>(available - row, 0, part);
      if (given && !rows(step.operands[run % 2], row, given, out))
        return false;
      std::fill_n(out + given * rowSize, (part - given) * rowSize, Value(0));
      out += part * rowSize;
      begin += part;
      count -= part;
    }
    return true;
  }

  bool packTiles(int index, int64_t begin, int64_t count, Value *out) {
    const RecipeStep &step = recipe.steps[index];
    int operand = step.operands[0];
    int64_t n = recipe.steps[operand].shape[0];
    int64_t columns = recipe.steps[operand].shape[1];
    std::vector<Value> &unpacked = scratch[index];
    unpacked.resize(kPairColumns * columns);
    SplitTile tile;
    for (int64_t pair = begin; pair < begin + count; ++pair) {
      int64_t first = pair * kPairColumns;
      int64_t available = std::min(kPairColumns, n - first);
      if (!rows(operand, first, available, unpacked.data()))
        return false;
      for (int64_t k = 0; k < columns; k += kTileK)
        for (int64_t t = 0; t < kPairColumns; t += kTileColumns) {
          const Value *from = unpacked.data() + t * columns + k;
          int64_t tileRows =
              std::clamp<int64_t>(available - t, 0, kTileColumns);
          int64_t width = std::min(kTileK, columns - k);
          if (!tile.split(from, tileRows, width, columns, step.planes))
            return failBeyondBF16(index, tile, (first + t) * columns + k, from);
          if (step.type == ElementType::F32)
            tile.keep(from, tileRows, width, columns);
          for (int64_t p = 0; p < step.planes; ++p)
            tile.store(p, out + p * kPairElements + t * kTileK);
          if (t)
            out += step.planes * kPairElements;
        }
    }
    return true;
  }

  /// from: the tile's values, the first of them with this flat index.
  bool failBeyondBF16(int index, const SplitTile &tile, int64_t first,
                      const Value *from) {
    int operand = recipe.steps[index].operands[0];
    int64_t columns = recipe.steps[operand].shape[1], i = 0;
    const float *rounded = &tile.planes[0][0][0];
    while (std::isfinite(rounded[i]))
      ++i;
    int64_t at = i / kTileK * columns + i % kTileK;
    return failBeyond(index, first + at, double(from[at]), ElementType::BF16);
  }

  /// As Transformers computes it: the power, its inverse and the product with
  /// the position are rounded to f32 each.
  void fillRopeTable(const RecipeStep &step, int64_t begin, int64_t count,
                     Value *out) {
    int64_t headSize = step.shape[1], half = headSize / 2;
    std::vector<float> frequencies(half);
    for (int64_t k = 0; k < half; ++k) {
      float exponent = float(2 * k) / float(headSize);
      frequencies[k] =
          1.0f / float(std::pow(double(float(step.theta)), double(exponent)));
    }
    for (int64_t position = begin; position < begin + count; ++position)
      for (int64_t k = 0; k < half; ++k) {
        double angle = float(position) * frequencies[k];
        out[(position - begin) * headSize + k] = float(std::cos(angle));
        out[(position - begin) * headSize + half + k] = float(std::sin(angle));
      }
  }

  bool load(int index, int64_t first, int64_t count, Value *out) {
    switch (recipe.steps[index].type) {
    case ElementType::F32:
      return loadAs<uint32_t>(index, first, count, kF32Exponent, fromF32, out);
    case ElementType::F16:
      return loadAs<uint16_t>(index, first, count, kF16Exponent, fromF16, out);
    case ElementType::BF16:
      return loadAs<uint16_t>(index, first, count, kBF16Exponent, fromBF16,
                              out);
    }
    return false;
  }

  template <typename Raw, typename Convert>
  bool loadAs(int index, int64_t first, int64_t count, Raw exponent,
              Convert convert, Value *out) {
    const uint8_t *from = tensors[index] + first * int64_t(sizeof(Raw));
    if (hasNonFinite<Raw>(from, count, exponent)) {
      while ((loadRaw<Raw>(from, 0) & exponent) != exponent)
        from += sizeof(Raw), ++first;
      Raw raw = loadRaw<Raw>(from, 0);
      bool negative = raw >> (8 * sizeof(Raw) - 1);
      Raw mantissa = Raw((exponent & -exponent) - 1);
      const RecipeStep &step = recipe.steps[index];
      error = source.path(step.file) + ": tensor '" + step.tensor + "' has " +
              (raw & mantissa ? "nan"
               : negative     ? "-inf"
                              : "inf") +
              " at index " + std::to_string(first) + ", used by weight '" +
              recipe.name + "'";
      return false;
    }
    for (int64_t i = 0; i < count; ++i)
      out[i] = convert(loadRaw<Raw>(from, i));
    return true;
  }

  bool padRows(const RecipeStep &step, int64_t begin, int64_t count,
               Value *out) {
    int64_t rowSize = rowElements(step);
    while (count > 0) {
      int64_t group = begin / step.padded, row = begin % step.padded, part;
      if (row < step.group) {
        part = std::min(count, step.group - row);
        if (!rows(step.operands[0], group * step.group + row, part, out))
          return false;
      } else {
        part = std::min(count, step.padded - row);
        std::fill_n(out, part * rowSize, Value(0));
      }
      out += part * rowSize;
      begin += part;
      count -= part;
    }
    return true;
  }

  bool packRows(int index, int64_t begin, int64_t count, Value *out) {
    const RecipeStep &step = recipe.steps[index];
    int operand = step.operands[0];
    const std::vector<int64_t> &from = recipe.steps[operand].shape;
    if (from.size() == 1) {
      int64_t available = std::clamp<int64_t>(from[0] - begin, 0, count);
      std::fill_n(out + available, count - available, Value(0));
      return available == 0 || rows(operand, begin, available, out);
    }
    std::vector<Value> &unpacked = scratch[index];
    unpacked.resize(kPanelColumns * from[1]);
    for (int64_t panel = begin; panel < begin + count; ++panel) {
      int64_t row = panel * kPanelColumns;
      int64_t available = std::min(kPanelColumns, from[0] - row);
      if (!rows(operand, row, available, unpacked.data()))
        return false;
      if (step.type == ElementType::BF16)
        packPanel<2>(unpacked.data(), available, from[1], out);
      else
        packPanel<1>(unpacked.data(), available, from[1], out);
      out += rowElements(step);
    }
    return true;
  }

  /// Rounds values [first, first + count) of a step's result to its type.
  bool round(int index, int64_t first, int64_t count, Value *values) {
    ElementType type = recipe.steps[index].type;
    // A double takes one rounding, not two.
    bool fast = std::is_same_v<Value, float> && type == ElementType::BF16;
    for (int64_t i = 0; i < count; ++i) {
      Value rounded = fast ? Value(roundToBF16(float(values[i])))
                           : Value(roundTo(type, values[i]));
      if (!std::isfinite(rounded))
        return failBeyond(index, first + i, double(values[i]), type);
      values[i] = rounded;
    }
    return true;
  }

  bool failBeyond(int index, int64_t at, double value, ElementType type) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", value);
    error = "weight '" + recipe.name + "': step " + std::to_string(index) +
            " (" + kindName(recipe.steps[index].kind) + "): " + text +
            " at index " + std::to_string(at) + " is beyond the range of " +
            typeName(type);
    return false;
  }

  /// Of values that the type holds.
  void store(ElementType type, const Value *values, int64_t count,
             uint8_t *bytes) {
    if (type == ElementType::F32) {
      for (int64_t i = 0; i < count; ++i) {
        float value = float(values[i]);
        std::memcpy(bytes + i * 4, &value, 4);
      }
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      uint16_t raw = toHalf(type, float(values[i]));
      std::memcpy(bytes + i * 2, &raw, 2);
    }
  }

  const WeightRecipe &recipe;
  const WeightSource &source;
  const std::vector<const uint8_t *> &tensors; ///< Of the Tensor steps.
  std::string &error;
  std::vector<std::vector<Value>> scratch; ///< Of each step, for operands.
};

} // namespace

bool evaluateRecipe(const WeightRecipe &recipe, WeightSource &source,
                    std::vector<uint8_t> &bytes, std::string &error) {
  if (!RecipeChecker(recipe, error).check())
    return false;
  std::vector<const uint8_t *> tensors(recipe.steps.size());
  bool arithmetic = false;
  for (size_t i = 0; i < recipe.steps.size(); ++i) {
    const RecipeStep &step = recipe.steps[i];
    arithmetic |= step.kind == Kind::Scale;
    if (step.kind == Kind::Tensor &&
        !source.read(step.file, step.tensor, step.shape, step.type, tensors[i],
                     error))
      return false;
  }
  const RecipeStep &last = recipe.steps.back();
  bytes.resize(elements(last) * elementBytes(last.type));
  if (arithmetic)
    return Evaluator<double>(recipe, source, tensors, error).run(bytes.data());
  return Evaluator<float>(recipe, source, tensors, error).run(bytes.data());
}

} // namespace encast
