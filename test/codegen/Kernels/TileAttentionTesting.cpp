//===- TileAttentionTesting.cpp - running attention on tiles --------------===//

#include "TileAttentionTesting.h"
#include "TileTesting.h"
#include "codegen/Kernels/AttentionPack.h"
#include "codegen/Kernels/Polynomials.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>

using namespace encast;

static AttentionShape withStrides(AttentionShape shape) {
  const int64_t planes = activationPlanes(shape.arithmetic);
  const int64_t columns = shape.queryHeads * shape.headSize;
  const int64_t head = planeStride(shape.headSize);
  if (shape.ldq == 0) {
    shape.qPlaneStride = shape.queryHeads * head;
    shape.ldq = planeRowStride(shape.qPlaneStride, planes);
  }
  if (shape.ldkv == 0) {
    shape.kvPlaneStride = head;
    shape.ldkv = planeRowStride(head, planes);
  }
  if (shape.outPlanes > 0 && shape.ldo <= 1) {
    shape.outPlaneStride = planeStride(columns);
    shape.ldo = planeRowStride(columns, shape.outPlanes);
  } else if (shape.ldo <= 1) {
    shape.ldo = columns;
  }
  return shape;
}

static uint16_t *elementsOf(GuardedFloats &floats) {
  return reinterpret_cast<uint16_t *>(floats.data());
}

static const uint16_t *elementsOf(const GuardedFloats &floats) {
  return reinterpret_cast<const uint16_t *>(floats.data());
}

/// Floats that hold rows of planes; nothing behind the last column of the last
/// row's last plane.
static int64_t planeFloats(int64_t rows, int64_t rowStride, int64_t planes,
                           int64_t stride, int64_t columns) {
  return ((rows - 1) * rowStride + (planes - 1) * stride + columns + 1) / 2;
}

int64_t TileAttentionProblem::packedFloats() const {
  return (size.keys + kTileKeys - 1) / kTileKeys * kTileKeys *
         packedRowBytes(shape) / int64_t(sizeof(float));
}

TileAttentionProblem::TileAttentionProblem(Size size,
                                           const AttentionShape &given,
                                           uint64_t seed)
    : size(size), shape(withStrides(given)),
      q(planeFloats(size.queries, shape.ldq, activationPlanes(shape.arithmetic),
                    shape.qPlaneStride,
                    shape.queryHeads * planeStride(shape.headSize))),
      k(planeFloats(size.keys, shape.ldkv, activationPlanes(shape.arithmetic),
                    shape.kvPlaneStride, planeStride(shape.headSize))),
      v(k.size()), packedK(packedFloats()), packedV(packedFloats()),
      out(shape.outPlanes > 0
              ? planeFloats(size.queries, shape.ldo, shape.outPlanes,
                            shape.outPlaneStride,
                            shape.queryHeads * shape.headSize)
              : (size.queries - 1) * shape.ldo +
                    shape.queryHeads * shape.headSize),
      qValues(size.queries * shape.queryHeads * shape.headSize),
      kValues(size.keys * shape.headSize), vValues(kValues.size()) {
  // Columns that fill up heads are zero, the gaps between rows are not.
  const int64_t planes = activationPlanes(shape.arithmetic);
  const auto clear = [&](GuardedFloats &operand, int64_t rows, int64_t stride,
                         int64_t planeStride, int64_t columns) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t plane = 0; plane < planes; ++plane)
        std::memset(elementsOf(operand) + row * stride + plane * planeStride, 0,
                    columns * 2);
  };
  const int64_t head = planeStride(shape.headSize);
  clear(q, size.queries, shape.ldq, shape.qPlaneStride,
        shape.queryHeads * head);
  clear(k, size.keys, shape.ldkv, shape.kvPlaneStride, head);
  clear(v, size.keys, shape.ldkv, shape.kvPlaneStride, head);
  Random random(seed);
  for (int64_t query = 0; query < size.queries; ++query)
    for (int64_t h = 0; h < shape.queryHeads; ++h)
      for (int64_t dim = 0; dim < shape.headSize; ++dim)
        setQ(query, h, dim, 3 * random.uniform());
  for (int64_t key = 0; key < size.keys; ++key)
    for (int64_t dim = 0; dim < shape.headSize; ++dim) {
      setK(key, dim, random.uniform());
      setV(key, dim, random.uniform());
    }
}

