//===- EmitObjectTest.cpp - objects and listings --------------------------===//
///
/// \file
/// What an object holds, whatever CPU the tests run on.
//===----------------------------------------------------------------------===//

#include "codegen/LLVM/EmitObject.h"
#include "CompiledModule.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Object/ELFObjectFile.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace encast;
using namespace encast::test;

namespace {

class EmitObjectTest : public testing::Test {
protected:
  EmitObjectTest() {
    loadDialects(context);
    context.loadDialect<LLVM::LLVMDialect>();
  }

  /// Compiles functions; the error if there is one.
  std::string emit(const std::string &functions,
                   const std::string &target = "x86-64-v3") {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(functions, &context);
    EXPECT_TRUE(module);
    std::string error;
    EXPECT_EQ(emitObject(*module, testTarget(target), object, &assembly, error),
              error.empty());
    return error;
  }

  struct Symbol {
    bool undefined, local, hidden;
  };
  /// Named symbols of the object.
  std::map<std::string, Symbol> symbols() {
    llvm::ExitOnError check;
    auto file = check(
        llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(
            StringRef(reinterpret_cast<char *>(object.data()), object.size()),
            "object")));
    std::map<std::string, Symbol> found;
    for (llvm::object::ELFSymbolRef symbol :
         llvm::cast<llvm::object::ELFObjectFileBase>(*file).symbols()) {
      uint32_t flags = check(symbol.getFlags());
      if (flags & llvm::object::SymbolRef::SF_FormatSpecific)
        continue;
      found[check(symbol.getName()).str()] = {
          bool(flags & llvm::object::SymbolRef::SF_Undefined),
          !(flags & llvm::object::SymbolRef::SF_Global),
          symbol.getOther() == llvm::ELF::STV_HIDDEN};
    }
    return found;
  }

  MLIRContext context;
  std::vector<uint8_t> object;
  std::string assembly;
};

TEST_F(EmitObjectTest, FunctionsAreHiddenOrLocalAndKernelsUndefined) {
  ASSERT_EQ(emit(R"mlir(
    plan.slot @slot arena rows tokens row_bytes 64 offset 0
    llvm.func hidden @v0.kernel(!llvm.ptr)
    llvm.func hidden @v0.unused(!llvm.ptr)
    llvm.func internal @row(%x: !llvm.ptr) attributes {no_inline} {
      %0 = llvm.mlir.constant(1.0 : f32) : f32
      llvm.store %0, %x : f32, !llvm.ptr
      llvm.return
    }
    llvm.func hidden @v0.step.0(%context: !llvm.ptr, %item: !llvm.ptr) {
      llvm.call @row(%item) : (!llvm.ptr) -> ()
      llvm.call @v0.kernel(%item) : (!llvm.ptr) -> ()
      llvm.return
    })mlir"),
            "");
  auto found = symbols();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found.at("row").local);
  EXPECT_TRUE(found.at("v0.kernel").undefined);
  EXPECT_TRUE(found.at("v0.step.0").hidden);
  EXPECT_FALSE(found.at("v0.step.0").undefined);
}

/// A loop that stores zero to (or copies) n floats.
std::string loop(const std::string &value) {
  return R"mlir(
    llvm.func @loop(%x: !llvm.ptr, %y: !llvm.ptr {llvm.noalias}, %n: i64) {
      %zero = llvm.mlir.constant(0 : i64) : i64
      %one = llvm.mlir.constant(1 : i64) : i64
      %nothing = llvm.mlir.constant(0.0 : f32) : f32
      llvm.br ^body(%zero : i64)
    ^body(%i: i64):
      %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %to = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
      %copied = llvm.load %from : !llvm.ptr -> f32
      llvm.store )mlir" +
         value + R"mlir(, %to : f32, !llvm.ptr
      %next = llvm.add %i, %one : i64
      %more = llvm.icmp "slt" %next, %n : i64
      llvm.cond_br %more, ^body(%next : i64), ^end
    ^end:
      llvm.return
    })mlir";
}

TEST_F(EmitObjectTest, LoopsThatFillOrCopyCallNothing) {
  EXPECT_EQ(emit(loop("%nothing")), "");
  EXPECT_EQ(symbols().size(), 1u);
  EXPECT_EQ(emit(loop("%copied")), "");
  EXPECT_EQ(symbols().size(), 1u);
}

TEST_F(EmitObjectTest, NegativeACallThatNothingProvidesIsAnError) {
  EXPECT_EQ(emit(R"mlir(
    llvm.func @copy(%x: !llvm.ptr, %y: !llvm.ptr, %n: i64) {
      "llvm.intr.memcpy"(%x, %y, %n) <{isVolatile = false}>
          : (!llvm.ptr, !llvm.ptr, i64) -> ()
      llvm.return
    })mlir"),
            "generated code calls 'memcpy', which nothing provides");
}

TEST_F(EmitObjectTest, ProductsAreNotFusedIntoSums) {
  std::string code = R"mlir(
    llvm.func @twice(%x: vector<16xf32>, %y: vector<16xf32>, %z: vector<16xf32>)
        -> vector<16xf32> {
      %0 = llvm.fmul %x, %y : vector<16xf32>
      %1 = llvm.fadd %0, %z : vector<16xf32>
      llvm.return %1 : vector<16xf32>
    })mlir";
  for (const char *target : {"x86-64-v3", "x86-64-v4"}) {
    ASSERT_EQ(emit(code, target), "");
    EXPECT_EQ(assembly.find("vfm"), std::string::npos) << assembly;
    EXPECT_NE(assembly.find("vmulps"), std::string::npos);
    EXPECT_NE(assembly.find("vaddps"), std::string::npos);
  }
}

