//===- MappedFile.h - a file mapped read-only -------------------*- C++ -*-===//
///
/// \file
/// Owns a read-only mapping of a whole regular file. Nothing is copied, so
/// files of many gigabytes cost address space only.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_FORMATS_MAPPEDFILE_H
#define ENCAST_FRONTENDS_FORMATS_MAPPEDFILE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace encast {

/// A mapped file; movable, unmapped by the destructor. Reading it is safe from
/// several threads. Shrinking the file while it is mapped is the user's fault
/// and ends in SIGBUS, as with every mapping.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// Maps `path`. False with `error`, which names the path, if it cannot be
  /// read or is not a regular file.
  bool open(const std::string &path, std::string &error);

  const uint8_t *bytes() const { return data; }
  size_t size() const { return length; }
  std::string_view text() const {
    return {reinterpret_cast<const char *>(data), length};
  }

private:
  const uint8_t *data = nullptr; ///< Null if the file is empty.
  size_t length = 0;
};

/// True if `path` names something that exists, whatever it is.
bool fileExists(const std::string &path);

/// True if `path` names a directory.
bool isDirectory(const std::string &path);

/// `folder/name`; either may be empty.
std::string joinPath(const std::string &folder, const std::string &name);

} // namespace encast

#endif // ENCAST_FRONTENDS_FORMATS_MAPPEDFILE_H
