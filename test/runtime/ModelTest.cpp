//===- ModelTest.cpp - open artifacts -------------------------------------===//

#include "runtime/src/Cpu.h"
#include "runtime/src/MemoryFormula.h"
#include "runtime/src/Variant.h"
#include "test/runtime/RunSupport.h"
#include <cstring>
#include <elf.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace encast;
using namespace encast::test;

namespace {

struct Opened {
  encast_status status;
  std::string message;
  Model model;
};

Opened open(const std::string &path,
            const encast_model_options *options = nullptr) {
  Error error;
  encast_model *model = nullptr;
  encast_status status =
      encast_model_open(path.c_str(), options, &model, &error);
  EXPECT_EQ(model != nullptr, status == ENCAST_OK);
  return {status, error.message, Model(model)};
}

class ModelTest : public testing::Test {
protected:
  TemporaryFolder folder;
  std::string path = folder.path("model.so");
};

#define EXPECT_REFUSED(opened, code, piece)                                    \
  do {                                                                         \
    const Opened &result = opened;                                             \
    EXPECT_EQ(result.status, code);                                            \
    EXPECT_NE(result.message.find(piece), std::string::npos)                   \
        << result.message;                                                     \
  } while (false)

int shell(const std::string &command) { return system(command.c_str()); }

encast_model_options lazyWeights() {
  encast_model_options options = {};
  options.size = sizeof(options);
  options.lazy_weights = 1;
  return options;
}

encast_model_options hugePageWeights() {
  encast_model_options options = {};
  options.size = sizeof(options);
  options.huge_page_weights = 1;
  return options;
}

/// A line of this process's status: "RssFile:" for the kilobytes of files in
/// its page tables, "RssAnon:" for those of its own.
int64_t statusOf(const char *key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kilobytes = 0;
  while (status >> word)
    if (word == key)
      status >> kilobytes;
  return kilobytes;
}

int64_t copiedBytes(encast_model *model) {
  encast_model_info_t info = {};
  info.size = sizeof(info);
  EXPECT_EQ(encast_model_info(model, &info, nullptr), ENCAST_OK);
  return info.copied_weights_bytes;
}

/// What chooseVariant answers on a machine with these features, where asking
/// for tiles gives `systemError`.
struct Choice {
  encast_status status;
  uint64_t chosen = 9;
  std::string message, warning;
};

int tileError = 0;

Choice choose(const runtime::ArtifactView &view, const char *name,
              uint64_t features, int systemError = 0) {
  Choice choice;
  Error error;
  tileError = systemError;
  runtime::Log log(
      [](void *data, encast_log_level level, const char *message) {
        EXPECT_EQ(level, ENCAST_LOG_WARNING);
        *static_cast<std::string *>(data) = message;
      },
      &choice.warning);
  choice.status =
      runtime::chooseVariant(view, name, {features, [] { return tileError; }},
                             log, choice.chosen, &error);
  choice.message = error.message;
  return choice;
}

/// Runs the model on one token and returns column 5 of "first".
float specialValue(encast_model *model, int64_t id) {
  Session session = createSession(model, sessionOptions(1));
  EXPECT_EQ(encast_session_reserve(session.get(), 1, 1, 0, nullptr), ENCAST_OK);
  Batch batch;
  batch.addSpecial(id);
  Results results = run(session.get(), batch, 2);
  EXPECT_EQ(results.status, ENCAST_OK) << results.error.message;
  return results.values[1][5];
}

} // namespace

