//===- WalkerTest.cpp - each row is computed once, by right threads -------===//
///
/// \file
/// The test model writes into its outputs how often and with what arguments its
/// functions were called for each row; see TestModel.h.
//===----------------------------------------------------------------------===//

#include "test/runtime/RunSupport.h"
#include <random>

using namespace encast::test;

namespace {

/// What a row of an output holds for token `token` of `batch`.
std::vector<float> expectedRow(const Batch &batch, int64_t token) {
  int64_t sequence = 0;
  while (batch.offsets[sequence + 1] <= token)
    ++sequence;
  float id = batch.ids[token];
  float key = batch.offsets[sequence];
  float keys = batch.attended.empty() ? batch.offsets[sequence + 1] - key
                                      : batch.attended[sequence];
  float position = float(token) - key;
  // Blocks of 32 packed rows belong to one sequence.
  float packed = (batch.offsets[sequence] + 31 * sequence) / 32 * 32;
  std::vector<float> row = {id,
                            batch.givesTypes ? float(batch.types[token]) : 0,
                            position,
                            2,
                            TEST_PANELS * id +
                                TEST_PANELS * (TEST_PANELS - 1) / 2,
                            0,
                            0,
                            1};
  for (int i = 0; i < 2 * TEST_HEADS; ++i)
    row.insert(row.end(), {1, key, keys, position, packed});
  return row;
}

void expectRow(const Batch &batch, int64_t token, const float *row,
               const char *output) {
  std::vector<float> expected = expectedRow(batch, token);
  ASSERT_EQ(std::vector<float>(row, row + TEST_COLUMNS), expected)
      << output << ", token " << token << " of " << batch.tokens() << " in "
      << batch.sequences() << " sequences";
}

void expectAll(const Batch &batch, uint64_t outputs, const Results &results) {
  ASSERT_EQ(results.status, ENCAST_OK) << results.error.message;
  if (outputs & 1) {
    int64_t rows = batch.givesRows ? batch.rows.size() : batch.tokens();
    for (int64_t i = 0; i < rows; ++i)
      expectRow(batch, batch.givesRows ? batch.rows[i] : i,
                &results.values[0][i * TEST_COLUMNS], "tokens");
  }
  for (int output = 1; output < 3; ++output)
    for (int64_t i = 0; (outputs >> output & 1) && i < batch.sequences(); ++i)
      expectRow(batch, batch.offsets[i],
                &results.values[output][i * TEST_COLUMNS], outputNames[output]);
}

Batch randomBatch(std::mt19937 &random, int64_t sequences, int64_t longest) {
  auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  Batch batch;
  for (int64_t i = 0; i < sequences; ++i) {
    std::vector<int64_t> sequence(draw(1, longest));
    for (int64_t &id : sequence)
      id = draw(TEST_ID_TILES + 1, TEST_VOCABULARY - 1);
    batch.add(sequence);
  }
  batch.givesTypes = draw(0, 1);
  for (int64_t i = 0; batch.givesTypes && i < batch.tokens(); ++i)
    batch.types.push_back(draw(0, TEST_TYPES - 1));
  if (draw(0, 1))
    for (int64_t i = 0; i < sequences; ++i)
      batch.attended.push_back(
          draw(1, batch.offsets[i + 1] - batch.offsets[i]));
  batch.givesRows = draw(0, 1);
  if (batch.givesRows) {
    int64_t count = draw(0, batch.tokens());
    // Runs of neighbours, as spans of a text are, and single rows, any order.
    while (static_cast<int64_t>(batch.rows.size()) < count) {
      int64_t first = draw(0, batch.tokens() - 1), length = draw(1, 12);
      for (int64_t i = first; i < std::min(first + length, batch.tokens()) &&
                              static_cast<int64_t>(batch.rows.size()) < count;
           ++i)
        batch.rows.push_back(i);
    }
  }
  return batch;
}

struct Cut {
  uint32_t maxRows, rowTile, splitRows, queryRows;
  uint32_t tailDomain = ENCAST_DOMAIN_ATTENTION_SELECTED;
  int64_t flopsPerRow = 100;
  bool attendsInRows = false; ///< Attention over tokens, in a step over rows.
};

TestStep &stepOf(TestArtifact &artifact, const std::string &name) {
  for (TestStep &step : artifact.steps)
    if (step.name == name)
      return step;
  abort();
}

/// Makes attention over tokens part of a step over rows.
void attendInRows(TestArtifact &artifact) {
  TestStep &step = stepOf(artifact, "layer.0.attention");
  step.domain = ENCAST_DOMAIN_TOKENS;
  step.heads = 0;
  step.calls[0].panels = TEST_HEADS;
  step.calls[0].panelTile = 1;
  step.calls[0].perHead = true;
}

class Walker : public testing::TestWithParam<Cut> {
protected:
  TemporaryFolder folder;
  Model openCut() {
    TestArtifact artifact;
    artifact.maxRows = GetParam().maxRows;
    artifact.rowTile = GetParam().rowTile;
    artifact.splitRows = GetParam().splitRows;
    artifact.queryRows = GetParam().queryRows;
    artifact.flopsPerRow = GetParam().flopsPerRow;
    artifact.requiredFeatures = ENCAST_FEATURE_ATTENDED_LENGTH;
    if (GetParam().attendsInRows)
      attendInRows(artifact);
    TestStep &tail = stepOf(artifact, "layer.1.attention");
    tail.domain = GetParam().tailDomain;
    if (tail.domain == ENCAST_DOMAIN_ATTENTION_RUNS)
      tail.calls[0].function = "test_tail_runs";
    return openModel(artifact.write(folder.path("model.so")));
  }
};

void PrintTo(const Cut &cut, std::ostream *stream) {
  *stream << cut.maxRows << " rows in tiles of " << cut.rowTile
          << ", shared up to " << cut.splitRows << ", queries " << cut.queryRows
          << ", domain " << cut.tailDomain << ", " << cut.flopsPerRow
          << " flops a row" << (cut.attendsInRows ? ", attention in rows" : "");
}

} // namespace

