//===- KernelTesting.cpp - running kernels on guarded memory --------------===//

#include "KernelTesting.h"
#include "TileTesting.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

using namespace encast;

static constexpr unsigned char kPattern = 0xa5;

static size_t pageSize() { return size_t(sysconf(_SC_PAGESIZE)); }

static size_t wholePages(size_t bytes) {
  return (bytes + pageSize() - 1) / pageSize() * pageSize();
}

static void *mapPages(size_t bytes) {
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    std::perror("mmap");
    std::abort();
  }
  return pages;
}

static void protect(void *pages, size_t bytes, int protection) {
  if (mprotect(pages, bytes, protection) != 0) {
    std::perror("mprotect");
    std::abort();
  }
}

// Sanitizers look at the bytes in front of a function that is called.
static constexpr size_t kEntryOffset = 64;

ExecutableCode::ExecutableCode(const std::vector<uint8_t> &code)
    : size(wholePages(kEntryOffset + code.size())),
      pages(static_cast<unsigned char *>(mapPages(size))),
      entry(pages + kEntryOffset) {
  std::memcpy(entry, code.data(), code.size());
  protect(pages, size, PROT_READ | PROT_EXEC);
}

ExecutableCode::~ExecutableCode() { munmap(pages, size); }

void ExecutableCode::operator()(const void *args) const {
  reinterpret_cast<void (*)(const void *)>(entry)(args);
}

/// uint64_t(const void *args, const void *kernel): calls the kernel with known
/// values in the callee-saved registers; 0 if it kept them.
static std::vector<uint8_t> checkedCall() {
  using namespace Xbyak::util;
  const Xbyak::Reg64 saved[] = {rbx, rbp, r12, r13, r14, r15};
  Xbyak::CodeGenerator as(4096, Xbyak::DontSetProtectRWE);
  for (const Xbyak::Reg64 &reg : saved)
    as.push(reg);
  as.sub(rsp, 8);
  for (const Xbyak::Reg64 &reg : saved)
    as.mov(reg, 0x123456789abcdef0 + uint64_t(reg.getIdx()));
  as.call(rsi);
  as.xor_(eax, eax);
  for (const Xbyak::Reg64 &reg : saved) {
    as.mov(rcx, 0x123456789abcdef0 + uint64_t(reg.getIdx()));
    as.xor_(rcx, reg);
    as.or_(rax, rcx);
  }
  as.add(rsp, 8);
  for (int i = 5; i >= 0; --i)
    as.pop(saved[i]);
  as.ret();
  return std::vector<uint8_t>(as.getCode(), as.getCode() + as.getSize());
}

void ExecutableCode::callChecked(const void *args) const {
  static const ExecutableCode trampoline(checkedCall());
  using Trampoline = uint64_t (*)(const void *, const void *);
  if (reinterpret_cast<Trampoline>(trampoline.entry)(args, entry) != 0) {
    std::fprintf(stderr, "a kernel changed a callee-saved register\n");
    std::abort();
  }
}

GuardedFloats::GuardedFloats(int64_t count) : count(count) {
  pageBytes = wholePages(size_t(count) * sizeof(float)) + pageSize();
  pages = static_cast<unsigned char *>(mapPages(pageBytes + pageSize()));
  first = reinterpret_cast<float *>(pages + pageBytes) - count;
  reset();
  protect(pages + pageBytes, pageSize(), PROT_NONE);
}

GuardedFloats::~GuardedFloats() { munmap(pages, pageBytes + pageSize()); }

void GuardedFloats::reset() { std::memset(pages, kPattern, pageBytes); }

bool GuardedFloats::untouched(int64_t i) const {
  unsigned char expected[sizeof(float)];
  std::memset(expected, kPattern, sizeof(expected));
  return std::memcmp(first + i, expected, sizeof(expected)) == 0;
}

bool GuardedFloats::frontUntouched() const {
  for (const unsigned char *byte = pages;
       byte != reinterpret_cast<const unsigned char *>(first); ++byte)
    if (*byte != kPattern)
      return false;
  return true;
}

uint32_t Random::next() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return uint32_t(state >> 32);
}

float Random::uniform() { return float(int32_t(next()) >> 8) * 0x1p-23f; }

/// Floats of c, or of the residual, with that row stride.
static int64_t resultCount(LinearProblem::Size size, const LinearShape &shape,
                           int64_t stride) {
  const int64_t columns = shape.gated ? kPanelColumns / 2 : kPanelColumns;
  return (size.rows - 1) * stride + size.panels * columns;
}

