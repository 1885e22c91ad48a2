// RUN: encast-opt %s --kernel-to-plan --split-input-file | FileCheck %s

!rows = tensor<?x16xf32>
!picked = tensor<?x16xf32, #encoder.rows<picked>>

// Attention needs all rows of its keys, so it is a step of its own and ends
// that before it; the operations around it share a step, block by block.
//
// What another step reads is in the arena, what the own step reads in the
// block; rows of 16 columns take two panels. Attention reads planes, which a block
// has none of, in tiles of the queries that its kernel shares keys among.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @output.tokens output index 0
//   CHECK-DAG: plan.slot @index.ids ids
//   CHECK-DAG: plan.slot @index.pick pick
//   CHECK-DAG: plan.slot @rows.embed block row_bytes 128
//   CHECK-DAG: plan.slot @rows.qkv arena rows tokens row_bytes 192
//   CHECK-DAG: plan.slot @workspace.rows.self workspace row_bytes 4096
//   CHECK-DAG: plan.slot @rows.self arena rows tokens row_bytes 128
//   CHECK-DAG: plan.slot @rows.up block row_bytes 128
//   CHECK-DAG: plan.slot @rows.norm arena rows tokens row_bytes 128
//
//       CHECK: plan.step @step.0.tokens over tokens rows 6 by 6 split 0 layer 1 {
//  CHECK-NEXT:   plan.for_rows @embed(@words[by @index.ids] + row * 64, @rows.embed + row * 128)
//  CHECK-NEXT:   plan.call @linear(@rows.embed + row * 128, @qkv.packed + panel * 1024, @rows.qkv + row * 64 + plane(0 + panel * 1, tokens), 0, 0, rows, panels, token_plane_bytes, 0, 0) name "qkv" panels 3 flops_per_row 1536
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.1.attention_tokens over attention_tokens heads 1 rows 48 by 24 split 0 {
//  CHECK-NEXT:   plan.call @attention(@rows.qkv + row * 64 + plane(0 + panel * 1, tokens), @rows.qkv + key * 64 + plane(1 + panel * 1, tokens), @rows.qkv + key * 64 + plane(2 + panel * 1, tokens), @rows.self + row * 128 + panel * 64, rows, keys, token_plane_bytes, token_plane_bytes, @workspace.rows.self, position) name "self" flops_per_row_and_key 64
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.2.tokens over tokens rows 6 by 6 split 0 {
//  CHECK-NEXT:   plan.call @residual(@rows.self + row * 128, @up.packed + panel * 1024, @rows.up + row * 128 + panel * 64, @g + panel * 64, @rows.self + row * 128 + panel * 64, rows, panels, 64, 0, 0) name "up" panels 1 flops_per_row 512
//  CHECK-NEXT:   plan.for_rows @norm(@rows.up + row * 128, @g, @rows.norm + row * 128) name "norm"
//  CHECK-NEXT: }
//
// Picked rows are another domain than tokens.
//  CHECK-NEXT: plan.step @step.3.picked over picked rows 1 by 1 split 0 {
//  CHECK-NEXT:   plan.for_rows @copy(@rows.norm[by @index.pick] + row * 128, @output.tokens + row * 64) name "tokens"
//  CHECK-NEXT: }
//   CHECK-NOT: func.func @encode
module {
  kernel.define @linear row "linear_f32_6x16_avx2" operands 10
      {k = 16, lda = 32, ldc = 16}
  kernel.define @residual row "linear_f32_6x16_avx2" operands 10
      {k = 16, lda = 32, ldc = 32, ldr = 32, bias}
  kernel.define @attention row "attention_f32_24_avx2" operands 10
      {head_size = 16, ldo = 32, scale = 0.25 : f32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %qkv = kernel.linear @linear(%x, @qkv.packed) panels 3 by 1 rows by 6
        panel_major {layer = 1 : i64, name = "qkv"} : !rows -> tensor<?x48xf32>
    %a = kernel.attention @attention(%qkv, %qkv, %qkv) planes [0, 1, 2] heads 1
        by 1 of 1 rows 48 by 24 workspace 4096 {name = "self"}
        : tensor<?x48xf32>, tensor<?x48xf32>, tensor<?x48xf32> -> !rows
    %u = kernel.linear @residual(%a, @up.packed bias @g residual %a : !rows)
        panels 1 by 1 rows by 6 {name = "up"} : !rows -> !rows
    %n = kernel.rows @norm(%u) weights [@g] {name = "norm"} : (!rows) -> !rows
    kernel.output "tokens" columns 16 per_token
    kernel.store @copy(%n) to "tokens" columns 0, 16 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
  encoder.weight @qkv.packed : tensor<3x16x16xf32> {
    %0 = encoder.tensor "qkv" in "model.safetensors" : tensor<48x16xf32>
    %1 = kernel.pack %0 : tensor<48x16xf32> -> tensor<3x16x16xf32>
    encoder.yield %1 : tensor<3x16x16xf32>
  }
  encoder.weight @up.packed : tensor<1x16x16xf32> {
    %0 = encoder.tensor "up" in "model.safetensors" : tensor<16x16xf32>
    %1 = kernel.pack %0 : tensor<16x16xf32> -> tensor<1x16x16xf32>
    encoder.yield %1 : tensor<1x16x16xf32>
  }
  encoder.weight @g : tensor<16xf32> {
    %0 = encoder.tensor "g" in "model.safetensors" : tensor<16xf32>
    encoder.yield %0 : tensor<16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!selected = tensor<?x16xf32, #encoder.rows<selected>>
!demanded = tensor<?x16xf32, #encoder.rows<demanded>>
!sequences = tensor<?x16xf32, #encoder.rows<sequences>>

// Both sides of an either share a slot, as one is computed in a run. Calls of
// the side of all rows run in mode 1, of the other in mode 2, what both need in
// both.
//
// An output that needs neither is asked for by bit 1, and so are its calls;
// its value needs memory for that output only.
// CHECK-LABEL: kernel.output "cls"
//   CHECK-DAG: plan.slot @rows.embed arena rows tokens row_bytes 128{{$}}
//   CHECK-DAG: plan.slot @rows.all arena rows selected row_bytes 128 outputs 1
//   CHECK-DAG: plan.slot @rows.first.first block row_bytes 128
//   CHECK-DAG: plan.slot @rows.mean block row_bytes 128
//   CHECK-NOT: plan.slot @rows.some
//       CHECK: plan.step @step.0.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @embed({{[^)]*}}){{$}}
//  CHECK-NEXT:   plan.for_rows @norm(@rows.embed + row * 128, @rows.all + row * 128) name "all" modes 1 outputs 1
//       CHECK: plan.step @step.1.selected over selected
//  CHECK-NEXT:   plan.for_rows @norm(@rows.embed[by @index.selected] + row * 128, @[[S:.*]] + row * 128) {{.*}}modes 2 outputs 1
//  CHECK-NEXT:   plan.for_rows @norm(@[[S]] + row * 128, @rows.all + row * 128) name "some" modes 2 outputs 1
//       CHECK: plan.step @step.2.sequences over sequences
//  CHECK-NEXT:   plan.for_rows @norm(@rows.all[by @index.first] + row * 128, @rows.first.first + row * 128) name "first" outputs 1
//  CHECK-NEXT:   plan.for_rows @pool(@rows.embed[by sequence] + row * 128, sequence_tokens, @rows.mean + row * 128) name "mean" outputs 2
//  CHECK-NEXT:   plan.for_rows @norm(@rows.first.first + row * 128, @output.cls + row * 64) name "cls" outputs 1
//  CHECK-NEXT:   plan.for_rows @copy_8(@rows.mean + row * 128 + 32, @output.mean + row * 32) name "mean" outputs 2
module {
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr)
  func.func private @copy_8(!llvm.ptr, !llvm.ptr)
  func.func private @pool(!llvm.ptr, index, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %all = kernel.rows @norm(%x) {name = "all"} : (!rows) -> !rows
    %s = kernel.gather @norm(%x) by selected : !rows -> !selected
    %t = kernel.rows @norm(%s) {name = "some"} : (!selected) -> !selected
    %d = encoder.either all %all selected %t : !rows, !selected -> !demanded
    %f = kernel.gather @norm(%d) by first {name = "first"}
        : !demanded -> !sequences
    %m = kernel.pool @pool(%x) {name = "mean"} : !rows -> !sequences
    kernel.output "cls" columns 16
    kernel.store @norm(%f) to "cls" columns 0, 16 : !sequences
    kernel.output "mean" columns 8 all_rows
    kernel.store @copy_8(%m) to "mean" columns 8, 8 : !sequences
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!picked = tensor<?x16xf32, #encoder.rows<picked>>

// A head over a vocabulary walks over groups of panels: each is packed into the
// workspace, multiplied there and copied to the caller's memory. It is a step of
// its own, whose blocks are larger.
// CHECK-LABEL: kernel.output "logits"
//   CHECK-DAG: plan.slot @panels.logits workspace row_bytes 3072
//   CHECK-DAG: plan.slot @group.logits workspace rows picked row_bytes 192
//   CHECK-DAG: plan.slot @[[P:.*]] arena rows picked row_bytes 128
//       CHECK: plan.step @step.1.picked over picked rows 1 by 1
//  CHECK-NEXT:   plan.for_rows @copy(@rows.embed[by @index.pick] + row * 128, @[[P]] + row * 128)
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.2.picked over picked rows 8 by 8
//  CHECK-NEXT:   plan.for_panels columns 40 name "head" panels 3 by 3 flops_per_row 1280 {
//  CHECK-NEXT:     plan.for_each_panel @transpose(@words + panel * 512, panel_columns, @panels.logits + panel * 1024)
//  CHECK-NEXT:     plan.call @linear(@[[P]] + row * 128, @panels.logits + panel * 1024, @group.logits + row * 192, @bias.packed + panel * 64, 0, rows, panels, 64, 0, 0)
//  CHECK-NEXT:     plan.for_rows @store(@group.logits + row * 192, group_columns, @output.logits + row * 160 + panel * 64)
//  CHECK-NEXT:   }
module {
  kernel.define @linear row "linear_f32_8x48_avx512" operands 10
      {k = 16, lda = 32, ldc = 48, bias}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func private @transpose(!llvm.ptr, index, !llvm.ptr)
  func.func private @store(!llvm.ptr, index, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %p = kernel.gather @copy(%x) by pick : !rows -> !picked
    kernel.output "logits" columns 40 per_token
    kernel.linear_store @linear(%p, @words bias @bias.packed
        transpose @transpose) to "logits" by @store columns 40 panels by 3
        rows by 8 {name = "head"} : !picked
    return
  }
  encoder.weight @words : tensor<40x16xbf16> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<40x16xbf16>
    encoder.yield %0 : tensor<40x16xbf16>
  }
  encoder.weight @bias.packed : tensor<48xf32> {
    %0 = encoder.tensor "bias" in "model.safetensors" : tensor<40xf32>
    %1 = kernel.pack %0 : tensor<40xf32> -> tensor<48xf32>
    encoder.yield %1 : tensor<48xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!picked = tensor<?x16xf32, #encoder.rows<picked>>

// What nothing reads has neither a call nor memory.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-NOT: dead
//       CHECK: plan.step @step.0.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @copy(@words[by @index.ids]
//  CHECK-NEXT: }
//   CHECK-NOT: dead
//       CHECK: plan.for_rows @copy(@rows.embed[by @index.pick]
module {
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @copy(%ids) in [@words] : tensor<?xi32> -> !rows
    %0 = kernel.rows @copy(%x) {name = "dead"} : (!rows) -> !rows
    kernel.output "tokens" columns 16 per_token
    kernel.store @copy(%x) to "tokens" columns 0, 16 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!selected = tensor<?x16xf32, #encoder.rows<selected>>
!demanded = tensor<?x16xf32, #encoder.rows<demanded>>
!picked = tensor<?x16xf32, #encoder.rows<picked>>

// Where all outputs are per token, picked rows are those of the tail: it stores
// them from its block, and makes what a head multiplies.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.all block row_bytes 128
//   CHECK-DAG: plan.slot @rows.some.selected block row_bytes 128
//   CHECK-DAG: plan.slot @[[H:.*split]] arena rows selected row_bytes 128 outputs 2
//   CHECK-NOT: index.pick
//       CHECK: plan.step @step.0.tokens over tokens
//       CHECK:   plan.for_rows @norm({{.*}}, @rows.all + row * 128) name "all" modes 1{{$}}
//  CHECK-NEXT:   plan.for_rows @split(@rows.all + row * 128, @[[H]] + row * 128) name "split" modes 1 outputs 2
//  CHECK-NEXT:   plan.for_rows @copy(@rows.all + row * 128, @output.tokens + row * 64) name "tokens" modes 1 outputs 1
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.1.selected over selected
//       CHECK:   plan.for_rows @norm({{.*}}, @rows.some.selected + row * 128) name "some" modes 2{{$}}
//  CHECK-NEXT:   plan.for_rows @split(@rows.some.selected + row * 128, @[[H]] + row * 128) name "split" modes 2 outputs 2
//  CHECK-NEXT:   plan.for_rows @copy(@rows.some.selected + row * 128, @output.tokens + row * 64) name "tokens" modes 2 outputs 1
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.2.selected over selected
//  CHECK-NEXT:   plan.for_panels columns 40 name "head" panels 3 by 3 outputs 2 flops_per_row 1280 {
//       CHECK:     plan.call @linear(@[[H]] + row * 128,
module {
  kernel.define @linear row "linear_f32_8x48_avx512" operands 10
      {k = 16, lda = 32, ldc = 48}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr)
  func.func private @split(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func private @transpose(!llvm.ptr, index, !llvm.ptr)
  func.func private @store(!llvm.ptr, index, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %all = kernel.rows @norm(%x) {name = "all"} : (!rows) -> !rows
    %s = kernel.gather @copy(%x) by selected : !rows -> !selected
    %some = kernel.rows @norm(%s) {name = "some"} : (!selected) -> !selected
    %d = encoder.either all %all selected %some : !rows, !selected -> !demanded
    %p = kernel.gather @copy(%d) by pick : !demanded -> !picked
    %h = kernel.rows @split(%p) {name = "split"} : (!picked) -> !picked
    kernel.output "tokens" columns 16 per_token
    kernel.store @copy(%d) to "tokens" columns 0, 16 pick : !demanded
    kernel.output "logits" columns 40 per_token
    kernel.linear_store @linear(%h, @words transpose @transpose) to "logits"
        by @store columns 40 panels by 3 rows by 8 {name = "head"} : !picked
    return
  }
  encoder.weight @words : tensor<40x16xbf16> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<40x16xbf16>
    encoder.yield %0 : tensor<40x16xbf16>
  }
}

// -----

!rows = tensor<?x16xf32>
!selected = tensor<?x16xf32, #encoder.rows<selected>>
!demanded = tensor<?x16xf32, #encoder.rows<demanded>>
!sequences = tensor<?x16xf32, #encoder.rows<sequences>>

// An output per sequence wants first rows too, which come behind those given.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @[[D:rows.all]] arena rows selected row_bytes 128
//       CHECK: plan.for_rows @copy(@[[D]][by @index.pick] + row * 128, @output.tokens + row * 64) name "tokens" outputs 1
module {
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %all = kernel.rows @norm(%x) {name = "all"} : (!rows) -> !rows
    %s = kernel.gather @copy(%x) by selected : !rows -> !selected
    %some = kernel.rows @norm(%s) {name = "some"} : (!selected) -> !selected
    %d = encoder.either all %all selected %some : !rows, !selected -> !demanded
    %f = kernel.gather @copy(%d) by first : !demanded -> !sequences
    kernel.output "tokens" columns 16 per_token
    kernel.store @copy(%d) to "tokens" columns 0, 16 pick : !demanded
    kernel.output "first" columns 16
    kernel.store @copy(%f) to "first" columns 0, 16 : !sequences
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}
