//===- RowProgramTesting.h - run row programs in tests ----------*- C++ -*-===//
///
/// \file
/// Each program is compiled for x86-64-v3, v4 and v4 with bf16 and run on rows
/// that end at a page that cannot be read. Sums are held to bounds computed
/// from the number of roundings; everything else is exact.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_CODEGEN_ROWPROGRAMS_ROWPROGRAMTESTING_H
#define ENCAST_TEST_CODEGEN_ROWPROGRAMS_ROWPROGRAMTESTING_H

#include "CompiledModule.h"
#include "codegen/RowPrograms/RowPrograms.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "gtest/gtest.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

namespace encast::test {

/// Half an ulp of 1 in f32: the largest relative error of one rounding.
constexpr double kRounding = 0x1p-24;

/// Memory that ends where reading is an error, with canaries in front.
template <typename T> class GuardedRow {
public:
  explicit GuardedRow(const std::vector<T> &values) : count(values.size()) {
    size_t page = getpagesize(), used = count * sizeof(T) + 64;
    mapped = (used + page - 1) / page * page + page;
    base = static_cast<char *>(mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base + mapped - page, page, PROT_NONE);
    char *end = base + mapped - page;
    memset(base, kCanary, mapped - page);
    first = reinterpret_cast<T *>(end - count * sizeof(T));
    std::copy(values.begin(), values.end(), first);
  }
  GuardedRow(const GuardedRow &) = delete;
  ~GuardedRow() {
    EXPECT_TRUE(std::all_of(reinterpret_cast<char *>(first) - 64,
                            reinterpret_cast<char *>(first),
                            [](char byte) { return byte == kCanary; }))
        << "bytes before the row were written";
    munmap(base, mapped);
  }
  T *data() { return first; }
  std::vector<T> values() const { return {first, first + count}; }

private:
  static constexpr char kCanary = 0x5a;
  size_t count, mapped;
  char *base;
  T *first;
};
using Row = GuardedRow<float>;

/// Every tail, then sizes of real models.
inline std::vector<int64_t> sizes() {
  std::vector<int64_t> list;
  for (int64_t size = 1; size <= 67; ++size)
    list.push_back(size);
  list.insert(list.end(), {384, 768});
  return list;
}

/// Those around a vector and around a plane, for what is slow to compile.
inline std::vector<int64_t> fewSizes() {
  return {1, 7, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 64, 384};
}

/// Normally distributed around 0.5, the same for each seed.
inline std::vector<float> randomRow(int64_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<float> row(size);
  for (float &value : row) {
    // A sum of twelve uniform numbers, so that every libstdc++ agrees.
    double sum = 0;
    for (int i = 0; i < 12; ++i)
      sum += engine() / 4294967296.0;
    value = float(sum - 5.5);
  }
  return row;
}

inline uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
inline std::vector<uint32_t> bitsOf(const std::vector<float> &row) {
  std::vector<uint32_t> bits;
  for (float value : row)
    bits.push_back(bitsOf(value));
  return bits;
}

inline uint16_t toF16(float value) {
  _Float16 half = _Float16(value);
  uint16_t bits;
  memcpy(&bits, &half, 2);
  return bits;
}
inline float fromF16(uint16_t bits) {
  _Float16 half;
  memcpy(&half, &bits, 2);
  return float(half);
}
inline uint16_t toBF16(float value) { return uint16_t(bitsOf(value) >> 16); }
inline float fromBF16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

/// x rounded to bf16: of the two neighbours in f32's range, the nearer one, or
/// the even one; what is halfway or more from the largest bf16 to 2^128 becomes
/// infinite, and what is denormal zero.
inline uint16_t roundToBF16(float x) {
  if (!std::isfinite(x))
    return toBF16(x);
  if (!std::isnormal(x))
    return toBF16(std::copysign(0.0f, x));
  uint16_t low = toBF16(x); // Towards zero.
  auto value = [](uint16_t bits) {
    return (bits & 0x7fff) == 0x7f80 ? 0x1p128 : std::fabs(fromBF16(bits));
  };
  double below = std::fabs(x) - value(low);
  double above = value(uint16_t(low + 1)) - std::fabs(x);
  bool up = above < below || (above == below && low % 2 != 0);
  return uint16_t(low + up);
}

/// What a program with RowOutput{planes} writes for these results: bf16 bits,
/// each plane of a multiple of 32 columns.
inline std::vector<uint16_t> toPlanes(std::vector<float> row, int planes) {
  size_t stride = (row.size() + 31) / 32 * 32;
  std::vector<uint16_t> y(planes * stride, 0);
  for (int plane = 0; plane < planes; ++plane)
    for (size_t i = 0; i < row.size(); ++i) {
      y[plane * stride + i] = roundToBF16(row[i]);
      row[i] -= fromBF16(y[plane * stride + i]);
    }
  return y;
}

/// Programs of one module, compiled for one target.
class Programs {
public:
  Programs(const std::string &target,
           llvm::function_ref<void(mlir::ModuleOp)> build) {
    loadDialects(context);
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    build(*module);
    EXPECT_TRUE(lower(*module));
    for (auto function : module->getOps<mlir::LLVM::LLVMFuncOp>())
      function.setLinkage(mlir::LLVM::Linkage::External);
    compiled = std::make_unique<CompiledModule>(*module, testTarget(target));
  }
  template <typename... Arguments>
  void call(const std::string &name, Arguments... arguments) {
    compiled->find<void(Arguments...)>(name)(arguments...);
  }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<CompiledModule> compiled;
};

/// A test that runs for each target that its programs are compiled for.
class ProgramsTest : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    std::string missing = missingFeatures(GetParam());
    if (!missing.empty())
      GTEST_SKIP() << "host lacks " << missing;
  }
};

/// Runs a fixture derived from ProgramsTest for all targets.
#define ENCAST_INSTANTIATE_PROGRAMS_TEST(Fixture)                              \
  INSTANTIATE_TEST_SUITE_P(                                                    \
      , Fixture,                                                               \
      testing::Values("x86-64-v3", "x86-64-v4", "x86-64-v4+avx512bf16"),       \
      [](const auto &info) {                                                   \
        std::string name = info.param.substr(std::string("x86-64-").size());   \
        std::replace(name.begin(), name.end(), '+', '_');                      \
        return name;                                                           \
      })

inline std::string sized(const std::string &name, int64_t size) {
  return name + "_" + std::to_string(size);
}

/// Roundings on the longest way of a column's value through a row reduction.
inline double reductionRoundings(int64_t columns) {
  return double((columns + 15) / 16) + 4;
}

/// y and the most that it may be off.
struct Expected {
  std::vector<double> y, bound;
};

inline void expectNear(const std::vector<float> &given,
                       const Expected &expected, const std::string &what) {
  for (size_t i = 0; i < given.size(); ++i)
    ASSERT_LE(std::fabs(given[i] - expected.y[i]), expected.bound[i])
        << what << ", column " << i << ": " << given[i] << " for "
        << expected.y[i];
}

/// Lane c % count of a row reduction, then lanes in halves, with f32 roundings.
template <int count, typename Step>
float reduceRow(const std::vector<float> &x, Step step) {
  std::array<float, count> lanes = {};
  for (size_t column = 0; column < x.size(); ++column)
    lanes[column % count] = step(lanes[column % count], x[column]);
  for (int half = count / 2; half >= 1; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      lanes[lane] += lanes[lane + half];
  return lanes[0];
}

} // namespace encast::test

#endif // ENCAST_TEST_CODEGEN_ROWPROGRAMS_ROWPROGRAMTESTING_H
