//===- Passes.td - passes that stay inside one dialect ------*- tablegen -*-===//

#ifndef ENCAST_COMPILER_TRANSFORMS_PASSES
#define ENCAST_COMPILER_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def FuseActivationIntoLinearPass
    : Pass<"encoder-fuse-activation-into-linear", "::mlir::func::FuncOp"> {
  let summary = "make activations part of the linear before them";
  let description = [{
    ```mlir
    %0 = encoder.linear %x, @w : ...
    %1 = encoder.activation gelu %0 : ...
    // becomes
    %1 = encoder.linear %x, @w activation gelu : ...
    ```
    Declines if the value before the activation has other readers.
  }];
  let dependentDialects = ["::encast::encoder::EncoderDialect"];
}

def FuseGateIntoLinearPass
    : Pass<"encoder-fuse-gate-into-linear", "::mlir::func::FuncOp"> {
  let summary = "make products of two linears of one input one linear";
  let description = [{
    ```mlir
    %0 = encoder.linear %x, @gate activation silu : ...
    %1 = encoder.linear %x, @up : ...
    %2 = encoder.multiply %0, %1 : ...
    // becomes
    %2 = encoder.linear %x, @up gate @gate activation silu : ...
    ```
    Declines if one of the linears has other readers, a residual or a gate, if
    both have an activation, or if only one has a bias.
  }];
  let dependentDialects = ["::encast::encoder::EncoderDialect"];
}

def FuseResidualIntoLinearPass
    : Pass<"encoder-fuse-residual-into-linear", "::mlir::func::FuncOp"> {
  let summary = "make additions part of the linear before them";
  let description = [{
    ```mlir
    %0 = encoder.linear %x, @w : ...
    %1 = encoder.add %0, %y : ...
    // becomes
    %1 = encoder.linear %x, @w residual %y : ...
    ```
    Declines if the linear has other readers or a residual already.
  }];
  let dependentDialects = ["::encast::encoder::EncoderDialect"];
}

def FoldAttentionScalePass
    : Pass<"encoder-fold-attention-scale", "::mlir::ModuleOp"> {
  let summary = "fold powers of two of the attention scale into the query";
  let description = [{
    ```mlir
    %q = encoder.linear %x, @query bias @query.bias : ...
    %0 = encoder.attention %q, %k, %v heads 12 scale 1.250000e-01 : ...
    // becomes, with `encoder.scale %0 by 1.250000e-01` in both recipes
    %0 = encoder.attention %q, %k, %v heads 12 scale 1.000000e+00 : ...
    ```
    Only powers of two are folded: they keep every weight exact, also one that is
    exactly bf16. A rotation of the query may stand between, a norm may not: it
    would undo the scale. Declines if the query or its weights have other readers.
  }];
  let dependentDialects = ["::encast::encoder::EncoderDialect"];
}

def AssignPrecisionPass
    : Pass<"encoder-assign-precision", "::mlir::func::FuncOp"> {
  let summary = "choose how exact the products of linears and attention are";
  let description = [{
    With `precision=bf16`:
    ```mlir
    %0 = encoder.linear %x, @w : ...
    // becomes
    %0 = encoder.linear %x, @w precision bf16 : ...
    ```
    A precision other than f32 that an operation has already stays. See the
    `precision` of the encoder dialect for what each means.
  }];
  let options = [
    Option<"precision", "precision", "::encast::encoder::Precision",
           "::encast::encoder::Precision::F32", "of linears and attention", [{
             ::llvm::cl::values(
                 clEnumValN(::encast::encoder::Precision::F32, "f32",
                            "as f32, or better"),
                 clEnumValN(::encast::encoder::Precision::Bf16x3, "bf16x3",
                            "operands of two bf16 terms"),
                 clEnumValN(::encast::encoder::Precision::Bf16, "bf16",
                            "operands rounded to bf16"))
           }]>];
  let dependentDialects = ["::encast::encoder::EncoderDialect"];
}

