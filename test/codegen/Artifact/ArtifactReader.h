//===- ArtifactReader.h - readelf for artifacts, in tests -------*- C++ -*-===//
///
/// \file
/// Reads an artifact with LLVM's ELF reader, which shares no code with the
/// writer and the runtime, and recomputes what can be recomputed.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_CODEGEN_ARTIFACT_ARTIFACTREADER_H
#define ENCAST_TEST_CODEGEN_ARTIFACT_ARTIFACTREADER_H

#include "encast_abi.h"
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace encast {

struct ElfSection {
  std::string name;
  uint32_t type;
  uint64_t flags, address, offset, size, alignment;
};

struct ElfSymbol {
  std::string name;
  uint8_t type, binding, visibility;
  uint64_t address, size;
  bool defined;
};

/// An artifact that is mapped while this lives.
class ArtifactReader {
public:
  ArtifactReader();
  ~ArtifactReader();

  /// Empty, or what is wrong with the file as ELF or as an artifact: anything
  /// undefined, needed, relocated or exported beside the query function, a
  /// segment that is writable and executable, an executable stack, a section
  /// table that is not the file's end, tables or functions out of range, an
  /// artifact id or, if asked, a hash of a blob that does not match.
  std::string open(const std::string &path, bool hashBlobs = true);
  /// Empty, or what is wrong with a blob.
  std::string checkBlob(const encast_abi_blob &blob) const;

  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols; ///< Of .symtab.
  const uint8_t *bytes = nullptr; ///< Of the file.
  uint64_t size = 0;
  const encast_abi_descriptor *descriptor = nullptr;
  uint64_t descriptorAddress = 0;
  /// In the artifact or its side file; null if `strip` dropped it.
  const uint8_t *weights = nullptr;

  /// Null if there is none of that name.
  const ElfSection *section(const std::string &name) const;
  const ElfSymbol *symbol(const std::string &name) const;
  const char *string(uint64_t offset) const;
  template <typename Row> std::vector<Row> table(encast_abi_table table) const {
    std::vector<Row> rows(table.count);
    if (!rows.empty())
      std::memcpy(rows.data(),
                  reinterpret_cast<const char *>(descriptor) + table.offset,
                  rows.size() * sizeof(Row));
    return rows;
  }
  /// The bytes of a defined symbol.
  std::vector<uint8_t> contents(const ElfSymbol &symbol) const;

private:
  std::string readElf();
  std::string readDescriptor(const std::string &path);
  std::string checkId() const;

  struct Files;
  std::unique_ptr<Files> files;
};

} // namespace encast

#endif // ENCAST_TEST_CODEGEN_ARTIFACT_ARTIFACTREADER_H
