//===- PoolTest.cpp - threads, barrier, signals ---------------------------===//

#include "runtime/src/Pool.h"
#include <atomic>
#include <csignal>
#include <gtest/gtest.h>
#include <unistd.h>
#include <vector>

using namespace encast::runtime;

namespace {

/// A pool that stops at the end of the scope.
struct StartedPool : Pool {
  explicit StartedPool(int threads, bool spins = true) {
    PoolOptions options;
    options.threads = threads;
    options.spins = spins;
    bool affinityFailed;
    EXPECT_EQ(start(options, affinityFailed, nullptr), ENCAST_OK);
    EXPECT_FALSE(affinityFailed);
  }
  ~StartedPool() { stop(); }
};

} // namespace

TEST(Pool, every_thread_runs_the_task_once) {
  for (int threads : {1, 2, 3, 7}) {
    StartedPool pool(threads);
    for (int i = 0; i < 50; ++i) {
      std::vector<int> visits(threads);
      pool.run(
          [](void *data, int thread) {
            ++(*static_cast<std::vector<int> *>(data))[thread];
          },
          &visits);
      EXPECT_EQ(visits, std::vector<int>(threads, 1));
    }
  }
}

// Plain variables: the barrier must order them, which TSan checks.
TEST(Pool, what_is_written_before_a_barrier_is_seen_behind_it) {
  struct Shared {
    Pool *pool;
    std::vector<int> values;
    std::atomic<int> wrong{0};
  };
  for (bool spins : {true, false}) {
    StartedPool pool(4, spins);
    Shared shared;
    shared.pool = &pool;
    shared.values.assign(4, 0);
    pool.run(
        [](void *data, int thread) {
          auto &state = *static_cast<Shared *>(data);
          for (int round = 1; round <= 300; ++round) {
            state.values[thread] = round;
            state.pool->barrier().wait();
            if (state.values[(thread + 1) % 4] != round)
              ++state.wrong;
            state.pool->barrier().wait();
          }
        },
        &shared);
    EXPECT_EQ(shared.wrong, 0);
  }
}

// A barrier behind which a slow thread sleeps long loses no wake-up.
TEST(Pool, sleeping_threads_are_woken) {
  struct Shared {
    Pool *pool;
    int slow = 0;
  };
  StartedPool pool(3);
  Shared shared{&pool};
  for (int i = 0; i < 6; ++i) {
    shared.slow = i % 3;
    pool.run(
        [](void *data, int thread) {
          auto &state = *static_cast<Shared *>(data);
          if (thread == state.slow)
            usleep(5000);
          state.pool->barrier().wait();
        },
        &shared);
    usleep(3000);
  }
}

TEST(Pool, workers_take_no_signals) {
  StartedPool pool(3);
  std::vector<int> blocked(3);
  pool.run(
      [](void *data, int thread) {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        (*static_cast<std::vector<int> *>(data))[thread] =
            sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM);
      },
      &blocked);
  EXPECT_EQ(blocked, (std::vector<int>{0, 1, 1}));
}

TEST(Pool, workers_are_bound_to_the_given_cpus) {
  PoolOptions options;
  options.threads = 3;
  options.pin = true;
  options.cpus = allowedCpus();
  Pool pool;
  bool affinityFailed = true;
  ASSERT_EQ(pool.start(options, affinityFailed, nullptr), ENCAST_OK);
  EXPECT_FALSE(affinityFailed);
  std::vector<int> counts(3);
  pool.run(
      [](void *data, int thread) {
        (*static_cast<std::vector<int> *>(data))[thread] =
            allowedCpus().count();
      },
      &counts);
  EXPECT_EQ(counts[1], 1);
  EXPECT_EQ(counts[2], 1);
  pool.stop();
}

TEST(Pool, cpus_that_do_not_exist_are_a_failed_binding) {
  PoolOptions options;
  options.threads = 2;
  options.cpus.add(CpuSet::kMost - 1);
  Pool pool;
  bool affinityFailed = false;
  ASSERT_EQ(pool.start(options, affinityFailed, nullptr), ENCAST_OK);
  EXPECT_TRUE(affinityFailed);
  pool.stop();
}
