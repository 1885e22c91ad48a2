//===- KernelTesting.cpp - running kernels on guarded memory --------------===//

#include "KernelTesting.h"

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

ExecutableCode::ExecutableCode(const std::vector<uint8_t> &code)
    : pages(mapPages(wholePages(code.size()))), size(wholePages(code.size())) {
  std::memcpy(pages, code.data(), code.size());
  protect(pages, size, PROT_READ | PROT_EXEC);
}

ExecutableCode::~ExecutableCode() { munmap(pages, size); }

void ExecutableCode::operator()(const void *args) const {
  reinterpret_cast<void (*)(const void *)>(pages)(args);
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

static int64_t cCount(LinearProblem::Size size, const LinearShape &shape) {
  if (size.panelMajor)
    return size.rows * size.panels * kPanelColumns;
  return (size.rows - 1) * shape.ldc + size.panels * kPanelColumns;
}

LinearProblem::LinearProblem(Size size, const LinearShape &shape, uint64_t seed)
    : size(size), shape(shape), a((size.rows - 1) * shape.lda + shape.k),
      packedB(size.panels * shape.k * kPanelColumns), c(cCount(size, shape)),
      bias(shape.bias ? size.panels * kPanelColumns : 0),
      residual(shape.residual
                   ? (size.rows - 1) * shape.ldr + size.panels * kPanelColumns
                   : 0) {
  Random random(seed);
  for (GuardedFloats *operand : {&a, &packedB, &bias, &residual})
    for (int64_t i = 0; i < operand->size(); ++i)
      (*operand)[i] = random.uniform();
}

float &LinearProblem::b(int64_t k, int64_t column) {
  return packedB[(column / kPanelColumns * shape.k + k) * kPanelColumns +
                 column % kPanelColumns];
}

float LinearProblem::b(int64_t k, int64_t column) const {
  return const_cast<LinearProblem *>(this)->b(k, column);
}

int64_t LinearProblem::cIndex(int64_t row, int64_t column) const {
  if (size.panelMajor)
    return (column / kPanelColumns * size.rows + row) * kPanelColumns +
           column % kPanelColumns;
  return row * shape.ldc + column;
}

void LinearProblem::run(const ExecutableCode &kernel, int64_t firstRow,
                        int64_t rows, int64_t firstPanel, int64_t panels) {
  const int64_t column = firstPanel * kPanelColumns;
  LinearArgs args = {};
  args.a = a.data() + firstRow * shape.lda;
  args.b = packedB.data() + firstPanel * shape.k * kPanelColumns;
  args.c = c.data() + cIndex(firstRow, column);
  if (shape.bias)
    args.bias = bias.data() + column;
  if (shape.residual)
    args.residual = residual.data() + firstRow * shape.ldr + column;
  args.rows = rows;
  args.panels = panels;
  args.cPanelBytes =
      (size.panelMajor ? size.rows : 1) * kPanelColumns * sizeof(float);
  kernel(&args);
}

float LinearProblem::expectedBits(int64_t row, int64_t column) const {
  float sum = 0;
  for (int64_t k = 0; k < shape.k; ++k)
    sum = std::fma(a[row * shape.lda + k], b(k, column), sum);
  if (shape.bias)
    sum += bias[column];
  if (shape.residual)
    sum += residual[row * shape.ldr + column];
  return sum;
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