TEST_F(ModelTest, tells_what_the_artifact_holds) {
  Model model = openModel(TestArtifact().write(path));
  encast_model_info_t info = {};
  info.size = sizeof(info);
  ASSERT_EQ(encast_model_info(model.get(), &info, nullptr), ENCAST_OK);
  EXPECT_STREQ(info.family, "test");
  EXPECT_STREQ(info.variant, "x86-64-v1");
  EXPECT_EQ(strlen(info.artifact_id), 32u);
  EXPECT_STREQ(info.metadata, "{\"licence\": \"none\"}");
  EXPECT_EQ(info.vocabulary, TEST_VOCABULARY);
  EXPECT_EQ(info.max_tokens, TEST_MAX_TOKENS);
  EXPECT_EQ(info.token_types, TEST_TYPES);
  EXPECT_EQ(info.pad_id, 0);
  EXPECT_EQ(info.hidden, TEST_HIDDEN);
  EXPECT_EQ(info.layers, 2);
  EXPECT_EQ(info.output_count, 3);
  EXPECT_EQ(info.default_output, 1);
  EXPECT_EQ(info.weights_bytes, 72);
  encast_output_info output = {};
  output.size = sizeof(output);
  ASSERT_EQ(encast_model_output(model.get(), 0, &output, nullptr), ENCAST_OK);
  EXPECT_STREQ(output.name, "tokens");
  EXPECT_EQ(output.columns, TEST_COLUMNS);
  EXPECT_EQ(output.per_token, 1);
  Error error;
  EXPECT_EQ(encast_model_output(model.get(), 3, &output, &error),
            ENCAST_UNKNOWN_NAME);
  EXPECT_STREQ(error.message, "output 3 does not exist, there are 3");
  EXPECT_EQ(encast_model_output(model.get(), -1, &output, &error),
            ENCAST_UNKNOWN_NAME);
}

// A caller that was compiled when the struct was shorter.
TEST_F(ModelTest, leaves_fields_behind_the_size_of_a_struct_alone) {
  Model model = openModel(TestArtifact().write(path));
  encast_model_info_t info;
  memset(&info, 0x5a, sizeof(info));
  info.size = offsetof(encast_model_info_t, vocabulary);
  ASSERT_EQ(encast_model_info(model.get(), &info, nullptr), ENCAST_OK);
  EXPECT_STREQ(info.family, "test");
  EXPECT_EQ(info.vocabulary, 0x5a5a5a5a5a5a5a5a);
  info.size = 3;
  Error error;
  EXPECT_EQ(encast_model_info(model.get(), &info, &error),
            ENCAST_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("'size'"), std::string::npos);
}

// Paths may have 4095 bytes, messages have 511.
TEST_F(ModelTest, keeps_the_reason_of_an_error_whole_beside_a_long_path) {
  std::string path = "/missing/" + std::string(600, 'a') + "/end.so";
  encast_error error = ENCAST_ERROR_INIT;
  encast_model *model;
  EXPECT_EQ(encast_model_open(path.c_str(), nullptr, &model, &error),
            ENCAST_IO_ERROR);
  std::string message = error.message;
  EXPECT_EQ(message.size(), sizeof(error.message) - 1);
  EXPECT_EQ(message.substr(0, 6), "...aaa");
  EXPECT_NE(message.find("aaa/end.so: cannot open the file: "),
            std::string::npos)
      << message;
}

TEST_F(ModelTest, writes_no_message_behind_the_size_of_an_error) {
  Error error;
  memset(error.message, '#', sizeof(error.message));
  error.size = offsetof(encast_error, message) + 20;
  encast_model *model;
  EXPECT_EQ(encast_model_open("/nowhere", nullptr, &model, &error),
            ENCAST_IO_ERROR);
  EXPECT_EQ(error.code, ENCAST_IO_ERROR);
  EXPECT_EQ(strnlen(error.message, 20), 19u);
  EXPECT_EQ(error.message[20], '#');
  error.size = 0;
  error.message[0] = '#';
  EXPECT_EQ(encast_model_open("/nowhere", nullptr, &model, &error),
            ENCAST_IO_ERROR);
  EXPECT_EQ(error.message[0], '#');
}

