//===- PanelsTest.cpp - tables become weights of linears ------------------===//

#include "RowProgramTesting.h"
#include "codegen/Kernels/TilePacking.h"

using namespace encast;
using namespace encast::test;
using namespace mlir;

namespace {

class PanelsTest : public ProgramsTest {};
ENCAST_INSTANTIATE_PROGRAMS_TEST(PanelsTest);

TEST_P(PanelsTest, TransposePanelTurnsRowsAndZeroesMissingColumns) {
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

/// Those around a vector and around a step of 32 k.
const std::vector<int64_t> kStepSizes = {1, 16, 17, 31, 32, 33, 47, 63, 384};

/// What a program packs of `columns` rows of k values: a pair of panels of one
/// plane of them.
std::vector<float> toPair(const std::vector<float> &table, int64_t columns,
                          int64_t k) {
  std::vector<float> pair(size_t(tilePairElements(k, 1)), 0);
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t i = 0; i < k; ++i)
      pair[size_t(tilePairElement(k, 1, column, i, 0))] =
          table[size_t(column * k + i)];
  return pair;
}

TEST_P(PanelsTest, TransposePairPutsTwoOfKSideBySideInF32) {
  Programs programs(GetParam(), [&](ModuleOp module) {
    Builder b(module.getContext());
    for (int64_t k : kStepSizes)
      for (Type type : {Type(b.getF32Type()), Type(b.getF16Type())})
        getTransposePair(module, k, type);
  });
  for (int64_t k : kStepSizes)
    for (int64_t columns : {1, 15, 16, 17, 31, 32}) {
      std::vector<float> table = randomRow(columns * k, 1), exact;
      std::vector<uint16_t> half;
      for (float value : table) {
        half.push_back(toF16(value));
        exact.push_back(fromF16(half.back()));
      }
      Row rows(table),
          pair(std::vector<float>(size_t(tilePairElements(k, 1)), -7));
      GuardedRow<uint16_t> halves(half);
      std::string name = sized("transpose_pair", k);
      programs.call(name + "_f32", rows.data(), columns, pair.data());
      ASSERT_EQ(pair.values(), toPair(table, columns, k))
          << k << " " << columns;
      programs.call(name + "_f16", halves.data(), columns, pair.data());
      ASSERT_EQ(pair.values(), toPair(exact, columns, k))
          << k << " " << columns;
    }
}

TEST_P(PanelsTest, TransposePairSplitsIntoPlanes) {
  Programs programs(GetParam(), [&](ModuleOp module) {
    Type f32 = Float32Type::get(module.getContext());
    for (int64_t k : kStepSizes)
      for (int planes : {1, 2})
        getTransposePair(module, k, f32, {planes});
  });
  for (int64_t k : kStepSizes)
    for (int64_t columns : {1, 15, 16, 17, 31, 32})
      for (int planes : {1, 2}) {
        std::vector<float> table = randomRow(columns * k, 2);
        std::vector<uint16_t> expected(size_t(tilePairElements(k, planes)), 0);
        for (int64_t column = 0; column < columns; ++column)
          for (int64_t i = 0; i < k; ++i) {
            std::vector<uint16_t> terms =
                toPlanes({table[size_t(column * k + i)]}, planes);
            for (int plane = 0; plane < planes; ++plane)
              expected[size_t(tilePairElement(k, planes, column, i, plane))] =
                  terms[size_t(plane * planeStride(1))];
          }
        Row rows(table);
        GuardedRow<uint16_t> pair(
            std::vector<uint16_t>(expected.size(), 0x7777));
        programs.call(sized("transpose_pair", k) + "_f32_planes_" +
                          std::to_string(planes),
                      rows.data(), columns, pair.data());
        ASSERT_EQ(pair.values(), expected)
            << k << " " << columns << " " << planes;
      }
}

// What is bf16 moves as it is, NaN and denormal numbers included; a last step
// that is not full is split, and the same but for denormal numbers.
TEST_P(PanelsTest, TransposePairCopiesBF16) {
  Programs programs(GetParam(), [&](ModuleOp module) {
    Type bf16 = BFloat16Type::get(module.getContext());
    for (int64_t k : kStepSizes)
      getTransposePair(module, k, bf16, {1});
  });
  for (int64_t k : kStepSizes)
    for (int64_t columns : {1, 15, 16, 17, 31, 32}) {
      std::vector<uint16_t> table;
      for (float value : randomRow(columns * k, 3))
        table.push_back(toBF16(value));
      table.front() = 0x7fc1; // NaN
      table.back() = 0x8001;  // denormal
      if (k > 2)
        table[1] = 0xff80; // -infinity
      std::vector<uint16_t> expected(size_t(tilePairElements(k, 1)), 0);
      for (int64_t column = 0; column < columns; ++column)
        for (int64_t i = 0; i < k; ++i)
          expected[size_t(tilePairElement(k, 1, column, i, 0))] =
              table[size_t(column * k + i)];
      if (k % 32)
        expected[size_t(tilePairElement(k, 1, columns - 1, k - 1, 0))] = 0x8000;
      GuardedRow<uint16_t> rows(table),
          pair(std::vector<uint16_t>(expected.size(), 0x7777));
      programs.call(sized("transpose_pair", k) + "_bf16_planes_1", rows.data(),
                    columns, pair.data());
      ASSERT_EQ(pair.values(), expected) << k << " " << columns;
    }
}

} // namespace
