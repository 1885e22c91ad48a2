//===- Hash.h - the hash of artifacts and weights ---------------*- C++ -*-===//
///
/// \file
/// XXH3, 128 bits: finds damage, and is no signature.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_HASH_H
#define ENCAST_RUNTIME_SRC_HASH_H

#include <cstdint>

namespace encast::runtime {

struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128 &other) const {
    return low == other.low && high == other.high;
  }
};

Hash128 hashBytes(const void *bytes, uint64_t size);

/// Hashes bytes that come in pieces.
class Hasher {
public:
  Hasher();
  void add(const void *bytes, uint64_t size);
  Hash128 finish() const;

private:
  alignas(64) unsigned char state[576]; ///< An XXH3_state_t.
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_HASH_H
