//===- ElfImage.h - the linked library in memory ----------------*- C++ -*-===//
///
/// \file
/// What happens to the library between linker and file: the final descriptor,
/// the artifact id, the section of the weights.
///
///   linked   | headers, segments, names |  section table  |
///   finished | headers, segments, names | 0 | weights | names | section table
///   |
///            '------ bytes() ------'        ^ weightsOffset '--- tail() ---'
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ARTIFACT_ELFIMAGE_H
#define ENCAST_CODEGEN_ARTIFACT_ELFIMAGE_H

#include "codegen/Artifact/Descriptor.h"

namespace encast {

/// The weights section can be mapped by itself.
constexpr uint64_t kWeightsAlignment = 4096;

/// An ELF64 shared library that ends with its section table, as lld writes it.
class ElfImage {
public:
  ElfImage() = default;
  explicit ElfImage(std::vector<uint8_t> library);

  const std::vector<uint8_t> &bytes() const { return image; }
  /// Bytes before the section table.
  uint64_t sizeWithoutTable() const;

  /// Replaces the linked descriptor by one of the same layout, except for the
  /// function fields, which the linker filled in. Then sets the artifact id.
  void setDescriptor(const Descriptor &descriptor);

  /// Takes the section table off bytes() and returns what follows the weights:
  /// names and a table with one more section, to be written at `tailOffset`.
  std::vector<uint8_t> addWeightsSection(uint64_t weightsOffset,
                                         uint64_t weightsBytes,
                                         uint64_t tailOffset);

private:
  std::vector<uint8_t> image;
};

/// Smallest multiple of `alignment` that is not below `offset`.
constexpr uint64_t alignedTo(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

} // namespace encast

#endif // ENCAST_CODEGEN_ARTIFACT_ELFIMAGE_H
