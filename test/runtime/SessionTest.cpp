//===- SessionTest.cpp - reserve, run, cancel, refuse ---------------------===//

#include "runtime/src/MemoryFormula.h"
#include "test/runtime/RunSupport.h"
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <xmmintrin.h>

using namespace encast;
using namespace encast::test;

namespace {

class SessionTest : public testing::Test {
protected:
  TemporaryFolder folder;
  Model model = openModel(TestArtifact().write(folder.path("model.so")));

  Session reserved(int threads, int64_t tokens = 100, int64_t sequences = 10) {
    Session session = createSession(model.get(), sessionOptions(threads));
    Error error;
    EXPECT_EQ(
        encast_session_reserve(session.get(), tokens, sequences, 0, &error),
        ENCAST_OK)
        << error.message;
    return session;
  }
  int64_t memoryNeeded(encast_session *session, int64_t tokens,
                       int64_t sequences, uint64_t outputs = 0) {
    int64_t bytes = -1;
    Error error;
    EXPECT_EQ(encast_memory_needed(session, tokens, sequences, outputs, &bytes,
                                   &error),
              ENCAST_OK)
        << error.message;
    return bytes;
  }
};

Batch oneSequence(std::vector<int64_t> ids) {
  Batch batch;
  batch.add(ids);
  return batch;
}

/// A thread that runs a batch which waits until release().
class WaitingRun {
public:
  explicit WaitingRun(encast_session *session) {
    batch.addSpecial(TEST_ID_WAIT);
    for (int i = 0; i < 40; ++i)
      batch.addSpecial(20);
    memory.assign(kGate + batch.tokens() * TEST_COLUMNS, 0);
    thread = std::thread([this, session] {
      std::vector<encast_input> inputs = batch.inputs();
      encast_output output = {sizeof(encast_output), "tokens",
                              memory.data() + kGate,
                              batch.tokens() * TEST_COLUMNS};
      status =
          encast_run(session, inputs.data(), inputs.size(), &output, 1, &error);
    });
    while (!came())
      sched_yield();
  }
  ~WaitingRun() { finish(); }

  /// Forgets that the waiting call came by.
  void forget() { __atomic_store_n(gate(0), 0, __ATOMIC_SEQ_CST); }
  /// Whether it, or another one, has come by.
  bool came() { return __atomic_load_n(gate(0), __ATOMIC_SEQ_CST); }

  encast_status finish() {
    if (thread.joinable()) {
      __atomic_store_n(gate(1), 1, __ATOMIC_SEQ_CST);
      thread.join();
    }
    return status;
  }
  Error error;

private:
  /// Floats before the output, of which the last two are the gate.
  static constexpr int kGate = 16;
  int32_t *gate(int index) {
    return reinterpret_cast<int32_t *>(&memory[kGate - 2 + index]);
  }
  Batch batch;
  std::vector<float> memory;
  encast_status status = ENCAST_INTERNAL;
  std::thread thread;
};

/// One wrong call and a piece of its message.
struct BadRun {
  const char *name, *message;
  encast_status status;
  std::vector<int64_t> ids, offsets, types = {}, rows = {};
  bool givesTypes = false, givesRows = false;
};
void PrintTo(const BadRun &run, std::ostream *stream) { *stream << run.name; }

} // namespace

//===- memory -------------------------------------------------------------===//

TEST_F(SessionTest, memory_needed_is_the_formula) {
  Session session = createSession(model.get(), sessionOptions(3));
  auto rounded = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  for (auto [tokens, sequences] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {1, 1}, {33, 2}, {1000, 77}})
    for (uint64_t outputs : {1, 2, 7}) {
      int64_t control = 3 * rounded(4 * tokens) + rounded(4 * (tokens + 1)) +
                        rounded(4 * (tokens + sequences)) +
                        rounded(4 * sequences);
      int64_t attention = TEST_ATTENTION * 4 * tokens;
      int64_t colours =
          rounded(std::max<int64_t>(TEST_HIDDEN * 4 * tokens, 1000)) +
          rounded(outputs & 1 ? 2 * attention : attention) +
          rounded((TEST_HIDDEN + TEST_ATTENTION) * 4 * (tokens + sequences)) +
          rounded(TEST_ATTENTION * 4 * (tokens + sequences));
      int64_t threads = 3 * (rounded(16 * TEST_PANELS * 4) + rounded(4));
      int64_t pages = (control + colours + threads + 4095) / 4096 * 4096;
      EXPECT_EQ(memoryNeeded(session.get(), tokens, sequences, outputs), pages)
          << tokens << " tokens, outputs " << outputs;
    }
}

TEST_F(SessionTest, reserve_maps_exactly_the_memory_needed) {
  struct Counts {
    int64_t allocated = 0, freed = 0;
  } counts;
  encast_session_options options = sessionOptions(2);
  options.allocate = [](void *data, size_t bytes) {
    static_cast<Counts *>(data)->allocated += bytes;
    return aligned_alloc(64, bytes);
  };
  options.free = [](void *data, void *memory, size_t bytes) {
    static_cast<Counts *>(data)->freed += bytes;
    free(memory);
  };
  options.allocate_data = &counts;
  Session session = createSession(model.get(), options);
  int64_t needed = memoryNeeded(session.get(), 50, 5);
  ASSERT_EQ(encast_session_reserve(session.get(), 50, 5, 0, nullptr),
            ENCAST_OK);
  EXPECT_EQ(counts.allocated, needed);
  encast_session_stats_t stats = {};
  stats.size = sizeof(stats);
  ASSERT_EQ(encast_session_stats(session.get(), &stats, nullptr), ENCAST_OK);
  EXPECT_EQ(stats.arena_bytes, needed);
  EXPECT_EQ(run(session.get(), oneSequence({20, 30}), 7).status, ENCAST_OK);
  // A second reservation replaces the first.
  ASSERT_EQ(encast_session_reserve(session.get(), 10, 5, 0, nullptr),
            ENCAST_OK);
  EXPECT_EQ(counts.freed, needed);
  session.reset();
  EXPECT_EQ(counts.allocated, counts.freed);
}

