//===- MappedFile.cpp - files in memory -----------------------------------===//

#include "runtime/src/MappedFile.h"
#include "runtime/src/Errors.h"
#include "runtime/src/MemoryFormula.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace encast::runtime {

constexpr uint64_t kPage = kPageBytes, kHugePage = kHugePageBytes;

OpenFile::~OpenFile() {
  if (file >= 0)
    close(file);
}

encast_status OpenFile::open(const char *path, encast_error *error) {
  // Without O_NONBLOCK the open of a pipe would wait for a writer.
  file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return fileError(error, "open", errno);
  struct stat information;
  if (fstat(file, &information))
    return fileError(error, "read", errno);
  if (!S_ISREG(information.st_mode))
    return notRegularFile(error);
  bytes = information.st_size;
  return ENCAST_OK;
}

encast_status OpenFile::read(void *to, uint64_t offset, uint64_t count,
                             encast_error *error) const {
  auto *next = static_cast<char *>(to);
  while (count) {
    ssize_t got = pread(file, next, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return fileError(error, "read", got ? errno : ENODATA);
    next += got;
    offset += got;
    count -= got;
  }
  return ENCAST_OK;
}

encast_status Mapping::map(const OpenFile &file, uint64_t offset,
                           uint64_t wanted, encast_error *error) {
  if (!wanted)
    return ENCAST_OK;
  uint64_t before = offset % kPage;
  uint64_t size = wanted + before, more = size + kHugePage;
  void *room = mmap(nullptr, more, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return fileError(error, "map", errno);
  // As far from a huge page in memory as in the file.
  auto *first = static_cast<uint8_t *>(room);
  auto *place =
      first + ((offset - before - reinterpret_cast<uintptr_t>(first)) &
               (kHugePage - 1));
  if (mmap(place, size, PROT_READ, MAP_SHARED | MAP_FIXED, file.descriptor(),
           offset - before) == MAP_FAILED) {
    int systemError = errno;
    munmap(room, more);
    return fileError(error, "map", systemError);
  }
  uint64_t pages = (size + kPage - 1) / kPage * kPage;
  if (place != first)
    munmap(first, place - first);
  munmap(place + pages, first + more - (place + pages));
  base = place;
  baseBytes = size;
  bytes = place + before;
  count = wanted;
  return ENCAST_OK;
}

void Mapping::unmap() {
  if (base)
    munmap(base, baseBytes);
  base = nullptr;
  bytes = nullptr;
  count = 0;
}

void Mapping::populate(uint64_t offset, uint64_t size) const {
  if (!size)
    return;
  if (baseBytes >= kHugePage)
    madvise(base, baseBytes, MADV_HUGEPAGE); // while the file is read
  uint64_t begin = reinterpret_cast<uintptr_t>(bytes + offset) / kPage * kPage;
  uint64_t end = reinterpret_cast<uintptr_t>(bytes + offset + size);
  auto *first = reinterpret_cast<uint8_t *>(begin);
  if (madvise(first, end - begin, MADV_POPULATE_READ) == 0)
    return;
  // Kernels before 5.14.
  for (uint64_t i = 0; i < end - begin; i += kPage)
    (void)static_cast<const volatile uint8_t *>(first)[i];
}

} // namespace encast::runtime
