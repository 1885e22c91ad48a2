//===- BenchTileAttention.cpp - attention against the peak of tiles -------===//
///
/// \file
/// Times attention on tiles in alternation with the f32 kernel. See README.md
/// for the method and bench-tile-attention --help for the options.
//===----------------------------------------------------------------------===//

#include "KernelBench.h"
#include "KernelTesting.h"
#include "TileAttentionTesting.h"
#include "TileTesting.h"
#include "codegen/Target/TargetCpu.h"

#include <memory>
#include <string>
#include <vector>

using namespace encast;

namespace {

/// Calls of at most `queries` queries, one after the other from the middle of
/// the sequence on.
void addCase(KernelBench &bench, Arithmetic arithmetic, int64_t keys,
             int64_t heads, int64_t queries, int64_t window) {
  const std::string name(arithmeticName(arithmetic));
  const std::string problem =
      "keys=" + std::to_string(keys) + " heads=" + std::to_string(heads) +
      " queries=" + std::to_string(queries) +
      (window >= 0 ? " window=" + std::to_string(window) : "");
  if (!bench.takes(name, problem))
    return; // Operands are large.
  AttentionShape shape;
  shape.arithmetic = arithmetic;
  shape.headSize = 64;
  shape.scale = 0.125f;
  shape.queryHeads = heads;
  shape.window = window;
  const double seen = window >= 0 ? 2.0 * double(window) + 1 : double(keys);
  const double flops = 4.0 * double(queries * heads) * seen * 64;
  const int64_t position = (keys - queries) / 2;
  if (arithmetic == Arithmetic::F32) {
    shape.ldo = heads * shape.headSize;
    const KernelRow &row =
        *selectKernelRow(KernelFamily::Attention, arithmetic, hostFeatures());
    std::shared_ptr<ExecutableCode> code = attentionCode(row, shape);
    AttentionProblem::Size size;
    size.queries = queries;
    size.keys = keys;
    auto operands = std::make_shared<AttentionProblem>(size, shape, 1);
    auto workspace = std::make_shared<GuardedFloats>(
        attentionWorkspaceBytes(row, shape) / 4);
    bench.add({name, problem, flops, multiplierOf(arithmetic), [=] {
                 AttentionArgs args = {};
                 args.q = operands->q.data();
                 args.k = operands->k.data();
                 args.v = operands->v.data();
                 args.out = operands->out.data();
                 args.queries = queries;
                 args.keys = keys;
                 args.qPlaneBytes = args.kvPlaneBytes =
                     operands->size.slotRows * 64;
                 args.workspace = workspace->data();
                 args.position = position;
                 (*code)(&args);
               }});
    return;
  }
  shape.outPlanes = activationPlanes(arithmetic);
  auto operands = std::make_shared<TileAttentionProblem>(
      TileAttentionProblem::Size{queries, keys, position}, shape, 1);
  operands->packSlowly();
  const KernelRow &row =
      *selectKernelRow(KernelFamily::TileAttention, arithmetic, hostFeatures());
  std::shared_ptr<ExecutableCode> code = attentionCode(row, operands->shape);
  auto workspace = std::make_shared<GuardedFloats>(
      attentionWorkspaceBytes(row, operands->shape) / 4);
  bench.add({name, problem, flops, multiplierOf(arithmetic),
             [=] {
               const TileScope tiles;
               TileAttentionArgs args = {};
               args.q = operands->q.data();
               args.packedK = operands->packedK.data();
               args.packedV = operands->packedV.data();
               args.out = operands->out.data();
               args.queries = queries;
               args.keys = keys;
               args.position = position;
               args.workspace = workspace->data();
               (*code)(&args);
             },
             productsOf(arithmetic)});
}

} // namespace

int main(int argc, char **argv) {
  const KernelBenchOptions options(argc, argv, "bench-tile-attention",
                                   "attention on tiles, heads of 64 dims");
  requireKernelRow(options.bench, "attention_bf16_32_amx");
  KernelBench bench(options);
  const Arithmetic all[] = {Arithmetic::F32, Arithmetic::Bf16,
                            Arithmetic::Bf16x3, Arithmetic::Bf16x6};
  for (int64_t keys : {512, 2048, 8192})
    for (int64_t heads : {1, 2})
      for (int64_t queries : {64, 128, 256, 512})
        for (Arithmetic arithmetic : all)
          addCase(bench, arithmetic, keys, heads, queries, -1);
  for (int64_t heads : {1, 2})
    for (int64_t queries : {64, 128, 256, 512})
      for (Arithmetic arithmetic : all)
        addCase(bench, arithmetic, 2048, heads, queries, 64);
  bench.report();
  return 0;
}
