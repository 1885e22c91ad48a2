//===- VectorAssembler.cpp - f32 vector code for AVX2 or AVX-512 ----------===//

#include "codegen/Kernels/VectorAssembler.h"

#include <cassert>
#include <cstring>
#include <iterator>

using namespace encast;
using namespace Xbyak;

// Generous: the largest kernel takes a quarter of it. Pages that are not
// written cost nothing, and finish() reports a kernel that does not fit.
static constexpr size_t kMaxCodeBytes = size_t(1) << 20;

static const Reg64 kCalleeSaved[] = {util::rbx, util::rbp, util::r12,
                                     util::r13, util::r14, util::r15};

VectorAssembler::VectorAssembler(int vectorBytes)
    : CodeGenerator(kMaxCodeBytes, DontSetProtectRWE),
      vectorBytes(vectorBytes) {
  assert(vectorBytes == 32 || vectorBytes == 64);
  setDefaultJmpNEAR(true);
}

VectorAssembler::Vec VectorAssembler::vec(int index) const {
  assert(index >= 0 && index < registers());
  return Vec(isAvx512() ? Operand::ZMM : Operand::YMM, index);
}

static uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

Address VectorAssembler::constantBits(uint32_t bits) {
  Label &label = constants[bits];
  return isAvx512() ? ptr_b[rip + label] : ptr[rip + label];
}

Address VectorAssembler::constant(float value) {
  return constantBits(bitsOf(value));
}

Address VectorAssembler::constant(int32_t value) {
  return constantBits(uint32_t(value));
}

void VectorAssembler::broadcastConstant(const Vec &vec, float value) {
  vbroadcastss(vec, dword[rip + constants[bitsOf(value)]]);
}

void VectorAssembler::clear(const Vec &vec) {
  // The 128-bit form clears the whole register and is the shortest.
  if (vec.getIdx() < 16)
    vxorps(Xmm(vec.getIdx()), Xmm(vec.getIdx()), Xmm(vec.getIdx()));
  else
    vpxord(vec, vec, vec);
}

void VectorAssembler::insertQuad(const Vec &vec, const Address &source,
                                 int quad) {
  const int index = vec.getIdx();
  if (quad == 0)
    vmovups(Xmm(index), source);
  else if (isAvx512())
    vinsertf32x4(Zmm(index), Zmm(index), source, uint8_t(quad));
  else
    vinsertf128(Ymm(index), Ymm(index), source, uint8_t(quad));
}

void VectorAssembler::storeQuad(const RegExp &target, const Vec &vec, int quad,
                                int count, const Vec &temp) {
  Xmm low(vec.getIdx());
  if (quad > 0 && count == 4) {
    if (isAvx512())
      vextractf32x4(ptr[target], Zmm(vec.getIdx()), uint8_t(quad));
    else
      vextractf128(ptr[target], Ymm(vec.getIdx()), uint8_t(quad));
    return;
  }
  if (quad > 0) {
    low = Xmm(temp.getIdx());
    if (isAvx512())
      vextractf32x4(low, Zmm(vec.getIdx()), uint8_t(quad));
    else
      vextractf128(low, Ymm(vec.getIdx()), uint8_t(quad));
  }
  if (count == 4)
    vmovups(ptr[target], low);
  if (count == 2 || count == 3)
    vmovlps(qword[target], low);
  if (count == 3)
    vextractps(dword[target + 8], low, 2);
  if (count == 1)
    vmovss(dword[target], low);
}

void VectorAssembler::storePlanes(const RegExp &target, int64_t planeBytes,
                                  int planes, const Vec &value, const Vec &temp,
                                  const Opmask &lanes) {
  const Zmm term(temp.getIdx());
  const Ymm words(temp.getIdx());
  for (int plane = 0; plane < planes; ++plane) {
    vcvtneps2bf16(words, value);
    const Address place = ptr[target + size_t(plane * planeBytes)];
    vmovdqu16(lanes.getIdx() ? place | lanes : place, words);
    if (plane + 1 < planes) {
      vpmovzxwd(term, words);
      vpslld(term, term, 16);
      vsubps(value, value, term);
    }
  }
}

