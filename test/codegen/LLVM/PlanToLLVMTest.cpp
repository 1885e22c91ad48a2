//===- PlanToLLVMTest.cpp - calls of steps, run with hand-made items ------===//
///
/// \file
/// Steps are parsed, lowered, compiled and called as a walker would call them;
/// kernels are functions of the test that keep what they are passed.
//===----------------------------------------------------------------------===//

#include "codegen/LLVM/PlanToLLVM.h"
#include "CompiledModule.h"
#include "codegen/LLVM/EmitObject.h"
#include "encast_abi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace encast;
using namespace encast::test;

namespace {

using Step = void(const encast_abi_context *, const encast_abi_item *);

/// The argument structs that the mock kernel was called with.
std::vector<std::vector<int64_t>> kernelCalls;
template <int Count> void keepArguments(const int64_t *arguments) {
  kernelCalls.emplace_back(arguments, arguments + Count);
}

int64_t addressOf(const void *pointer) {
  return reinterpret_cast<int64_t>(pointer);
}

/// Memory is never touched through these, so numbers are addresses.
char *fakeAddress(int64_t number) { return reinterpret_cast<char *>(number); }

class PlanToLLVMTest : public testing::Test {
protected:
  void SetUp() override {
    std::string missing = missingFeatures("x86-64-v3");
    if (!missing.empty())
      GTEST_SKIP() << "host lacks " << missing;
    loadDialects(context);
    kernelCalls.clear();
    run.slots = slots.data();
    run.weights = weights.data();
    run.block = fakeAddress(0x30000);
    run.workspace = fakeAddress(0x40000);
    run.offsets = offsets.data();
    run.tokens = 100;
    run.sequences = 3;
    run.selected = 7;
    run.picked = 5;
    item.row = 10;
    item.rows = 4;
    item.block = 8;
    item.panel = 3;
    item.panels = 5;
    item.key = 20;
    item.keys = 30;
    item.position = 12;
    item.packed = 64;
  }

  /// Parses slots, weights and one step around `body`, lowers and compiles.
  void compile(const std::string &body, int arguments = 1) {
    static const std::string before = R"mlir(
      "encoder.weight"() {sym_name = "w0"} : () -> ()
      plan.slot @hidden arena rows selected row_bytes 512 offset 0
      plan.slot @packed arena rows packed row_bytes 512 offset 512
      plan.slot @up block row_bytes 32 offset 256
      plan.slot @ids ids
      "encoder.weight"() {sym_name = "w1"} : () -> ()
      plan.slot @scratch workspace row_bytes 4096 offset 512
      plan.slot @pooled output index 0
      "kernel.define"() {sym_name = "kernel"} : () -> ()
      func.func private @keep_row(%x: memref<1xi64>, %n: index,
                                  %y: memref<2xi64>) {
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %v = memref.load %x[%zero] : memref<1xi64>
        %i = arith.index_cast %n : index to i64
        memref.store %v, %y[%zero] : memref<2xi64>
        memref.store %i, %y[%one] : memref<2xi64>
        return
      })mlir";
    module = parseSourceString<ModuleOp>(
        before + "plan.step @step over tokens rows 8 by 1 split 0 {" + body +
            "}",
        &context);
    ASSERT_TRUE(module);
    ASSERT_TRUE(lower(*module));
    ASSERT_TRUE(succeeded(verify(*module)));
    auto keep = arguments == 2   ? &keepArguments<2>
                : arguments == 7 ? &keepArguments<7>
                                 : &keepArguments<1>;
    compiled = std::make_unique<CompiledModule>(
        *module, testTarget("x86-64-v3"),
        std::vector<std::pair<std::string, void *>>{
            {"v0.kernel", reinterpret_cast<void *>(keep)}});
  }
  void call(const std::string &name = "v0.step.0") {
    compiled->find<Step>(name)(&run, &item);
  }