TEST_P(Walker, computes_each_row_once_in_random_batches) {
  Model model = openCut();
  std::mt19937 random(7);
  for (int threads : {1, 2, 3, 5}) {
    Session session = createSession(model.get(), sessionOptions(threads));
    ASSERT_EQ(encast_session_reserve(session.get(), 1000, 100, 0, nullptr),
              ENCAST_OK);
    for (int i = 0; i < 60; ++i) {
      int64_t sequences = 1 + random() % 20;
      Batch batch = randomBatch(random, sequences, 1 + random() % 40);
      uint64_t outputs = 1 + random() % 7;
      Results results = run(session.get(), batch, outputs);
      ASSERT_NO_FATAL_FAILURE(expectAll(batch, outputs, results))
          << threads << " threads, outputs " << outputs;
    }
  }
}

TEST_P(Walker, computes_each_row_once_for_every_length) {
  Model model = openCut();
  for (int threads : {1, 2, 4}) {
    Session session = createSession(model.get(), sessionOptions(threads));
    ASSERT_EQ(encast_session_reserve(session.get(), 1000, 10, 0, nullptr),
              ENCAST_OK);
    for (int64_t length = 1; length <= 70; ++length) {
      Batch batch;
      batch.add(std::vector<int64_t>(length, 42));
      Results results = run(session.get(), batch, 7);
      ASSERT_NO_FATAL_FAILURE(expectAll(batch, 7, results));
    }
  }
}

// The last ones take so long that their panels are cut.
constexpr uint32_t kRuns = ENCAST_DOMAIN_ATTENTION_RUNS;
constexpr uint32_t kSelected = ENCAST_DOMAIN_ATTENTION_SELECTED;
INSTANTIATE_TEST_SUITE_P(Cuts, Walker,
                         testing::Values(Cut{16, 4, 16, 8}, Cut{16, 4, 0, 8},
                                         Cut{1, 1, 1, 1}, Cut{300, 1, 300, 300},
                                         Cut{14, 6, 10, 7}, Cut{64, 16, 32, 5},
                                         Cut{16, 4, 16, 8, kRuns},
                                         Cut{300, 1, 300, 300, kRuns},
                                         Cut{14, 6, 10, 7, kRuns},
                                         Cut{16, 4, 16, 8, kSelected, 9, true},
                                         Cut{1, 1, 1, 1, kSelected, 9, true},
                                         Cut{300, 1, 300, 9, kRuns, 9, true},
                                         Cut{14, 6, 0, 7, kSelected, 9, true},
                                         Cut{16, 4, 16, 8, kRuns, 1 << 30},
                                         Cut{64, 4, 0, 8, kRuns, 1 << 27, true},
                                         Cut{8, 1, 4, 8, kRuns, INT64_MAX}));