/// Stores the planes of a value and returns their sum.
static double setPlanes(uint16_t *first, int64_t stride, int planes,
                        float value) {
  double sum = 0;
  const std::vector<uint16_t> terms = planesOf(value, planes);
  for (int plane = 0; plane < planes; ++plane) {
    first[plane * stride] = terms[plane];
    sum += bf16Value(terms[plane]);
  }
  return sum;
}

void TileAttentionProblem::setQ(int64_t query, int64_t head, int64_t dim,
                                float value) {
  qValues[(query * shape.queryHeads + head) * shape.headSize + dim] =
      setPlanes(elementsOf(q) + query * shape.ldq +
                    head * planeStride(shape.headSize) + dim,
                shape.qPlaneStride, activationPlanes(shape.arithmetic),
                float(value * tileQueryFactor(shape)));
}

void TileAttentionProblem::setK(int64_t key, int64_t dim, float value) {
  kValues[key * shape.headSize + dim] =
      setPlanes(elementsOf(k) + key * shape.ldkv + dim, shape.kvPlaneStride,
                activationPlanes(shape.arithmetic), value);
}

void TileAttentionProblem::setV(int64_t key, int64_t dim, float value) {
  vValues[key * shape.headSize + dim] =
      setPlanes(elementsOf(v) + key * shape.ldkv + dim, shape.kvPlaneStride,
                activationPlanes(shape.arithmetic), value);
}

void TileAttentionProblem::pack(const ExecutableCode &kernel, int64_t rows) {
  const int64_t rowFloats = packedRowBytes(shape) / int64_t(sizeof(float));
  std::vector<int32_t> positions(size_t(size.keys) + 1);
  std::iota(positions.begin(), positions.end() - 1, 0);
  // Backwards, as no call may count on the one before it.
  for (int64_t first = (size.keys - 1) / rows * rows; first >= 0;
       first -= rows) {
    AttentionPackArgs args = {};
    args.k = elementsOf(k) + first * shape.ldkv;
    args.v = elementsOf(v) + first * shape.ldkv;
    args.packedK = packedK.data() + first * rowFloats;
    args.packedV = packedV.data() + first * rowFloats;
    args.rows = std::min(rows, size.keys - first);
    args.positions = positions.data() + first;
    kernel.callChecked(&args);
  }
}

void TileAttentionProblem::packSlowly() {
  const int64_t planes = activationPlanes(shape.arithmetic);
  const int64_t head = planeStride(shape.headSize);
  std::memset(packedK.data(), 0, packedK.size() * sizeof(float));
  std::memset(packedV.data(), 0, packedV.size() * sizeof(float));
  for (int64_t key = 0; key < size.keys; ++key)
    for (int64_t plane = 0; plane < planes; ++plane)
      for (int64_t dim = 0; dim < head; ++dim)
        elementsOf(packedK)[packedKeyElement(shape, key, dim, plane)] =
            elementsOf(k)[key * shape.ldkv + plane * shape.kvPlaneStride + dim];
  for (int64_t block = 0; block * kTileKeys < size.keys; ++block)
    for (int64_t position = 0; position < kTileKeys; ++position) {
      const int64_t key =
          block * kTileKeys + probabilityKey(shape.arithmetic, position);
      for (int64_t plane = 0; key < size.keys && plane < planes; ++plane)
        for (int64_t dim = 0; dim < head; ++dim)
          elementsOf(
              packedV)[packedValueElement(shape, block, position, dim, plane)] =
              elementsOf(
                  v)[key * shape.ldkv + plane * shape.kvPlaneStride + dim];
    }
}

void TileAttentionProblem::run(const KernelRow &row,
                               const ExecutableCode &kernel, int64_t firstQuery,
                               int64_t queries) {
  void *firstOut = out.data() + firstQuery * shape.ldo;
  if (shape.outPlanes > 0)
    firstOut = elementsOf(out) + firstQuery * shape.ldo;
  run(row, kernel, size.position + firstQuery, queries,
      elementsOf(q) + firstQuery * shape.ldq, firstOut);
}

