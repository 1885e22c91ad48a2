//===- TilesTest.cpp - AMX tiles during runs and around them --------------===//
///
/// \file
/// A token TEST_ID_TILES of type 1 asks the configuration in the first step and
/// in the tail; see TestModel.h.
//===----------------------------------------------------------------------===//

#include "runtime/src/Cpu.h"
#include "runtime/src/KernelState.h"
#include "test/runtime/RunSupport.h"
#include <cstring>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace encast;
using namespace encast::test;

namespace {

constexpr uint64_t kTiles = ENCAST_CPU_AVX2 | ENCAST_CPU_AMX_BF16;

/// The tile configuration of the calling thread.
runtime::TileConfiguration configurationNow() {
  runtime::TileConfiguration now;
  __asm__ volatile("sttilecfg %0" : "=m"(now));
  return now;
}
bool isReleased() { return configurationNow().palette == 0; }

class TilesTest : public testing::Test {
protected:
  void SetUp() override {
    if (kTiles & ~runtime::cpuFeatures())
      GTEST_SKIP() << "amx-bf16";
    if (int error = runtime::requestTileState())
      GTEST_SKIP() << "amx-bf16: " << strerror(error);
  }

  TemporaryFolder folder;
  Model open(uint64_t features) {
    TestArtifact artifact;
    artifact.variants = {{"variant", features, 1}};
    std::string name = "model-" + std::to_string(features) + ".so";
    return openModel(artifact.write(folder.path(name)));
  }
  Session reserved(encast_model *model, const encast_session_options &options) {
    Session session = createSession(model, options);
    EXPECT_EQ(encast_session_reserve(session.get(), 300, 300, 0, nullptr),
              ENCAST_OK);
    return session;
  }
  static Batch askingBatch() {
    Batch batch;
    for (int i = 0; i < 200; ++i)
      batch.addSpecial(TEST_ID_TILES);
    return batch;
  }
  /// Both steps found tiles, for every token.
  static void expectTiles(encast_session *session) {
    Batch batch = askingBatch();
    Results results = run(session, batch, 1);
    ASSERT_EQ(results.status, ENCAST_OK) << results.error.message;
    for (int64_t i = 0; i < batch.tokens(); ++i)
      ASSERT_EQ(results.values[0][i * TEST_COLUMNS + 5], 2) << i;
    EXPECT_TRUE(isReleased());
  }
};

} // namespace

TEST_F(TilesTest, each_thread_of_a_run_has_them_and_releases_them) {
  Model model = open(kTiles);
  for (int threads : {1, 2, 4}) {
    Session session = reserved(model.get(), sessionOptions(threads));
    for (int i = 0; i < 20; ++i)
      expectTiles(session.get());
  }
}

TEST_F(TilesTest, tasks_of_an_executor_have_them_and_release_them) {
  Model model = open(kTiles);
  encast_session_options options = sessionOptions(3);
  options.executor = [](void *, void (*task)(void *, int64_t), void *data,
                        int64_t count) {
    std::vector<std::thread> threads;
    for (int64_t i = 1; i < count; ++i)
      threads.emplace_back([=] {
        task(data, i);
        EXPECT_TRUE(isReleased());
      });
    task(data, 0);
    EXPECT_TRUE(isReleased());
    for (std::thread &thread : threads)
      thread.join();
  };
  expectTiles(reserved(model.get(), options).get());
}

TEST_F(TilesTest, a_callback_may_use_tiles_of_its_own) {
  Model model = open(kTiles);
  Session inner = reserved(model.get(), sessionOptions(1));
  encast_session_options options = sessionOptions(2);
  options.progress = [](void *session, double) {
    EXPECT_TRUE(isReleased());
    expectTiles(static_cast<encast_session *>(session));
  };
  options.progress_data = inner.get();
  expectTiles(reserved(model.get(), options).get());
}

TEST_F(TilesTest, failed_and_cancelled_runs_release_them) {
  Model model = open(kTiles);
  encast_session_options options = sessionOptions(1);
  struct Watch {
    encast_session *session;
  } watch = {};
  options.progress = [](void *data, double) {
    encast_cancel(static_cast<Watch *>(data)->session, nullptr);
  };
  options.progress_data = &watch;
  Session session = reserved(model.get(), options);
  watch.session = session.get();
  EXPECT_EQ(run(session.get(), askingBatch(), 1).status, ENCAST_CANCELLED);
  EXPECT_TRUE(isReleased());
  Batch batch;
  batch.addSpecial(TEST_ID_NAN);
  Session other = reserved(model.get(), sessionOptions(1));
  EXPECT_EQ(run(other.get(), batch, 1).status, ENCAST_NOT_FINITE);
  EXPECT_TRUE(isReleased());
}

TEST_F(TilesTest, variants_without_tiles_leave_those_of_the_caller_alone) {
  Model model = open(0);
  Session session = reserved(model.get(), sessionOptions(1));
  runtime::TileConfiguration own;
  own.rows[0] = 7;
  __asm__ volatile("ldtilecfg %0" : : "m"(own));
  Batch batch;
  batch.add({20, 30});
  EXPECT_EQ(run(session.get(), batch, 7).status, ENCAST_OK);
  EXPECT_EQ(configurationNow().rows[0], 7);
  __asm__ volatile("tilerelease");
}

// Kernels on tiles permute bytes.
TEST(Tiles, amx_bf16_comes_with_vbmi) {
  if (!(runtime::cpuFeatures() & ENCAST_CPU_AMX_BF16))
    GTEST_SKIP() << "amx-bf16";
  EXPECT_TRUE(__builtin_cpu_supports("avx512vbmi"));
}

// The right counts for the process: the program starts itself again to be one
// without it.
TEST(Tiles, a_small_signal_stack_is_named_where_tiles_are_refused) {
  constexpr const char *variable = "ENCAST_TEST_ARTIFACT";
  if (kTiles & ~runtime::cpuFeatures())
    GTEST_SKIP() << "amx-bf16";
  const char *path = getenv(variable);
  if (!path) {
    if (int error = runtime::requestTileState())
      GTEST_SKIP() << "amx-bf16: " << strerror(error);
    TemporaryFolder folder;
    TestArtifact artifact;
    artifact.variants = {{"variant", kTiles, 1}};
    setenv(variable, artifact.write(folder.path("model.so")).c_str(), 1);
    pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "tests", "--gtest_filter=Tiles.*", nullptr);
      _exit(127);
    }
    unsetenv(variable);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    return;
  }
  static char memory[8192];
  stack_t small = {}, before = {};
  small.ss_sp = memory;
  small.ss_size = sizeof(memory);
  ASSERT_EQ(sigaltstack(&small, &before), 0);
  encast_model *model = nullptr;
  Error error;
  EXPECT_EQ(encast_model_open(path, nullptr, &model, &error),
            ENCAST_CPU_UNSUPPORTED);
  EXPECT_NE(strstr(error.message, "alternate signal stack of less than"),
            nullptr)
      << error.message;
  ASSERT_EQ(sigaltstack(&before, nullptr), 0);
  ASSERT_EQ(encast_model_open(path, nullptr, &model, &error), ENCAST_OK)
      << error.message;
  EXPECT_EQ(encast_model_close(model, nullptr), ENCAST_OK);
}