static int64_t cCount(LinearProblem::Size size, const LinearShape &shape) {
  if (size.panelMajor)
    return size.rows * size.panels * kPanelColumns;
  return resultCount(size, shape, shape.ldc);
}

/// Floats, or pairs of bf16, of a panel's column.
static int64_t bSteps(const LinearShape &shape) {
  return shape.bf16Weights ? (shape.k + 1) / 2 : shape.k;
}

LinearProblem::LinearProblem(Size size, const LinearShape &shape, uint64_t seed)
    : size(size), shape(shape), a((size.rows - 1) * shape.lda + shape.k),
      packedB(size.panels * bSteps(shape) * kPanelColumns),
      c(cCount(size, shape)),
      bias(shape.bias ? size.panels * kPanelColumns : 0),
      residual(shape.residual ? resultCount(size, shape, shape.ldr) : 0),
      firstSums(shape.accumulate ? c.size() : 0) {
  Random random(seed);
  const auto fill = [&](GuardedFloats &operand) {
    for (int64_t i = 0; i < operand.size(); ++i)
      operand[i] = random.uniform();
  };
  fill(a);
  std::fill_n(packedB.data(), packedB.size(), 0.0f); // k beyond the last
  for (int64_t k = 0; k < shape.k; ++k)
    for (int64_t column = 0; column < size.panels * kPanelColumns; ++column)
      setB(k, column, random.uniform());
  fill(bias);
  fill(residual);
  for (float &sum : firstSums)
    sum = random.uniform();
  resetC();
}

void LinearProblem::resetC() {
  c.reset();
  if (!shape.accumulate)
    return;
  for (int64_t row = 0; row < size.rows; ++row)
    for (int64_t column = 0; column < columns(); ++column)
      c[cIndex(row, column)] = firstSums[cIndex(row, column)];
}

int64_t LinearProblem::bIndex(int64_t k, int64_t column) const {
  const int64_t step = shape.bf16Weights ? k / 2 : k;
  return (column / kPanelColumns * bSteps(shape) + step) * kPanelColumns +
         column % kPanelColumns;
}

void LinearProblem::setB(int64_t k, int64_t column, float value) {
  float &place = packedB[bIndex(k, column)];
  if (!shape.bf16Weights) {
    place = value;
    return;
  }
  const uint16_t bits = roundToBf16(value);
  std::memcpy(reinterpret_cast<char *>(&place) + k % 2 * 2, &bits,
              sizeof(bits));
}

float LinearProblem::b(int64_t k, int64_t column) const {
  const float *place = packedB.data() + bIndex(k, column);
  if (!shape.bf16Weights)
    return *place;
  uint16_t bits;
  std::memcpy(&bits, reinterpret_cast<const char *>(place) + k % 2 * 2,
              sizeof(bits));
  return bf16Value(bits);
}

int64_t LinearProblem::cIndex(int64_t row, int64_t column) const {
  if (size.panelMajor)
    return (column / kPanelColumns * size.rows + row) * kPanelColumns +
           column % kPanelColumns;
  return row * shape.ldc + column;
}

void LinearProblem::run(const KernelRow &row, const ExecutableCode &kernel,
                        int64_t firstRow, int64_t rows, int64_t firstPanel,
                        int64_t panels) {
  const int64_t column = firstPanel * resultColumns();
  LinearArgs args = {};
  args.a = a.data() + firstRow * shape.lda;
  args.b = packedB.data() + firstPanel * bSteps(shape) * kPanelColumns;
  args.c = c.data() + cIndex(firstRow, column);
  if (shape.bias)
    args.bias = bias.data() + firstPanel * kPanelColumns;
  if (shape.residual)
    args.residual = residual.data() + firstRow * shape.ldr + column;
  args.rows = rows;
  args.panels = panels;
  args.cPanelBytes =
      (size.panelMajor ? size.rows * kPanelColumns : resultColumns()) *
      int64_t(sizeof(float));
  callWithWorkspace(kernel, args, linearWorkspaceBytes(row, shape));
}

float LinearProblem::expectedSum(int64_t row, int64_t panelColumn) const {
  float sum = shape.accumulate ? firstSums[cIndex(row, panelColumn)] : 0;
  for (int64_t k = 0; k < shape.k; ++k)
    sum = std::fma(a[row * shape.lda + k], b(k, panelColumn), sum);
  return shape.bias ? sum + bias[panelColumn] : sum;
}

float LinearProblem::expectedBits(int64_t row, int64_t column) const {
  float value;
  if (shape.gated) {
    const int64_t half = resultColumns();
    const int64_t gate = column / half * kPanelColumns + column % half;
    value = expectedSum(row, gate) * expectedSum(row, gate + half);
  } else {
    value = expectedSum(row, column);
  }
  return shape.residual ? value + residual[row * shape.ldr + column] : value;
}