void TileAttentionProblem::runOverQueries(const KernelRow &row,
                                          const ExecutableCode &kernel) {
  run(row, kernel, size.position, size.queries, elementsOf(q), elementsOf(q));
}

void TileAttentionProblem::run(const KernelRow &row,
                               const ExecutableCode &kernel, int64_t position,
                               int64_t queries, const uint16_t *firstQuery,
                               void *firstOut) {
  TileAttentionArgs args = {};
  args.q = firstQuery;
  args.packedK = packedK.data();
  args.packedV = packedV.data();
  args.out = firstOut;
  args.queries = queries;
  args.keys = size.keys;
  args.position = position;
  args.ahead = ahead;
  callWithWorkspace(kernel, args, attentionWorkspaceBytes(row, shape));
}

double TileAttentionProblem::result(int64_t query, int64_t head,
                                    int64_t dim) const {
  const int64_t column = head * shape.headSize + dim;
  if (shape.outPlanes == 0)
    return out[outElement(query, column, 0)];
  double sum = 0;
  for (int64_t plane = 0; plane < shape.outPlanes; ++plane)
    sum += bf16Value(elementsOf(out)[outElement(query, column, plane)]);
  return sum;
}

bool TileAttentionProblem::gapsUntouched(int64_t firstQuery,
                                         int64_t queries) const {
  const int64_t words = shape.outPlanes > 0 ? 1 : 2; // of an element
  std::vector<bool> written(out.size() * 2);
  for (int64_t query = firstQuery; query < firstQuery + queries; ++query)
    for (int64_t plane = 0; plane < std::max(1, shape.outPlanes); ++plane)
      for (int64_t c = 0; c < shape.queryHeads * shape.headSize; ++c)
        for (int64_t word = 0; word < words; ++word)
          written[outElement(query, c, plane) * words + word] = true;
  for (int64_t i = 0; i < out.size() * 2; ++i)
    if (!written[i] && elementsOf(out)[i] != 0xa5a5)
      return false;
  for (const GuardedFloats *operand : {&q, &k, &v, &packedK, &packedV, &out})
    if (!operand->frontUntouched())
      return false;
  return true;
}

std::pair<int64_t, int64_t>
TileAttentionProblem::seenKeys(int64_t query) const {
  if (shape.window < 0)
    return {0, size.keys};
  const int64_t position = size.position + query;
  return {std::clamp<int64_t>(position - shape.window, 0, size.keys),
          std::min(size.keys, position + shape.window + 1)};
}

