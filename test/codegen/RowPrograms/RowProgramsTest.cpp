//===- RowProgramsTest.cpp - row programs against loops in double ---------===//
///
/// \file
/// Each program is compiled for x86-64-v3 and v4 and run on rows that end at a
/// page that cannot be read. Sums are held to bounds computed from the number
/// of roundings; everything else is exact.
//===----------------------------------------------------------------------===//

#include "codegen/RowPrograms/RowPrograms.h"
#include "CompiledModule.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "gtest/gtest.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace encast;
using namespace encast::test;

namespace {

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
std::vector<int64_t> sizes() {
  std::vector<int64_t> list;
  for (int64_t size = 1; size <= 67; ++size)
    list.push_back(size);
  list.insert(list.end(), {384, 768});
  return list;
}

/// Normally distributed around 0.5, the same for each seed.
std::vector<float> randomRow(int64_t size, unsigned seed) {
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

uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
std::vector<uint32_t> bitsOf(const std::vector<float> &row) {
  std::vector<uint32_t> bits;
  for (float value : row)
    bits.push_back(bitsOf(value));
  return bits;
}

uint16_t toF16(float value) {
  _Float16 half = _Float16(value);
  uint16_t bits;
  memcpy(&bits, &half, 2);
  return bits;
}
float fromF16(uint16_t bits) {
  _Float16 half;
  memcpy(&half, &bits, 2);
  return float(half);
}
uint16_t toBF16(float value) { return uint16_t(bitsOf(value) >> 16); }
float fromBF16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

/// Programs of one module, compiled for one target.
class Programs {
public:
  Programs(const std::string &target,
           llvm::function_ref<void(ModuleOp)> build) {
    loadDialects(context);
    module = ModuleOp::create(UnknownLoc::get(&context));
    build(*module);
    EXPECT_TRUE(lower(*module));
    for (auto function : module->getOps<LLVM::LLVMFuncOp>())
      function.setLinkage(LLVM::Linkage::External);
    compiled = std::make_unique<CompiledModule>(*module, testTarget(target));
  }
  template <typename... Arguments>
  void call(const std::string &name, Arguments... arguments) {
    compiled->find<void(Arguments...)>(name)(arguments...);
  }

private:
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<CompiledModule> compiled;
};

class RowProgramsTest : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    std::string missing = missingFeatures(GetParam());
    if (!missing.empty())
      GTEST_SKIP() << "host lacks " << missing;
  }
};
INSTANTIATE_TEST_SUITE_P(, RowProgramsTest,
                         testing::Values("x86-64-v3", "x86-64-v4"),
                         [](const auto &info) {
                           return std::string(info.param.end() - 2,
                                              info.param.end());
                         });

std::string sized(const std::string &name, int64_t size) {
  return name + "_" + std::to_string(size);
}

/// Roundings on the longest way of a column's value through a row reduction.
double reductionRoundings(int64_t columns) {
  return double((columns + 15) / 16) + 4;
}

/// y and the most that it may be off.
struct Expected {
  std::vector<double> y, bound;
};

Expected layerNorm(const std::vector<float> &x, const std::vector<float> &gain,
                   const std::vector<float> &shift, double epsilon) {
  double n = double(x.size()), chain = reductionRoundings(x.size());
  double sum = 0, magnitude = 0;
  for (float value : x) {
    sum += value;
    magnitude += std::fabs(value);
  }
  double mean = sum / n, meanError = (chain + 1) * kRounding * magnitude / n;
  double squares = 0, squaresError = 0;
  std::vector<double> centred, error;
  for (float value : x) {
    double c = value - mean, e = meanError + kRounding * std::fabs(c);
    centred.push_back(c);
    error.push_back(e);
    squares += c * c;
    squaresError += 2 * std::fabs(c) * e + e * e;
  }
  squaresError += (chain + 1) * kRounding * squares;
  double variance = squares / n + epsilon;
  double scale = 1 / std::sqrt(variance);
  double scaleError = squaresError / n / variance / 2 + 3 * kRounding;
  Expected expected;
  for (size_t i = 0; i < x.size(); ++i) {
    double normal = centred[i] * scale;
    double y = normal * gain[i] + shift[i];
    double bound = std::fabs(gain[i]) *
                       (error[i] * scale +
                        std::fabs(normal) * (scaleError + 2 * kRounding)) +
                   2 * kRounding * std::fabs(y);
    expected.y.push_back(y);
    // Products of errors are below a hundredth of the sum.
    expected.bound.push_back(1.01 * bound);
  }
  return expected;
}

