//===- Sha256.h - the hash that names a source file -------------*- C++ -*-===//
///
/// \file
/// SHA-256 (FIPS 180-4) of bytes in memory, computed by libcrypto.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_FORMATS_SHA256_H
#define ENCAST_FRONTENDS_FORMATS_SHA256_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace encast {

/// The SHA-256 of `size` bytes as 64 lower-case hexadecimal digits. Empty if
/// libcrypto refuses (no memory, or the algorithm is disabled by its
/// configuration).
std::string sha256Hex(const uint8_t *bytes, size_t size);

} // namespace encast

#endif // ENCAST_FRONTENDS_FORMATS_SHA256_H