  /// The address that the kernel is passed for `operand`.
  int64_t addressFor(const std::string &operand) {
    compile("plan.call @kernel(" + operand + ")");
    kernelCalls.clear();
    call();
    EXPECT_EQ(kernelCalls.size(), 1u);
    return kernelCalls[0][0];
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::unique_ptr<CompiledModule> compiled;
  // hidden, packed, ids, pooled; w0, w1.
  std::vector<int32_t> ids = std::vector<int32_t>(100, 0);
  std::vector<void *> slots = {fakeAddress(0x10000), fakeAddress(0x12000),
                               ids.data(), fakeAddress(0x11000)};
  std::vector<const void *> weights = {fakeAddress(0x20000),
                                       fakeAddress(0x21000)};
  std::vector<int64_t> offsets = {0, 40, 90, 100};
  encast_abi_context run = {};
  encast_abi_item item = {};
};

/// Rows of 64 bytes, each of which holds its number.
std::vector<std::array<int64_t, 8>> numberedRows(int64_t count) {
  std::vector<std::array<int64_t, 8>> rows(count);
  for (int64_t row = 0; row < count; ++row)
    rows[row][0] = row;
  return rows;
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

TEST_F(PlanToLLVMTest, AddressesOfSlotsAndWeightsCountInTheirOwnTables) {
  EXPECT_EQ(addressFor("@hidden"), 0x10000);
  EXPECT_EQ(addressFor("@pooled + 12"), 0x11000 + 12);
  EXPECT_EQ(addressFor("@w0"), 0x20000);
  EXPECT_EQ(addressFor("@w1 + panel * 1024"), 0x21000 + 3 * 1024);
  EXPECT_EQ(addressFor("@ids + row * 4"), addressOf(&ids[10]));
}

TEST_F(PlanToLLVMTest, AddressTermsAddUp) {
  EXPECT_EQ(addressFor("@hidden + row * 64 + panel * 16 + key * 2 + 5"),
            0x10000 + 10 * 64 + 3 * 16 + 20 * 2 + 5);
}

TEST_F(PlanToLLVMTest, AddressOfAPlaneDependsOnTheRowsOfItsSlot) {
  EXPECT_EQ(addressFor("@hidden + row * 64 + plane(2 + panel * 4, tokens)"),
            0x10000 + 10 * 64 + (2 + 3 * 4) * 100 * 64);
  EXPECT_EQ(addressFor("@hidden + plane(0 + panel * 1, selected)"),
            0x10000 + 3 * 7 * 64);
}

TEST_F(PlanToLLVMTest, PackedRowsCountFromTheSequenceAndThePosition) {
  EXPECT_EQ(addressFor("@packed + packed * 128"), 0x12000 + 64 * 128);
  EXPECT_EQ(addressFor("@packed + packed * 128 + position * 128"),
            0x12000 + (64 + 12) * 128);
}

TEST_F(PlanToLLVMTest, PackedPlanesHaveRoomForBlocksOfEachSequence) {
  // 100 tokens of 3 sequences in blocks of 32.
  EXPECT_EQ(addressFor("@packed + packed * 128 + plane(0 + panel * 2, packed)"),
            0x12000 + 64 * 128 + 3 * 2 * ENCAST_PACKED_ROWS(100, 3) * 64);
}

TEST_F(PlanToLLVMTest, RowsOfABlockSlotCountFromTheRowBlock) {
  EXPECT_EQ(addressFor("@up + row * 32 + panel * 64"),
            0x30000 + 256 + (10 - 8) * 32 + 3 * 64);
}

TEST_F(PlanToLLVMTest, RowsAndPanelsOfAWorkspaceCountFromTheItem) {
  EXPECT_EQ(addressFor("@scratch + row * 32 + panel * 64 + 1"),
            0x40000 + 512 + 1);
}

TEST_F(PlanToLLVMTest, RowsAreTakenByATable) {
  ids[10] = 6;
  EXPECT_EQ(addressFor("@w1[by @ids] + row * 128"), 0x21000 + 6 * 128);
}

TEST_F(PlanToLLVMTest, RowsAreTakenByTheSequence) {
  item.row = 2;
  EXPECT_EQ(addressFor("@hidden[by sequence] + row * 64"), 0x10000 + 90 * 64);
}

TEST_F(PlanToLLVMTest, WeightsAheadAreThereForItemsOfAllPanels) {
  auto ahead = [&] {
    compile("plan.call @kernel(ahead @w1) panels 8");
    kernelCalls.clear();
    call();
    return kernelCalls.at(0).at(0);
  };
  EXPECT_EQ(ahead(), 0);
  item.panel = 0;
  item.panels = 8;
  EXPECT_EQ(ahead(), 0x21000);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

TEST_F(PlanToLLVMTest, CallFillsTheArgumentsInOrder) {
  compile("plan.call @kernel(@hidden, rows, panels, keys, -5, "
          "token_plane_bytes, selected_plane_bytes)",
          7);
  call();
  EXPECT_EQ(kernelCalls, (std::vector<std::vector<int64_t>>{
                             {0x10000, 4, 5, 30, -5, 6400, 448}}));
}

TEST_F(PlanToLLVMTest, CallTakesThePositionOfItsFirstQuery) {
  compile("plan.call @kernel(position, keys)", 2);
  call();
  EXPECT_EQ(kernelCalls, (std::vector<std::vector<int64_t>>{{12, 30}}));
}

TEST_F(PlanToLLVMTest, CallPerHeadKnowsWhereTheNextHeadIs) {
  compile("plan.call @kernel(rows_to_next_head) panels 5 per_head");
  call();
  item.panel = 4;
  call();
  // 100 tokens of three sequences, each packed to a multiple of 32 rows.
  EXPECT_EQ(kernelCalls, (std::vector<std::vector<int64_t>>{{193}, {0}}));
}

TEST_F(PlanToLLVMTest, ForRowsCallsItsProgramForEachRow) {
  auto hidden = numberedRows(100);
  std::vector<std::array<int64_t, 2>> out(8, {-1, -1});
  slots[0] = hidden.data();
  run.block = reinterpret_cast<char *>(out.data()) - 256;
  for (int32_t row = 0; row < 100; ++row)
    ids[row] = 99 - row;
  compile("plan.for_rows @keep_row(@hidden[by @ids] + row * 64, rows, "
          "@up + row * 16)");
  call();
  // The item has rows 10 to 13 of a block that starts at 8.
  std::vector<std::array<int64_t, 2>> expected(8, {-1, -1});
  for (int64_t row = 10; row < 14; ++row)
    expected[row - 8] = {99 - row, 4};
  EXPECT_EQ(out, expected);
}

TEST_F(PlanToLLVMTest, ForRowsFetchesAKilobyteAheadForEachRow) {
  compile("plan.for_rows @keep_row(@hidden, rows, @up) ahead @w1");
  int64_t lines = 0;
  module->walk([&](mlir::LLVM::Prefetch) { ++lines; });
  EXPECT_EQ(lines, 1024 / 64);
  auto hidden = numberedRows(100);
  std::array<int64_t, 2> out = {-1, -1};
  slots[0] = hidden.data();
  run.block = reinterpret_cast<char *>(out.data()) - 256;
  call(); // w1 is no address of memory.
  EXPECT_EQ(out, (std::array<int64_t, 2>{0, 4}));
}

TEST_F(PlanToLLVMTest, ForRowsPassesTheRowsBeforeAndBehind) {
  auto hidden = numberedRows(100);
  std::vector<std::array<int64_t, 2>> out(100, {-1, -1});
  slots[0] = hidden.data();
  slots[3] = out.data();
  for (int32_t row = 0; row < 100; ++row)
    ids[row] = 99 - row;
  compile("plan.for_rows @keep_row(@hidden + row * 64 - 64, 1, "
          "@pooled + row * 16)\n"
          "plan.for_rows @keep_row(@hidden[by @ids] + row * 64 + 64, 2, "
          "@pooled + row * 16)");
  std::vector<std::array<int64_t, 2>> before(100, {-1, -1}), behind = before;
  for (int64_t row = 10; row < 14; ++row) {
    before[row] = {row - 1, 1};
    behind[row] = {99 - row + 1, 2};
  }
  call();
  EXPECT_EQ(out, before);
  call("v0.step.1");
  EXPECT_EQ(out, behind);
}

TEST_F(PlanToLLVMTest, NeighboursOfOtherTilesAreTakenFromTheirEdges) {
  auto hidden = numberedRows(100), edges = numberedRows(50);
  for (auto &edge : edges)
    edge[0] += 1000;
  std::vector<std::array<int64_t, 2>> out(100, {-1, -1});
  slots[0] = hidden.data();
  slots[1] = edges.data();
  slots[3] = out.data();
  auto expectNeighbours = [&](std::vector<int64_t> expected) {
    call();
    for (int64_t i = 0; i < item.rows; ++i)
      EXPECT_EQ(out[item.row + i][0], expected[i]) << item.row + i;
  };
  compile("plan.for_rows @keep_row(@hidden[edges @packed of 4] + row * 64 - 64,"
          " 1, @pooled + row * 16)");
  item.rows = 7; // 10 to 16: the first ones of tiles are 12 and 16.
  expectNeighbours({9, 10, 1000 + 5, 12, 13, 14, 1000 + 7});
  compile("plan.for_rows @keep_row(@hidden[edges @packed of 4] + row * 64 + 64,"
          " 1, @pooled + row * 16)");
  expectNeighbours({11, 1000 + 6, 13, 14, 15, 1000 + 8, 17});
  compile("plan.for_rows @keep_row(@hidden[edges @packed of 1] + row * 64 + 64,"
          " 1, @pooled + row * 16)");
  expectNeighbours({1022, 1024, 1026, 1028, 1030, 1032, 1034});
}

TEST_F(PlanToLLVMTest, ForRowsOfEdgesCopiesTheFirstAndTheLastOfEachTile) {
  auto hidden = numberedRows(100);
  std::vector<std::array<int64_t, 2>> edges(20, {-1, -1});
  slots[0] = hidden.data();
  slots[1] = edges.data();
  compile("plan.for_rows @keep_row(@hidden + row * 64, 1, "
          "@packed[edge of 8] + row * 16) edges_of 8");
  item.row = 6; // To 16: the third tile is not complete.
  item.rows = 11;
  call();
  std::vector<std::array<int64_t, 2>> expected(20, {-1, -1});
  expected[1] = {7, 1};
  expected[2] = {8, 1};
  expected[3] = {15, 1};
  expected[4] = {16, 1};
  EXPECT_EQ(edges, expected);
}

TEST_F(PlanToLLVMTest, SequenceTokensIsTheLengthOfTheRow) {
  auto hidden = numberedRows(100);
  std::vector<std::array<int64_t, 2>> out(3);
  slots[0] = hidden.data();
  slots[3] = out.data();
  item.row = 0;
  item.rows = 3;
  compile("plan.for_rows @keep_row(@hidden[by sequence] + row * 64, "
          "sequence_tokens, @pooled + row * 16)");
  call();
  EXPECT_EQ(out,
            (std::vector<std::array<int64_t, 2>>{{0, 40}, {40, 50}, {90, 10}}));
}

TEST_F(PlanToLLVMTest, ForPanelsWalksInGroupsAndCountsWorkspacesFromThem) {
  auto table = numberedRows(16);
  std::vector<std::array<int64_t, 2>> workspace(4, {-1, -1});
  weights[0] = table.data();
  run.workspace = reinterpret_cast<char *>(workspace.data()) - 512;
  // 120 columns are 8 panels, the last one of 8 columns; the item has 3 to 7.
  compile(R"mlir(
    plan.for_panels columns 120 attributes {panels = 8, panel_tile = 2,
        name = "decoder", modes = 2, outputs = 5, flops_per_row = 77} {
      plan.for_each_panel @keep_row(@w0 + panel * 64, panel_columns,
                                    @scratch + panel * 16)
      plan.call @kernel(@scratch, panels, group_columns, panel_columns,
                        @w1 + panel * 100, @hidden + row * 64, rows)
    })mlir",
          7);
  call();
  auto expected = [&](int64_t panel, int64_t panels, int64_t columns) {
    return std::vector<int64_t>{addressOf(workspace.data()),
                                panels,
                                columns,
                                std::min<int64_t>(columns, 16),
                                0x21000 + panel * 100,
                                0x10000 + 10 * 64,
                                4};
  };
  EXPECT_EQ(kernelCalls,
            (std::vector<std::vector<int64_t>>{
                expected(3, 2, 32), expected(5, 2, 32), expected(7, 1, 8)}));
  // The last group had one panel; the second place holds the group before.
  EXPECT_EQ(workspace, (std::vector<std::array<int64_t, 2>>{
                           {7, 8}, {6, 16}, {-1, -1}, {-1, -1}}));
}

TEST_F(PlanToLLVMTest, ForEachPanelTakesSeveralAtOnce) {
  auto table = numberedRows(16);
  std::vector<std::array<int64_t, 2>> workspace(4, {-1, -1});
  weights[0] = table.data();
  run.workspace = reinterpret_cast<char *>(workspace.data()) - 512;
  // Panels 4 to 7: the last pair has one column.
  item.panel = 4;
  item.panels = 4;
  compile(R"mlir(
    plan.for_panels columns 97 attributes {panels = 8, panel_tile = 4} {
      plan.for_each_panel @keep_row(@w0 + panel * 64, panel_columns,
                                    @scratch + panel * 16) by 2
    })mlir");
  call();
  EXPECT_EQ(workspace, (std::vector<std::array<int64_t, 2>>{
                           {4, 32}, {-1, -1}, {6, 1}, {-1, -1}}));
}

TEST_F(PlanToLLVMTest, ForPanelsWalksOverRowsInItsBody) {
  auto hidden = numberedRows(100);
  std::vector<std::array<int64_t, 2>> out(100 * 8, {-1, -1});
  slots[0] = hidden.data();
  slots[3] = out.data();
  compile(R"mlir(
    plan.for_panels columns 128 attributes {panels = 8, panel_tile = 4} {
      plan.for_rows @keep_row(@hidden + row * 64, panels,
                              @pooled + row * 128 + panel * 16)
    })mlir");
  call();
  std::vector<std::array<int64_t, 2>> expected(100 * 8, {-1, -1});
  for (int64_t row = 10; row < 14; ++row) {
    expected[row * 8 + 3] = {row, 4};
    expected[row * 8 + 7] = {row, 1};
  }
  EXPECT_EQ(out, expected);
}

//===----------------------------------------------------------------------===//
// What is left in the module
//===----------------------------------------------------------------------===//

TEST_F(PlanToLLVMTest, InvokeCarriesWhatTheWalkerNeeds) {
  compile(R"mlir(
    plan.call @kernel(@hidden) {name = "qkv", modes = 1, outputs = 6,
        panels = 9, panel_tile = 4, flops_per_row = 10,
        flops_per_row_and_key = 11, window = 4}
    plan.for_rows @keep_row(@hidden, 1, @pooled)
    plan.for_panels columns 20 attributes {panels = 2} {
      plan.for_each_panel @keep_row(@w0, 1, @pooled)
      plan.call @kernel(@scratch)
    })mlir");
  auto step = *module->getOps<plan::StepOp>().begin();
  auto invokes = llvm::to_vector(step.getBody().getOps<plan::InvokeOp>());
  ASSERT_EQ(invokes.size(), 3u);
  EXPECT_EQ(step.getBody().front().getOperations().size(), 3u);
  EXPECT_EQ(invokes[0].getFunction(), "v0.step.0");
  EXPECT_EQ(invokes[0].getKernel(), "kernel");
  EXPECT_EQ(invokes[0].getName(), "qkv");
  EXPECT_EQ(invokes[0].getModes(), 1u);
  EXPECT_EQ(invokes[0].getOutputs(), 6u);
  EXPECT_EQ(invokes[0].getPanels(), 9u);
  EXPECT_EQ(invokes[0].getPanelTile(), 4u);
  EXPECT_EQ(invokes[0].getFlopsPerRow(), 10u);
  EXPECT_EQ(invokes[0].getFlopsPerRowAndKey(), 11u);
  EXPECT_EQ(invokes[0].getWindow(), 4u);
  EXPECT_EQ(invokes[1].getFunction(), "v0.step.1");
  EXPECT_EQ(invokes[1].getKernel(), "keep_row");
  EXPECT_EQ(invokes[1].getName(), std::nullopt);
  EXPECT_EQ(invokes[2].getKernel(), "kernel");
  EXPECT_EQ(invokes[2].getPanels(), 2u);
}

TEST_F(PlanToLLVMTest, SlotsWeightsAndKernelsStay) {
  compile("plan.call @kernel(@hidden)");
  EXPECT_TRUE(module->getOps<func::FuncOp>().empty());
  std::vector<std::string> slots, weights;
  for (plan::SlotOp slot : collectSlots(*module))
    slots.push_back(slot.getSymName().str());
  for (Operation *weight : collectWeights(*module))
    weights.push_back(SymbolTable::getSymbolName(weight).str());
  EXPECT_EQ(slots,
            (std::vector<std::string>{"hidden", "packed", "ids", "pooled"}));
  EXPECT_EQ(weights, (std::vector<std::string>{"w0", "w1"}));
  EXPECT_TRUE(module->lookupSymbol("up"));
  EXPECT_TRUE(module->lookupSymbol("kernel"));
}

// Compilation may stop at the printed module and resume from it.
TEST_F(PlanToLLVMTest, PrintedModuleGivesTheSameObject) {
  compile(R"mlir(
    plan.call @kernel(@hidden + row * 64)
    plan.for_rows @keep_row(@hidden + row * 64, 1, @pooled))mlir");
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  OwningOpRef<ModuleOp> again = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(again);
  std::vector<uint8_t> first, second;
  std::string error;
  TargetCpu target = testTarget("x86-64-v3");
  ASSERT_TRUE(emitObject(*module, target, first, nullptr, error)) << error;
  ASSERT_TRUE(emitObject(*again, target, second, nullptr, error)) << error;
  EXPECT_EQ(first, second);
  // A module of the llvm stage has nothing left to lower.
  ASSERT_TRUE(lower(*again));
  std::string unchanged;
  llvm::raw_string_ostream(unchanged) << *again;
  EXPECT_EQ(unchanged, text);
}

//===----------------------------------------------------------------------===//
// What cannot be lowered
//===----------------------------------------------------------------------===//

class PlanToLLVMErrorTest : public testing::Test {
protected:
  /// The message of the first error when `text` is parsed and lowered.
  std::string errorOf(const std::string &text, StringRef prefix = "v0.") {
    MLIRContext context;
    loadDialects(context);
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (message.empty())
        message = diagnostic.str();
      return success();
    });
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(!module || !lower(*module, prefix));
    return message;
  }
  std::string errorOfCall(const std::string &call, StringRef prefix = "v0.") {
    return errorOf(R"mlir(
      plan.slot @hidden arena rows tokens row_bytes 64 offset 0
      plan.slot @up block row_bytes 32
      plan.slot @ids ids
      "kernel.define"() {sym_name = "kernel"} : () -> ()
      func.func private @program(%x: memref<16xf32>, %n: index) { return }
      func.func private @outside(%x: memref<16xf32>)
      plan.step @step over tokens rows 8 by 1 split 0 { )mlir" +
                       call + "}",
                   prefix);
  }
};

