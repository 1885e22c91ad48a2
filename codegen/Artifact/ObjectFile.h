//===- ObjectFile.h - relocatable objects in memory -------------*- C++ -*-===//
///
/// \file
/// Reads the symbols of step objects and writes the objects of kernels and of
/// the descriptor through LLVM's MC layer. x86-64 ELF.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ARTIFACT_OBJECTFILE_H
#define ENCAST_CODEGEN_ARTIFACT_OBJECTFILE_H

#include "codegen/Artifact/Descriptor.h"

namespace encast {

/// Names of the symbols that an object shares with others.
struct ObjectSymbols {
  std::vector<std::string> defined; ///< Global, not weak.
  std::vector<std::string> undefined;
};

/// False with `error` if the object is not an x86-64 ELF relocatable.
bool readObjectSymbols(const std::vector<uint8_t> &object,
                       ObjectSymbols &symbols, std::string &error);

/// Hidden FUNC symbols of exact size, each at a multiple of 64 bytes of .text.
std::vector<uint8_t> emitKernelObject(const std::vector<KernelCode> &kernels);

/// The descriptor in its section, function fields as PC-relative relocations,
/// and the query function, the only symbol that is not hidden.
std::vector<uint8_t> emitDescriptorObject(const Descriptor &descriptor);

} // namespace encast

#endif // ENCAST_CODEGEN_ARTIFACT_OBJECTFILE_H
