//===- MappedFile.h - files in memory ---------------------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_MAPPEDFILE_H
#define ENCAST_RUNTIME_SRC_MAPPEDFILE_H

#include "encast.h"
#include <cstdint>

namespace encast::runtime {

/// An open file, closed at the end of the scope.
class OpenFile {
public:
  OpenFile() = default;
  OpenFile(const OpenFile &) = delete;
  OpenFile &operator=(const OpenFile &) = delete;
  ~OpenFile();

  /// Opens a regular file for reading. Errors: IO_ERROR.
  encast_status open(const char *path, encast_error *error);
  int descriptor() const { return file; }
  /// Copies `count` bytes from `offset`. Errors: IO_ERROR, for a file that has
  /// become shorter, too.
  encast_status read(void *to, uint64_t offset, uint64_t count,
                     encast_error *error) const;
  uint64_t size() const { return bytes; }

private:
  int file = -1;
  uint64_t bytes = 0;
};

/// A part of a file, read-only and shared by all processes that map it;
/// unmapped at the end of the scope.
class Mapping {
public:
  Mapping() = default;
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  ~Mapping() { unmap(); }

  /// Maps `count` bytes from `offset`, which must lie in the file; nothing if
  /// `count` is 0. Placed so that huge pages of the page cache are mapped as
  /// such. Errors: IO_ERROR.
  encast_status map(const OpenFile &file, uint64_t offset, uint64_t count,
                    encast_error *error);
  void unmap();
  /// Reads in now the pages of a part; into huge ones, if the file system has
  /// them and the file is not in memory yet.
  void populate(uint64_t offset, uint64_t size) const;
  const uint8_t *data() const { return bytes; }
  uint64_t size() const { return count; }

private:
  void *base = nullptr;
  uint64_t baseBytes = 0;
  const uint8_t *bytes = nullptr;
  uint64_t count = 0;
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_MAPPEDFILE_H