TEST_F(SessionTest, memory_of_the_process_grows_by_the_arena_only) {
  auto resident = [] {
    long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT_EQ(fscanf(file, "%ld %ld", &size, &pages), 2);
    fclose(file);
    return int64_t(pages) * 4096;
  };
  for (int hugePages : {0, 1}) {
    constexpr int threads = 4;
    encast_session_options options = sessionOptions(threads);
    options.huge_pages = hugePages;
    std::vector<int64_t> ids(128000, 20), offsets = {0};
    while (offsets.back() < static_cast<int64_t>(ids.size()))
      offsets.push_back(
          std::min<int64_t>(offsets.back() + TEST_MAX_TOKENS, ids.size()));
    std::vector<float> rows(offsets.size() * TEST_COLUMNS);
    int64_t before = resident();
    Session session = createSession(model.get(), options);
    ASSERT_EQ(encast_session_reserve(session.get(), ids.size(),
                                     offsets.size() - 1, 2, nullptr),
              ENCAST_OK);
    int64_t needed =
        memoryNeeded(session.get(), ids.size(), offsets.size() - 1, 2);
    EXPECT_GE(resident() - before, needed);
    encast_input inputs[] = {
        {sizeof(encast_input), "ids", ids.data(), int64_t(ids.size())},
        {sizeof(encast_input), "offsets", offsets.data(),
         int64_t(offsets.size())}};
    encast_output output = {sizeof(encast_output), "first", rows.data(),
                            int64_t(rows.size())};
    ASSERT_EQ(encast_run(session.get(), inputs, 2, &output, 1, nullptr),
              ENCAST_OK);
    if (!kHasShadowMemory) {
      EXPECT_LT(resident() - before,
                needed + (2 << 20) + threads * (128 << 10));
    }
  }
}

TEST_F(SessionTest, a_cap_below_the_need_is_reported_with_both_figures) {
  encast_session_options options = sessionOptions(2);
  options.memory_cap = 4096;
  Session session = createSession(model.get(), options);
  Error error;
  EXPECT_EQ(encast_session_reserve(session.get(), 1000, 1, 0, &error),
            ENCAST_MEMORY_CAP);
  std::string needed = std::to_string(memoryNeeded(session.get(), 1000, 1));
  EXPECT_EQ(error.message,
            "the arena needs " + needed + " bytes, but the cap allows 4096");
}

TEST_F(SessionTest, a_cap_counts_the_copied_weights) {
  encast_model_options modelOptions = {};
  modelOptions.size = sizeof(modelOptions);
  modelOptions.huge_page_weights = 1;
  encast_model *opened = nullptr;
  ASSERT_EQ(encast_model_open(folder.path("model.so").c_str(), &modelOptions,
                              &opened, nullptr),
            ENCAST_OK);
  Model copied(opened);
  constexpr int64_t copies = 2 << 20;
  encast_session_options options = sessionOptions(2);
  for (int64_t missing : {0, 1}) {
    Session plain = createSession(copied.get(), sessionOptions(2));
    int64_t arena = memoryNeeded(plain.get(), 1000, 1);
    options.memory_cap = arena + copies - missing;
    Session session = createSession(copied.get(), options);
    Error error;
    EXPECT_EQ(encast_session_reserve(session.get(), 1000, 1, 0, &error),
              missing ? ENCAST_MEMORY_CAP : ENCAST_OK);
    if (missing)
      EXPECT_EQ(error.message, "the arena needs " + std::to_string(arena) +
                                   " bytes and the copied weights 2097152, "
                                   "but the cap allows " +
                                   std::to_string(options.memory_cap));
  }
}

TEST_F(SessionTest, memory_that_the_system_refuses_is_an_error) {
  Session session = createSession(model.get(), sessionOptions(1));
  Error error;
  // 2^31 tokens take more than 300 GB.
  EXPECT_EQ(encast_session_reserve(session.get(), INT32_MAX - 1, 1, 0, &error),
            ENCAST_OUT_OF_MEMORY);
  EXPECT_NE(strstr(error.message, "for the arena, but only"), nullptr)
      << error.message;
  EXPECT_EQ(run(session.get(), oneSequence({20}), 1).status, ENCAST_TOO_SMALL);
}

TEST_F(SessionTest, an_allocator_that_fails_is_an_error) {
  encast_session_options options = sessionOptions(1);
  options.allocate = [](void *, size_t) -> void * { return nullptr; };
  options.free = [](void *, void *, size_t) { FAIL(); };
  Session session = createSession(model.get(), options);
  EXPECT_EQ(encast_session_reserve(session.get(), 1, 1, 0, nullptr),
            ENCAST_OUT_OF_MEMORY);
}

TEST_F(SessionTest, misaligned_memory_of_an_allocator_is_refused) {
  encast_session_options options = sessionOptions(1);
  options.allocate = [](void *, size_t bytes) -> void * {
    return static_cast<char *>(aligned_alloc(64, bytes + 64)) + 8;
  };
  options.free = [](void *, void *memory, size_t) {
    free(static_cast<char *>(memory) - 8);
  };
  Session session = createSession(model.get(), options);
  Error error;
  EXPECT_EQ(encast_session_reserve(session.get(), 1, 1, 0, &error),
            ENCAST_INVALID_ARGUMENT);
  EXPECT_NE(strstr(error.message, "not aligned to 64"), nullptr);
  EXPECT_EQ(run(session.get(), oneSequence({20}), 1).status, ENCAST_TOO_SMALL);
}

