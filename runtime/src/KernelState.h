//===- KernelState.h - processor state that kernels expect ------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_KERNELSTATE_H
#define ENCAST_RUNTIME_SRC_KERNELSTATE_H

#include <cstdint>
#include <xmmintrin.h>

namespace encast::runtime {

/// The operand of LDTILECFG: palette 1 with all eight tiles of 16 rows of 64
/// bytes. Source: Intel Software Developer's Manual, volume 2A, LDTILECFG.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

/// State of the calling thread for the length of a scope: flush-to-zero and the
/// default rounding whatever the caller has set, and configured tiles for
/// kernels that use them. Other code may change either between two runs, so it
/// is entered at each entry of a thread. The caller's rounding comes back;
/// tiles are released, as they belong to the callee by convention.
class KernelState {
public:
  explicit KernelState(bool usesTiles) : usesTiles(usesTiles) { enter(); }
  ~KernelState() { leave(); }
  KernelState(const KernelState &) = delete;
  KernelState &operator=(const KernelState &) = delete;

  /// Around a call of foreign code: leave(), the call, enter().
  void enter() {
    // All exceptions masked, rounding to nearest, FTZ (bit 15), DAZ (bit 6).
    constexpr unsigned setting = 0x1f80 | 0x8000 | 0x0040;
    saved = _mm_getcsr();
    _mm_setcsr(setting);
    if (!usesTiles)
      return;
    static constexpr TileConfiguration configuration;
    __asm__ volatile("ldtilecfg %0" : : "m"(configuration));
  }
  void leave() {
    if (usesTiles)
      __asm__ volatile("tilerelease");
    _mm_setcsr(saved);
  }

private:
  const bool usesTiles;
  unsigned saved;
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_KERNELSTATE_H