// As long as LFM2.5 allows, in cuts as compiled models have them.
TEST(WalkerCut, a_sequence_of_128000_tokens_is_computed_once) {
  TemporaryFolder folder;
  TestArtifact artifact;
  artifact.maxTokens = 128000;
  artifact.requiredFeatures = ENCAST_FEATURE_ATTENDED_LENGTH;
  artifact.maxRows = 96;
  artifact.queryRows = 192;
  artifact.rowTile = 48;
  Model model = openModel(artifact.write(folder.path("model.so")));
  Session session = createSession(model.get(), sessionOptions(2));
  ASSERT_EQ(encast_session_reserve(session.get(), 128100, 2, 1, nullptr),
            ENCAST_OK);
  Batch batch;
  batch.add(std::vector<int64_t>(100, 43));
  batch.add(std::vector<int64_t>(128000, 42));
  batch.attended = {100, 127001};
  ASSERT_NO_FATAL_FAILURE(expectAll(batch, 1, run(session.get(), batch, 1)));
}

// With more threads than tiles of max_rows, and where such a tile takes long.
TEST(WalkerCut, attention_is_cut_for_all_threads_and_short_items) {
  TemporaryFolder folder;
  TestArtifact artifact;
  artifact.queryRows = 300;
  artifact.rowTile = 16;
  for (int64_t flops : {int64_t(10), int64_t(1) << 20, INT64_MAX}) {
    artifact.flopsPerRowAndKey = flops;
    std::string name = "flops-" + std::to_string(flops) + ".so";
    Model model = openModel(artifact.write(folder.path(name)));
    for (int threads : {1, 8}) {
      Session session = createSession(model.get(), sessionOptions(threads));
      ASSERT_EQ(encast_session_reserve(session.get(), 1000, 10, 0, nullptr),
                ENCAST_OK);
      for (int64_t length : {1, 15, 16, 17, 150, 300}) {
        Batch batch;
        batch.add(std::vector<int64_t>(length, 42));
        ASSERT_NO_FATAL_FAILURE(
            expectAll(batch, 7, run(session.get(), batch, 7)));
      }
    }
  }
}

TEST(WalkerModes, rows_of_no_token_output_are_not_computed) {
  TemporaryFolder folder;
  Model model = openModel(TestArtifact().write(folder.path("model.so")));
  Session session = createSession(model.get(), sessionOptions(2));
  ASSERT_EQ(encast_session_reserve(session.get(), 100, 10, 0, nullptr),
            ENCAST_OK);
  Batch batch;
  batch.add({20, 21, 22, 23});
  batch.add({30, 31});
  // (outputs asked, tail of all rows runs, tail of selected rows runs)
  struct {
    uint64_t outputs;
    bool givesRows, all, selected;
  } cases[] = {{1, false, true, false}, {1, true, false, true},
               {2, false, false, true}, {2, true, false, true},
               {4, false, true, false}, {3, false, true, false},
               {3, true, false, true},  {6, true, true, false}};
  for (const auto &expected : cases) {
    batch.givesRows = expected.givesRows;
    batch.rows = {5, 1};
    ASSERT_EQ(run(session.get(), batch, expected.outputs).status, ENCAST_OK);
    bool all = false, selected = false;
    encast_step_stats step = {};
    step.size = sizeof(step);
    for (int64_t i = 0;
         encast_session_step(session.get(), i, &step, nullptr) == ENCAST_OK;
         ++i) {
      bool ran = step.nanoseconds > 0;
      EXPECT_EQ(ran, step.flops > 0) << step.name;
      all |= ran && std::string(step.step) == "layer.1.tail.all";
      selected |= ran && std::string(step.step) == "layer.1.tail.selected";
    }
    EXPECT_EQ(all, expected.all) << expected.outputs;
    EXPECT_EQ(selected, expected.selected) << expected.outputs;
  }
}