TEST_F(SessionTest, reservations_of_impossible_shapes_are_refused) {
  Session session = createSession(model.get(), sessionOptions(1));
  int64_t bytes;
  Error error;
  struct {
    int64_t tokens, sequences;
    const char *message;
  } cases[] = {{-1, 1, "number of tokens is -1"},
               {1, -2, "number of sequences is -2"},
               {int64_t(1) << 31, 1, "2147483648 tokens in 1 sequences"},
               {1, INT64_MAX, "1 tokens in 9223372036854775807 sequences"}};
  for (const auto &bad : cases) {
    EXPECT_EQ(encast_memory_needed(session.get(), bad.tokens, bad.sequences, 0,
                                   &bytes, &error),
              ENCAST_BAD_SHAPE);
    EXPECT_NE(strstr(error.message, bad.message), nullptr) << error.message;
  }
  EXPECT_EQ(encast_memory_needed(session.get(), 1, 1, 8, &bytes, &error),
            ENCAST_UNKNOWN_NAME);
  EXPECT_NE(strstr(error.message, "0x8"), nullptr) << error.message;
}

TEST(MemoryFormula, sizes_that_overflow_are_noticed) {
  Bytes bytes = TestArtifact().build();
  encast_abi_descriptor &descriptor = descriptorOf(bytes);
  auto &variant = *rowsOf<encast_abi_variant>(bytes, descriptor.variants);
  auto *forms = rowsOf<encast_abi_form>(bytes, variant.forms);
  int64_t colours[4];
  runtime::ArenaLayout layout;
  auto lays = [&] {
    return runtime::layOutArena(runtime::ArtifactView(&descriptor), variant, 3,
                                1, 7, 2, colours, layout);
  };
  EXPECT_TRUE(lays());
  encast_abi_form form = forms[0];
  forms[0].bytes_per_token = INT64_MAX / 2;
  EXPECT_FALSE(lays());
  forms[0] = form;
  forms[0].bytes = INT64_MAX;
  EXPECT_FALSE(lays());
  forms[0] = form;
  variant.block_bytes = INT64_MAX / 2;
  EXPECT_FALSE(lays());
  variant.block_bytes = INT64_MAX - 3;
  EXPECT_FALSE(lays());
}

TEST_F(SessionTest, a_run_over_the_reservation_is_refused_with_both_figures) {
  Session session = reserved(2, 100, 1);
  Error error;
  Batch batch;
  for (int i = 0; i < 3; ++i)
    batch.add(std::vector<int64_t>(100, 20));
  Results results = run(session.get(), batch, 7);
  EXPECT_EQ(results.status, ENCAST_TOO_SMALL);
  std::string message = results.error.message;
  EXPECT_NE(
      message.find(std::to_string(memoryNeeded(session.get(), 300, 3, 7))),
      std::string::npos)
      << message;
  EXPECT_NE(message.find(std::to_string(memoryNeeded(session.get(), 100, 1))),
            std::string::npos)
      << message;
  // What fits still runs.
  EXPECT_EQ(run(session.get(), oneSequence({20}), 7).status, ENCAST_OK);
}

TEST_F(SessionTest, a_session_without_reservation_refuses_to_run) {
  Session session = createSession(model.get(), sessionOptions(1));
  EXPECT_EQ(run(session.get(), oneSequence({20}), 1).status, ENCAST_TOO_SMALL);
}

//===- inputs and outputs -------------------------------------------------===//

class RefusedRun : public SessionTest,
                   public testing::WithParamInterface<BadRun> {};

TEST_P(RefusedRun, says_why_and_the_session_lives_on) {
  Session session = reserved(2, 1000, 10);
  const BadRun &bad = GetParam();
  Batch batch;
  batch.ids = bad.ids;
  batch.offsets = bad.offsets;
  batch.types = bad.types;
  batch.rows = bad.rows;
  batch.givesTypes = bad.givesTypes;
  batch.givesRows = bad.givesRows;
  std::vector<encast_input> inputs = batch.inputs();
  std::vector<float> rows(10000);
  encast_output output = {sizeof(encast_output), "first", rows.data(), 10000};
  Error error;
  EXPECT_EQ(encast_run(session.get(), inputs.data(), inputs.size(), &output, 1,
                       &error),
            bad.status);
  EXPECT_NE(strstr(error.message, bad.message), nullptr) << error.message;
  EXPECT_EQ(run(session.get(), oneSequence({20}), 7).status, ENCAST_OK);
}