void VectorAssembler::replaceBeyond(const Vec &vec, const Vec &x, int32_t limit,
                                    float value, const Vec &temp) {
  vpabsd(temp, x);
  if (isAvx512()) {
    const uint8_t greater = 6;
    vpcmpd(k1, temp, constant(limit), greater);
    vblendmps(vec | k1, vec, constant(value));
  } else {
    vpcmpgtd(temp, temp, constant(limit));
    vblendvps(vec, vec, constant(value), temp);
  }
}

void VectorAssembler::broadcastInteger(const Vec &vec, const Reg32 &value) {
  if (isAvx512()) {
    vpbroadcastd(vec, value);
  } else {
    vmovd(Xmm(vec.getIdx()), value);
    vpbroadcastd(vec, Xmm(vec.getIdx()));
  }
}

void VectorAssembler::jumpIfAnyDiffers(const Vec &x, const Vec &y,
                                       const Vec &mask, const Reg64 &temp,
                                       Label &target) {
  const uint8_t notEqual = 4;
  if (isAvx512()) {
    vcmpps(k1, x, y, notEqual);
    kortestw(k1, k1);
  } else {
    vcmpps(mask, x, y, notEqual);
    vmovmskps(temp, mask);
    test(temp, temp);
  }
  jnz(target);
}

void VectorAssembler::enter(int locals) {
  frameLocals = locals;
  for (const Reg64 &reg : kCalleeSaved)
    push(reg);
  sub(rsp, 8 * frameLocals);
}

void VectorAssembler::leave() {
  vzeroupper();
  add(rsp, 8 * frameLocals);
  for (int i = int(std::size(kCalleeSaved)) - 1; i >= 0; --i)
    pop(kCalleeSaved[i]);
  ret();
}

void VectorAssembler::copyArguments(
    const Reg64 &args, const Reg64 &temp,
    std::initializer_list<std::pair<int, size_t>> localsAndOffsets) {
  for (auto [place, offset] : localsAndOffsets) {
    mov(temp, ptr[args + offset]);
    mov(local(place), temp);
  }
}

void VectorAssembler::emitCases(const Reg64 &reg, int first, int last,
                                const std::function<void(int)> &body) {
  Label done;
  for (int value = last; value >= first; --value) {
    Label otherwise;
    cmp(reg, value);
    jne(otherwise);
    body(value);
    jmp(done);
    L(otherwise);
  }
  L(done);
}

void VectorAssembler::emitShareOfTile(const Address &rows, int rowTile,
                                      int lines) {
  mov(rax, rows);
  add(rax, rowTile - 1);
  xor_(edx, edx);
  mov(ecx, rowTile);
  div(rcx);
  mov(rcx, rax);
  add(rax, lines - 1);
  xor_(edx, edx);
  div(rcx);
}

void VectorAssembler::beginSubroutine(Label &label) {
  align(32);
  L(label);
  inSubroutine = true;
}

void VectorAssembler::endSubroutine() {
  ret();
  inSubroutine = false;
}

bool VectorAssembler::finish(std::vector<uint8_t> &code, std::string &error) {
  align(64);
  for (auto &[bits, label] : constants) {
    L(label);
    for (int lane = 0; lane < (isAvx512() ? 1 : lanes()); ++lane)
      dd(bits);
  }
  bool complete = !hasUndefinedLabel();
  if (int code = GetError()) {
    error = std::string("cannot assemble the kernel: ") +
            ConvertErrorToString(code);
    ClearError();
    return false;
  }
  assert(complete && "a label was used but not placed");
  (void)complete;
  code.assign(getCode(), getCode() + getSize());
  return true;
}