void expectNear(const std::vector<float> &given, const Expected &expected,
                const std::string &what) {
  for (size_t i = 0; i < given.size(); ++i)
    ASSERT_LE(std::fabs(given[i] - expected.y[i]), expected.bound[i])
        << what << ", column " << i << ": " << given[i] << " for "
        << expected.y[i];
}

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

TEST_P(RowProgramsTest, LayerNormAgreesWithDouble) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getLayerNorm(module, size, 1e-12, /*hasBias=*/true);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), gain(randomRow(size, 2)),
        shift(randomRow(size, 3)), y(std::vector<float>(size, -7));
    programs.call(sized("layer_norm", size) + "_1e-12", x.data(), gain.data(),
                  shift.data(), y.data());
    if (size == 1) { // The variance is 0, so that y is the bias.
      EXPECT_EQ(y.values(), shift.values());
      continue;
    }
    expectNear(y.values(),
               layerNorm(x.values(), gain.values(), shift.values(), 1e-12),
               "size " + std::to_string(size));
  }
}

/// Lane c % 16 of a row reduction, then lanes in halves, with f32 roundings.
template <typename Step>
float reduceRow(const std::vector<float> &x, Step step) {
  std::array<float, 16> lanes = {};
  for (size_t column = 0; column < x.size(); ++column)
    lanes[column % 16] = step(lanes[column % 16], x[column]);
  for (int half = 8; half >= 1; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      lanes[lane] += lanes[lane + half];
  return lanes[0];
}

// The formula in the header is a promise about bits.
TEST_P(RowProgramsTest, LayerNormFollowsItsFormulaBitForBit) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getLayerNorm(module, size, 1e-12, /*hasBias=*/true);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), gain(randomRow(size, 2)),
        shift(randomRow(size, 3)), y(std::vector<float>(size, -7));
    float mean = reduceRow(x.values(), std::plus<float>()) / float(size);
    float variance = reduceRow(x.values(),
                               [&](float sum, float value) {
                                 float centred = value - mean;
                                 return std::fma(centred, centred, sum);
                               }) /
                     float(size);
    float scale = 1 / std::sqrt(variance + 1e-12f);
    std::vector<float> expected;
    for (int64_t i = 0; i < size; ++i) {
      float normal = (x.data()[i] - mean) * scale;
      expected.push_back(std::fma(normal, gain.data()[i], shift.data()[i]));
    }
    programs.call(sized("layer_norm", size) + "_1e-12", x.data(), gain.data(),
                  shift.data(), y.data());
    ASSERT_EQ(bitsOf(y.values()), bitsOf(expected)) << "size " << size;
  }
}

TEST_P(RowProgramsTest, NormalizeFollowsItsFormulaBitForBit) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getNormalize(module, size);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), y(std::vector<float>(size, -7));
    float norm = std::sqrt(reduceRow(x.values(), [](float sum, float value) {
      return std::fma(value, value, sum);
    }));
    std::vector<float> expected;
    for (float value : x.values())
      expected.push_back(value / std::max(norm, 1e-12f));
    programs.call(sized("normalize", size), x.data(), y.data());
    ASSERT_EQ(bitsOf(y.values()), bitsOf(expected)) << "size " << size;
  }
}

TEST_P(RowProgramsTest, LayerNormWithoutBiasAgreesWithDouble) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getLayerNorm(module, size, 1e-5, /*hasBias=*/false);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), gain(randomRow(size, 2)),
        y(std::vector<float>(size, -7));
    programs.call(sized("layer_norm", size) + "_1e-05_no_bias", x.data(),
                  gain.data(), y.data());
    expectNear(
        y.values(),
        layerNorm(x.values(), gain.values(), std::vector<float>(size, 0), 1e-5),
        "size " + std::to_string(size));
  }
}

// A row whose mean is a thousand times its deviation keeps its variance.
TEST_P(RowProgramsTest, LayerNormSubtractsTheMeanBeforeItSquares) {
  Programs programs(GetParam(), [](ModuleOp module) {
    getLayerNorm(module, 384, 1e-12, /*hasBias=*/true);
  });
  std::vector<float> values = randomRow(384, 1);
  for (float &value : values)
    value += 1000;
  Row x(values), gain(std::vector<float>(384, 1)),
      shift(std::vector<float>(384, 0)), y(std::vector<float>(384, 0));
  programs.call("layer_norm_384_1e-12", x.data(), gain.data(), shift.data(),
                y.data());
  expectNear(y.values(),
             layerNorm(values, gain.values(), shift.values(), 1e-12),
             "mean of 1000");
}