INSTANTIATE_TEST_SUITE_P(
    SessionTest, RefusedRun,
    testing::Values(
        BadRun{"no_offsets", "has no elements", ENCAST_BAD_SHAPE, {1}, {}},
        BadRun{"first_offset",
               "starts with 1, expected 0",
               ENCAST_BAD_SHAPE,
               {1},
               {1, 1}},
        BadRun{"last_offset",
               "ends with 1, expected 2",
               ENCAST_BAD_SHAPE,
               {1, 2},
               {0, 1}},
        BadRun{"offset_behind_the_ids",
               "ends with 3, expected 2",
               ENCAST_BAD_SHAPE,
               {1, 2},
               {0, 3}},
        BadRun{"empty_sequence",
               "sequence 1 reaches from token 1 to 1, expected at least one",
               ENCAST_BAD_SHAPE,
               {1, 2},
               {0, 1, 1, 2}},
        BadRun{"falling_offsets",
               "sequence 1 reaches from token 2 to 1",
               ENCAST_BAD_SHAPE,
               {1, 2, 3},
               {0, 2, 1, 3}},
        BadRun{"empty_only_sequence",
               "sequence 0 reaches from token 0 to 0",
               ENCAST_BAD_SHAPE,
               {},
               {0, 0}},
        BadRun{"too_long",
               "sequence 0 has 301 tokens, but the model's limit is 300",
               ENCAST_SEQUENCE_TOO_LONG,
               std::vector<int64_t>(301, 1),
               {0, 301}},
        BadRun{"id_over_the_vocabulary",
               "sequence 1, position 2: id 100 is outside of the vocabulary, "
               "0 to 99",
               ENCAST_TOKEN_OUT_OF_RANGE,
               {1, 1, 1, 100},
               {0, 1, 4}},
        BadRun{"negative_id",
               "sequence 0, position 0: id -1",
               ENCAST_TOKEN_OUT_OF_RANGE,
               {-1},
               {0, 1}},
        BadRun{"type_out_of_range",
               "sequence 0, position 1: token type 2 is outside of 0 to 1",
               ENCAST_TOKEN_OUT_OF_RANGE,
               {1, 1},
               {0, 2},
               {0, 2},
               {},
               true},
        BadRun{"number_of_types",
               "has 1 elements, expected 2",
               ENCAST_BAD_SHAPE,
               {1, 1},
               {0, 2},
               {0},
               {},
               true},
        BadRun{"too_many_rows",
               "'rows' has 3 elements, expected 0 to 2",
               ENCAST_BAD_SHAPE,
               {1, 1},
               {0, 2},
               {},
               {0, 0, 0},
               false,
               true},
        BadRun{"row_out_of_range",
               "element 1 of input 'rows' is 2, expected 0 to 1",
               ENCAST_BAD_SHAPE,
               {1, 1},
               {0, 2},
               {},
               {0, 2},
               false,
               true},
        BadRun{"negative_row",
               "element 0 of input 'rows' is -1",
               ENCAST_BAD_SHAPE,
               {1, 1},
               {0, 2},
               {},
               {-1},
               false,
               true}),
    [](const testing::TestParamInfo<BadRun> &info) { return info.param.name; });

TEST_F(SessionTest, names_sizes_and_pointers_of_a_run_are_checked) {
  Session session = reserved(1);
  int64_t id = 20;
  std::vector<float> memory(1000);
  encast_input ids = {sizeof(encast_input), "ids", &id, 1};
  encast_output first = {sizeof(encast_output), "first", memory.data(), 1000};
  auto expect = [&](std::vector<encast_input> inputs,
                    std::vector<encast_output> outputs, encast_status status,
                    const char *message) {
    Error error;
    EXPECT_EQ(encast_run(session.get(), inputs.data(), inputs.size(),
                         outputs.data(), outputs.size(), &error),
              status);
    EXPECT_NE(strstr(error.message, message), nullptr) << error.message;
  };
  auto input = [](encast_input copy, auto change) {
    change(copy);
    return copy;
  };
  auto output = [](encast_output copy, auto change) {
    change(copy);
    return copy;
  };
  expect({}, {first}, ENCAST_INVALID_ARGUMENT, "input 'ids' is missing");
  expect({ids}, {}, ENCAST_INVALID_ARGUMENT, "no output is asked");
  expect({ids, ids}, {first}, ENCAST_INVALID_ARGUMENT,
         "input 'ids' is given twice");
  expect({ids}, {first, first}, ENCAST_INVALID_ARGUMENT,
         "output 'first' is given twice");
  expect({input(ids, [](auto &i) { i.name = "attention_mask"; })}, {first},
         ENCAST_UNKNOWN_NAME, "no input is named 'attention_mask'");
  int64_t length = 1;
  encast_input attended = {sizeof(encast_input), "attended_length", &length, 1};
  expect({ids, attended}, {first}, ENCAST_OK, "");
  length = 2;
  expect({ids, attended}, {first}, ENCAST_BAD_SHAPE,
         "sequence 0: attended_length is 2, but this model attends to all 1");
  attended.count = 0;
  expect({ids, attended}, {first}, ENCAST_BAD_SHAPE,
         "'attended_length' has 0 elements, expected 1");
  expect({ids}, {output(first, [](auto &o) { o.name = "logits"; })},
         ENCAST_UNKNOWN_NAME,
         "no output is named 'logits'; the model has tokens, first, all");
  expect({input(ids, [](auto &i) { i.size = 8; })}, {first},
         ENCAST_INVALID_ARGUMENT, "field 'size' of encast_input is 8");
  expect({ids}, {output(first, [](auto &o) { o.size = 0; })},
         ENCAST_INVALID_ARGUMENT, "field 'size' of encast_output is 0");
  expect({ids, input(attended, [](auto &i) { i.size += 8; })}, {first},
         ENCAST_INVALID_ARGUMENT,
         "field 'size' of encast_input is 40, but that of the first one is 32");
  expect({input(ids, [](auto &i) { i.name = nullptr; })}, {first},
         ENCAST_INVALID_ARGUMENT, "'name' is null");
  expect({input(ids, [](auto &i) { i.data = nullptr; })}, {first},
         ENCAST_INVALID_ARGUMENT, "'data of an input' is null");
  expect({input(ids, [](auto &i) { i.count = -1; })}, {first}, ENCAST_BAD_SHAPE,
         "count of an input is -1");
  expect({ids}, {output(first, [](auto &o) { o.data = nullptr; })},
         ENCAST_INVALID_ARGUMENT, "'data of an output' is null");
  expect({ids}, {output(first, [](auto &o) { o.count = 25; })},
         ENCAST_TOO_SMALL,
         "output 'first' takes 1 x 38 floats, but its memory has room for 25");
  Error error;
  EXPECT_EQ(encast_run(session.get(), nullptr, 1, &first, 1, &error),
            ENCAST_INVALID_ARGUMENT);
  EXPECT_EQ(encast_run(session.get(), &ids, 1, nullptr, 1, &error),
            ENCAST_INVALID_ARGUMENT);
  EXPECT_EQ(encast_run(session.get(), &ids, -1, &first, 1, &error),
            ENCAST_BAD_SHAPE);
  EXPECT_EQ(encast_run(nullptr, &ids, 1, &first, 1, &error),
            ENCAST_INVALID_ARGUMENT);
}

