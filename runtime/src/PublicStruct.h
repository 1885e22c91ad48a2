//===- PublicStruct.h - structs that grow with versions ---------*- C++ -*-===//
///
/// \file
/// Public structs start with `size`, sizeof of the struct that the caller was
/// compiled with. Shorter ones lack the fields that were added later.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_PUBLICSTRUCT_H
#define ENCAST_RUNTIME_SRC_PUBLICSTRUCT_H

#include "runtime/src/Errors.h"
#include <algorithm>
#include <cstring>

namespace encast::runtime {

/// Copies the caller's struct over `full`, which holds the defaults.
template <typename Struct>
encast_status readStruct(const Struct &given, const char *name, Struct &full,
                         encast_error *error) {
  if (given.size < sizeof(given.size))
    return structTooSmall(error, name, given.size, sizeof(given.size));
  memcpy(&full, &given, std::min(given.size, sizeof(full)));
  return ENCAST_OK;
}

/// Copies `full` to the caller's struct but for its size.
template <typename Struct>
encast_status writeStruct(const Struct &full, const char *name, Struct *given,
                          encast_error *error) {
  constexpr size_t begin = sizeof(given->size);
  if (!given)
    return nullArgument(error, name);
  if (given->size < begin)
    return structTooSmall(error, name, given->size, begin);
  memcpy(reinterpret_cast<char *>(given) + begin,
         reinterpret_cast<const char *>(&full) + begin,
         std::min(given->size, sizeof(full)) - begin);
  return ENCAST_OK;
}

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_PUBLICSTRUCT_H
