//===- PoolTest.cpp - workers and waiting ---------------------------===//

#include "runtime/src/Pool.h"
#include <algorithm>
#include <csignal>
#include <gtest/gtest.h>
#include <thread>
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

TEST(Pool, the_caller_runs_the_task_and_workers_at_most_once) {
  for (int threads : {1, 2, 3, 7}) {
    StartedPool pool(threads);
    for (int i = 0; i < 50; ++i) {
      std::vector<int> visits(threads);
      pool.run(
          [](void *data, int thread) {
            ++(*static_cast<std::vector<int> *>(data))[thread];
          },
          &visits);
      EXPECT_EQ(visits[0], 1);
      for (int count : visits)
        EXPECT_LE(count, 1);
    }
  }
}

/// A task that ends when all threads are in it.
struct Meeting {
  int threads;
  Signal arrived;
  std::vector<int> values; // plain: TSan checks that they are ordered
  bool spins = true;

  explicit Meeting(int threads) : threads(threads), values(threads) {}
  static void run(void *data, int thread) {
    auto &meeting = *static_cast<Meeting *>(data);
    meeting.values[thread] = thread + 1;
    meeting.arrived.add(1);
    meeting.arrived.waitUntil(
        [&](uint32_t count) { return count == uint32_t(meeting.threads); },
        meeting.spins);
    for (int i = 0; i < meeting.threads; ++i)
      EXPECT_EQ(meeting.values[i], i + 1);
  }
};

TEST(Pool, workers_come_if_there_is_time) {
  for (bool spins : {true, false}) {
    StartedPool pool(4, spins);
    for (int i = 0; i < 100; ++i) {
      Meeting meeting(4);
      meeting.spins = spins;
      pool.run(Meeting::run, &meeting);
    }
  }
}

// Nothing of a run is touched when run() has returned: each has its own data.
TEST(Pool, late_workers_leave_a_finished_run_alone) {
  StartedPool pool(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<int> visits(5);
    pool.run(
        [](void *data, int thread) {
          ++(*static_cast<std::vector<int> *>(data))[thread];
        },
        &visits);
    std::fill(visits.begin(), visits.end(), -1);
    if (i % 100 == 0)
      usleep(500);
    EXPECT_EQ(visits, std::vector<int>(5, -1));
  }
}

TEST(Signal, sleeping_threads_are_woken) {
  for (int i = 0; i < 20; ++i) {
    Signal signal;
    std::thread waiting([&] {
      EXPECT_EQ(signal.waitUntil([](uint32_t value) { return value > 1; },
                                 i % 2 == 0),
                2u);
    });
    usleep(i * 100);
    signal.add(1);
    usleep(i * 50);
    signal.store(2);
    waiting.join();
  }
}

TEST(Pool, workers_take_no_signals) {
  struct Masks : Meeting {
    std::vector<int> blocked{0, 0, 0};
    Masks() : Meeting(3) {}
  } masks;
  StartedPool pool(3);
  pool.run(
      [](void *data, int thread) {
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        auto &all = *static_cast<Masks *>(data);
        all.blocked[thread] =
            sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM);
        Meeting::run(&all, thread);
      },
      &masks);
  EXPECT_EQ(masks.blocked, (std::vector<int>{0, 1, 1}));
}

TEST(Pool, workers_are_bound_to_the_given_cpus) {
  struct Counts : Meeting {
    std::vector<int> cpus{0, 0, 0};
    Counts() : Meeting(3) {}
  } counts;
  PoolOptions options;
  options.threads = 3;
  options.pin = true;
  options.cpus = allowedCpus();
  Pool pool;
  bool affinityFailed = true;
  ASSERT_EQ(pool.start(options, affinityFailed, nullptr), ENCAST_OK);
  EXPECT_FALSE(affinityFailed);
  pool.run(
      [](void *data, int thread) {
        auto &all = *static_cast<Counts *>(data);
        all.cpus[thread] = allowedCpus().count();
        Meeting::run(&all, thread);
      },
      &counts);
  EXPECT_EQ(counts.cpus[1], 1);
  EXPECT_EQ(counts.cpus[2], 1);
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
  Meeting meeting(2);
  pool.run(Meeting::run, &meeting);
  pool.stop();
}