TEST_F(SessionTest, models_that_say_so_take_an_attended_length) {
  TestArtifact artifact;
  artifact.requiredFeatures = ENCAST_FEATURE_ATTENDED_LENGTH;
  Model attending = openModel(artifact.write(folder.path("attending.so")));
  auto takes = [](encast_model *opened) {
    encast_model_info_t info = {};
    info.size = sizeof(info);
    EXPECT_EQ(encast_model_info(opened, &info, nullptr), ENCAST_OK);
    return info.attended_length;
  };
  EXPECT_EQ(takes(attending.get()), 1);
  EXPECT_EQ(takes(model.get()), 0);

  Session session = createSession(attending.get(), sessionOptions(2));
  ASSERT_EQ(encast_session_reserve(session.get(), 100, 10, 0, nullptr),
            ENCAST_OK);
  Batch batch;
  batch.add({20, 21, 22});
  batch.add({30, 31});
  auto message = [&](std::vector<int64_t> attended) {
    batch.attended = attended;
    Results results = run(session.get(), batch, 2);
    EXPECT_EQ(results.status,
              results.error.message[0] ? ENCAST_BAD_SHAPE : ENCAST_OK);
    return std::string(results.error.message);
  };
  EXPECT_EQ(message({3, 2}), "");
  EXPECT_EQ(message({1, 2}), "");
  EXPECT_EQ(message({3, 0}),
            "sequence 1: attended_length is 0, expected 1 to 2");
  EXPECT_EQ(message({4, 2}),
            "sequence 0: attended_length is 4, expected 1 to 3");
  EXPECT_EQ(message({-1, 2}),
            "sequence 0: attended_length is -1, expected 1 to 3");
  EXPECT_EQ(message({1}), "input 'attended_length' has 1 elements, expected 2, "
                          "the number of sequences");
}

TEST_F(SessionTest, ids_alone_are_one_sequence) {
  Session session = reserved(1);
  int64_t ids[] = {20, 21, 22};
  std::vector<float> row(TEST_COLUMNS);
  encast_input input = {sizeof(encast_input), "ids", ids, 3};
  encast_output output = {sizeof(encast_output), "first", row.data(),
                          TEST_COLUMNS};
  ASSERT_EQ(encast_run(session.get(), &input, 1, &output, 1, nullptr),
            ENCAST_OK);
  EXPECT_EQ(row[0], 20);
  EXPECT_EQ(row[8 + 2], 3); // keys
}

// Elements of a newer caller's arrays are larger.
TEST_F(SessionTest, elements_may_be_larger_than_ours) {
  Session session = reserved(1);
  struct NewerInput : encast_input {
    int64_t more;
  };
  int64_t ids[] = {20, 21}, offsets[] = {0, 1, 2};
  NewerInput inputs[2];
  static_cast<encast_input &>(inputs[0]) = {sizeof(NewerInput), "ids", ids, 2};
  static_cast<encast_input &>(inputs[1]) = {sizeof(NewerInput), "offsets",
                                            offsets, 3};
  std::vector<float> rows(2 * TEST_COLUMNS);
  encast_output output = {sizeof(encast_output), "first", rows.data(),
                          2 * TEST_COLUMNS};
  ASSERT_EQ(encast_run(session.get(), inputs, 2, &output, 1, nullptr),
            ENCAST_OK);
  EXPECT_EQ(rows[TEST_COLUMNS], 21);
}

TEST_F(SessionTest, an_empty_batch_writes_nothing) {
  Session session = reserved(2);
  Batch batch;
  for (uint64_t outputs = 1; outputs < 8; ++outputs) {
    Results results = run(session.get(), batch, outputs);
    EXPECT_EQ(results.status, ENCAST_OK) << results.error.message;
  }
  int64_t zero = 0;
  encast_input inputs[] = {{sizeof(encast_input), "ids", nullptr, 0},
                           {sizeof(encast_input), "offsets", &zero, 1}};
  encast_output output = {sizeof(encast_output), "first", nullptr, 0};
  EXPECT_EQ(encast_run(session.get(), inputs, 2, &output, 1, nullptr),
            ENCAST_OK);
}

TEST_F(SessionTest, no_row_asked_gives_no_row) {
  Session session = reserved(2);
  Batch batch = oneSequence({20, 21});
  batch.givesRows = true;
  int64_t unused = 0;
  for (const int64_t *data : {&unused, static_cast<int64_t *>(nullptr)}) {
    std::vector<encast_input> inputs = batch.inputs();
    inputs.back().data = data;
    encast_output output = {sizeof(encast_output), "tokens", nullptr, 0};
    Error error;
    EXPECT_EQ(encast_run(session.get(), inputs.data(), inputs.size(), &output,
                         1, &error),
              ENCAST_OK)
        << error.message;
  }
}