double LinearProblem::exactSum(int64_t row, int64_t column) const {
  double sum = 0;
  for (int64_t k = 0; k < shape.k; ++k)
    sum += double(a[row * shape.lda + k]) * b(k, column);
  return sum;
}

double LinearProblem::absoluteSum(int64_t row, int64_t column) const {
  double sum = 0;
  for (int64_t k = 0; k < shape.k; ++k)
    sum += std::fabs(double(a[row * shape.lda + k]) * b(k, column));
  return sum;
}

static AttentionProblem::Size withSlot(AttentionProblem::Size size) {
  size.slotRows = std::max({size.slotRows, size.queries, size.keys});
  return size;
}

AttentionProblem::AttentionProblem(Size given, const AttentionShape &shape,
                                   uint64_t seed)
    : size(withSlot(given)), shape(shape),
      q(shape.queryHeads * planes() * size.slotRows * kPanelColumns),
      k(planes() * size.slotRows * kPanelColumns), v(k.size()),
      out((size.queries - 1) * shape.ldo + shape.queryHeads * shape.headSize) {
  Random random(seed);
  for (GuardedFloats *operand : {&q, &k, &v})
    for (int64_t i = 0; i < operand->size(); ++i)
      (*operand)[i] = random.uniform();
}

void AttentionProblem::run(const KernelRow &row, const ExecutableCode &kernel,
                           int64_t firstQuery, int64_t queries) {
  const int64_t planeBytes =
      size.slotRows * kPanelColumns * int64_t(sizeof(float));
  AttentionArgs args = {};
  args.q = q.data() + firstQuery * kPanelColumns;
  args.k = k.data();
  args.v = v.data();
  args.out = out.data() + firstQuery * shape.ldo;
  args.queries = queries;
  args.keys = size.keys;
  args.qPlaneBytes = args.kvPlaneBytes = planeBytes;
  args.position = size.position + firstQuery;
  callWithWorkspace(kernel, args, attentionWorkspaceBytes(row, shape));
}

bool AttentionProblem::sees(int64_t query, int64_t key) const {
  return shape.window < 0 ||
         std::llabs(size.position + query - key) <= shape.window;
}

AttentionProblem::Expected AttentionProblem::expected(int64_t query,
                                                      int64_t head) const {
  const double unit = 0x1p-24, log2E = 1.4426950408889634;
  const int64_t dims = shape.headSize;
  std::vector<double> scores(size.keys);
  double largest = -HUGE_VAL, scoreError = 0, range = 0;
  for (int64_t key = 0; key < size.keys; ++key) {
    if (!sees(query, key))
      continue;
    double absolute = 0;
    for (int64_t dim = 0; dim < dims; ++dim) {
      const double product = double(q[index(query, dim, head)]) *
                             k[index(key, dim)] * shape.scale * log2E;
      scores[key] += product;
      absolute += std::fabs(product);
    }
    largest = std::max(largest, scores[key]);
    // The chain, the rounding of q and of the factor, the subtraction.
    scoreError = std::max(scoreError, double(dims + 5) * unit * absolute);
    range = std::max(range, absolute);
  }
  // Relative error of a probability: of its exponent, of exp2, and of as many
  // factors as there are blocks; then sums of n terms, and a division.
  const double blocks =
      std::ceil(double(size.keys) / double(kAttentionKeyBlock));
  const double relative = 2 * scoreError +
                          (blocks + 1) * (1.6e-7 + 4 * unit * range) +
                          double(2 * size.keys + 8) * unit;

  Expected result;
  result.values.resize(dims);
  result.bounds.resize(dims);
  if (largest == -HUGE_VAL) // sees no key: exactly 0
    return result;
  double sum = 0;
  std::vector<double> absolute(dims);
  for (int64_t key = 0; key < size.keys; ++key) {
    if (!sees(query, key))
      continue;
    const double p = std::exp2(scores[key] - largest);
    sum += p;
    for (int64_t dim = 0; dim < dims; ++dim) {
      result.values[dim] += p * v[index(key, dim)];
      absolute[dim] += p * std::fabs(v[index(key, dim)]);
    }
  }
  for (int64_t dim = 0; dim < dims; ++dim) {
    result.values[dim] /= sum;
    // Probabilities below 2^-125 count as 0.
    result.bounds[dim] =
        2 * relative * absolute[dim] / sum + double(size.keys) * 0x1p-124;
  }
  return result;
}
