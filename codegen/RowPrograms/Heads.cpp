//===- Heads.cpp - queries, keys and values as attention reads them -------===//
///
/// \file
/// A loop over heads; a head is held in registers, one value per 16 columns:
///
///   x[head]   | 0..15 | 16..31 | 32..47 | ..39 |       load, the last masked
///   norm      sum of squares over all of them, then scale and gain
///   rope      own * cosine + partner * sine, where the partner of column c
///             is c + headSize / 2 or c - headSize / 2
///   y         f32 row, f32 panels of 16, or bf16 planes
///
/// Gain, cosines and sines are loaded once, in front of the loop. The scale of
/// a norm is computed one head ahead, so that its long chain of reduction, root
/// and division does not hold up what is done with it.
//===----------------------------------------------------------------------===//

#include "codegen/Kernels/Kernels.h"
#include "codegen/RowPrograms/RowProgram.h"

using namespace mlir;
using namespace encast;

namespace {

/// Fills the function of getHeads.
class Heads {
public:
  Heads(RowProgram &p, int64_t heads, int64_t headSize,
        const HeadsOptions &options)
      : p(p), heads(heads), headSize(headSize),
        vectors((headSize + kLanes - 1) / kLanes), options(options) {}

  void build() {
    unsigned number = 0;
    Value x = p.argument(number++);
    if (options.norm)
      gain = loadColumns(p.argument(number++), Value());
    if (options.rope) {
      loadRotation(p.argument(number), p.argument(number + 1));
      number += 2;
    }
    y = p.argument(number++);
    if (options.panelMajor)
      y = panelsOf(y, p.argument(number));
    SmallVector<Value> firstScale;
    if (options.norm)
      firstScale.push_back(scaleOf(loadHead(x, p.index(0))));
    p.forEach("head", p.index(0), p.index(heads), p.index(1), firstScale,
              [&](Value head, ValueRange scale) {
                SmallVector<Value> nextScale;
                if (options.norm)
                  nextScale.push_back(scaleOf(loadHead(x, nextHead(head))));
                SmallVector<Value> values = loadHead(x, head);
                if (options.norm)
                  normalize(values, scale[0]);
                if (options.rope)
                  rotate(values);
                if (options.factor != 1)
                  for (Value &value : values)
                    value = p.multiply(value, p.splat(options.factor));
                store(values, head);
                return nextScale;
              });
  }

private:
  /// The columns of vector `v`, counted from `first` if there is one.
  Columns columns(int64_t v, Value first) {
    int64_t left = headSize - v * kLanes;
    Value column = first ? p.plus(first, v * kLanes) : p.index(v * kLanes);
    return {column, left < kLanes ? p.firstLanes(left) : Value()};
  }

  SmallVector<Value> loadColumns(Value memref, Value first) {
    SmallVector<Value> values;
    for (int64_t v = 0; v < vectors; ++v)
      values.push_back(p.load(memref, columns(v, first)));
    return values;
  }

  /// The head behind `head`, or `head` if that is the last one.
  Value nextHead(Value head) {
    return arith::MinSIOp::create(p.b, p.plus(head, 1), p.index(heads - 1));
  }

  SmallVector<Value> loadHead(Value x, Value head) {
    return loadColumns(x, p.times(head, headSize));
  }

  /// Vector `v` of a head whose columns are each another column of `values`.
  /// Whole vectors that only change places cost nothing.
  Value permute(ArrayRef<Value> values, int64_t v,
                function_ref<int64_t(int64_t)> source) {
    Value result = p.splat(0);
    for (int64_t from = 0; from < vectors; ++from) {
      // Lanes of `result` are 0 to 15, those of values[from] 16 to 31.
      SmallVector<int64_t> lanes;
      int64_t taken = 0;
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        int64_t column = v * kLanes + lane;
        int64_t other = column < headSize ? source(column) : -1;
        bool here = other >= 0 && other / kLanes == from;
        lanes.push_back(here ? kLanes + other % kLanes : lane);
        taken += here;
      }
      if (taken)
        result = vector::ShuffleOp::create(p.b, result, values[from], lanes);
    }
    return result;
  }

  /// cosine and sine of every column; sines of the first half are negative.
  void loadRotation(Value position, Value table) {
    int64_t half = headSize / 2;
    Value number = memref::LoadOp::create(p.b, position, p.index(0));
    Value row = arith::IndexCastOp::create(p.b, p.b.getIndexType(), number);
    auto type = MemRefType::get(
        headSize, p.b.getF32Type(),
        StridedLayoutAttr::get(p.b.getContext(), ShapedType::kDynamic, {1}));
    Value rotation = memref::ReinterpretCastOp::create(
        p.b, type, table, OpFoldResult(p.times(row, headSize)),
        ArrayRef<OpFoldResult>{p.b.getIndexAttr(headSize)},
        ArrayRef<OpFoldResult>{p.b.getIndexAttr(1)});
    SmallVector<Value> both = loadColumns(rotation, Value());
    for (int64_t v = 0; v < vectors; ++v) {
      cosine.push_back(
          permute(both, v, [&](int64_t column) { return column % half; }));
      Value positive = permute(
          both, v, [&](int64_t column) { return half + column % half; });
      int64_t first = std::clamp<int64_t>(half - v * kLanes, 0, kLanes);
      sine.push_back(
          first == 0 ? positive
                     : arith::SelectOp::create(p.b, p.firstLanes(first),
                                               p.negate(positive), positive));
    }
  }

