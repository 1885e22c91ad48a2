//===- OutputFile.cpp - a file that appears whole or not at all -----------===//

#include "codegen/Artifact/OutputFile.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace encast {
namespace {

/// What is written at once, at multiples of this, so that file systems with
/// large folios keep it in a huge page.
constexpr uint64_t kWindowBytes = 2 << 20;

bool isZero(const std::vector<uint8_t> &bytes) {
  return bytes[0] == 0 &&
         std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

/// Finds a name that nothing in the folder has: `make` makes it and returns
/// false, with errno EEXIST if it was taken.
template <typename Make> bool makeName(std::string &name, Make make) {
  for (int number = 0;; ++number) {
    // Not made from the target: a longer name might not fit.
    std::string candidate = ".encast-" + std::to_string(getpid()) + "-" +
                            std::to_string(number) + ".tmp";
    if (make(candidate.c_str())) {
      name = candidate;
      return true;
    }
    if (errno != EEXIST)
      return false;
  }
}

} // namespace

bool OutputFile::fail(const std::string &what, std::string &error) const {
  error = path + ": cannot " + what + ": " + std::strerror(errno);
  return false;
}

OutputFile::~OutputFile() {
  if (file >= 0)
    close(file);
  if (!temporary.empty())
    unlinkat(folder, temporary.c_str(), 0);
  if (tentative && previous.empty())
    unlinkat(folder, target.c_str(), 0);
  else if (tentative)
    renameat(folder, previous.c_str(), folder, target.c_str());
  else if (!previous.empty())
    unlinkat(folder, previous.c_str(), 0); // A rename would keep both names.
  if (folder >= 0)
    close(folder);
}

bool OutputFile::create(const std::string &path, std::string &error) {
  this->path = path;
  size_t slash = path.rfind('/');
  bool hasFolder = slash != std::string::npos;
  target = hasFolder ? path.substr(slash + 1) : path;
  if (target.empty()) {
    error = path + ": expects the name of a file";
    return false;
  }
  std::string parent = hasFolder ? path.substr(0, slash + 1) : ".";
  folder = open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return fail("open its folder", error);
  struct stat status;
  if (fstatat(folder, target.c_str(), &status, 0) == 0 &&
      !S_ISREG(status.st_mode)) {
    error = path + ": exists and is not a regular file";
    return false;
  }
  if (openUnnamed() || makeName(temporary, [&](const char *name) {
        file =
            openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        return file >= 0;
      }))
    return true;
  return fail("create a file in its folder", error);
}

/// The path that gives an open file a name.
static std::string descriptorPath(int file) {
  return "/proc/self/fd/" + std::to_string(file);
}

bool OutputFile::openUnnamed() {
  file = openat(folder, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
  if (file >= 0 && access(descriptorPath(file).c_str(), F_OK) == 0)
    return true;
  if (file >= 0)
    close(file); // No /proc.
  file = -1;
  return false;
}

bool OutputFile::nameFile(std::string &error) {
  if (!temporary.empty())
    return true;
  std::string unnamed = descriptorPath(file);
  if (!makeName(temporary, [&](const char *name) {
        return linkat(AT_FDCWD, unnamed.c_str(), folder, name,
                      AT_SYMLINK_FOLLOW) == 0;
      }))
    return fail("name it", error);
  return true;
}

bool OutputFile::isBeside(const OutputFile &other) const {
  struct stat mine, others;
  return fstat(folder, &mine) == 0 && fstat(other.folder, &others) == 0 &&
         mine.st_dev == others.st_dev && mine.st_ino == others.st_ino &&
         target != other.target;
}

bool OutputFile::write(uint64_t offset, const uint8_t *bytes, uint64_t size,
                       std::string &error) {
  while (size > 0) {
    uint64_t behind = windowBegin + window.size();
    bool gapIsNew = offset > behind && behind >= end &&
                    offset / kWindowBytes == windowBegin / kWindowBytes;
    if (!window.empty() && offset != behind && !gapIsNew && !flush(error))
      return false;
    if (window.empty())
      windowBegin = offset;
    window.resize(offset - windowBegin);
    uint64_t count = std::min(size, kWindowBytes - offset % kWindowBytes);
    window.insert(window.end(), bytes, bytes + count);
    offset += count;
    bytes += count;
    size -= count;
    if (offset % kWindowBytes == 0 && !flush(error))
      return false;
  }
  return true;
}

bool OutputFile::flush(std::string &error) {
  uint64_t done = 0, behind = windowBegin + window.size();
  bool isHole =
      window.size() == kWindowBytes && windowBegin >= end && isZero(window);
  while (!isHole && done < window.size()) {
    ssize_t count = pwrite(file, window.data() + done, window.size() - done,
                           off_t(windowBegin + done));
    if (count < 0 && errno != EINTR)
      return fail("write", error);
    done += std::max<ssize_t>(count, 0);
  }
  if (done > 0)
    end = std::max(end, behind);
  window.clear();
  return true;
}

bool OutputFile::resize(uint64_t size, std::string &error) {
  if (!flush(error))
    return false;
  if (ftruncate(file, off_t(size)) != 0)
    return fail("resize", error);
  end = size;
  return true;
}

bool OutputFile::publish(std::string &error) {
  if (!flush(error) || !nameFile(error))
    return false;
  // Network file systems report a full disk as late as here.
  int failed = close(file);
  file = -1;
  if (failed)
    return fail("write", error);
  if (renameat(folder, temporary.c_str(), folder, target.c_str()) != 0)
    return fail("replace it", error);
  temporary.clear();
  return true;
}

bool OutputFile::publishTentatively(std::string &error) {
  if (!makeName(previous,
                [&](const char *name) {
                  return linkat(folder, target.c_str(), folder, name, 0) == 0;
                }) &&
      errno != ENOENT)
    return fail("keep the previous file", error);
  tentative = publish(error);
  return tentative;
}

void OutputFile::keep() {
  if (!previous.empty())
    unlinkat(folder, previous.c_str(), 0);
  previous.clear();
  tentative = false;
}

} // namespace encast