TEST_F(PlanToLLVMErrorTest, AddressOfSomethingElse) {
  EXPECT_EQ(errorOfCall("plan.call @kernel(@program)"),
            "'plan.call' op reads @program, which is neither a slot nor a "
            "weight");
  EXPECT_EQ(errorOfCall("plan.call @kernel(ahead @program)"),
            "'plan.call' op reads ahead @program, which is no weight");
}

TEST_F(PlanToLLVMErrorTest, CallOfARowProgram) {
  EXPECT_EQ(errorOfCall("plan.call @program(@hidden, 1)"),
            "'plan.call' op calls @program, a row program, where a kernel is "
            "needed");
}

TEST_F(PlanToLLVMErrorTest, ForRowsOfAKernel) {
  EXPECT_EQ(errorOfCall("plan.for_rows @kernel(@hidden)"),
            "'plan.for_rows' op calls @kernel, which is no row program");
  EXPECT_EQ(errorOfCall("plan.for_rows @outside(@hidden)"),
            "'plan.for_rows' op calls @outside, which is no row program");
}

TEST_F(PlanToLLVMErrorTest, OperandsThatDoNotFitTheProgram) {
  EXPECT_EQ(errorOfCall("plan.for_rows @program(@hidden)"),
            "'plan.for_rows' op passes 1 operands to @program, which takes 2");
  EXPECT_EQ(errorOfCall("plan.for_rows @program(1, @hidden)"),
            "'plan.for_rows' op passes operand 0 of type 'i64' to @program, "
            "which takes '!llvm.ptr'");
}