TEST_P(RowProgramsTest, LayerNormWorksInPlace) {
  Programs programs(GetParam(), [](ModuleOp module) {
    getLayerNorm(module, 67, 1e-12, /*hasBias=*/true);
  });
  Row x(randomRow(67, 1)), gain(randomRow(67, 2)), shift(randomRow(67, 3)),
      y(std::vector<float>(67, 0));
  programs.call("layer_norm_67_1e-12", x.data(), gain.data(), shift.data(),
                y.data());
  programs.call("layer_norm_67_1e-12", x.data(), gain.data(), shift.data(),
                x.data());
  EXPECT_EQ(bitsOf(x.values()), bitsOf(y.values()));
}

//===----------------------------------------------------------------------===//
// embed, copy, concat, add
//===----------------------------------------------------------------------===//

TEST_P(RowProgramsTest, EmbedAddsTablesFromTheLeft) {
  Programs programs(GetParam(), [](ModuleOp module) {
    Builder b(module.getContext());
    for (int64_t size : sizes())
      getEmbed(module, size, {b.getF16Type(), b.getF32Type(), b.getBF16Type()});
  });
  for (int64_t size : sizes()) {
    std::vector<uint16_t> half, brain;
    for (float value : randomRow(size, 1))
      half.push_back(toF16(value));
    for (float value : randomRow(size, 2))
      brain.push_back(toBF16(value));
    std::vector<float> single = randomRow(size, 3), expected;
    for (int64_t i = 0; i < size; ++i)
      expected.push_back((fromF16(half[i]) + single[i]) + fromBF16(brain[i]));
    GuardedRow<uint16_t> first(half), third(brain);
    Row second(single), y(std::vector<float>(size, -7));
    programs.call(sized("embed", size) + "_f16_f32_bf16", first.data(),
                  second.data(), third.data(), y.data());
    ASSERT_EQ(y.values(), expected) << "size " << size;
  }
}

// Denormals too: conversion is exact.
TEST_P(RowProgramsTest, EmbedWidensEveryFiniteHalf) {
  Programs programs(GetParam(), [](ModuleOp module) {
    Builder b(module.getContext());
    getEmbed(module, 1024, {b.getF16Type()});
    getEmbed(module, 1024, {b.getBF16Type()});
  });
  for (unsigned first = 0; first < 65536; first += 1024) {
    std::vector<uint16_t> values;
    std::vector<uint32_t> f16, bf16;
    for (unsigned bits = first; bits < first + 1024; ++bits) {
      bool nan = std::isnan(fromF16(bits)) || std::isnan(fromBF16(bits));
      values.push_back(nan ? 0 : bits);
      f16.push_back(bitsOf(fromF16(values.back())));
      bf16.push_back(bitsOf(fromBF16(values.back())));
    }
    GuardedRow<uint16_t> x(values);
    Row y(std::vector<float>(1024, -7));
    programs.call("embed_1024_f16", x.data(), y.data());
    EXPECT_EQ(bitsOf(y.values()), f16);
    programs.call("embed_1024_bf16", x.data(), y.data());
    EXPECT_EQ(bitsOf(y.values()), bf16);
  }
}

TEST_P(RowProgramsTest, CopyWritesExactlyItsColumns) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getCopy(module, size);
  });
  for (int64_t size : sizes()) {
    Row x(randomRow(size, 1)), y(std::vector<float>(size, -7));
    programs.call(sized("copy", size), x.data(), y.data());
    ASSERT_EQ(y.values(), x.values()) << "size " << size;
  }
}

TEST_P(RowProgramsTest, CopyPrefixWritesExactlyTheColumnsAskedFor) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getCopyPrefix(module, size);
  });
  for (int64_t size : sizes())
    for (int64_t count : {int64_t(1), size / 2 + 1, size}) {
      std::vector<float> values = randomRow(size, 1);
      // Columns that are not asked for need not exist.
      values.resize(count);
      Row x(values), y(std::vector<float>(count, -7));
      programs.call(sized("copy_prefix", size), x.data(), count, y.data());
      ASSERT_EQ(y.values(), values) << "size " << size;
    }
}