  Value scaleOf(ArrayRef<Value> values) {
    Value sum = p.splat(0);
    for (Value value : values)
      sum = p.fma(value, value, sum);
    return p.inverseRoot(p.sumLanes(sum), headSize, *options.norm);
  }

  void normalize(SmallVector<Value> &values, Value scale) {
    for (int64_t v = 0; v < vectors; ++v)
      values[v] = p.multiply(p.multiply(values[v], scale), gain[v]);
  }

  void rotate(SmallVector<Value> &values) {
    int64_t half = headSize / 2;
    SmallVector<Value> rotated;
    for (int64_t v = 0; v < vectors; ++v) {
      Value partner = permute(values, v, [&](int64_t column) {
        return column < half ? column + half : column - half;
      });
      rotated.push_back(
          p.fma(values[v], cosine[v], p.multiply(partner, sine[v])));
    }
    values = rotated;
  }

  /// The panels behind the first one, whose row is `first`.
  Value panelsOf(Value first, Value planeBytes) {
    Value stride =
        arith::ShRUIOp::create(p.b, planeBytes, p.index(2)); // In floats.
    auto type =
        MemRefType::get({heads * vectors, kLanes}, p.b.getF32Type(),
                        StridedLayoutAttr::get(p.b.getContext(), /*offset=*/0,
                                               {ShapedType::kDynamic, 1}));
    return memref::ReinterpretCastOp::create(
        p.b, type, first, /*offset=*/p.b.getIndexAttr(0),
        ArrayRef<OpFoldResult>{p.b.getIndexAttr(heads * vectors),
                               p.b.getIndexAttr(kLanes)},
        ArrayRef<OpFoldResult>{stride, p.b.getIndexAttr(1)});
  }

  void store(ArrayRef<Value> values, Value head) {
    if (options.output.planes)
      return storeInPlanes(values, head);
    for (int64_t v = 0; v < vectors; ++v) {
      if (options.panelMajor)
        vector::StoreOp::create(
            p.b, p.existing(values[v], columns(v, Value())), y,
            ValueRange{p.plus(p.times(head, vectors), v), p.index(0)});
      else
        p.store(values[v], y, columns(v, p.times(head, headSize)));
    }
  }

  void storeInPlanes(ArrayRef<Value> values, Value head) {
    int64_t padded = planeStride(headSize);
    Value first = p.times(head, padded);
    auto valueOf = [&](int64_t v) {
      return v < vectors ? p.existing(values[v], columns(v, Value()))
                         : p.splat(0);
    };
    for (int64_t column = 0; column < padded; column += kPlaneColumns) {
      int64_t v = column / kLanes;
      p.storePlanes(valueOf(v), valueOf(v + 1), y, p.plus(first, column),
                    heads * padded, options.output.planes);
    }
  }

  RowProgram &p;
  const int64_t heads, headSize;
  const int64_t vectors; ///< Of a head.
  const HeadsOptions &options;
  SmallVector<Value> gain, cosine, sine;
  Value y;
};

} // namespace

func::FuncOp encast::getHeads(ModuleOp module, int64_t heads, int64_t headSize,
                              const HeadsOptions &options) {
  assert((!options.rope || headSize % 2 == 0) &&
         "halves of a head are rotated");
  assert((!options.panelMajor || options.output.planes == 0) &&
         "panels are f32");
  MLIRContext *context = module.getContext();
  std::string name = llvm::formatv("heads_{0}x{1}", heads, headSize);
  SmallVector<Argument> arguments = {{"x", rowType(context, heads * headSize)}};
  if (options.norm) {
    name += "_norm_" + shortest(*options.norm);
    arguments.push_back({"gain", rowType(context, headSize)});
  }
  if (options.rope) {
    name += "_rope";
    arguments.push_back(
        {"position", MemRefType::get(1, IntegerType::get(context, 32))});
    arguments.push_back({"table", rowType(context, headSize)});
  }
  if (options.factor != 1)
    name += "_times_" + shortest(options.factor);
  if (options.panelMajor) {
    name += "_panels";
    arguments.push_back({"y", rowType(context, kLanes)});
    arguments.push_back({"plane_bytes", IndexType::get(context)});
  } else {
    // Padded heads fill planes without a rest.
    int64_t columns =
        heads * (options.output.planes ? planeStride(headSize) : headSize);
    name += outputSuffix(options.output);
    arguments.push_back({"y", resultType(context, columns, options.output)});
  }
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    Heads(p, heads, headSize, options).build();
  });
}
