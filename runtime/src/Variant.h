//===- Variant.h - which variant of an artifact to run ----------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_VARIANT_H
#define ENCAST_RUNTIME_SRC_VARIANT_H

#include "runtime/src/Artifact.h"

namespace encast::runtime {

/// Chooses among the variants that a CPU with these ENCAST_CPU_* bits runs the
/// one of highest rank, or takes the one called `name` if that is not null.
/// Errors: UNKNOWN_NAME, CPU_UNSUPPORTED with the features that are missing.
encast_status chooseVariant(const ArtifactView &view, const char *name,
                            uint64_t cpuFeatures, uint64_t &chosen,
                            encast_error *error);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_VARIANT_H
