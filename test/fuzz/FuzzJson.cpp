//===- FuzzJson.cpp - any bytes as JSON -----------------------------------===//

#include "frontends/Formats/Json.h"

#include <cstdlib>

using namespace encast;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  std::string_view text(reinterpret_cast<const char *>(bytes), size);
  JsonValue value;
  std::string error;
  JsonLimits limits;
  limits.values = 1000;
  bool parsed = parseJson(text, limits, value, error);
  if (parsed != error.empty())
    std::abort(); // An error has a reason, success has none.
  if (parsed && value.keys.size() > value.elements.size())
    std::abort();
  return 0;
}
