//===- KernelName.cpp - what the name of a kernel says --------------------===//

#include "runtime/tools/KernelName.h"

namespace encast::tools {

static bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

KernelName parseKernelName(std::string_view kernel) {
  static const struct {
    const char *name;
    int products;
  } arithmetics[] = {
      {"f32", 1}, {"bf16", 1}, {"bf16x3", 3}, {"bf16x3w", 3}, {"bf16x6", 6}};
  static const struct {
    const char *name;
    Multiplier multiplier;
  } instructions[] = {{"avx2", Multiplier::Avx2},
                      {"avx512", Multiplier::Avx512},
                      {"avx512bf16", Multiplier::Avx512Bf16},
                      {"amx", Multiplier::AmxBf16}};
  KernelName result;
  std::string_view rest = kernel.substr(0, kernel.find('.'));
  if (!startsWith(rest, "linear_") && !startsWith(rest, "attention_"))
    return result;
  while (!rest.empty()) {
    size_t end = rest.find('_');
    std::string_view word = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    for (const auto &known : arithmetics)
      if (word == known.name) {
        result.arithmetic = known.name;
        result.products = known.products;
      }
    for (const auto &known : instructions)
      if (word == known.name)
        result.multiplier = known.multiplier;
  }
  return result;
}

} // namespace encast::tools