TEST_P(RowProgramsTest, ConcatPutsRowsBehindEachOther) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getConcat(module, {size, 5, 16});
  });
  for (int64_t size : sizes()) {
    std::vector<float> all = randomRow(size + 21, 1);
    Row first({all.begin(), all.begin() + size}),
        second({all.begin() + size, all.begin() + size + 5}),
        third({all.begin() + size + 5, all.end()}),
        y(std::vector<float>(size + 21, -7));
    programs.call(sized("concat", size) + "_5_16", first.data(), second.data(),
                  third.data(), y.data());
    ASSERT_EQ(y.values(), all) << "size " << size;
  }
}

TEST_P(RowProgramsTest, AddRoundsOnceAndWorksInPlace) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getAdd(module, size);
  });
  for (int64_t size : sizes()) {
    std::vector<float> a = randomRow(size, 1), b = randomRow(size, 2), sum;
    for (int64_t i = 0; i < size; ++i)
      sum.push_back(a[i] + b[i]);
    Row left(a), right(b), y(std::vector<float>(size, -7));
    programs.call(sized("add", size), left.data(), right.data(), y.data());
    ASSERT_EQ(y.values(), sum) << "size " << size;
    programs.call(sized("add", size), left.data(), right.data(), right.data());
    ASSERT_EQ(right.values(), sum) << "size " << size;
  }
}

//===----------------------------------------------------------------------===//
// pool
//===----------------------------------------------------------------------===//

struct PoolCase {
  PoolMode mode;
  std::string name;
};
const PoolCase kPools[] = {{PoolMode::Max, "max"},
                           {PoolMode::Mean, "mean"},
                           {PoolMode::MeanSqrtLength, "mean_sqrt_length"},
                           {PoolMode::WeightedMean, "weighted_mean"},
                           {PoolMode::Last, "last"}};

Expected pool(PoolMode mode, const std::vector<float> &rows, int64_t tokens,
              int64_t hidden, int64_t stride) {
  Expected expected;
  // In runs of 64 tokens, then over runs; division (and root) round too.
  double roundings =
      double(std::min<int64_t>(tokens, 64) + (tokens + 63) / 64) + 3;
  double n = double(tokens);
  for (int64_t column = 0; column < hidden; ++column) {
    double sum = 0, magnitude = 0, most = -INFINITY;
    for (int64_t token = 0; token < tokens; ++token) {
      double x = rows[token * stride + column];
      double term = mode == PoolMode::WeightedMean ? double(token + 1) * x : x;
      sum += term;
      magnitude += std::fabs(term);
      most = std::max(most, x);
    }
    double divisor = mode == PoolMode::MeanSqrtLength ? std::sqrt(n)
                     : mode == PoolMode::WeightedMean ? n * (n + 1) / 2
                                                      : n;
    bool exact = mode == PoolMode::Max || mode == PoolMode::Last;
    expected.bound.push_back(
        exact ? 0 : 1.01 * roundings * kRounding * magnitude / divisor);
    expected.y.push_back(mode == PoolMode::Max ? most
                         : mode == PoolMode::Last
                             ? rows[(tokens - 1) * stride + column]
                             : sum / divisor);
  }
  return expected;
}

TEST_P(RowProgramsTest, PoolAgreesWithDouble) {
  const std::vector<int64_t> hiddens = {1, 15, 16, 17, 67, 384};
  Programs programs(GetParam(), [&](ModuleOp module) {
    for (int64_t hidden : hiddens)
      for (const PoolCase &pool : kPools)
        getPool(module, pool.mode, hidden, hidden + hidden % 3);
  });
  for (int64_t hidden : hiddens)
    for (int64_t tokens : {1, 2, 3, 63, 64, 65, 129, 1000}) {
      int64_t stride = hidden + hidden % 3;
      // The last row ends with its last column.
      std::vector<float> rows =
          randomRow((tokens - 1) * stride + hidden, unsigned(tokens));
      Row x(rows), y(std::vector<float>(hidden, -7));
      for (const PoolCase &test : kPools) {
        std::string name = "pool_" + test.name + "_" + std::to_string(hidden) +
                           "_stride_" + std::to_string(stride);
        programs.call(name, x.data(), tokens, y.data());
        expectNear(y.values(), pool(test.mode, rows, tokens, hidden, stride),
                   name + ", tokens " + std::to_string(tokens));
      }
    }
}