TileAttentionProblem::Expected
TileAttentionProblem::expected(int64_t query, int64_t head) const {
  const double unit = 0x1p-24, ln2 = 0.6931471805599453;
  const bool words = shape.arithmetic == Arithmetic::Bf16;
  const int planes = activationPlanes(shape.arithmetic);
  const int64_t dims = shape.headSize;
  const auto [firstKey, endKey] = seenKeys(query);
  // Scores in powers of two.
  std::vector<double> scores;
  double largest = -HUGE_VAL, magnitude = 0;
  for (int64_t key = firstKey; key < endKey; ++key) {
    double score = 0, absolute = 0;
    for (int64_t dim = 0; dim < dims; ++dim) {
      const double product =
          qValues[(query * shape.queryHeads + head) * dims + dim] *
          kValues[key * dims + dim] / (words ? 128 : 1);
      score += product;
      absolute += std::fabs(product);
    }
    scores.push_back(score);
    largest = std::max(largest, score);
    magnitude = std::max(magnitude, absolute);
  }
  // Of products of planes those are missing that are below 2^-8 for each plane
  // that both factors are behind the first.
  const double missing[] = {0, 0, 0x1p-16, 3 * 0x1p-24};
  // A score: what is missing; a chain of 16 and a sum for each step and
  // product, the offset among them; Bf16 rounds it to 1/128.
  const double terms = 20 + 6 * double(planeStride(dims)) / 32;
  const double scoreError =
      magnitude * missing[planes] +
      terms * unit * (magnitude + std::fabs(largest) + 128) +
      (words ? 0.5 / 128 : 0);
  // A probability: its score; 2^x, where Bf16 has half a word of rounding, and
  // a fifth because two fractions share a correction; its planes, which are cut
  // off; and the planes of values that it is not multiplied by.
  double relative = std::exp(ln2 * scoreError) - 1 + 2e-7;
  if (words)
    relative += 0.7 / 128;
  if (planes == 2)
    relative += 0x1p-15 + 0x1p-16;
  if (planes == 3)
    relative += 3 * 0x1p-23;
  // Sums of probabilities, and of values; out.
  const double keys = double(endKey - firstKey);
  const double sums = (keys / 8 + 64) * unit;
  const double rounding[] = {2 * unit, 0x1p-8, 0x1p-16, 2 * unit};

  Expected result;
  result.values.resize(dims);
  result.bounds.resize(dims);
  if (firstKey == endKey) // exactly 0
    return result;
  double sum = 0;
  std::vector<double> absolute(dims);
  for (int64_t key = firstKey; key < endKey; ++key) {
    const double p = std::exp2(scores[key - firstKey] - largest);
    sum += p;
    for (int64_t dim = 0; dim < dims; ++dim) {
      result.values[dim] += p * vValues[key * dims + dim];
      absolute[dim] += p * std::fabs(vValues[key * dims + dim]);
    }
  }
  for (int64_t dim = 0; dim < dims; ++dim) {
    result.values[dim] /= sum;
    result.bounds[dim] =
        (2 * relative + 2 * sums) * (1 + relative) * absolute[dim] / sum +
        rounding[shape.outPlanes] * std::fabs(result.values[dim]) + 1e-30;
  }
  return result;
}

namespace {
/// Products of planes in the order of a step, by the planes of A and of B.
struct PlanePair {
  int a, b;
};
} // namespace

/// Stated on its own, to be compared with what kernels do.
static std::vector<PlanePair> productsOf(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::Bf16)
    return {{0, 0}};
  if (arithmetic == Arithmetic::Bf16x3)
    return {{1, 0}, {0, 0}, {0, 1}};
  return {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
}

static float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value)
                                                : value;
}

static uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// 2^(score / 128) as a bf16 word.
static uint16_t powerWord(float score) {
  const double word = std::nearbyint(double(score)) + 127 * 128;
  if (word < 0)
    return 0;
  const int value = int(word), pair = value % 128 / 2 * 2;
  double correction = 0; // of two fractions
  for (int fraction : {pair, pair + 1})
    correction += fraction - 128 * (std::exp2(fraction / 128.0) - 1);
  return uint16_t(value - std::lround(correction / 2));
}

/// 2^score in f32, by the polynomial of codegen/Kernels/Polynomials.h.
static float power(float score) {
  const float nearest = std::nearbyint(score), fraction = score - nearest;
  float result = kExp2[std::size(kExp2) - 1];
  for (int i = int(std::size(kExp2)) - 2; i >= 0; --i)
    result = std::fma(result, fraction, kExp2[i]);
  return flushed(std::ldexp(result, int(std::max(nearest, -1000.0f))));
}

/// The planes of a probability: cut off, but the last one of two is rounded.
static std::vector<uint16_t> cutPlanes(float value, int planes) {
  std::vector<uint16_t> result;
  for (int plane = 0; plane < planes; ++plane) {
    uint32_t bits = bitsOf(value);
    if (planes == 2 && plane == 1)
      bits += 0x8000;
    result.push_back(uint16_t(bits >> 16));
    value = flushed(value - bf16Value(result.back()));
  }
  return result;
}

float TileAttentionProblem::scoreBits(int64_t query, int64_t head,
                                      int64_t key) const {
  const int64_t columns = planeStride(shape.headSize);
  const uint16_t *qRow = elementsOf(q) + query * shape.ldq + head * columns;
  const uint16_t *kRow = elementsOf(k) + key * shape.ldkv;
  float sum = 0;
  for (int64_t dim = 0; dim < columns; dim += 32)
    for (PlanePair pair : productsOf(shape.arithmetic))
      sum = tileSum(sum, qRow + pair.a * shape.qPlaneStride + dim,
                    kRow + pair.b * shape.kvPlaneStride + dim);
  return sum;
}