def DemandRowsPass : Pass<"encoder-demand-rows", "::mlir::func::FuncOp"> {
  let summary = "compute the last layer only for rows that outputs ask for";
  let description = [{
    Outputs that read the first token of each sequence, or rows that the caller
    gives, need the tail of the last layer (query, output projection,
    feed-forward) for those rows only; its keys and values, or the input of its
    convolution, stay for all rows. The tail is cloned behind
    `encoder.select_rows`:

    ```mlir
    %h = ...tail of %x, with keys and values of all rows...
    %0 = encoder.first %h : ...
    // becomes
    %s = encoder.select_rows %x : ...
    %t = ...tail of %s, with the same keys and values...
    %d = encoder.either all %h selected %t : ...
    %0 = encoder.first %d : ...
    ```
    A norm of what the tail reads anyway is computed for both.
    The tail for all rows stays only if an output may need it. Outputs that need
    all rows in any case (pooling over tokens) are marked `all_rows`.
  }];
  let dependentDialects = ["::encast::encoder::EncoderDialect"];
}

def MergeLinearsPass : Pass<"encoder-merge-linears", "::mlir::ModuleOp"> {
  let summary = "merge the query, key and value linears of one input";
  let description = [{
    ```mlir
    %q = encoder.linear %x, @query bias @query.bias : ...
    %k = encoder.linear %x, @key bias @key.bias : ...
    // becomes
    %0 = encoder.linear %x, @query_key.weight bias @query_key.bias : ...
    %q = encoder.columns %0 from 0 : ...
    %k = encoder.columns %0 from 384 : ...
    ```
    Merges linears of the same input that only attention reads, if the same runs
    need them (a query for selected rows stays apart from keys of all rows).
    Declines if heads are normalized or rotated in front of attention: these lie
    in another layout than those that attention reads at once. Matrices of bf16
    stay apart from others: targets with tiles multiply them faster.
  }];
  let dependentDialects = ["::encast::encoder::EncoderDialect"];
}

def TileRowsPass : Pass<"plan-tile-rows", "::mlir::ModuleOp"> {
  let summary = "choose the rows of a step's blocks for the target's caches";
  let description = [{
    The block slots of a step, with the panels of a linear that are in use, take
    about half of the target's L2; a block has at least 96 rows, where kernels
    are fast, and at most 192. Tiles multiply so fast that a block of 256 rows
    pays for reading the weights, or of 128 rows of three planes, whose
    activations fill the L2 then; twice these where panels are packed for each
    block. Few rows are split by panels, so that two threads do not both stream
    all weights.

    ```mlir
    plan.step @step.2.tokens over tokens rows 8 by 8 split 0 {
    // becomes
    plan.step @step.2.tokens over tokens rows 96 by 8 split 64 {
    ```
  }];
  let dependentDialects = ["::encast::plan::PlanDialect"];
}

def AssignMemoryPass : Pass<"plan-assign-memory", "::mlir::ModuleOp"> {
  let summary = "give slots offsets in the arena, in blocks, in workspaces";
  let description = [{
    Two slots of the arena may have the same bytes of a row if one is read for the
    last time in a step before the other is written; and all of them, if that is
    in the same step by an earlier call, where both touch the rows of their block
    only. So neighbours of a row that lie in another tile may be copied elsewhere
    (`edges_of`); where nothing is written over the rows, that copy is dropped. A
    row is seldom longer than what lives in one step: the better of two orders of
    placing is taken. Block slots share bytes likewise within their
    step. Workspaces start at 0, because only one call uses them at a time.

    ```mlir
    plan.slot @rows.x arena rows tokens row_bytes 1536
    // becomes
    plan.slot @rows.x arena rows tokens row_bytes 1536 offset 3072
    plan.memory block 884736 workspace 53248
    ```
  }];
  let dependentDialects = ["::encast::plan::PlanDialect"];
}

#endif // ENCAST_COMPILER_TRANSFORMS_PASSES
