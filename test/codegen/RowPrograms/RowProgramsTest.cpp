//===- RowProgramsTest.cpp - row programs against loops in double ---------===//
///
/// \file
/// Programs that move rows, combine them column by column, or pool them; and
/// what holds for all programs.
//===----------------------------------------------------------------------===//

#include "RowProgramTesting.h"

using namespace mlir;
using namespace encast;
using namespace encast::test;

namespace {

class RowProgramsTest : public ProgramsTest {};
ENCAST_INSTANTIATE_PROGRAMS_TEST(RowProgramsTest);

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
// multiply, split
//===----------------------------------------------------------------------===//

TEST_P(RowProgramsTest, MultiplyRoundsOnceAndWorksInPlace) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : fewSizes())
      for (int planes = 0; planes <= 3; ++planes)
        getMultiply(module, size, {planes});
  });
  for (int64_t size : fewSizes()) {
    std::vector<float> a = randomRow(size, 1), b = randomRow(size, 2), product;
    for (int64_t i = 0; i < size; ++i)
      product.push_back(a[i] * b[i]);
    Row left(a), right(b), y(std::vector<float>(size, -7));
    std::string name = sized("multiply", size);
    programs.call(name, left.data(), right.data(), y.data());
    ASSERT_EQ(y.values(), product) << name;
    for (int planes = 1; planes <= 3; ++planes) {
      GuardedRow<uint16_t> z(
          std::vector<uint16_t>(planes * ((size + 31) / 32 * 32), 7));
      programs.call(name + "_planes_" + std::to_string(planes), left.data(),
                    right.data(), z.data());
      ASSERT_EQ(z.values(), toPlanes(product, planes)) << name;
    }
    programs.call(name, left.data(), right.data(), left.data());
    ASSERT_EQ(left.values(), product) << name;
  }
}

TEST_P(RowProgramsTest, SplitFillsPlanesUpWithZeros) {
  Programs programs(GetParam(), [](ModuleOp module) {
    for (int64_t size : fewSizes())
      for (int planes = 1; planes <= 3; ++planes)
        getSplit(module, size, planes);
  });
  for (int64_t size : fewSizes())
    for (int planes = 1; planes <= 3; ++planes) {
      int64_t stride = (size + 31) / 32 * 32;
      Row x(randomRow(size, unsigned(size)));
      GuardedRow<uint16_t> y(std::vector<uint16_t>(planes * stride, 7));
      programs.call(sized("split", size) + "_planes_" + std::to_string(planes),
                    x.data(), y.data());
      std::vector<uint16_t> given = y.values();
      ASSERT_EQ(given, toPlanes(x.values(), planes)) << "size " << size;
      for (int plane = 0; plane < planes; ++plane)
        for (int64_t column = size; column < stride; ++column)
          ASSERT_EQ(given[plane * stride + column], 0);
      // Each plane is right to half of its last of 8 bits; three are exact.
      for (int64_t column = 0; column < size; ++column) {
        double sum = 0, value = x.values()[column];
        for (int plane = 0; plane < planes; ++plane)
          sum += fromBF16(given[plane * stride + column]);
        double bound = planes == 3 ? 0 : std::ldexp(1, -8 * planes);
        ASSERT_LE(std::fabs(sum - value), bound * std::fabs(value));
      }
    }
}

/// Values of every sign, exponent and leading bits, with the last 16 bits where
/// rounding changes its mind.
std::vector<float> edgesOfRounding(uint32_t firstHigh, uint32_t count) {
  std::vector<float> values;
  for (uint32_t high = firstHigh; high < firstHigh + count; ++high)
    for (uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu,
                         0x7f80u, 0x0080u}) {
      uint32_t bits = high << 16 | low;
      float value;
      memcpy(&value, &bits, 4);
      values.push_back(value);
    }
  return values;
}

// Infinities, denormals and ties among them.
TEST_P(RowProgramsTest, SplitRoundsEveryKindOfValueToNearestEven) {
  const int64_t size = 8 * 1024;
  Programs programs(GetParam(), [&](ModuleOp module) {
    getSplit(module, size, /*planes=*/3);
  });
  for (uint32_t high = 0; high < 0x10000; high += 1024) {
    std::vector<float> values = edgesOfRounding(high, 1024);
    for (float &value : values)
      if (std::isnan(value))
        value = 0;
    Row x(values);
    GuardedRow<uint16_t> y(std::vector<uint16_t>(3 * size, 7));
    programs.call("split_8192_planes_3", x.data(), y.data());
    ASSERT_EQ(y.values(), toPlanes(values, 3)) << "from " << high;
  }
}