TEST_F(ModelTest, null_arguments_are_refused) {
  encast_model *model;
  EXPECT_EQ(encast_model_open(nullptr, nullptr, &model, nullptr),
            ENCAST_INVALID_ARGUMENT);
  EXPECT_EQ(encast_model_open(path.c_str(), nullptr, nullptr, nullptr),
            ENCAST_INVALID_ARGUMENT);
  EXPECT_EQ(encast_model_info(nullptr, nullptr, nullptr),
            ENCAST_INVALID_ARGUMENT);
  EXPECT_EQ(encast_model_close(nullptr, nullptr), ENCAST_OK);
  EXPECT_EQ(encast_session_destroy(nullptr, nullptr), ENCAST_OK);
}

TEST_F(ModelTest, files_that_cannot_be_read_are_io_errors) {
  EXPECT_REFUSED(open(path), ENCAST_IO_ERROR,
                 path + ": cannot open the file: No such file");
  EXPECT_REFUSED(open("/tmp"), ENCAST_IO_ERROR, "not a regular file");
  mkfifo(path.c_str(), 0600);
  EXPECT_REFUSED(open(path), ENCAST_IO_ERROR, "not a regular file");
}

TEST_F(ModelTest, other_files_are_no_artifacts) {
  writeFile(path, {});
  EXPECT_REFUSED(open(path), ENCAST_BAD_ARTIFACT, "0 bytes");
  writeFile(path, Bytes(1000, 'a'));
  EXPECT_REFUSED(open(path), ENCAST_BAD_ARTIFACT, "not an x86-64 ELF");
}

TEST_F(ModelTest, an_altered_file_is_refused_before_it_is_loaded) {
  Bytes bytes = TestArtifact().build();
  descriptorOf(bytes).hidden ^= 1;
  writeFile(path, bytes);
  EXPECT_REFUSED(open(path), ENCAST_BAD_ARTIFACT,
                 path + ": altered: its code and tables");
}

TEST_F(ModelTest, a_name_without_folder_is_a_file_here) {
  TestArtifact().write(path);
  char before[4096];
  ASSERT_NE(getcwd(before, sizeof(before)), nullptr);
  ASSERT_EQ(chdir(folder.path("").c_str()), 0);
  EXPECT_EQ(open("model.so").status, ENCAST_OK);
  ASSERT_EQ(chdir(before), 0);
}

// dlopen would open another file.
TEST_F(ModelTest, paths_that_the_dynamic_loader_would_change_are_refused) {
  for (const char *token : {"$ORIGIN", "${LIB}", "$PLATFORM"}) {
    std::string odd = folder.path(std::string("a") + token);
    ASSERT_EQ(mkdir(odd.c_str(), 0755), 0);
    TestArtifact().write(odd + "/model.so");
    EXPECT_REFUSED(open(odd + "/model.so"), ENCAST_INVALID_ARGUMENT,
                   std::string("something else for '") + token + "'");
  }
  std::string fine = folder.path("$HOME {LIB} $L.so");
  EXPECT_EQ(open(TestArtifact().write(fine)).status, ENCAST_OK);
}

TEST_F(ModelTest, artifacts_of_the_version_before_run) {
  TestArtifact artifact;
  artifact.abiVersion = ENCAST_ABI_OLDEST;
  Opened opened = open(artifact.write(path));
  ASSERT_EQ(opened.status, ENCAST_OK) << opened.message;
  EXPECT_EQ(specialValue(opened.model.get(), TEST_ID_WEIGHT), 3);
}

TEST_F(ModelTest, weights_come_from_the_artifact_or_from_the_file_beside_it) {
  TestArtifact artifact;
  artifact.weights = {4, 5, 6.5f};
  Model inside = openModel(artifact.write(path));
  EXPECT_EQ(specialValue(inside.get(), TEST_ID_WEIGHT), 6.5f);
  artifact.weights = {8, 9.5f};
  artifact.weightsFile = "model.weights";
  Model beside = openModel(artifact.write(folder.path("beside.so")));
  EXPECT_EQ(specialValue(beside.get(), TEST_ID_WEIGHT), 9.5f);
}

