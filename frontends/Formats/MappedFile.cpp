//===- MappedFile.cpp - a file mapped read-only ---------------------------===//

#include "frontends/Formats/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace encast {

MappedFile::MappedFile(MappedFile &&other) noexcept
    : data(std::exchange(other.data, nullptr)),
      length(std::exchange(other.length, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(data, other.data);
  std::swap(length, other.length);
  return *this;
}

MappedFile::~MappedFile() {
  if (data)
    munmap(const_cast<uint8_t *>(data), length);
}

bool MappedFile::open(const std::string &path, std::string &error) {
  // O_NONBLOCK: a FIFO must be refused, not waited for.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    error = path + ": cannot open: " + std::strerror(errno);
    return false;
  }
  struct stat info;
  if (fstat(fd, &info) != 0) {
    error = path + ": cannot read its size: " + std::strerror(errno);
    close(fd);
    return false;
  }
  if (!S_ISREG(info.st_mode)) {
    error = path + ": is not a regular file";
    close(fd);
    return false;
  }
  MappedFile mapped;
  mapped.length = static_cast<size_t>(info.st_size);
  if (mapped.length != 0) {
    void *address = mmap(nullptr, mapped.length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      error = path + ": cannot map " + std::to_string(mapped.length) +
              " bytes: " + std::strerror(errno);
      mapped.length = 0;
      close(fd);
      return false;
    }
    mapped.data = static_cast<const uint8_t *>(address);
  }
  close(fd);
  *this = std::move(mapped);
  return true;
}

bool fileExists(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

bool isDirectory(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string joinPath(const std::string &folder, const std::string &name) {
  if (folder.empty())
    return name;
  if (name.empty())
    return folder;
  return folder.back() == '/' ? folder + name : folder + "/" + name;
}

} // namespace encast
