//===- Variant.h - which variant of an artifact to run ----------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_VARIANT_H
#define ENCAST_RUNTIME_SRC_VARIANT_H

#include "runtime/src/Artifact.h"
#include "runtime/src/Log.h"

namespace encast::runtime {

/// What variants need of a machine.
struct Machine {
  uint64_t cpuFeatures;      ///< ENCAST_CPU_* bits.
  int (*requestTileState)(); ///< 0 or an error number.
};

/// Chooses among the variants that the machine runs the one of highest rank, or
/// takes the one called `name` if that is not null. If the system refuses
/// tiles, the best variant without them is taken, and a warning says so.
/// Errors: UNKNOWN_NAME, CPU_UNSUPPORTED with the features that are missing or
/// the reason why tiles are refused.
encast_status chooseVariant(const ArtifactView &view, const char *name,
                            const Machine &machine, const Log &log,
                            uint64_t &chosen, encast_error *error);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_VARIANT_H