// The verifier of the plan dialect refuses what has no meaning.
TEST_F(PlanToLLVMErrorTest, LocalRowsByATable) {
  EXPECT_EQ(errorOfCall("plan.call @kernel(@up[by @ids] + row * 4)"),
            "'plan.call' op takes rows of @up by a table, but they are local");
  EXPECT_EQ(errorOfCall("plan.call @kernel(@up[by sequence] + row * 4)"),
            "'plan.call' op takes rows of @up by a table, but they are local");
  EXPECT_EQ(errorOfCall("plan.call @kernel(@hidden[by @hidden] + row * 4)"),
            "'plan.call' op takes rows by @hidden, which is no index slot");
}

TEST_F(PlanToLLVMErrorTest, PlanesOfAnotherDomain) {
  EXPECT_EQ(
      errorOfCall("plan.call @kernel(@hidden + plane(0 + panel * 1, picked))"),
      "'plan.call' op has planes of picked, expected tokens, selected or "
      "packed");
}

TEST_F(PlanToLLVMErrorTest, ColumnsOutsideOfForPanels) {
  EXPECT_EQ(errorOfCall("plan.call @kernel(panel_columns)"),
            "'plan.call' op passes panel_columns outside of "
            "'plan.for_panels'");
}

TEST_F(PlanToLLVMErrorTest, PanelsThatCannotBeSplit) {
  EXPECT_EQ(errorOfCall("plan.call @kernel(@hidden) panels 4 by 0"),
            "'plan.call' op attribute 'panel_tile' failed to satisfy "
            "constraint: 64-bit integer from 1 to 65536");
  EXPECT_EQ(errorOfCall(R"mlir(
              plan.for_panels columns 16 attributes {panels = 1} {
                plan.call @kernel(@hidden) {panels = 4}
              })mlir"),
            "'plan.call' op has panels of its own inside of "
            "'plan.for_panels'");
}

TEST_F(PlanToLLVMErrorTest, OperandThatIsNoNumber) {
  EXPECT_EQ(errorOfCall("\"plan.call\"() {callee = @kernel, args = [7 : "
                        "i32]} : () -> ()"),
            "'plan.call' op has an operand that is neither an address nor a "
            "number: 7 : i32");
}

TEST_F(PlanToLLVMErrorTest, NamesThatAreTaken) {
  EXPECT_EQ(errorOfCall("plan.call @kernel(@hidden)", ""),
            "'plan.call' op needs @kernel for its kernel, a name that is "
            "taken");
  EXPECT_EQ(errorOf(R"mlir(
              plan.slot @step.0 arena rows tokens row_bytes 64 offset 0
              func.func private @program(%x: memref<16xf32>) { return }
              plan.step @step over tokens rows 8 by 1 split 0 {
                plan.for_rows @program(@step.0)
              })mlir",
                    ""),
            "'plan.for_rows' op becomes function @step.0, a name that is "
            "taken");
}

} // namespace
