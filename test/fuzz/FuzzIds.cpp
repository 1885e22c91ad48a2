//===- FuzzIds.cpp - lines that may be token ids --------------------------===//

#include "runtime/tools/IdsReader.h"
#include <cstdlib>

using namespace encast::tools;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const IdsLimits limits = {1000, 2, 64, true};
  IdsFile file;
  std::string error;
  std::string_view text(reinterpret_cast<const char *>(data), size);
  if (!readIds(text, limits, file, error)) {
    if (error.compare(0, 5, "line ") != 0)
      abort();
    return 0;
  }
  // What is accepted keeps every promise.
  if (file.offsets.back() != static_cast<int64_t>(file.ids.size()) ||
      file.types.size() != file.ids.size())
    abort();
  for (size_t i = 0; i + 1 < file.offsets.size(); ++i) {
    int64_t length = file.offsets[i + 1] - file.offsets[i];
    if (length < 1 || length > limits.maxTokens || file.attended.at(i) < 1 ||
        file.attended[i] > length)
      abort();
  }
  for (size_t i = 0; i < file.ids.size(); ++i)
    if (file.ids[i] < 0 || file.ids[i] >= limits.vocabulary ||
        file.types[i] < 0 || file.types[i] >= limits.tokenTypes)
      abort();
  return 0;
}
