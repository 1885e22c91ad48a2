//===- TileTesting.cpp - running kernels that use tiles -------------------===//

#include "TileTesting.h"
#include "codegen/Kernels/TilePacking.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include <sys/syscall.h>
#include <unistd.h>

using namespace encast;

namespace {
/// The operand of ldtilecfg.
struct TileConfiguration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64, "as the manual says");

class TileInstructions : public VectorAssembler {
public:
  TileInstructions() : VectorAssembler(64) {}
  std::vector<uint8_t> load() {
    ldtilecfg(ptr[rdi]);
    return finished();
  }
  std::vector<uint8_t> store() {
    sttilecfg(ptr[rdi]);
    return finished();
  }
  std::vector<uint8_t> release() {
    tilerelease();
    return finished();
  }

private:
  std::vector<uint8_t> finished() {
    ret();
    std::vector<uint8_t> code;
    std::string error;
    if (!finish(code, error)) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::abort();
    }
    return code;
  }
};
} // namespace

bool encast::mayUseTiles() {
  constexpr long requestPermission = 0x1023, tileData = 18;
  static const bool allowed =
      syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  return allowed;
}

TileScope::TileScope() {
  if (!mayUseTiles()) {
    std::fprintf(stderr, "the system refuses the use of tiles\n");
    std::abort();
  }
  static const ExecutableCode load(TileInstructions().load());
  const TileConfiguration configuration;
  load(&configuration);
}

TileScope::~TileScope() {
  static const ExecutableCode release(TileInstructions().release());
  release(nullptr);
}

bool TileScope::unchanged() const {
  static const ExecutableCode store(TileInstructions().store());
  const TileConfiguration expected;
  TileConfiguration found;
  store(&found);
  return std::memcmp(&expected, &found, sizeof(expected)) == 0;
}

static uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Denormal numbers become zero.
static float flushed(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min()
             ? std::copysign(0.0f, value)
             : value;
}