TEST_F(ModelTest, a_weights_file_that_is_missing_or_short_is_named) {
  TestArtifact artifact;
  artifact.weightsFile = "model.weights";
  artifact.write(path);
  ASSERT_EQ(truncate(folder.path("model.weights").c_str(), 71), 0);
  EXPECT_REFUSED(open(path), ENCAST_BAD_ARTIFACT,
                 "weights in 'model.weights' take 71 bytes, expected 136");
  ASSERT_EQ(unlink(folder.path("model.weights").c_str()), 0);
  EXPECT_REFUSED(open(path), ENCAST_IO_ERROR, "model.weights: cannot open");
}

// A model that was compiled again, and one file of the two brought to a server.
TEST_F(ModelTest, weights_of_another_artifact_are_refused) {
  TestArtifact artifact;
  artifact.weightsFile = "model.weights";
  artifact.write(path);
  artifact.weights = {5, 6, 7};
  artifact.write(folder.path("other.so"));
  EXPECT_REFUSED(open(path), ENCAST_BAD_ARTIFACT,
                 "model.weights: these weights belong to another artifact");
  EXPECT_EQ(open(folder.path("other.so")).status, ENCAST_OK);
}

TEST_F(ModelTest, weights_of_older_versions_end_without_a_table) {
  TestArtifact artifact;
  artifact.weightsFile = "model.weights";
  artifact.abiVersion = 3;
  EXPECT_EQ(open(artifact.write(path)).status, ENCAST_OK);
}

TEST_F(ModelTest, weights_of_more_than_4_gigabytes_are_mapped) {
  TestArtifact artifact;
  artifact.sparseFloats = (int64_t(5) << 30) / sizeof(float) + 1;
  artifact.weights = {123.25f};
  encast_model_options options = lazyWeights();
  Model model = open(artifact.write(path), &options).model;
  EXPECT_EQ(specialValue(model.get(), TEST_ID_WEIGHT), 123.25f);
}

TEST_F(ModelTest, the_first_reservation_reads_weights_that_are_not_lazy) {
  TestArtifact artifact;
  artifact.sparseFloats = int64_t(64 << 20) / sizeof(float);
  artifact.write(path);
  encast_model_options lazy = lazyWeights();
  for (bool isLazy : {true, false}) {
    Model model = open(path, isLazy ? &lazy : nullptr).model;
    Session session = createSession(model.get(), sessionOptions(1));
    int64_t before = statusOf("RssFile:");
    ASSERT_EQ(encast_session_reserve(session.get(), 1, 1, 0, nullptr),
              ENCAST_OK);
    int64_t grown = statusOf("RssFile:") - before;
    if (isLazy)
      EXPECT_LT(grown, 32 << 10);
    else
      EXPECT_GE(grown, 64 << 10);
  }
}

