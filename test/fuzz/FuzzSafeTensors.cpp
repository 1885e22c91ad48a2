//===- FuzzSafeTensors.cpp - any bytes as a safetensors file --------------===//

#include "frontends/Formats/SafeTensors.h"

#include <cstdlib>

using namespace encast;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  SafeTensors file;
  std::string error;
  if (!file.parse(bytes, size, error)) {
    if (error.empty())
      std::abort();
    return 0;
  }
  // Tensors cover the data exactly, so reading all of them stays inside.
  uint64_t total = 0;
  unsigned sum = 0;
  for (const TensorView &view : file.tensors()) {
    for (uint64_t i = 0; i < view.sizeBytes; ++i)
      sum += view.data[i];
    total += view.sizeBytes;
    if (file.find(view.name) != &view)
      std::abort();
  }
  volatile unsigned kept = sum;
  (void)kept;
  if (total > size)
    std::abort();
  return 0;
}