TEST_F(SessionTest, values_that_are_not_finite_are_reported_with_their_place) {
  for (int threads : {1, 3}) {
    Session session = reserved(threads);
    for (int64_t id : {TEST_ID_NAN, TEST_ID_INFINITY}) {
      Batch batch;
      batch.add({20, 21});
      batch.addSpecial(id);
      batch.addSpecial(id);
      Results results = run(session.get(), batch, 3);
      EXPECT_EQ(results.status, ENCAST_NOT_FINITE);
      EXPECT_STREQ(results.error.message,
                   "output 'tokens' is not finite at row 2, column 5");
      results = run(session.get(), batch, 6);
      EXPECT_STREQ(results.error.message,
                   "output 'first' is not finite at row 1, column 5");
      EXPECT_EQ(run(session.get(), oneSequence({20}), 7).status, ENCAST_OK);
    }
  }
}

TEST_F(SessionTest, denormals_are_flushed_in_a_run_and_not_behind_it) {
  Session session = reserved(2);
  unsigned before = _mm_getcsr();
  constexpr unsigned roundDown = 0x2000;
  _mm_setcsr(before | roundDown);
  Batch batch;
  for (int i = 0; i < 40; ++i)
    batch.addSpecial(TEST_ID_DENORMAL);
  Results results = run(session.get(), batch, 1);
  constexpr unsigned control = ~0x3fu; // the others say what happened
  EXPECT_EQ(_mm_getcsr() & control, (before | roundDown) & control);
  _mm_setcsr(before);
  ASSERT_EQ(results.status, ENCAST_OK);
  for (int64_t i = 0; i < batch.tokens(); ++i)
    EXPECT_EQ(results.values[0][i * TEST_COLUMNS + 5], 0);
}

//===- one call at a time -------------------------------------------------===//

TEST_F(SessionTest, a_second_call_during_a_run_is_busy) {
  Session session = reserved(2);
  WaitingRun waiting(session.get());
  Error error;
  Results results = run(session.get(), oneSequence({20}), 1);
  EXPECT_EQ(results.status, ENCAST_BUSY);
  EXPECT_STREQ(results.error.message, "the session serves another call");
  EXPECT_EQ(encast_session_reserve(session.get(), 1, 1, 0, &error),
            ENCAST_BUSY);
  EXPECT_EQ(encast_session_destroy(session.get(), &error), ENCAST_BUSY);
  encast_session_stats_t stats = {};
  stats.size = sizeof(stats);
  EXPECT_EQ(encast_session_stats(session.get(), &stats, &error), ENCAST_BUSY);
  EXPECT_EQ(encast_model_close(model.get(), &error), ENCAST_BUSY);
  // Other sessions of the model run meanwhile.
  Session other = reserved(1);
  EXPECT_EQ(run(other.get(), oneSequence({20}), 1).status, ENCAST_OK);
  EXPECT_EQ(waiting.finish(), ENCAST_OK) << waiting.error.message;
}

TEST_F(SessionTest, cancel_ends_the_run_in_flight_and_no_other) {
  for (int threads : {1, 2, 3}) {
    Session session = reserved(threads);
    EXPECT_EQ(encast_cancel(session.get(), nullptr), ENCAST_OK);
    EXPECT_EQ(run(session.get(), oneSequence({20}), 1).status, ENCAST_OK);
    {
      WaitingRun waiting(session.get());
      EXPECT_EQ(encast_cancel(session.get(), nullptr), ENCAST_OK);
      EXPECT_EQ(waiting.finish(), ENCAST_CANCELLED);
      EXPECT_STREQ(waiting.error.message, "the run was cancelled");
    }
    EXPECT_EQ(run(session.get(), oneSequence({20}), 1).status, ENCAST_OK);
  }
}

// A block may take long: its next call does not begin.
TEST_F(SessionTest, cancel_ends_a_block_at_its_next_call) {
  TestArtifact artifact;
  artifact.steps[0].calls.push_back(artifact.steps[1].calls[0]);
  Model other = openModel(artifact.write(folder.path("two-calls.so")));
  Session session = createSession(other.get(), sessionOptions(1));
  ASSERT_EQ(encast_session_reserve(session.get(), 100, 100, 0, nullptr),
            ENCAST_OK);
  {
    WaitingRun waiting(session.get());
    EXPECT_EQ(encast_cancel(session.get(), nullptr), ENCAST_OK);
    EXPECT_EQ(waiting.finish(), ENCAST_CANCELLED);
  }
  encast_step_stats step = {};
  step.size = sizeof(step);
  ASSERT_EQ(encast_session_step(session.get(), 0, &step, nullptr), ENCAST_OK);
  EXPECT_GT(step.nanoseconds, 0);
  ASSERT_EQ(encast_session_step(session.get(), 1, &step, nullptr), ENCAST_OK);
  EXPECT_STREQ(step.step, "embeddings");
  EXPECT_EQ(step.nanoseconds, 0);
}

// A call over all columns of a vocabulary takes longest.
TEST_F(SessionTest, cancel_ends_a_long_call_between_its_panels) {
  TestArtifact artifact;
  TestCall &call = artifact.steps[0].calls[0];
  call.panels = 4;
  call.panelTile = 1;
  artifact.flopsPerRow = INT64_MAX;
  Model other = openModel(artifact.write(folder.path("long-call.so")));
  for (int threads : {1, 2}) {
    Session session = createSession(other.get(), sessionOptions(threads));
    ASSERT_EQ(encast_session_reserve(session.get(), 100, 100, 0, nullptr),
              ENCAST_OK);
    WaitingRun waiting(session.get());
    EXPECT_EQ(encast_cancel(session.get(), nullptr), ENCAST_OK);
    waiting.forget();
    EXPECT_EQ(waiting.finish(), ENCAST_CANCELLED);
    EXPECT_FALSE(waiting.came());
  }
}

TEST_F(SessionTest, threads_sleep_between_runs) {
  auto processMilliseconds = [] {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
  };
  Session session = reserved(4);
  ASSERT_EQ(run(session.get(), oneSequence({20}), 1).status, ENCAST_OK);
  double before = processMilliseconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(processMilliseconds() - before, 30);
}

