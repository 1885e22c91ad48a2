//===- Signal.h - wait for another thread -----------------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_SIGNAL_H
#define ENCAST_RUNTIME_SRC_SIGNAL_H

#include <atomic>
#include <climits>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

namespace encast::runtime {

/// A number that threads wait for: they spin briefly, then sleep. What was
/// written before a change is visible to those who have seen it. On a cache
/// line of its own.
class alignas(64) Signal {
public:
  uint32_t load() const { return value.load(); }
  void store(uint32_t wanted) {
    value.store(wanted);
    wake();
  }
  void add(uint32_t amount) {
    value.fetch_add(amount);
    wake();
  }
  /// For changes that nobody waits for.
  void addSilently(uint32_t amount) { value.fetch_add(amount); }

  /// Waits until `holds(value)` and returns the value. `spins`: whether to spin
  /// before sleeping; a waste when there are more threads than CPUs.
  template <typename Predicate>
  uint32_t waitUntil(Predicate holds, bool spins) {
    // About 100 microseconds: longer than threads of a step differ, shorter
    // than what a sleeping neighbour would miss.
    constexpr uint64_t spinTicks = 250000;
    uint32_t seen = value.load(std::memory_order_acquire);
    for (uint64_t begin = __rdtsc();
         !holds(seen) && spins && __rdtsc() - begin < spinTicks;
         seen = value.load(std::memory_order_acquire))
      _mm_pause();
    if (holds(seen))
      return seen;
    sleepers.fetch_add(1);
    while (seen = value.load(), !holds(seen))
      futex(FUTEX_WAIT, seen);
    sleepers.fetch_sub(1);
    return seen;
  }

private:
  /// Changes of `value` and `sleepers` and the loads here and in waitUntil are
  /// sequentially consistent: either this sees the sleeper, or the sleeper sees
  /// the new value.
  void wake() {
    if (sleepers.load())
      futex(FUTEX_WAKE, INT_MAX);
  }
  void futex(int operation, uint32_t argument) {
    static_assert(sizeof(value) == sizeof(uint32_t));
    syscall(SYS_futex, &value, operation | FUTEX_PRIVATE_FLAG, argument,
            nullptr, nullptr, 0);
  }

  std::atomic<uint32_t> value{0};
  std::atomic<int> sleepers{0};
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_SIGNAL_H
