//===- Linker.h - objects to a shared library -------------------*- C++ -*-===//
///
/// \file
/// lld, in process.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ARTIFACT_LINKER_H
#define ENCAST_CODEGEN_ARTIFACT_LINKER_H

#include <cstdint>
#include <string>
#include <vector>

namespace encast {

struct LinkInput {
  std::string name; ///< For errors.
  const std::vector<uint8_t> *object;
};

/// Links x86-64 objects into a shared library in memory. Exports
/// ENCAST_QUERY_SYMBOL alone; symbols that no object defines are left
/// undefined, see checkSelfContained(). Equal objects give equal bytes. Thread
/// safe; one link runs at a time. False with the first error of lld.
bool linkSharedLibrary(const std::vector<LinkInput> &inputs,
                       std::vector<uint8_t> &library, std::string &error);

/// False with `error` naming the symbol or the entry if loading the library
/// would need another one, relocate anything or run any code, or if it exports
/// more or less than ENCAST_QUERY_SYMBOL. library: an image that lld wrote.
bool checkSelfContained(const std::vector<uint8_t> &library,
                        std::string &error);

} // namespace encast

#endif // ENCAST_CODEGEN_ARTIFACT_LINKER_H