TEST_F(EmitObjectTest, ExplicitFusedMultiplyAddIsOneInstruction) {
  ASSERT_EQ(emit(R"mlir(
    llvm.func @fused(%x: vector<16xf32>, %y: vector<16xf32>, %z: vector<16xf32>)
        -> vector<16xf32> {
      %0 = llvm.intr.fma(%x, %y, %z)
          : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>
      llvm.return %0 : vector<16xf32>
    })mlir"),
            "");
  EXPECT_NE(assembly.find("vfm"), std::string::npos) << assembly;
  EXPECT_EQ(assembly.find("vmulps"), std::string::npos);
}

TEST_F(EmitObjectTest, VectorsAreAsWideAsTheTargetSays) {
  std::string code = R"mlir(
    llvm.func @add(%x: !llvm.ptr, %y: !llvm.ptr) {
      %0 = llvm.load %x {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
      %1 = llvm.fadd %0, %0 : vector<16xf32>
      llvm.store %1, %y {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
      llvm.return
    })mlir";
  ASSERT_EQ(emit(code, "x86-64-v4"), "");
  EXPECT_NE(assembly.find("zmm"), std::string::npos) << assembly;
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(code, &context);
  TargetCpu narrow = testTarget("x86-64-v4");
  narrow.vectorBytes = 32;
  std::string error;
  ASSERT_TRUE(emitObject(*module, narrow, object, &assembly, error)) << error;
  EXPECT_EQ(assembly.find("zmm"), std::string::npos) << assembly;
}

TEST_F(EmitObjectTest, HalvesAreWidenedWithoutALibrary) {
  std::string code = R"mlir(
    llvm.func @widen(%x: !llvm.ptr, %y: !llvm.ptr) {
      %0 = llvm.load %x : !llvm.ptr -> f16
      %1 = llvm.fpext %0 : f16 to f32
      llvm.store %1, %y : f32, !llvm.ptr
      llvm.return
    })mlir";
  EXPECT_EQ(emit(code, "x86-64-v3"), "");
  EXPECT_EQ(emit(code, "x86-64-v4"), "");
}

// Their bits are tested by the row programs that do it.
TEST_F(EmitObjectTest, OneInstructionRoundsToBF16WhereTheTargetHasIt) {
  std::string code = R"mlir(
    llvm.func @round(%x: !llvm.ptr, %y: !llvm.ptr) {
      %0 = llvm.load %x {alignment = 4 : i64} : !llvm.ptr -> vector<32xf32>
      %1 = llvm.fptrunc %0 : vector<32xf32> to vector<32xbf16>
      llvm.store %1, %y {alignment = 2 : i64} : vector<32xbf16>, !llvm.ptr
      llvm.return
    })mlir";
  for (const char *target : {"x86-64-v3", "x86-64-v4"}) {
    ASSERT_EQ(emit(code, target), "");
    EXPECT_EQ(assembly.find("vcvtne"), std::string::npos) << assembly;
  }
  ASSERT_EQ(emit(code, "x86-64-v4+avx512bf16"), "");
  EXPECT_NE(assembly.find("vcvtne2ps2bf16"), std::string::npos) << assembly;
}

TEST_F(EmitObjectTest, SameInputGivesTheSameBytes) {
  ASSERT_EQ(emit(loop("%copied")), "");
  std::vector<uint8_t> first = object;
  std::string text = assembly;
  ASSERT_EQ(emit(loop("%copied")), "");
  EXPECT_EQ(object, first);
  EXPECT_EQ(assembly, text);
}

TEST_F(EmitObjectTest, ModuleStaysAsItIs) {
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(loop("%copied"), &context);
  std::string before, after, error;
  llvm::raw_string_ostream(before) << *module;
  ASSERT_TRUE(
      emitObject(*module, testTarget("x86-64-v3"), object, nullptr, error));
  llvm::raw_string_ostream(after) << *module;
  EXPECT_EQ(before, after);
}

//===----------------------------------------------------------------------===//
// disassemble
//===----------------------------------------------------------------------===//

std::string listing(std::vector<uint8_t> bytes) {
  std::string text, error;
  llvm::raw_string_ostream out(text);
  EXPECT_TRUE(disassemble(bytes, testTarget("x86-64-v4"), out, error)) << error;
  return text;
}

TEST(Disassemble, ListsInstructionsInIntelSyntax) {
  EXPECT_EQ(listing({0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1, // vaddps zmm0, ...
                     0xeb, 0xf8,                         // jmp 0
                     0xc3}),
            "     0:\tvaddps\tzmm0, zmm0, zmm1\n"
            "     6:\tjmp\t0x0\n"
            "     8:\tret\n");
}

TEST(Disassemble, ListsWhatIsNoInstructionAsBytes) {
  EXPECT_EQ(listing({0xc3, 0x06, 0xc5}), "     0:\tret\n"
                                         "     1:\t.byte\t0x06\n"
                                         "     2:\t.byte\t0xc5\n");
}

TEST(Disassemble, ListsNothingForNoBytes) { EXPECT_EQ(listing({}), ""); }

} // namespace
