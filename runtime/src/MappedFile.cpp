//===- MappedFile.cpp - files in memory -----------------------------------===//

#include "runtime/src/MappedFile.h"
#include "runtime/src/Errors.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace encast::runtime {

constexpr uint64_t kPage = 4096;

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

encast_status Mapping::map(const OpenFile &file, uint64_t offset,
                           uint64_t wanted, encast_error *error) {
  if (!wanted)
    return ENCAST_OK;
  uint64_t before = offset % kPage;
  void *address = mmap(nullptr, wanted + before, PROT_READ, MAP_SHARED,
                       file.descriptor(), offset - before);
  if (address == MAP_FAILED)
    return fileError(error, "map", errno);
  base = address;
  baseBytes = wanted + before;
  bytes = static_cast<const uint8_t *>(base) + before;
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

void Mapping::populate() const {
  if (!base || madvise(base, baseBytes, MADV_POPULATE_READ) == 0)
    return;
  // Kernels before 5.14.
  for (uint64_t i = 0; i < baseBytes; i += kPage)
    (void)static_cast<const volatile uint8_t *>(base)[i];
}

} // namespace encast::runtime
