//===- VectorAssembler.h - f32 vector code for AVX2 or AVX-512 --*- C++ -*-===//
///
/// \file
/// The base of all kernel generators. A generator is written once over the
/// width of the vector registers; what differs between the instruction sets is
/// behind the few functions here, each with the same result bits on both.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_VECTORASSEMBLER_H
#define ENCAST_CODEGEN_KERNELS_VECTORASSEMBLER_H

#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace encast {

/// A control of floating point (MXCSR): denormal numbers count as zero, no
/// exceptions, to nearest even.
constexpr uint32_t kFlushingControl = 0x9fc0;

/// Assembles one kernel. Not thread safe; objects are independent.
class VectorAssembler : public Xbyak::CodeGenerator {
public:
  using Vec = Xbyak::Xmm; ///< A register of any width; its kind says which.

  /// `vectorBytes` is 32 (AVX2 with FMA) or 64 (AVX-512 F and DQ).
  explicit VectorAssembler(int vectorBytes);

  bool isAvx512() const { return vectorBytes == 64; }
  int lanes() const { return vectorBytes / int(sizeof(float)); }
  int registers() const { return isAvx512() ? 32 : 16; }
  Vec vec(int index) const;
  /// The vector in memory that lies `index` vectors behind `base`.
  Xbyak::Address vectorAt(const Xbyak::RegExp &base, int index) {
    return ptr[base + size_t(index) * size_t(vectorBytes)];
  }

  /// A source operand whose lanes all hold `value`. The data goes behind the
  /// code, once per value, and is addressed relative to rip.
  Xbyak::Address constant(float value);
  /// The same for lanes that are integers.
  Xbyak::Address constant(int32_t value);
  /// Sets all lanes of a register to `value`.
  void broadcastConstant(const Vec &vec, float value);

  /// Sets all lanes of a register to 0.
  void clear(const Vec &vec);

  /// Replaces a quad (128 bits, four floats) of a register by memory. Quad 0
  /// must come first: it clears the others.
  void insertQuad(const Vec &vec, const Xbyak::Address &source, int quad);
  /// Stores the first `count` floats, 1 to 4, of a quad. `temp` may be changed.
  void storeQuad(const Xbyak::RegExp &target, const Vec &vec, int quad,
                 int count, const Vec &temp);
  /// Stores 16 floats as bf16 planes (Kernels.h), `planeBytes` apart, of which
  /// `lanes` may mask some. Changes `value` and `temp`. AVX512-BF16 only.
  void storePlanes(const Xbyak::RegExp &target, int64_t planeBytes, int planes,
                   const Vec &value, const Vec &temp,
                   const Xbyak::Opmask &lanes = Xbyak::Opmask(0));
  /// Sets lanes of `vec` to `value` where |x| > limit, of integers. `temp` may
  /// be changed.
  void replaceBeyond(const Vec &vec, const Vec &x, int32_t limit, float value,
                     const Vec &temp);
  /// Sets all lanes of a register to an integer.
  void broadcastInteger(const Vec &vec, const Xbyak::Reg32 &value);
  /// Jumps if x != y in any lane. `mask` and `temp` may be changed.
  void jumpIfAnyDiffers(const Vec &x, const Vec &y, const Vec &mask,
                        const Xbyak::Reg64 &temp, Xbyak::Label &target);

protected:
  /// Saves the callee-saved registers and reserves 8-byte locals on the stack.
  void enter(int locals);
  /// Undoes enter(), clears the upper vector state and returns.
  void leave();
  /// A local; inside a subroutine its return address lies below the locals.
  Xbyak::Address local(int index) {
    return qword[rsp + size_t(index + (inSubroutine ? 1 : 0)) * 8];
  }
  /// Copies fields of the struct at `args` to locals.
  void
  copyArguments(const Xbyak::Reg64 &args, const Xbyak::Reg64 &temp,
                std::initializer_list<std::pair<int, size_t>> localsAndOffsets);
  /// Emits a case for each value of `reg` from `last` down to `first`.
  void emitCases(const Xbyak::Reg64 &reg, int first, int last,
                 const std::function<void(int value)> &body);
  /// Sets rax to the share of `lines` that each tile of `rowTile` rows fetches,
  /// rounded up; changes rcx and rdx. `rows` is in memory.
  void emitShareOfTile(const Xbyak::Address &rows, int rowTile, int lines);
  /// Between these two, code is entered by call() and left by ret().
  void beginSubroutine(Xbyak::Label &label);
  void endSubroutine();

  /// Writes the constants and moves the bytes to `code`. False with `error` if
  /// an instruction could not be encoded.
  bool finish(std::vector<uint8_t> &code, std::string &error);

  const int vectorBytes;

private:
  Xbyak::Address constantBits(uint32_t bits);

  std::map<uint32_t, Xbyak::Label> constants; // ordered: equal bytes each time
  int frameLocals = 0;
  bool inSubroutine = false;
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_VECTORASSEMBLER_H
