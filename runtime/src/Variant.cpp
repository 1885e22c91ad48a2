//===- Variant.cpp - which variant of an artifact to run ------------------===//

#include "runtime/src/Variant.h"
#include "runtime/src/Cpu.h"
#include "runtime/src/Errors.h"
#include <cstring>

namespace encast::runtime {

encast_status chooseVariant(const ArtifactView &view, const char *name,
                            uint64_t cpuFeatures, uint64_t &chosen,
                            encast_error *error) {
  bool named = false, found = false;
  Text known, lacks;
  for (uint64_t i = 0; i < view->variants.count; ++i) {
    const encast_abi_variant &variant = view.variant(i);
    const char *variantName = view.string(variant.name);
    known.appendToList(variantName);
    if (name && strcmp(name, variantName) != 0)
      continue;
    named = true;
    if (uint64_t missing = variant.cpu_features & ~cpuFeatures) {
      lacks.appendToList("variant ");
      lacks.append(variantName);
      lacks.append(" needs ");
      appendFeatureNames(missing, lacks);
      continue;
    }
    if (!found || variant.rank > view.variant(chosen).rank)
      chosen = i;
    found = true;
  }
  if (!named)
    return unknownVariant(error, name, known);
  if (!found)
    return cpuUnsupported(error, lacks);
  return ENCAST_OK;
}

} // namespace encast::runtime