// So that huge pages of the page cache, which ext4 has for files that are read
// from the disk, can be mapped as such.
TEST_F(ModelTest, weights_lie_to_huge_pages_in_memory_as_in_the_file) {
  TestArtifact artifact;
  artifact.weights.assign((9 << 20) / sizeof(float), 1.5f);
  artifact.write(path);
  Model model = openModel(path);
  EXPECT_EQ(specialValue(model.get(), TEST_ID_WEIGHT), 1.5f);
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int found = 0;
  while (std::getline(maps, line)) {
    uint64_t begin, end, offset;
    if (line.find("model.so") == std::string::npos ||
        sscanf(line.c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset) != 3 ||
        end - begin < 9 << 20)
      continue;
    EXPECT_EQ((begin - offset) % (2 << 20), 0u) << line;
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST_F(ModelTest, copied_weights_are_those_of_the_file) {
  TestArtifact artifact;
  artifact.weights.assign((5 << 20) / sizeof(float), 1.5f);
  artifact.weights.back() = 6.5f;
  encast_model_options options = hugePageWeights();
  for (const char *beside : {"", "model.weights"}) {
    artifact.weightsFile = beside;
    artifact.write(path);
    Model copied = open(path, &options).model, mapped = openModel(path);
    EXPECT_EQ(copiedBytes(copied.get()), 6 << 20);
    EXPECT_EQ(copiedBytes(mapped.get()), 0);
    EXPECT_EQ(specialValue(copied.get(), TEST_ID_WEIGHT), 6.5f);
    Model again = open(path, &options).model;
    copied.reset();
    EXPECT_EQ(specialValue(again.get(), TEST_ID_WEIGHT), 6.5f);
    EXPECT_EQ(specialValue(mapped.get(), TEST_ID_WEIGHT), 6.5f);
  }
}

TEST_F(ModelTest, copies_are_made_once_and_freed_with_the_model) {
  TestArtifact artifact;
  constexpr int64_t kilobytes = 64 << 10;
  artifact.sparseFloats = (kilobytes << 10) / sizeof(float) - 1000;
  artifact.write(path);
  encast_model_options options = hugePageWeights();
  int64_t before = statusOf("RssAnon:"), files = statusOf("RssFile:");
  Model model = open(path, &options).model;
  EXPECT_EQ(copiedBytes(model.get()), kilobytes << 10);
  EXPECT_GE(statusOf("RssAnon:") - before, kilobytes);
  Session first = createSession(model.get(), sessionOptions(1));
  Session second = createSession(model.get(), sessionOptions(1));
  for (encast_session *session : {first.get(), second.get()})
    EXPECT_EQ(encast_session_reserve(session, 1, 1, 0, nullptr), ENCAST_OK);
  if (!kHasShadowMemory) {
    EXPECT_LT(statusOf("RssAnon:") - before, kilobytes * 3 / 2);
  }
  // What is copied is not mapped, too.
  EXPECT_LT(statusOf("RssFile:") - files, kilobytes / 2);
  first.reset();
  second.reset();
  model.reset();
  if (!kHasShadowMemory) {
    EXPECT_LT(statusOf("RssAnon:") - before, kilobytes / 2);
  }
}

TEST_F(ModelTest, what_kernels_stream_is_copied_and_no_more) {
  TestArtifact artifact;
  artifact.weights.assign((5 << 20) / sizeof(float), 1.5f);
  artifact.weightFlags[1] = ENCAST_WEIGHT_STREAMED;
  encast_model_options options = hugePageWeights();
  Model model = open(artifact.write(path), &options).model;
  EXPECT_EQ(copiedBytes(model.get()), 2 << 20);
  EXPECT_EQ(specialValue(model.get(), TEST_ID_WEIGHT), 1.5f);
}

TEST_F(ModelTest, copies_beyond_the_memory_are_refused_with_both_figures) {
  TestArtifact artifact;
  artifact.sparseFloats = (int64_t(1) << 40) / sizeof(float);
  artifact.write(path);
  encast_model_options options = hugePageWeights();
  Opened opened = open(path, &options);
  EXPECT_EQ(opened.status, ENCAST_OUT_OF_MEMORY);
  EXPECT_NE(opened.message.find(path + ": 1099513724928 bytes of memory are "
                                       "needed for copies of the weights, but "
                                       "only "),
            std::string::npos)
      << opened.message;
  EXPECT_NE(opened.message.find(" are available"), std::string::npos);
  EXPECT_EQ(open(path).status, ENCAST_OK);
}

TEST_F(ModelTest, options_about_weights_are_0_or_1) {
  TestArtifact().write(path);
  encast_model_options options = lazyWeights();
  options.lazy_weights = 2;
  EXPECT_REFUSED(open(path, &options), ENCAST_INVALID_ARGUMENT,
                 "option 'lazy_weights' is 2");
  options = hugePageWeights();
  options.huge_page_weights = 2;
  EXPECT_REFUSED(open(path, &options), ENCAST_INVALID_ARGUMENT,
                 "option 'huge_page_weights' is 2");
  // A caller of an older header does not ask for it.
  options.size = offsetof(encast_model_options, huge_page_weights);
  Model model = open(path, &options).model;
  EXPECT_EQ(copiedBytes(model.get()), 0);
}

TEST(LayOutCopies, takes_a_shared_blob_once_and_notices_an_overflow) {
  Bytes bytes = TestArtifact().build();
  encast_abi_descriptor &descriptor = descriptorOf(bytes);
  auto &variant = *rowsOf<encast_abi_variant>(bytes, descriptor.variants);
  auto *weights = rowsOf<encast_abi_weight>(bytes, variant.weights);
  auto *blobs = rowsOf<encast_abi_blob>(bytes, descriptor.blobs);
  int64_t offsets[2];
  auto layOut = [&] {
    return runtime::layOutCopies(runtime::ArtifactView(&descriptor), variant,
                                 offsets);
  };
  blobs[0].size = 3 << 20;
  EXPECT_EQ(layOut(), 4 << 20);
  EXPECT_EQ(offsets[0], 0);
  EXPECT_EQ(offsets[1], 3 << 20);
  weights[1].blob = 0;
  EXPECT_EQ(layOut(), 4 << 20);
  EXPECT_EQ(offsets[1], -1);
  weights[1].blob = 1;
  blobs[0].size = blobs[1].size = INT64_MAX - 100;
  EXPECT_EQ(layOut(), -1);
}

TEST_F(ModelTest, the_fitting_variant_of_highest_rank_is_taken) {
  TestArtifact artifact;
  artifact.variants = {{"low", 0, 1},
                       {"high", 0, 3},
                       {"middle", 0, 2},
                       {"future", uint64_t(1) << 40, 9}};
  artifact.write(path);
  Opened opened = open(path);
  encast_model_info_t info = {};
  info.size = sizeof(info);
  ASSERT_EQ(encast_model_info(opened.model.get(), &info, nullptr), ENCAST_OK);
  EXPECT_STREQ(info.variant, "high");
}

TEST_F(ModelTest, a_variant_can_be_asked_for_by_name) {
  TestArtifact artifact;
  artifact.variants = {{"low", 0, 1}, {"high", 0, 3}};
  artifact.write(path);
  encast_model_options options = {};
  options.size = sizeof(options);
  options.variant = "low";
  {
    Opened opened = open(path, &options);
    ASSERT_EQ(opened.status, ENCAST_OK) << opened.message;
    encast_model_info_t info = {};
    info.size = sizeof(info);
    ASSERT_EQ(encast_model_info(opened.model.get(), &info, nullptr), ENCAST_OK);
    EXPECT_STREQ(info.variant, "low");
  }
  options.variant = "other";
  EXPECT_REFUSED(open(path, &options), ENCAST_UNKNOWN_NAME,
                 "variant 'other' is not in the artifact, which has low, high");
}

TEST_F(ModelTest, instructions_that_no_runtime_knows_are_refused) {
  TestArtifact artifact;
  artifact.variants = {{"future", uint64_t(1) << 40, 1}};
  artifact.write(path);
  EXPECT_REFUSED(open(path), ENCAST_CPU_UNSUPPORTED,
                 "variant future needs newer instructions");
}

TEST(Variant, missing_instructions_are_named) {
  TestArtifact artifact;
  artifact.variants = {{"x86-64-v3", ENCAST_CPU_AVX2, 1},
                       {"znver5", ENCAST_CPU_AVX2 | ENCAST_CPU_AVX512, 2}};
  Bytes bytes = artifact.build();
  runtime::ArtifactView view(&descriptorOf(bytes));
  Choice none = choose(view, nullptr, 0);
  EXPECT_EQ(none.status, ENCAST_CPU_UNSUPPORTED);
  EXPECT_EQ(none.message,
            "this CPU lacks instructions: variant x86-64-v3 needs avx2, "
            "variant znver5 needs avx2+avx512");
  Choice named = choose(view, "znver5", ENCAST_CPU_AVX2);
  EXPECT_EQ(named.status, ENCAST_CPU_UNSUPPORTED);
  EXPECT_EQ(named.message,
            "this CPU lacks instructions: variant znver5 needs avx512");
  EXPECT_EQ(choose(view, nullptr, ENCAST_CPU_AVX2).chosen, 0u);
  EXPECT_EQ(choose(view, nullptr, ENCAST_CPU_KNOWN).chosen, 1u);
}

TEST(Variant, without_the_right_to_tiles_the_best_of_the_others_is_taken) {
  TestArtifact artifact;
  artifact.variants = {
      {"x86-64-v3", ENCAST_CPU_AVX2, 1},
      {"x86-64-v4", ENCAST_CPU_AVX2 | ENCAST_CPU_AVX512, 2},
      {"sapphirerapids", ENCAST_CPU_AVX2 | ENCAST_CPU_AMX_BF16, 3}};
  Bytes bytes = artifact.build();
  runtime::ArtifactView view(&descriptorOf(bytes));
  Choice granted = choose(view, nullptr, ENCAST_CPU_KNOWN);
  EXPECT_EQ(granted.chosen, 2u);
  EXPECT_EQ(granted.warning, "");
  Choice refused = choose(view, nullptr, ENCAST_CPU_KNOWN, EOPNOTSUPP);
  EXPECT_EQ(refused.status, ENCAST_OK);
  EXPECT_EQ(refused.chosen, 1u);
  EXPECT_EQ(refused.warning,
            "variant sapphirerapids needs AMX tiles, which the system refuses: "
            "Operation not supported; taking variant x86-64-v4");
  Choice named = choose(view, "sapphirerapids", ENCAST_CPU_KNOWN, ENOSPC);
  EXPECT_EQ(named.status, ENCAST_CPU_UNSUPPORTED);
  EXPECT_NE(named.message.find("a thread has an alternate signal stack of less "
                               "than " +
                               std::to_string(runtime::leastSignalStack()) +
                               " bytes"),
            std::string::npos)
      << named.message;
  // Nobody asks for what is not used.
  EXPECT_EQ(choose(view, "x86-64-v3", ENCAST_CPU_KNOWN, EINVAL).warning, "");
}

TEST(CpuFeatures, have_the_names_of_targets) {
  runtime::Text text;
  runtime::appendFeatureNames(ENCAST_CPU_KNOWN, text);
  EXPECT_STREQ(text.data(),
               "avx2+avx512+avx512vnni+avx512bf16+avxvnni+amx-int8+amx-bf16");
}

TEST_F(ModelTest, gnu_strip_keeps_a_model_usable) {
  TestArtifact artifact;
  artifact.weights = {7.5f};
  artifact.write(path);
  uint64_t before = readFile(path).size();
  ASSERT_EQ(shell("strip " + path), 0);
  EXPECT_LT(readFile(path).size(), before);
  Opened opened = open(path);
  ASSERT_EQ(opened.status, ENCAST_OK) << opened.message;
  EXPECT_EQ(specialValue(opened.model.get(), TEST_ID_WEIGHT), 7.5f);
}

TEST_F(ModelTest, weights_dropped_by_llvm_strip_are_reported) {
  if (shell("llvm-strip-22 --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "llvm-strip-22 is not installed";
  TestArtifact().write(path);
  ASSERT_EQ(shell("llvm-strip-22 --strip-all " + path), 0);
  EXPECT_REFUSED(open(path), ENCAST_BAD_ARTIFACT, "the weights were stripped");
  TestArtifact().write(path);
  ASSERT_EQ(shell("llvm-strip-22 --strip-sections " + path), 0);
  EXPECT_NE(open(path).status, ENCAST_OK);
}

// A server takes a new model while the old one still answers.
TEST_F(ModelTest, a_file_replaced_under_an_open_model_opens_beside_it) {
  std::vector<Model> models;
  auto replace = [&] {
    TestArtifact artifact;
    artifact.weights = {float(models.size())};
    artifact.metadata = std::to_string(models.size());
    std::string temporary = artifact.write(folder.path("new.so"));
    ASSERT_EQ(rename(temporary.c_str(), path.c_str()), 0);
  };
  constexpr int most = 16;
  for (int i = 0; i < most; ++i) {
    replace();
    models.push_back(openModel(path));
  }
  for (int i = 0; i < most; ++i)
    EXPECT_EQ(specialValue(models[i].get(), TEST_ID_WEIGHT), i);
  replace();
  EXPECT_REFUSED(open(path), ENCAST_BAD_ARTIFACT, "replaced too often");
  models.erase(models.begin());
  EXPECT_EQ(open(path).status, ENCAST_OK);
}

// The dynamic loader knows libraries by the path that it was given.
TEST_F(ModelTest, paths_mean_files_of_the_folder_at_hand) {
  TestArtifact artifact;
  std::vector<Model> models;
  char before[4096];
  ASSERT_NE(getcwd(before, sizeof(before)), nullptr);
  for (float value : {1.0f, 2.0f}) {
    std::string name = std::to_string(int(value)), inner = folder.path(name);
    ASSERT_EQ(mkdir(inner.c_str(), 0755), 0);
    artifact.weights = {value};
    artifact.metadata = name;
    artifact.write(inner + "/model.so");
    ASSERT_EQ(chdir(inner.c_str()), 0);
    models.push_back(openModel("model.so"));
  }
  ASSERT_EQ(chdir(before), 0);
  EXPECT_EQ(specialValue(models[0].get(), TEST_ID_WEIGHT), 1);
  EXPECT_EQ(specialValue(models[1].get(), TEST_ID_WEIGHT), 2);
}

TEST_F(ModelTest, a_file_can_be_opened_twice) {
  TestArtifact().write(path);
  Model first = openModel(path), second = openModel(path);
  first.reset();
  EXPECT_EQ(specialValue(second.get(), TEST_ID_WEIGHT), 3);
}

TEST_F(ModelTest, a_model_with_sessions_is_not_closed) {
  Model model = openModel(TestArtifact().write(path));
  Session session = createSession(model.get(), sessionOptions(1));
  Error error;
  EXPECT_EQ(encast_model_close(model.get(), &error), ENCAST_BUSY);
  EXPECT_NE(strstr(error.message, "1 session"), nullptr) << error.message;
}

// Headers are not hashed: what the checks let through must not kill dlopen.
// Whether it loads depends on the bit; that the process lives does not.
TEST_F(ModelTest, no_flipped_bit_of_the_headers_kills_the_process) {
  Bytes bytes = TestArtifact().build();
  Elf64_Ehdr header;
  memcpy(&header, bytes.data(), sizeof(header));
  auto open = [&](uint64_t bit) {
    bytes[bit / 8] ^= 1 << bit % 8;
    std::string flipped = folder.path("flipped-" + std::to_string(bit));
    writeFile(flipped, bytes);
    bytes[bit / 8] ^= 1 << bit % 8;
    encast_model *model = nullptr;
    if (encast_model_open(flipped.c_str(), nullptr, &model, nullptr) ==
        ENCAST_OK)
      encast_model_close(model, nullptr);
    unlink(flipped.c_str());
  };
  struct {
    uint64_t begin, size;
  } ranges[] = {{0, sizeof(header)},
                {header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)},
                {header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr)}};
  for (const auto &range : ranges)
    for (uint64_t byte = range.begin; byte < range.begin + range.size;
         byte += 8) {
      pid_t child = fork();
      if (child == 0) {
        for (uint64_t bit = 8 * byte; bit < 8 * (byte + 8); ++bit)
          open(bit);
        _exit(0);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status))
          << "bits of byte " << byte << " to " << byte + 7 << ", signal "
          << WTERMSIG(status);
    }
}

TEST_F(ModelTest, messages_go_to_the_callback) {
  TestArtifact().write(path);
  std::vector<std::string> messages;
  encast_model_options options = {};
  options.size = sizeof(options);
  options.log = [](void *data, encast_log_level, const char *message) {
    static_cast<std::vector<std::string> *>(data)->push_back(message);
  };
  options.log_data = &messages;
  Opened opened = open(path, &options);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("variant x86-64-v1"), std::string::npos);
}