TEST_P(RowProgramsTest, MeansFollowTheirFormulasBitForBit) {
  const int64_t hidden = 21;
  Programs programs(GetParam(), [&](ModuleOp module) {
    for (const PoolCase &pool : kPools)
      getPool(module, pool.mode, hidden, hidden);
  });
  for (int64_t tokens : {1, 64, 65, 200, 1000}) {
    std::vector<float> rows = randomRow(tokens * hidden, unsigned(tokens));
    Row x(rows), y(std::vector<float>(hidden, -7));
    std::vector<float> mean, root, weighted;
    for (int64_t column = 0; column < hidden; ++column) {
      float total = 0, weightedTotal = 0;
      for (int64_t run = 0; run < tokens; run += 64) {
        float sum = 0, weightedSum = 0;
        for (int64_t token = run; token < std::min(run + 64, tokens); ++token) {
          float value = rows[token * hidden + column];
          sum += value;
          weightedSum = std::fma(float(token + 1), value, weightedSum);
        }
        total += sum;
        weightedTotal += weightedSum;
      }
      mean.push_back(total / float(tokens));
      root.push_back(total / std::sqrt(float(tokens)));
      weighted.push_back(weightedTotal / float(tokens * (tokens + 1) / 2));
    }
    programs.call("pool_mean_21_stride_21", x.data(), tokens, y.data());
    EXPECT_EQ(bitsOf(y.values()), bitsOf(mean));
    programs.call("pool_mean_sqrt_length_21_stride_21", x.data(), tokens,
                  y.data());
    EXPECT_EQ(bitsOf(y.values()), bitsOf(root));
    programs.call("pool_weighted_mean_21_stride_21", x.data(), tokens,
                  y.data());
    EXPECT_EQ(bitsOf(y.values()), bitsOf(weighted));
  }
}

// Non-finite results must be seen, not hidden.
TEST_P(RowProgramsTest, MaxPoolKeepsNaN) {
  Programs programs(GetParam(), [](ModuleOp module) {
    getPool(module, PoolMode::Max, 3, 3);
  });
  Row x({1, NAN, -INFINITY, 2, 5, -INFINITY, NAN, 6, -INFINITY}),
      y(std::vector<float>(3, 0));
  programs.call("pool_max_3_stride_3", x.data(), int64_t(3), y.data());
  EXPECT_TRUE(std::isnan(y.data()[0]));
  EXPECT_TRUE(std::isnan(y.data()[1]));
  EXPECT_EQ(y.data()[2], -INFINITY);
}

//===----------------------------------------------------------------------===//
// normalize
//===----------------------------------------------------------------------===//

TEST_P(RowProgramsTest, NormalizeAgreesWithDoubleAndWorksInPlace) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : sizes())
      getNormalize(module, size);
  });
  for (int64_t size : sizes()) {
    std::vector<float> values = randomRow(size, 1);
    double squares = 0;
    for (float value : values)
      squares += double(value) * value;
    Expected expected;
    for (float value : values) {
      expected.y.push_back(value / std::sqrt(squares));
      // The root halves the error of the sum.
      expected.bound.push_back(1.01 * (reductionRoundings(size) / 2 + 2) *
                               kRounding * std::fabs(expected.y.back()));
    }
    Row x(values), y(std::vector<float>(size, -7));
    programs.call(sized("normalize", size), x.data(), y.data());
    expectNear(y.values(), expected, "size " + std::to_string(size));
    programs.call(sized("normalize", size), x.data(), x.data());
    EXPECT_EQ(bitsOf(x.values()), bitsOf(y.values()));
  }
}

TEST_P(RowProgramsTest, NormalizeDividesByNoLessThanItsFloor) {
  Programs programs(GetParam(),
                    [](ModuleOp module) { getNormalize(module, 20); });
  Row zero(std::vector<float>(20, 0)), small(std::vector<float>(20, 1e-20f)),
      y(std::vector<float>(20, -7));
  programs.call("normalize_20", zero.data(), y.data());
  EXPECT_EQ(y.values(), std::vector<float>(20, 0));
  programs.call("normalize_20", small.data(), y.data());
  EXPECT_EQ(y.values(), std::vector<float>(20, 1e-20f / 1e-12f));
}

//===----------------------------------------------------------------------===//
// transpose_panel
//===----------------------------------------------------------------------===//