uint16_t encast::roundToBf16(float value) {
  const uint32_t bits = bitsOf(flushed(value));
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float encast::bf16Value(uint16_t bits) {
  return fromBits(uint32_t(bits) << 16);
}

/// Calls `use(plane, bits)` for each plane of a value.
template <typename Use>
static void forEachPlane(float value, int planes, Use use) {
  for (int plane = 0; plane < planes; ++plane) {
    const uint16_t bits = roundToBf16(value);
    use(plane, bits);
    value -= bf16Value(bits);
  }
}

std::vector<uint16_t> encast::planesOf(float value, int planes) {
  std::vector<uint16_t> result;
  forEachPlane(value, planes,
               [&](int, uint16_t bits) { result.push_back(bits); });
  return result;
}

float encast::tileSum(float sum, const uint16_t *row, const uint16_t *column) {
  float chains[2] = {0, 0};
  for (int k = 0; k < 32; ++k)
    chains[k % 2] =
        flushed(std::fma(flushed(bf16Value(row[k])),
                         flushed(bf16Value(column[k])), chains[k % 2]));
  return flushed(flushed(sum) + flushed(chains[0] + chains[1]));
}

float encast::dotSum(float sum, const uint16_t *row, const uint16_t *column) {
  for (int k = 0; k < 32; ++k) // 1, 0, 3, 2, ...
    sum = flushed(std::fma(flushed(bf16Value(row[k ^ 1])),
                           flushed(bf16Value(column[k ^ 1])), flushed(sum)));
  return sum;
}

static LinearShape withStrides(LinearShape shape, int64_t panels) {
  const int64_t columns = panels * kPanelColumns / (shape.gated ? 2 : 1);
  if (shape.lda == 0)
    shape.lda = planeRowStride(shape.k, activationPlanes(shape.arithmetic));
  if (shape.cPlanes > 0 && shape.cPlaneStride == 0)
    shape.cPlaneStride = planeStride(columns);
  if (shape.ldc == 0)
    shape.ldc =
        shape.cPlanes > 0 ? planeRowStride(columns, shape.cPlanes) : columns;
  if (shape.ldr == 0)
    shape.ldr = columns;
  return shape;
}

/// Floats that hold the weights of a pair of panels.
static int64_t packedPairFloats(const LinearShape &shape) {
  const int planes = packedWeightPlanes(shape.arithmetic);
  return planes > 0 ? tilePairElements(shape.k, planes) / 2
                    : tilePairElements(shape.k, 1);
}

TileLinearProblem::TileLinearProblem(const KernelRow &kernel, int64_t rows,
                                     int64_t panels, const LinearShape &given,
                                     uint64_t seed)
    : kernel(kernel), rows(rows), panels(panels),
      shape(withStrides(given, panels)), aValues(rows * shape.k),
      bValues(columns() * shape.k),
      a(((rows - 1) * shape.lda +
         activationPlanes(shape.arithmetic) * planeStride(shape.k)) /
        2),
      packedB(panels / 2 * packedPairFloats(shape)),
      // A float holds two elements of a plane.
      c(shape.cPlanes > 0
            ? ((rows - 1) * shape.ldc +
               (shape.cPlanes - 1) * shape.cPlaneStride + resultColumns()) /
                  2
            : (rows - 1) * shape.ldc + resultColumns()),
      bias(shape.bias ? columns() : 0),
      residual(shape.residual ? (rows - 1) * shape.ldr + resultColumns() : 0),
      workspace(linearWorkspaceBytes(kernel, shape) / int64_t(sizeof(float))) {
  aTerms.resize(aTerm(rows, 0));
  bTerms.resize(bTerm(columns(), 0));
  Random random(seed);
  std::memset(packedB.data(), 0, packedB.size() * sizeof(float));
  // The columns that fill up planes are zero, the gap between rows is not.
  auto *planes = reinterpret_cast<uint16_t *>(a.data());
  for (int64_t row = 0; row < rows; ++row)
    std::memset(planes + row * shape.lda, 0,
                activationPlanes(shape.arithmetic) * planeStride(shape.k) * 2);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < shape.k; ++k)
      setA(row, k, random.uniform());
  for (int64_t column = 0; column < columns(); ++column)
    for (int64_t k = 0; k < shape.k; ++k)
      setB(column, k, random.uniform());
  for (GuardedFloats *operand : {&bias, &residual})
    for (int64_t i = 0; i < operand->size(); ++i)
      (*operand)[i] = random.uniform();
  if (shape.accumulate)
    for (int64_t i = 0; i < rows * resultColumns(); ++i)
      firstSums.push_back(random.uniform());
  resetC();
}

void TileLinearProblem::setA(int64_t row, int64_t k, float value) {
  aValues[row * shape.k + k] = value;
  auto *elements = reinterpret_cast<uint16_t *>(a.data());
  forEachPlane(
      value, activationPlanes(shape.arithmetic), [&](int plane, uint16_t bits) {
        aTerms[aTerm(row, plane) + k] = bits;
        elements[row * shape.lda + plane * planeStride(shape.k) + k] = bits;
      });
}

void TileLinearProblem::setB(int64_t column, int64_t k, float value) {
  const int planes = packedWeightPlanes(shape.arithmetic);
  if (shape.arithmetic == Arithmetic::Bf16x3w)
    value = bf16Value(roundToBf16(value));
  bValues[column * shape.k + k] = value;
  if (planes == 0)
    packedB[tilePairElement(shape.k, 1, column, k, 0)] = value;
  auto *elements = reinterpret_cast<uint16_t *>(packedB.data());
  forEachPlane(
      value, weightPlanes(shape.arithmetic), [&](int plane, uint16_t bits) {
        bTerms[bTerm(column, plane) + k] = bits;
        if (plane < planes)
          elements[tilePairElement(shape.k, planes, column, k, plane)] = bits;
      });
}

void TileLinearProblem::resetC() {
  c.reset();
  for (int64_t i = 0; i < int64_t(firstSums.size()); ++i)
    c[i / resultColumns() * shape.ldc + i % resultColumns()] = firstSums[i];
}

