//===- DotProducts.cpp - bf16 products in vector registers ----------------===//

#include "codegen/Kernels/DotProducts.h"

using namespace encast;
using namespace Xbyak;

static constexpr int64_t kTwoBytes = 4;
static constexpr int kTwos = 16; // of a step

void DotProducts::clearSums(int rows) {
  for (int row = 0; row < rows; ++row)
    for (int half = 0; half < 2; ++half)
      clear(sum(row, half));
}

void DotProducts::emitStep(int rows, const Places &places) {
  for (int two = 0; two < kTwos; ++two) {
    for (int half = 0; half < 2; ++half)
      vmovups(vec(kTemps + half),
              vectorAt(b + size_t(half * places.bHalf), two));
    for (int row = 0; row < rows; ++row)
      for (int half = 0; half < 2; ++half)
        vdpbf16ps(sum(row, half), Zmm(kTemps + half),
                  ptr_b[a + size_t(row * places.aRow + two * kTwoBytes)]);
  }
  add(a, kStepBytes);
  add(b, int(places.bStep));
}

void DotProducts::emitTileHeight(const Reg64 &rows) {
  Label full, done;
  cmp(rows, 2 * kRows);
  jae(full);
  cmp(rows, kRows);
  jbe(done);
  inc(rows);
  shr(rows, 1);
  jmp(done);
  L(full);
  mov(rows, kRows);
  L(done);
}