TEST_P(RowProgramsTest, TransposePanelTurnsRowsAndZeroesMissingColumns) {
  std::vector<int64_t> ks;
  for (int64_t k = 1; k <= 17; ++k)
    ks.push_back(k);
  ks.insert(ks.end(), {31, 32, 33, 384});
  Programs programs(GetParam(), [&](ModuleOp module) {
    Builder b(module.getContext());
    for (int64_t k : ks)
      for (Type type :
           {Type(b.getF32Type()), Type(b.getF16Type()), Type(b.getBF16Type())})
        getTransposePanel(module, k, type);
  });
  for (int64_t k : ks)
    for (int64_t columns : {1, 2, 7, 15, 16}) {
      std::vector<float> table = randomRow(columns * k, 1);
      std::vector<uint16_t> half, brain;
      for (float value : table) {
        half.push_back(toF16(value));
        brain.push_back(toBF16(value));
      }
      std::vector<float> f32(16 * k, 0), f16(16 * k, 0), bf16(16 * k, 0);
      for (int64_t column = 0; column < columns; ++column)
        for (int64_t line = 0; line < k; ++line) {
          f32[line * 16 + column] = table[column * k + line];
          f16[line * 16 + column] = fromF16(half[column * k + line]);
          bf16[line * 16 + column] = fromBF16(brain[column * k + line]);
        }
      Row single(table), panel(std::vector<float>(16 * k, -7));
      GuardedRow<uint16_t> halves(half), brains(brain);
      std::string name = sized("transpose_panel", k);
      programs.call(name + "_f32", single.data(), columns, panel.data());
      ASSERT_EQ(panel.values(), f32) << k << " " << columns;
      programs.call(name + "_f16", halves.data(), columns, panel.data());
      ASSERT_EQ(panel.values(), f16) << k << " " << columns;
      programs.call(name + "_bf16", brains.data(), columns, panel.data());
      ASSERT_EQ(panel.values(), bf16) << k << " " << columns;
    }
}

//===----------------------------------------------------------------------===//
// All programs
//===----------------------------------------------------------------------===//

TEST(RowPrograms, GiveTheSameBitsOnBothInstructionSets) {
  std::string missing = missingFeatures("x86-64-v4");
  if (!missing.empty())
    GTEST_SKIP() << "host lacks " << missing;
  const std::vector<int64_t> all = {1, 7, 15, 16, 17, 24, 33, 47, 384, 768};
  auto build = [&](ModuleOp module) {
    for (int64_t size : all) {
      getLayerNorm(module, size, 1e-12, /*hasBias=*/true);
      getNormalize(module, size);
      for (const PoolCase &pool : kPools)
        getPool(module, pool.mode, size, size);
    }
  };
  Programs v3("x86-64-v3", build), v4("x86-64-v4", build);
  for (int64_t size : all) {
    const int64_t tokens = 131;
    Row x(randomRow(tokens * size, unsigned(size))), gain(randomRow(size, 2)),
        shift(randomRow(size, 3));
    auto outputs = [&](Programs &programs) {
      std::vector<uint32_t> bits;
      auto keep = [&](Row &y) {
        std::vector<uint32_t> row = bitsOf(y.values());
        bits.insert(bits.end(), row.begin(), row.end());
      };
      Row y(std::vector<float>(size, -7));
      programs.call(sized("layer_norm", size) + "_1e-12", x.data(), gain.data(),
                    shift.data(), y.data());
      keep(y);
      programs.call(sized("normalize", size), x.data(), y.data());
      keep(y);
      for (const PoolCase &pool : kPools) {
        programs.call("pool_" + pool.name + "_" + std::to_string(size) +
                          "_stride_" + std::to_string(size),
                      x.data(), tokens, y.data());
        keep(y);
      }
      return bits;
    };
    ASSERT_EQ(outputs(v3), outputs(v4)) << "size " << size;
  }
}

TEST(RowPrograms, AreSharedByName) {
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  func::FuncOp first = getAdd(*module, 384);
  EXPECT_EQ(getAdd(*module, 384), first);
  EXPECT_NE(getAdd(*module, 768), first);
  EXPECT_EQ(first.getSymName(), "add_384");
  EXPECT_TRUE(first.isPrivate());
  EXPECT_EQ(std::distance(module->getBody()->begin(), module->getBody()->end()),
            2);
}

TEST(RowPrograms, LeaveANameThatIsTakenAlone) {
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  func::FuncOp::create(b, b.getUnknownLoc(), "add_384",
                       b.getFunctionType({}, {}))
      .setPrivate();
  func::FuncOp add = getAdd(*module, 384);
  EXPECT_EQ(add.getSymName(), "add_384_");
  EXPECT_EQ(getAdd(*module, 384), add);
}

} // namespace