TEST_P(RowProgramsTest, SplitMakesNaNOfEveryNaN) {
  const int64_t size = 8 * 128;
  Programs programs(GetParam(), [&](ModuleOp module) {
    getSplit(module, size, /*planes=*/3);
  });
  for (uint32_t sign : {0u, 0x8000u}) {
    std::vector<float> values = edgesOfRounding(0x7f80 | sign, 128);
    // The first is the infinity.
    values[0] = NAN;
    Row x(values);
    GuardedRow<uint16_t> y(std::vector<uint16_t>(3 * size, 7));
    programs.call("split_1024_planes_3", x.data(), y.data());
    std::vector<uint16_t> given = y.values();
    for (int64_t column = 0; column < size; ++column)
      ASSERT_TRUE(std::isnan(fromBF16(given[column]))) << column;
  }
}

TEST_P(RowProgramsTest, SplitHidesNoInfinity) {
  Programs programs(
      GetParam(), [&](ModuleOp module) { getSplit(module, 3, /*planes=*/3); });
  // The last one is too large for bf16.
  Row x({INFINITY, -INFINITY, 0x1.fffffep127f});
  GuardedRow<uint16_t> y(std::vector<uint16_t>(3 * 32, 7));
  programs.call("split_3_planes_3", x.data(), y.data());
  std::vector<uint16_t> given = y.values();
  EXPECT_EQ(fromBF16(given[0]), INFINITY);
  EXPECT_EQ(fromBF16(given[1]), -INFINITY);
  EXPECT_EQ(fromBF16(given[2]), INFINITY);
  for (int64_t column = 0; column < 3; ++column) {
    float sum = fromBF16(given[column]);
    for (int64_t plane = 1; plane < 3; ++plane) {
      sum += fromBF16(given[32 * plane + column]);
      EXPECT_FALSE(std::isfinite(sum)) << column << ", plane " << plane;
    }
  }
}

//===----------------------------------------------------------------------===//
// short_conv
//===----------------------------------------------------------------------===//

/// A token of a sequence: which neighbours it has.
struct ConvToken {
  int32_t position, next;
};
const ConvToken kConvTokens[] = {{0, 0}, {0, 1}, {3, 4}, {8191, 0}};

