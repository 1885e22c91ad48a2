// RUN: encast-opt %s --kernel-to-plan --split-input-file | FileCheck %s

!rows = tensor<?x64xf32>
!planes = tensor<?x2x64xbf16>
!keys = tensor<?x2x32xbf16>

// Planes are rows of bf16: 2 planes of 64 columns, and 32 more that keep rows from
// sharing cache sets, take 320 bytes. A panel of planes is 32 bytes wide; the bytes
// of a packed weight's panel are half of a pair's.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.split block row_bytes 320
//   CHECK-DAG: plan.slot @workspace.rows.up workspace row_bytes 4096
//   CHECK-DAG: plan.slot @rows.up block row_bytes 320
//   CHECK-DAG: plan.slot @rows.k block row_bytes 192
//   CHECK-DAG: plan.slot @rows.self.packed arena rows packed row_bytes 256
//       CHECK: plan.step @step.0.tokens over tokens rows 32 by 32
//       CHECK:   plan.for_rows @split(@rows.embed + row * 256, @rows.split + row * 320) name "split" ahead @w.packed{{$}}
//  CHECK-NEXT:   plan.call @up(@rows.split + row * 320, @w.packed + panel * 4096, @rows.up + row * 320 + panel * 32, @bias + panel * 64, 0, rows, panels, 32, @workspace.rows.up, ahead @w.packed) name "up" panels 4 by 2 flops_per_row 8192
//
// A linear adds f32 to planes' products.
//  CHECK-NEXT:   plan.call @down(@rows.up + row * 320, @w.packed + panel * 4096, @rows.[[DOWN:.*]] + row * 256 + panel * 64, 0, @rows.embed + row * 256 + panel * 64, rows, panels, 64, 0, ahead @w.packed) name "down"
//  CHECK-NEXT:   plan.for_rows @query(@rows.[[DOWN]] + row * 256, @index.positions + row * 4, @rope, @rows.q + row * 320) name "q"
//  CHECK-NEXT:   plan.for_rows @key(@rows.[[DOWN]] + row * 256, @rows.k + row * 192) name "k"{{$}}
//
// Keys and values are packed by the step that makes them, in blocks of 32 tokens of
// a sequence, each head behind all tokens of the head before; here there is one, of
// two planes of 32 columns, and values lie behind keys.
//  CHECK-NEXT:   plan.call @pack(@rows.k + row * 192 + panel * 64, @rows.k + row * 192 + panel * 64, @rows.self.packed + packed * 128 + position * 128 + plane(0 + panel * 2, packed), @rows.self.packed + packed * 128 + position * 128 + plane(2 + panel * 2, packed), rows, @index.positions + row * 4) name "self" panels 1 per_head{{$}}
//  CHECK-NEXT: }
//
// Attention to all keys is a step of its own. A call reads both heads of queries,
// the packed rows of its sequence from the first, and writes planes over those of
// the queries.
//  CHECK-NEXT: over attention_tokens heads 1 rows 512 by 32 split 0 layer 1
//  CHECK-NEXT:   plan.call @attention(@rows.q + row * 320 + panel * 128, @rows.self.packed + packed * 128 + plane(0 + panel * 2, packed), @rows.self.packed + packed * 128 + plane(2 + panel * 2, packed), @rows.q + row * 320 + panel * 128, rows, keys, position, @workspace.rows.q, 0) name "self" flops_per_row_and_key 256
module {
  kernel.define @up row "linear_bf16x3_32x32_amx" operands 10
      {k = 64, lda = 160, ldc = 160, bias, planes = 2, plane_stride = 64}
  kernel.define @down row "linear_bf16x3_32x32_amx" operands 10
      {k = 64, lda = 160, ldc = 64, ldr = 64}
  kernel.define @pack row "attention_pack_bf16x3_avx512" operands 6
      {head_size = 32, ldkv = 96, kv_plane_stride = 32}
  kernel.define @attention row "attention_bf16x3_32_amx" operands 9
      {head_size = 32, query_heads = 2, ldq = 160, q_plane_stride = 64,
       ldo = 160, planes = 2, plane_stride = 64}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @split(!llvm.ptr, !llvm.ptr)
  func.func private @query(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @key(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %p = kernel.rows @split(%x) {name = "split"} : (!rows) -> !planes
    %u = kernel.linear @up(%p, @w.packed bias @bias) panels 4 by 2 rows by 32
        workspace 4096 {name = "up"} : !planes -> !planes
    %d = kernel.linear @down(%u, @w.packed residual %x : !rows) panels 4 by 2
        rows by 32 {name = "down"} : !planes -> !rows
    %q = kernel.heads @query(%d at %at : tensor<?xi32>) column 0
        weights [@rope] {name = "q"} : !rows -> !planes
    %k = kernel.heads @key(%d) column 0 weights [] {name = "k"} : !rows -> !keys
    %pk, %pv = kernel.attention_pack @pack(%k, %k) heads 1 row_bytes 128
        {name = "self", layer = 1 : i64} : !keys
    %a = kernel.tile_attention @attention(%q, %pk, %pv) heads 2 by 1
        row_bytes 128 rows 512 by 32 workspace 8192
        {name = "self", layer = 1 : i64} : !planes, !keys -> !planes
    %o = kernel.linear @down(%a, @w.packed residual %d : !rows) panels 4 by 2
        rows by 32 {name = "out"} : !planes -> !rows
    kernel.output "tokens" columns 64 per_token
    kernel.store @copy(%o) to "tokens" columns 0, 64 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
  encoder.weight @w.packed : tensor<2x2x2048xbf16> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<64x64xf32>
    %1 = kernel.pack_tiles %0 planes 2 : tensor<64x64xf32> -> tensor<2x2x2048xbf16>
    encoder.yield %1 : tensor<2x2x2048xbf16>
  }
  encoder.weight @bias : tensor<64xf32> {
    %0 = encoder.tensor "bias" in "model.safetensors" : tensor<64xf32>
    encoder.yield %0 : tensor<64xf32>
  }
  encoder.weight @rope : tensor<512x32xf32> {
    %0 = encoder.rope_table theta 10000.0 : tensor<512x32xf32>
    encoder.yield %0 : tensor<512x32xf32>
  }
}

// -----

!rows = tensor<?x64xf32>
!planes = tensor<?x1x64xbf16>
!keys = tensor<?x1x64xbf16>
!selected = tensor<?x64xf32, #encoder.rows<selected>>
!some = tensor<?x1x64xbf16, #encoder.rows<selected>>
!demanded = tensor<?x64xf32, #encoder.rows<demanded>>

// Selected queries find the same packed rows, two heads of one plane each. A tail
// for selected rows packs nothing anew. Attention of all tokens to a window is part
// of a step over rows: it reads rows of its neighbours, so it begins one.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.self.packed arena rows packed row_bytes 256
//   CHECK-DAG: plan.slot @rows.query.selected arena rows selected row_bytes 192
//       CHECK: plan.step @step.0.tokens
//       CHECK:   plan.call @pack(@{{.*}} + row * 192 + panel * 64, {{.*}}, @rows.self.packed + packed * 64 + position * 64 + plane(0 + panel * 1, packed), @rows.self.packed + packed * 64 + position * 64 + plane(2 + panel * 1, packed), {{.*}}) name "self" panels 2 per_head{{$}}
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.1.tokens over tokens
//  CHECK-NEXT:   plan.call @attention(@{{.*}} + row * 192 + panel * 64, {{.*}}) name "all" panels 2 per_head modes 1 flops_per_row_and_key 256 window 4{{$}}
//       CHECK: plan.step @step.3.attention_runs over attention_runs heads 2 rows 512 by 32
//  CHECK-NEXT:   plan.call @attention(@rows.query.selected + row * 192 + panel * 64, @rows.self.packed + packed * 64 + plane(0 + panel * 1, packed), @rows.self.packed + packed * 64 + plane(2 + panel * 1, packed), @rows.some.selected + row * 256 + panel * 128, rows, keys, position, @workspace.{{.*}}, 0) name "some" modes 2 flops_per_row_and_key 256 window 4{{$}}
module {
  kernel.define @pack row "attention_pack_bf16_avx512" operands 6
      {head_size = 32, ldkv = 96, kv_plane_stride = 64}
  kernel.define @attention row "attention_bf16_32_amx" operands 9
      {head_size = 32, ldq = 96, q_plane_stride = 64, ldo = 64, window = 4}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @heads(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %k = kernel.heads @heads(%x) column 0 weights [] : !rows -> !keys
    %pk, %pv = kernel.attention_pack @pack(%k, %k) heads 2 row_bytes 64
        {name = "self"} : !keys
    %a = kernel.tile_attention @attention(%k, %pk, %pv) heads 2 by 2
        row_bytes 64 rows 512 by 32 workspace 8192 {name = "all"}
        : !planes, !keys -> !rows
    %s = kernel.gather @copy(%x) by selected : !rows -> !selected
    %q = kernel.heads @heads(%s) column 0 weights [] {name = "query"}
        : !selected -> !some
    %b = kernel.tile_attention @attention(%q, %pk, %pv) heads 2 by 2
        row_bytes 64 rows 512 by 32 workspace 8192 {name = "some"}
        : !some, !keys -> !selected
    %d = encoder.either all %a selected %b : !rows, !selected -> !demanded
    kernel.output "tokens" columns 64 per_token
    kernel.store @copy(%d) to "tokens" columns 0, 64 pick : !demanded
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
}

// -----

!rows = tensor<?x64xf32>
!picked = tensor<?x64xf32, #encoder.rows<picked>>
!planes = tensor<?x1x64xbf16, #encoder.rows<picked>>

// A head over a vocabulary goes by groups of pairs of panels: 97 columns have seven
// panels, and one more to make pairs. A table is packed a pair at a time.
// CHECK-LABEL: kernel.output "tied"
//   CHECK-DAG: plan.slot @group.tied workspace rows picked row_bytes 512
//   CHECK-DAG: plan.slot @panels.tied workspace row_bytes 16384
//   CHECK-DAG: plan.slot @workspace.tied workspace row_bytes 4096
//       CHECK:   plan.for_panels columns 97 name "head" panels 8 by 8 outputs 1 flops_per_row 12416 {
//  CHECK-NEXT:     plan.for_each_panel @transpose(@words + panel * 2048, panel_columns, @panels.tied + panel * 2048) by 2
//  CHECK-NEXT:     plan.call @tied(@[[P:rows.split]] + row * 192, @panels.tied + panel * 2048, @group.tied + row * 512, @bias + panel * 64, 0, rows, panels, 64, @workspace.tied, 0)
//  CHECK-NEXT:     plan.for_rows @store(@group.tied + row * 512, group_columns, @output.tied + row * 388 + panel * 64)
//  CHECK-NEXT:   }
//       CHECK:   plan.for_panels columns 97 panels 8 by 8 outputs 2 flops_per_row 12416 {
//  CHECK-NEXT:     plan.call @own(@[[P]] + row * 192, @own.packed + panel * 2048, @group.own + row * 512, 0, 0, rows, panels, 64, @workspace.own, 0)
//  CHECK-NEXT:     plan.for_rows @store(@group.own + row * 512, group_columns, @output.own + row * 388 + panel * 64)
module {
  kernel.define @tied row "linear_bf16_32x32_amx" operands 10
      {k = 64, lda = 96, ldc = 128, bias}
  kernel.define @own row "linear_bf16_32x32_amx" operands 10
      {k = 64, lda = 96, ldc = 128}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func private @transpose(!llvm.ptr, index, !llvm.ptr)
  func.func private @store(!llvm.ptr, index, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %p = kernel.gather @copy(%x) by pick : !rows -> !picked
    %s = kernel.rows @copy(%p) {name = "split"} : (!picked) -> !planes
    kernel.output "tied" columns 97 per_token
    kernel.linear_store @tied(%s, @words bias @bias transpose @transpose)
        to "tied" by @store columns 97 panels by 8 rows by 32 workspace 4096
        {name = "head"} : !planes
    kernel.output "own" columns 97 per_token
    kernel.linear_store @own(%s, @own.packed) to "own" by @store columns 97
        panels by 8 rows by 32 workspace 4096 : !planes
    return
  }
  encoder.weight @words : tensor<97x64xbf16> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<97x64xbf16>
    encoder.yield %0 : tensor<97x64xbf16>
  }
  encoder.weight @bias : tensor<128xf32> {
    %0 = encoder.tensor "bias" in "model.safetensors" : tensor<128xf32>
    encoder.yield %0 : tensor<128xf32>
  }
  encoder.weight @own.packed : tensor<4x2x1024xbf16> {
    %0 = encoder.tensor "own" in "model.safetensors" : tensor<97x64xbf16>
    %1 = kernel.pad_rows %0 groups 97 to 128 : tensor<97x64xbf16> -> tensor<128x64xbf16>
    %2 = kernel.pack_tiles %1 planes 1 : tensor<128x64xbf16> -> tensor<4x2x1024xbf16>
    encoder.yield %2 : tensor<4x2x1024xbf16>
  }
}

// -----

!rows = tensor<?x64xf32>
!planes = tensor<?x1x64xbf16>

// Between packing the keys of a layer and those of the next, with windows, there is
// one barrier: what attention computes stays in the block. A head's call fetches
// the keys of the next one.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.one block row_bytes 192
//   CHECK-DAG: plan.slot @rows.two block row_bytes 192
//       CHECK: plan.step @step.0.tokens
//       CHECK:   name "pack.one" panels 2 per_head{{$}}
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.1.tokens over tokens rows 512 by 32 split 0 {
//  CHECK-NEXT:   plan.call @attention({{.*}}, @rows.one + row * 192 + panel * 64, rows, keys, position, @workspace.rows.one, rows_to_next_head) name "one" panels 2 per_head
//  CHECK-NEXT:   plan.call @linear(@rows.one + row * 192,
//  CHECK-NEXT:   plan.for_rows @heads
//  CHECK-NEXT:   name "pack.two" panels 2 per_head{{$}}
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.2.tokens
//  CHECK-NEXT:   name "two" panels 2 per_head
//  CHECK-NEXT:   plan.call @linear(@rows.two
module {
  kernel.define @linear row "linear_bf16_32x32_amx" operands 10
      {k = 64, lda = 96, ldc = 64}
  kernel.define @pack row "attention_pack_bf16_avx512" operands 6
      {head_size = 32, ldkv = 96, kv_plane_stride = 64}
  kernel.define @attention row "attention_bf16_32_amx" operands 9
      {head_size = 32, ldq = 96, q_plane_stride = 64, ldo = 96, planes = 1,
       plane_stride = 64, window = 4}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @heads(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %k = kernel.heads @heads(%x) column 0 weights [] : !rows -> !planes
    %pk, %pv = kernel.attention_pack @pack(%k, %k) heads 2 row_bytes 64
        {name = "pack.one"} : !planes
    %a = kernel.tile_attention @attention(%k, %pk, %pv) heads 2 by 2
        row_bytes 64 rows 512 by 32 workspace 8192 {name = "one"}
        : !planes, !planes -> !planes
    %y = kernel.linear @linear(%a, @w.packed) panels 4 by 2 rows by 32
        : !planes -> !rows
    %k2 = kernel.heads @heads(%y) column 0 weights [] : !rows -> !planes
    %pk2, %pv2 = kernel.attention_pack @pack(%k2, %k2) heads 2 row_bytes 64
        {name = "pack.two"} : !planes
    %b = kernel.tile_attention @attention(%k2, %pk2, %pv2) heads 2 by 2
        row_bytes 64 rows 512 by 32 workspace 8192 {name = "two"}
        : !planes, !planes -> !planes
    %z = kernel.linear @linear(%b, @w.packed) panels 4 by 2 rows by 32
        : !planes -> !rows
    kernel.output "tokens" columns 64 per_token
    kernel.store @copy(%z) to "tokens" columns 0, 64 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
  encoder.weight @w.packed : tensor<2x2x1024xbf16> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<64x64xf32>
    %1 = kernel.pack_tiles %0 planes 1 : tensor<64x64xf32> -> tensor<2x2x1024xbf16>
    encoder.yield %1 : tensor<2x2x1024xbf16>
  }
}
