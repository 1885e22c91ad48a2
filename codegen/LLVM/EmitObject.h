//===- EmitObject.h - from LLVM IR to machine code --------------*- C++ -*-===//
///
/// \file
/// The way from the `llvm` stage to an ELF object, and back to text for
/// listings. Same input, same bytes, on any machine.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_LLVM_EMITOBJECT_H
#define ENCAST_CODEGEN_LLVM_EMITOBJECT_H

#include "codegen/Target/TargetCpu.h"
#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace encast {

/// Compiles the llvm.func ops of `module`, which stays as it is, into a
/// relocatable x86-64 ELF object for `target`. All functions are
/// position-independent, leave no exception, call no library function (the
/// object refers to the module's external functions only), and fuse or reorder
/// no floating-point operation. If `assembly` is not null it receives the same
/// code as text, in Intel syntax. False with `error` if LLVM refuses.
bool emitObject(mlir::ModuleOp module, const TargetCpu &target,
                std::vector<uint8_t> &object, std::string *assembly,
                std::string &error);

/// Writes one line for each instruction in `bytes`: its offset in hexadecimal
/// digits and its text in Intel syntax; bytes that are no instruction of
/// `target` as `.byte`. False with `error` if LLVM has no such target.
bool disassemble(llvm::ArrayRef<uint8_t> bytes, const TargetCpu &target,
                 llvm::raw_ostream &out, std::string &error);

} // namespace encast

#endif // ENCAST_CODEGEN_LLVM_EMITOBJECT_H
