//===- OneDnn.h - the same products by oneDNN -------------------*- C++ -*-===//

#ifndef ENCAST_TEST_BENCH_KERNELS_ONEDNN_H
#define ENCAST_TEST_BENCH_KERNELS_ONEDNN_H

#include <cstdint>
#include <memory>

namespace encast {

/// C[m, n] = A[m, k] * B with B in the layout that oneDNN prefers. A and B are
/// f32 or bf16, C is f32.
class OneDnnProduct {
public:
  virtual ~OneDnnProduct() = default;
  /// Bytes of B.
  virtual size_t weightBytes() const = 0;
  virtual void run(const void *a, const void *b, void *c) = 0;

  /// Null if oneDNN was not there when building, or declines.
  static std::unique_ptr<OneDnnProduct> create(int64_t m, int64_t n, int64_t k,
                                               bool bf16 = false);
};

} // namespace encast

#endif // ENCAST_TEST_BENCH_KERNELS_ONEDNN_H