TEST_F(SessionTest, sessions_of_one_model_run_at_the_same_time) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Session session = reserved(2);
      for (int j = 0; j < 20; ++j)
        if (run(session.get(), oneSequence(std::vector<int64_t>(50, 20)), 7)
                .status != ENCAST_OK)
          ++failures;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
}

TEST_F(SessionTest, a_session_survives_no_fork_but_its_model_does) {
  Session session = reserved(2);
  pid_t child = fork();
  if (child == 0) {
    Error error;
    bool fine = run(session.get(), oneSequence({20}), 1).status ==
                    ENCAST_INVALID_ARGUMENT &&
                encast_session_reserve(session.get(), 1, 1, 0, &error) ==
                    ENCAST_INVALID_ARGUMENT &&
                strstr(error.message, "fork") &&
                encast_session_destroy(session.release(), &error) == ENCAST_OK;
    if (fine) {
      encast_session *own = nullptr;
      encast_session_options options = sessionOptions(kThreadsOfChild);
      fine = encast_session_create(model.get(), &options, &own, &error) ==
                 ENCAST_OK &&
             encast_session_reserve(own, 10, 1, 0, &error) == ENCAST_OK &&
             run(own, oneSequence({20}), 1).status == ENCAST_OK &&
             encast_session_destroy(own, &error) == ENCAST_OK &&
             encast_model_close(model.release(), &error) == ENCAST_OK;
    }
    _exit(fine ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(run(session.get(), oneSequence({20}), 1).status, ENCAST_OK);
}

//===- hooks and options --------------------------------------------------===//

TEST_F(SessionTest, an_executor_brings_the_threads) {
  struct Calls {
    int runs = 0;
    int64_t tasks = 0;
  } calls;
  encast_session_options options = sessionOptions(3);
  options.executor = [](void *executorData, void (*task)(void *, int64_t),
                        void *data, int64_t count) {
    auto &counted = *static_cast<Calls *>(executorData);
    ++counted.runs;
    counted.tasks += count;
    std::vector<std::thread> threads;
    for (int64_t i = 0; i < count; ++i)
      threads.emplace_back([=] { task(data, i); });
    for (std::thread &thread : threads)
      thread.join();
  };
  options.executor_data = &calls;
  Session session = createSession(model.get(), options);
  ASSERT_EQ(encast_session_reserve(session.get(), 100, 10, 0, nullptr),
            ENCAST_OK);
  Batch batch = oneSequence(std::vector<int64_t>(50, 20));
  Results results = run(session.get(), batch, 7);
  EXPECT_EQ(results.status, ENCAST_OK);
  EXPECT_EQ(calls.runs, 1);
  EXPECT_EQ(calls.tasks, 3);
  Session own = reserved(1);
  EXPECT_EQ(results.values[0], run(own.get(), batch, 7).values[0]);
}

TEST_F(SessionTest, an_executor_may_run_its_tasks_one_after_the_other) {
  for (int order : {1, -1}) {
    encast_session_options options = sessionOptions(3);
    options.executor = [](void *executorData, void (*task)(void *, int64_t),
                          void *data, int64_t count) {
      bool backwards = *static_cast<int *>(executorData) < 0;
      for (int64_t i = 0; i < count; ++i)
        task(data, backwards ? count - 1 - i : i);
    };
    options.executor_data = &order;
    Session session = createSession(model.get(), options);
    ASSERT_EQ(encast_session_reserve(session.get(), 100, 10, 0, nullptr),
              ENCAST_OK);
    Batch batch = oneSequence(std::vector<int64_t>(50, 20));
    Results results = run(session.get(), batch, 7);
    EXPECT_EQ(results.status, ENCAST_OK);
    Session own = reserved(1);
    EXPECT_EQ(results.values[0], run(own.get(), batch, 7).values[0]);
  }
}

TEST_F(SessionTest, progress_is_reported_behind_each_layer) {
  std::vector<double> reports;
  encast_session_options options = sessionOptions(2);
  options.progress = [](void *data, double done) {
    static_cast<std::vector<double> *>(data)->push_back(done);
  };
  options.progress_data = &reports;
  Session session = createSession(model.get(), options);
  ASSERT_EQ(encast_session_reserve(session.get(), 100, 10, 0, nullptr),
            ENCAST_OK);
  ASSERT_EQ(run(session.get(), oneSequence({20, 30}), 2).status, ENCAST_OK);
  EXPECT_EQ(reports, (std::vector<double>{0.3, 0.7}));
}

TEST_F(SessionTest, statistics_are_of_the_last_run) {
  Session session = reserved(2);
  ASSERT_EQ(run(session.get(), oneSequence({20, 30}), 2).status, ENCAST_OK);
  Batch batch = oneSequence({20, 30, 40});
  batch.add({50});
  ASSERT_EQ(run(session.get(), batch, 2).status, ENCAST_OK);
  encast_session_stats_t stats = {};
  stats.size = sizeof(stats);
  ASSERT_EQ(encast_session_stats(session.get(), &stats, nullptr), ENCAST_OK);
  EXPECT_STREQ(stats.variant, "x86-64-v1");
  EXPECT_EQ(stats.threads, 2);
  EXPECT_EQ(stats.tokens, 4);
  EXPECT_EQ(stats.sequences, 2);
  EXPECT_GT(stats.nanoseconds, 0);
  EXPECT_EQ(stats.step_count, 11);
  EXPECT_EQ(stats.runs, 2);
  encast_step_stats step = {};
  step.size = sizeof(step);
  ASSERT_EQ(encast_session_step(session.get(), 2, &step, nullptr), ENCAST_OK);
  EXPECT_STREQ(step.step, "layer.0");
  EXPECT_STREQ(step.name, "layer.0.down");
  EXPECT_STREQ(step.kernel, "test_from_block");
  EXPECT_EQ(step.layer, 1);
  EXPECT_GT(step.nanoseconds, 0);
  EXPECT_LT(step.nanoseconds, 2 * stats.nanoseconds);
  Error error;
  EXPECT_EQ(encast_session_step(session.get(), 11, &step, &error),
            ENCAST_UNKNOWN_NAME);
  EXPECT_STREQ(error.message, "step row 11 does not exist, there are 11");
}

TEST_F(SessionTest, options_out_of_range_are_refused) {
  struct {
    void (*change)(encast_session_options &);
    const char *message;
  } cases[] = {
      {[](auto &o) { o.threads = -1; }, "option 'threads' is -1"},
      {[](auto &o) { o.threads = 5000; }, "option 'threads' is 5000"},
      {[](auto &o) { o.pin = 2; }, "option 'pin' is 2"},
      {[](auto &o) { o.numa_node = -2; }, "option 'numa_node' is -2"},
      {[](auto &o) { o.huge_pages = 2; }, "option 'huge_pages' is 2"},
      {[](auto &o) { o.memory_cap = -1; }, "option 'memory_cap' is -1"},
      {[](auto &o) { o.free = [](void *, void *, size_t) {}; },
       "given together"},
      {[](auto &o) { o.size = 4; }, "'size' of encast_session_options is 4"},
  };
  for (const auto &bad : cases) {
    encast_session_options options = ENCAST_SESSION_OPTIONS_INIT;
    bad.change(options);
    encast_session *session = nullptr;
    Error error;
    EXPECT_EQ(encast_session_create(model.get(), &options, &session, &error),
              ENCAST_INVALID_ARGUMENT);
    EXPECT_EQ(session, nullptr);
    EXPECT_NE(strstr(error.message, bad.message), nullptr) << error.message;
  }
}

TEST_F(SessionTest, what_the_machine_cannot_do_is_a_warning) {
  std::vector<std::string> messages;
  encast_session_options options = sessionOptions(64);
  options.numa_node = 1000000;
  options.pin = 1;
  options.log = [](void *data, encast_log_level level, const char *message) {
    if (level <= ENCAST_LOG_WARNING)
      static_cast<std::vector<std::string> *>(data)->push_back(message);
  };
  options.log_data = &messages;
  Session session = createSession(model.get(), options);
  ASSERT_EQ(encast_session_reserve(session.get(), 100, 10, 0, nullptr),
            ENCAST_OK);
  EXPECT_EQ(run(session.get(), oneSequence({20}), 7).status, ENCAST_OK);
  std::string all;
  for (const std::string &message : messages)
    all += message + "\n";
  EXPECT_NE(all.find("NUMA node 1000000 has no CPU"), std::string::npos) << all;
  if (std::thread::hardware_concurrency() < 64) {
    EXPECT_NE(all.find("64 threads on"), std::string::npos) << all;
  }
}

TEST_F(SessionTest, the_environment_sets_the_default_number_of_threads) {
  setenv("ENCAST_THREADS", "3", 1);
  auto threadsOf = [&](int wanted) {
    Session session = createSession(model.get(), sessionOptions(wanted));
    encast_session_stats_t stats = {};
    stats.size = sizeof(stats);
    encast_session_stats(session.get(), &stats, nullptr);
    return stats.threads;
  };
  EXPECT_EQ(threadsOf(0), 3);
  EXPECT_EQ(threadsOf(2), 2);
  setenv("ENCAST_THREADS", "many", 1);
  EXPECT_GE(threadsOf(0), 1);
  unsetenv("ENCAST_THREADS");
  EXPECT_GE(threadsOf(0), 1);
}

TEST_F(SessionTest, options_of_an_older_caller_take_their_defaults) {
  encast_session_options options;
  memset(&options, 0x5a, sizeof(options));
  options.size = offsetof(encast_session_options, pin);
  options.threads = 2;
  encast_session *session = nullptr;
  Error error;
  ASSERT_EQ(encast_session_create(model.get(), &options, &session, &error),
            ENCAST_OK)
      << error.message;
  Session owner(session);
  ASSERT_EQ(encast_session_reserve(session, 10, 1, 0, nullptr), ENCAST_OK);
  EXPECT_EQ(run(session, oneSequence({20}), 7).status, ENCAST_OK);
}

TEST_F(SessionTest, pinned_threads_compute_the_same) {
  encast_session_options options = sessionOptions(2);
  options.pin = 1;
  options.numa_node = 0;
  Session session = createSession(model.get(), options);
  ASSERT_EQ(encast_session_reserve(session.get(), 100, 10, 0, nullptr),
            ENCAST_OK);
  Session plain = reserved(2);
  Batch batch = oneSequence(std::vector<int64_t>(50, 20));
  EXPECT_EQ(run(session.get(), batch, 7).values[0],
            run(plain.get(), batch, 7).values[0]);
}

TEST(Status, each_has_its_name) {
  EXPECT_STREQ(encast_status_name(ENCAST_OK), "ENCAST_OK");
  EXPECT_STREQ(encast_status_name(ENCAST_INTERNAL), "ENCAST_INTERNAL");
  EXPECT_STREQ(encast_status_name(static_cast<encast_status>(31)),
               "ENCAST_UNKNOWN");
  for (int i = 0; i <= ENCAST_INTERNAL; ++i)
    EXPECT_STRNE(encast_status_name(static_cast<encast_status>(i)),
                 "ENCAST_UNKNOWN");
}