TEST_P(RowProgramsTest, ShortConvReadsNeighboursOfItsSequenceAlone) {
  auto options = [](int number) {
    ShortConvOptions options;
    options.hasBias = number & 1;
    options.hasScale = number & 2;
    options.output.planes = number >> 2 & 3;
    options.bf16Input = number & 16;
    return options;
  };
  Programs programs(GetParam(), [&](ModuleOp module) {
    for (int64_t size : fewSizes())
      for (int number = 0; number < 32; ++number)
        getShortConv(module, size, options(number));
  });
  // Reading it is an error.
  void *nowhere = reinterpret_cast<void *>(8);
  for (int64_t size : fewSizes())
    for (const ConvToken &token : kConvTokens) {
      bool first = token.position == 0, last = token.next == 0;
      Row previous(randomRow(size, 1)), x(randomRow(size, 2)),
          next(randomRow(size, 3)), weight(randomRow(3 * size, 4)),
          bias(randomRow(size, 5)), scale(randomRow(size, 6));
      GuardedRow<int32_t> position({token.position, token.next});
      // The first terms, and what they stand for.
      auto narrowed = [&](const Row &row) {
        std::vector<uint16_t> terms = toPlanes(row.values(), 1);
        terms.resize(size);
        return GuardedRow<uint16_t>(terms);
      };
      auto widened = [](GuardedRow<uint16_t> &row) {
        std::vector<float> values;
        for (uint16_t term : row.values())
          values.push_back(fromBF16(term));
        return Row(values);
      };
      GuardedRow<uint16_t> previous16(narrowed(previous)), x16(narrowed(x)),
          next16(narrowed(next));
      Row previousWide(widened(previous16)), xWide(widened(x16)),
          nextWide(widened(next16));
      for (int number = 0; number < 32; ++number) {
        ShortConvOptions o = options(number);
        std::vector<float> expected;
        Expected near;
        for (int64_t i = 0; i < size; ++i) {
          const float *w = weight.data();
          float a =
              first ? 0 : (o.bf16Input ? previousWide : previous).data()[i];
          float c = last ? 0 : (o.bf16Input ? nextWide : next).data()[i];
          float b = (o.bf16Input ? xWide : x).data()[i];
          float sum =
              std::fma(w[2 * size + i], c, std::fma(w[size + i], b, w[i] * a));
          double exact = double(w[i]) * a + double(w[size + i]) * b +
                         double(w[2 * size + i]) * c;
          double magnitude = std::fabs(w[i] * a) + std::fabs(w[size + i] * b) +
                             std::fabs(w[2 * size + i] * c);
          if (o.hasBias) {
            sum += bias.data()[i];
            exact += bias.data()[i];
            magnitude += std::fabs(bias.data()[i]);
          }
          if (o.hasScale) {
            sum *= scale.data()[i];
            exact *= scale.data()[i];
            magnitude *= std::fabs(scale.data()[i]);
          }
          expected.push_back(sum);
          near.y.push_back(exact);
          near.bound.push_back(1.01 * 5 * kRounding * magnitude);
        }
        std::string name =
            sized("short_conv", size) + (o.bf16Input ? "_bf16" : "") +
            (o.hasBias ? "_bias" : "") + (o.hasScale ? "_scale" : "") +
            (o.output.planes ? sized("_planes", o.output.planes) : "");
        auto call = [&](auto *y) {
          auto run = [&](auto... more) {
            auto read = [&](void *before, void *at, void *behind) {
              programs.call(name, first ? nowhere : before, at,
                            last ? nowhere : behind, position.data(),
                            weight.data(), more..., y);
            };
            if (o.bf16Input)
              read(previous16.data(), x16.data(), next16.data());
            else
              read(previous.data(), x.data(), next.data());
          };
          if (o.hasBias && o.hasScale)
            run(bias.data(), scale.data());
          else if (o.hasBias)
            run(bias.data());
          else if (o.hasScale)
            run(scale.data());
          else
            run();
        };
        if (o.output.planes) {
          GuardedRow<uint16_t> y(std::vector<uint16_t>(
              o.output.planes * ((size + 31) / 32 * 32), 7));
          call(y.data());
          ASSERT_EQ(y.values(), toPlanes(expected, o.output.planes)) << name;
        } else {
          Row y(std::vector<float>(size, -7));
          call(y.data());
          ASSERT_EQ(bitsOf(y.values()), bitsOf(expected)) << name;
          expectNear(y.values(), near, name);
        }
      }
      // In place of the scale.
      Row y(std::vector<float>(size, -7));
      std::string name = sized("short_conv", size) + "_scale";
      for (float *target : {y.data(), scale.data()})
        programs.call(name, previous.data(), x.data(), next.data(),
                      position.data(), weight.data(), scale.data(), target);
      ASSERT_EQ(bitsOf(scale.values()), bitsOf(y.values())) << name;
    }
}

// What a neighbour in another sequence holds must not matter, NaN either.
TEST_P(RowProgramsTest, ShortConvIgnoresOtherSequencesWhateverTheyHold) {
  Programs programs(GetParam(), [&](ModuleOp module) {
    getShortConv(module, 20, ShortConvOptions());
  });
  Row other(std::vector<float>(20, NAN)), x(randomRow(20, 2)),
      weight(std::vector<float>(60, 1)), y(std::vector<float>(20, -7));
  GuardedRow<int32_t> position({0, 0});
  programs.call("short_conv_20", other.data(), x.data(), other.data(),
                position.data(), weight.data(), y.data());
  EXPECT_EQ(y.values(), x.values());
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
      getRmsNorm(module, size, 1e-5, {2});
      HeadsOptions heads;
      heads.norm = 1e-5;
      heads.rope = true;
      heads.factor = 0.18;
      getHeads(module, 3, 2 * size, heads);
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
      std::vector<float> planes((size + 31) / 32 * 32, -7);
      Row split(planes), rotated(std::vector<float>(6 * size, -7));
      programs.call(sized("rms_norm", size) + "_1e-05_planes_2", x.data(),
                    gain.data(), split.data());
      keep(split);
      int32_t position = 1;
      programs.call(
          "heads_3x" + std::to_string(2 * size) + "_norm_1e-05_rope_times_0.18",
          x.data(), x.data() + size, &position, x.data(), rotated.data());
      keep(rotated);
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
