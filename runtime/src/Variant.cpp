//===- Variant.cpp - which variant of an artifact to run ------------------===//

#include "runtime/src/Variant.h"
#include "runtime/src/Cpu.h"
#include "runtime/src/Errors.h"
#include <cstring>

namespace encast::runtime {

static encast_status chooseFitting(const ArtifactView &view, const char *name,
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

encast_status chooseVariant(const ArtifactView &view, const char *name,
                            const Machine &machine, const Log &log,
                            uint64_t &chosen, encast_error *error) {
  ENCAST_TRY(chooseFitting(view, name, machine.cpuFeatures, chosen, error));
  if (!usesTiles(view.variant(chosen).cpu_features))
    return ENCAST_OK;
  int systemError = machine.requestTileState();
  if (!systemError)
    return ENCAST_OK;
  const char *best = view.string(view.variant(chosen).name);
  constexpr uint64_t tiles = ENCAST_CPU_AMX_INT8 | ENCAST_CPU_AMX_BF16;
  if (chooseFitting(view, name, machine.cpuFeatures & ~tiles, chosen, nullptr))
    return tileStateRefused(error, best, systemError, leastSignalStack());
  encast_error reason = ENCAST_ERROR_INIT;
  tileStateRefused(&reason, best, systemError, leastSignalStack());
  log.write(ENCAST_LOG_WARNING, "%s; taking variant %s", reason.message,
            view.string(view.variant(chosen).name));
  return ENCAST_OK;
}

} // namespace encast::runtime
