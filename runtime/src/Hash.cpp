//===- Hash.cpp - the hash of artifacts and weights -----------------------===//

#include "runtime/src/Hash.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace encast::runtime {

static Hash128 fromXxh(XXH128_hash_t hash) { return {hash.low64, hash.high64}; }

Hash128 hashBytes(const void *bytes, uint64_t size) {
  return fromXxh(XXH3_128bits(bytes, size));
}

static XXH3_state_t *xxhState(void *state) {
  return static_cast<XXH3_state_t *>(state);
}

Hasher::Hasher() {
  static_assert(sizeof(state) == sizeof(XXH3_state_t));
  static_assert(alignof(Hasher) >= alignof(XXH3_state_t));
  XXH3_INITSTATE(xxhState(state));
  XXH3_128bits_reset(xxhState(state));
}

void Hasher::add(const void *bytes, uint64_t size) {
  XXH3_128bits_update(xxhState(state), bytes, size);
}

Hash128 Hasher::finish() const {
  return fromXxh(
      XXH3_128bits_digest(reinterpret_cast<const XXH3_state_t *>(state)));
}

} // namespace encast::runtime
