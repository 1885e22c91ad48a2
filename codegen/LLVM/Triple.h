//===- Triple.h - what objects are made for ---------------------*- C++ -*-===//
///
/// \file
/// Constants that the files of codegen/LLVM share.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_LLVM_TRIPLE_H
#define ENCAST_CODEGEN_LLVM_TRIPLE_H

namespace encast {

constexpr const char *kTriple = "x86_64-unknown-linux-gnu";
/// LLVM's number for the assembly syntax that the kernels are written in.
constexpr unsigned kIntelSyntax = 1;

} // namespace encast

#endif // ENCAST_CODEGEN_LLVM_TRIPLE_H