class WalkerFlops : public testing::TestWithParam<bool> {};

TEST_P(WalkerFlops, count_rows_and_keys_that_were_computed) {
  TemporaryFolder folder;
  TestArtifact artifact;
  if (GetParam())
    attendInRows(artifact);
  Model model = openModel(artifact.write(folder.path("model.so")));
  Session session = createSession(model.get(), sessionOptions(2));
  ASSERT_EQ(encast_session_reserve(session.get(), 100, 10, 0, nullptr),
            ENCAST_OK);
  Batch batch;
  batch.add({20, 21, 22, 23});
  batch.add({30, 31});
  ASSERT_EQ(run(session.get(), batch, 2).status, ENCAST_OK);
  auto flops = [&](const std::string &name) {
    encast_step_stats step = {};
    step.size = sizeof(step);
    for (int64_t i = 0;
         encast_session_step(session.get(), i, &step, nullptr) == ENCAST_OK;
         ++i)
      if (name == step.name)
        return step.flops;
    return int64_t(-1);
  };
  // 100 per row, and 10 per row and key of attention.
  EXPECT_EQ(flops("layer.0.up"), 6 * 100);
  EXPECT_EQ(flops("layer.0.attention"), 6 * 100 + (4 * 4 + 2 * 2) * 10);
  EXPECT_EQ(flops("layer.1.attention"), 2 * 100 + (4 + 2) * 10);
  EXPECT_EQ(flops("layer.1.copy"), 0);
  EXPECT_EQ(flops("tokens"), 0);
}

TEST_P(WalkerFlops, of_a_window_count_its_keys_that_are_attended) {
  TemporaryFolder folder;
  for (int64_t window : {1, 2, 5, 40}) {
    TestArtifact artifact;
    artifact.requiredFeatures = ENCAST_FEATURE_ATTENDED_LENGTH;
    for (TestStep &step : artifact.steps)
      if (step.heads)
        step.calls[0].window = window;
    if (GetParam())
      attendInRows(artifact);
    std::string name = "window-" + std::to_string(window) + ".so";
    Model model = openModel(artifact.write(folder.path(name)));
    Session session = createSession(model.get(), sessionOptions(2));
    ASSERT_EQ(encast_session_reserve(session.get(), 200, 10, 0, nullptr),
              ENCAST_OK);
    std::mt19937 random(window);
    for (int i = 0; i < 20; ++i) {
      Batch batch = randomBatch(random, 1 + i % 4, 1 + 2 * i);
      batch.givesRows = false;
      auto keysOf = [&](int64_t sequence, int64_t position) {
        int64_t length = batch.offsets[sequence + 1] - batch.offsets[sequence];
        int64_t keys = 0;
        for (int64_t j = 0; j < length; ++j)
          keys += (batch.attended.empty() || j < batch.attended[sequence]) &&
                  std::abs(j - position) <= window;
        return keys;
      };
      int64_t all = 0, first = 0;
      for (int64_t s = 0; s < batch.sequences(); ++s) {
        for (int64_t p = 0; p < batch.offsets[s + 1] - batch.offsets[s]; ++p)
          all += keysOf(s, p);
        first += keysOf(s, 0);
      }
      ASSERT_EQ(run(session.get(), batch, 2).status, ENCAST_OK);
      encast_step_stats step = {};
      step.size = sizeof(step);
      for (int64_t j = 0;
           encast_session_step(session.get(), j, &step, nullptr) == ENCAST_OK;
           ++j) {
        if (std::string(step.name) == "layer.0.attention") {
          EXPECT_EQ(step.flops, 100 * batch.tokens() + 10 * all);
        }
        if (std::string(step.name) == "layer.1.attention") {
          EXPECT_EQ(step.flops, 100 * batch.sequences() + 10 * first);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AttentionInRows, WalkerFlops, testing::Bool());