void TileLinearProblem::run(const ExecutableCode &code, int64_t firstRow,
                            int64_t rows, int64_t firstPanel, int64_t panels) {
  const int64_t column = firstPanel * kPanelColumns;
  const int64_t panelResults = kPanelColumns / (shape.gated ? 2 : 1);
  const int64_t result = firstPanel * panelResults;
  const int64_t elementBytes = shape.cPlanes > 0 ? 2 : 4;
  LinearArgs args = {};
  args.a = a.data() + firstRow * shape.lda / 2;
  args.b = packedB.data() + firstPanel / 2 * packedPairFloats(shape);
  args.c = reinterpret_cast<char *>(c.data()) +
           cElement(firstRow, result, 0) * elementBytes;
  if (shape.bias)
    args.bias = bias.data() + column;
  if (shape.residual)
    args.residual = residual.data() + firstRow * shape.ldr + result;
  args.rows = rows;
  args.panels = panels;
  args.cPanelBytes = panelResults * elementBytes;
  args.workspace = workspace.data();
  args.ahead = ahead;
  code.callChecked(&args);
}

float TileLinearProblem::result(int64_t row, int64_t column) const {
  return c[cElement(row, column, 0)];
}

uint16_t TileLinearProblem::result(int64_t row, int64_t column,
                                   int plane) const {
  return reinterpret_cast<const uint16_t *>(
      c.data())[cElement(row, column, plane)];
}

bool TileLinearProblem::gapsUntouched() const {
  const int64_t elementsPerFloat = shape.cPlanes > 0 ? 2 : 1;
  std::vector<bool> written(c.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int plane = 0; plane < std::max(1, shape.cPlanes); ++plane)
      for (int64_t column = 0; column < resultColumns(); ++column)
        written[cElement(row, column, plane) / elementsPerFloat] = true;
  for (int64_t i = 0; i < c.size(); ++i)
    if (!written[i] && !c.untouched(i))
      return false;
  for (const GuardedFloats *operand :
       {&a, &packedB, &c, &bias, &residual, &workspace})
    if (!operand->frontUntouched())
      return false;
  return true;
}

namespace {
/// Products of planes in the order of a step, by the planes of A and of B.
struct PlanePair {
  int a, b;
};
} // namespace

/// Stated on its own, to be compared with what kernels do.
static std::vector<PlanePair> productsOf(Arithmetic arithmetic) {
  switch (arithmetic) {
  case Arithmetic::F32:
    return {};
  case Arithmetic::Bf16:
    return {{0, 0}};
  case Arithmetic::Bf16x3:
    return {{1, 0}, {0, 0}, {0, 1}};
  case Arithmetic::Bf16x3w:
    return {{2, 0}, {1, 0}, {0, 0}};
  case Arithmetic::Bf16x6:
    return {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
  }
  return {};
}

float TileLinearProblem::expectedSum(int64_t row, int64_t column) const {
  float sum = 0;
  if (shape.accumulate)
    sum = firstSums[row * resultColumns() + column];
  const auto add = usesTiles(kernel) ? tileSum : dotSum;
  const auto products = productsOf(shape.arithmetic);
  for (int64_t k = 0; k < shape.k; k += 32)
    for (PlanePair product : products)
      sum = add(sum, aTerms.data() + aTerm(row, product.a) + k,
                bTerms.data() + bTerm(column, product.b) + k);
  return sum;
}

float TileLinearProblem::expectedResult(int64_t row, int64_t column,
                                        float (*activated)(float)) const {
  const auto biased = [&](int64_t panelColumn) {
    const float sum = expectedSum(row, panelColumn);
    return shape.bias ? sum + bias[panelColumn] : sum;
  };
  float value = biased(shape.gated ? tileGateColumn(column) : column);
  if (activated)
    value = activated(value);
  if (shape.gated)
    value *= biased(tileOtherColumn(column));
  if (shape.residual)
    value += residual[row * shape.ldr + column];
  return value;
}

double TileLinearProblem::exactSum(int64_t row, int64_t column) const {
  double sum = 0;
  for (int64_t k = 0; k < shape.k; ++k)
    sum += double(aValues[row * shape.k + k]) * bValues[column * shape.k + k];
  return sum;
}

double TileLinearProblem::absoluteSum(int64_t row, int64_t column) const {
  double sum = 0;
  for (int64_t k = 0; k < shape.k; ++k)
    sum += std::fabs(double(aValues[row * shape.k + k]) *
                     bValues[column * shape.k + k]);
  return sum;
}