std::vector<float> TileAttentionProblem::expectedBits(int64_t query,
                                                      int64_t head) const {
  const bool words = shape.arithmetic == Arithmetic::Bf16;
  const int planes = activationPlanes(shape.arithmetic);
  const float unit = words ? 128 : 1;
  const auto [firstKey, endKey] = seenKeys(query);
  // Half a megabyte of keys and values, but a window is one span.
  int64_t spanKeys =
      (512 << 10) / (2 * packedRowBytes(shape) * kTileKeys) * kTileKeys;
  if (shape.window >= 0)
    spanKeys = size.keys;

  float allSums = 0, offset = 0;
  std::vector<float> allValues(shape.headSize);
  if (firstKey == endKey)
    return allValues;
  for (int64_t span = firstKey / spanKeys * spanKeys; span < endKey;
       span += spanKeys) {
    const bool firstSpan = span <= firstKey;
    const int64_t spanEnd = std::min(endKey, span + spanKeys);
    std::vector<float> scores;
    float largest = -HUGE_VALF;
    for (int64_t key = std::max(firstKey, span); key < spanEnd; ++key) {
      scores.push_back(scoreBits(query, head, key));
      largest = std::max(largest, scores.back());
    }
    const float before = offset, exponent = (largest + offset) / unit;
    if (exponent > 60 || (firstSpan && exponent < -70))
      offset = std::fma(-std::nearbyint(exponent), unit, offset);

    float lanes[16] = {};
    std::vector<float> values(shape.headSize);
    for (int64_t block = std::max(firstKey, span) / kTileKeys * kTileKeys;
         block < spanEnd; block += kTileKeys) {
      // Of each position in a row of probabilities.
      uint16_t rows[3][32] = {};
      for (int position = 0; position < 32; ++position) {
        const int64_t key = block + probabilityKey(shape.arithmetic, position);
        if (key < std::max(firstKey, span) || key >= spanEnd)
          continue;
        const float score = scores[key - std::max(firstKey, span)] + offset;
        if (words) {
          rows[0][position] = powerWord(score);
          continue;
        }
        const float p = power(score);
        float &lane = lanes[position / 2];
        lane = flushed(lane + p);
        const std::vector<uint16_t> terms = cutPlanes(p, planes);
        for (int plane = 0; plane < planes; ++plane)
          rows[plane][position] = terms[plane];
      }
      // vdpbf16ps takes the upper one of two first.
      for (int i = 0; words && i < 16; ++i)
        for (int position : {2 * i + 1, 2 * i})
          lanes[i] = flushed(lanes[i] + flushed(bf16Value(rows[0][position])));
      for (int64_t dim = 0; dim < shape.headSize; ++dim)
        for (PlanePair pair : productsOf(shape.arithmetic)) {
          uint16_t column[32] = {};
          for (int position = 0; position < 32; ++position) {
            const int64_t key =
                block + probabilityKey(shape.arithmetic, position);
            if (key < size.keys)
              column[position] = elementsOf(
                  v)[key * shape.ldkv + pair.b * shape.kvPlaneStride + dim];
          }
          values[dim] = tileSum(values[dim], rows[pair.a], column);
        }
    }

    float quarters[4];
    for (int i = 0; i < 4; ++i) {
      const float *quad = lanes + ptrdiff_t(4) * i;
      quarters[i] = (quad[0] + quad[2]) + (quad[1] + quad[3]);
    }
    const float sum = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
    const float factor = flushed(
        std::ldexp(1.0f, int(std::max((offset - before) / unit, -1000.0f))));
    allSums = firstSpan ? sum : std::fma(factor, allSums, sum);
    for (int64_t dim = 0; dim < shape.headSize; ++dim)
      allValues[dim] = firstSpan
                           ? values[dim]
                           : std::fma(factor, allValues[dim], values[dim]);
  }
  for (float &value : allValues)
    value = flushed(value * (1 / allSums));
  return allValues;
}
