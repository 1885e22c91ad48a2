// RUN: encast-opt %s --kernel-to-plan --split-input-file | FileCheck %s

!rows = tensor<?x32xf32>
!keys = tensor<?x16xf32>

// Heads go through memory of the block on their way from a linear to attention,
// unless the linear writes panels of them itself. Programs walk over the planes of
// a row; a program's table of positions follows the position of the row.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @index.positions positions
//   CHECK-DAG: plan.slot @rows.q block row_bytes 128
//   CHECK-DAG: plan.slot @rows.q.rope arena rows tokens row_bytes 128
//   CHECK-DAG: plan.slot @rows.k arena rows tokens row_bytes 64
//   CHECK-DAG: plan.slot @rows.v arena rows tokens row_bytes 64
//       CHECK: plan.step @step.0.tokens over tokens rows 6 by 6
//       CHECK:   plan.for_rows @heads.q(@rows.q + row * 128, @gain, @index.positions + row * 4, @rope, @rows.q.rope + row * 64 + plane(0 + panel * 0, tokens), token_plane_bytes) name "q.rope"
//  CHECK-NEXT:   plan.for_rows @heads.k(@rows.q + row * 128 + 64, @rows.k + row * 64 + plane(0 + panel * 0, tokens), token_plane_bytes) name "k"
//  CHECK-NEXT:   plan.call @v({{.*}}, @rows.v + row * 64 + plane(0 + panel * 1, tokens), 0, 0, rows, panels, token_plane_bytes, 0, 0)
//
// Two heads of queries share one of keys and values: an item is both of them, two
// planes of queries and one of keys, and writes 32 columns.
//       CHECK: plan.step @step.1.attention_tokens over attention_tokens heads 1 rows 192 by 24
//  CHECK-NEXT:   plan.call @attention(@rows.q.rope + row * 64 + plane(0 + panel * 2, tokens), @rows.k + key * 64 + plane(0 + panel * 1, tokens), @rows.v + key * 64 + plane(0 + panel * 1, tokens), @rows.self + row * 128 + panel * 128, rows, keys, token_plane_bytes, token_plane_bytes, @workspace.rows.self, position) name "self" flops_per_row_and_key 128
module {
  kernel.define @q row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32}
  kernel.define @v row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 16}
  kernel.define @attention row "attention_f32_24_avx2" operands 10
      {head_size = 16, ldo = 32, query_heads = 2, scale = 0.25 : f32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @heads.q(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, index)
  func.func private @heads.k(!llvm.ptr, !llvm.ptr, index)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %q = kernel.linear @q(%x, @q.packed) panels 2 by 1 rows by 6
        {name = "q"} : !rows -> !rows
    %qr = kernel.heads @heads.q(%q at %at : tensor<?xi32>) column 0
        weights [@gain, @rope] panel_major 2 {name = "q.rope"} : !rows -> !rows
    %k = kernel.heads @heads.k(%q) column 16 weights [] panel_major 1
        {name = "k"} : !rows -> !keys
    %v = kernel.linear @v(%x, @v.packed) panels 1 by 1 rows by 6 panel_major
        {name = "v"} : !rows -> !keys
    %a = kernel.attention @attention(%qr, %k, %v) planes [0, 0, 0] heads 2 by 1
        of 1 rows 192 by 24 workspace 4096 {name = "self"}
        : !rows, !keys, !keys -> !rows
    kernel.output "tokens" columns 32 per_token
    kernel.store @copy(%a) to "tokens" columns 0, 32 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @q.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "q" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
  encoder.weight @v.packed : tensor<1x32x16xf32> {
    %0 = encoder.tensor "v" in "model.safetensors" : tensor<16x32xf32>
    %1 = kernel.pack %0 : tensor<16x32xf32> -> tensor<1x32x16xf32>
    encoder.yield %1 : tensor<1x32x16xf32>
  }
  encoder.weight @gain : tensor<16xf32> {
    %0 = encoder.tensor "gain" in "model.safetensors" : tensor<16xf32>
    encoder.yield %0 : tensor<16xf32>
  }
  encoder.weight @rope : tensor<512x16xf32> {
    %0 = encoder.rope_table theta 10000.0 : tensor<512x16xf32>
    encoder.yield %0 : tensor<512x16xf32>
  }
}

// -----

!rows = tensor<?x32xf32>
!selected = tensor<?x32xf32, #encoder.rows<selected>>
!demanded = tensor<?x32xf32, #encoder.rows<demanded>>
!at = tensor<?xi32, #encoder.rows<selected>>

// A window needs to know where queries are, so selected ones must follow each
// other; how much a query costs does not depend on its sequence.
//
// Planes of selected rows are as large as there are such rows, positions are those
// of the rows' tokens.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.q.selected arena rows selected row_bytes 128
//   CHECK-DAG: plan.slot @rows.some.selected arena rows selected row_bytes 128
//       CHECK: over attention_tokens heads 1 rows 192 by 24
//  CHECK-NEXT:   plan.call @attention(@rows.k + row * 64 + plane(0 + panel * 2, tokens), {{.*}} name "all" modes 1 flops_per_row_and_key 128 window 3{{$}}
//       CHECK: plan.step @step.3.selected over selected
//       CHECK:   plan.for_rows @heads(@{{.*}} + row * 128, @index.positions[by @index.selected] + row * 4, @rope, @rows.q.selected + row * 64 + plane(0 + panel * 0, selected), selected_plane_bytes) name "q" modes 2
//       CHECK: plan.step @step.4.attention_runs over attention_runs heads 1 rows 192 by 24
//  CHECK-NEXT:   plan.call @attention(@rows.q.selected + row * 64 + plane(0 + panel * 2, selected), @rows.k + key * 64 + plane(0 + panel * 2, tokens), @rows.k + key * 64 + plane(0 + panel * 2, tokens), @rows.some.selected + row * 128 + panel * 128, rows, keys, selected_plane_bytes, token_plane_bytes, @workspace.{{.*}}, position) name "some" modes 2 flops_per_row_and_key 128 window 3{{$}}
module {
  kernel.define @qkv row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 16}
  kernel.define @attention row "attention_f32_24_avx2" operands 10
      {head_size = 32, ldo = 32, window = 3, scale = 0.25 : f32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @heads(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, index)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %ats = encoder.select_rows %at : tensor<?xi32> -> !at
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %k = kernel.linear @qkv(%x, @w.packed) panels 2 by 1 rows by 6 panel_major
        {name = "k"} : !rows -> !rows
    %a = kernel.attention @attention(%k, %k, %k) planes [0, 0, 0] heads 1 by 1
        of 2 rows 192 by 24 workspace 4096 {name = "all"}
        : !rows, !rows, !rows -> !rows
    %s = kernel.gather @copy(%x) by selected : !rows -> !selected
    %q = kernel.heads @heads(%s at %ats : !at) column 0
        weights [@rope] panel_major 2 {name = "q"} : !selected -> !selected
    %b = kernel.attention @attention(%q, %k, %k) planes [0, 0, 0] heads 1 by 1
        of 2 rows 192 by 24 workspace 4096 {name = "some"}
        : !selected, !rows, !rows -> !selected
    %d = encoder.either all %a selected %b : !rows, !selected -> !demanded
    kernel.output "tokens" columns 32 per_token
    kernel.store @copy(%d) to "tokens" columns 0, 32 pick : !demanded
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "q" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
  encoder.weight @rope : tensor<512x32xf32> {
    %0 = encoder.rope_table theta 10000.0 : tensor<512x32xf32>
    encoder.yield %0 : tensor<512x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>
!selected = tensor<?x32xf32, #encoder.rows<selected>>
!demanded = tensor<?x32xf32, #encoder.rows<demanded>>
!at = tensor<?xi32, #encoder.rows<selected>>

// A panel of a gated linear makes 8 columns of 4 bytes from 16 products.
//
// A convolution reads the rows before and behind its own, so what computes them is
// a step before it. Those of a selected row are neighbours in all tokens. What
// multiplies the sums has rows of the convolution's own.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.gated arena rows tokens row_bytes 128
//       CHECK: plan.step @step.0.tokens over tokens
//       CHECK:   plan.call @gated(@rows.embed + row * 128, @w.packed + panel * 2048, @rows.gated + row * 128 + panel * 32, @b.packed + panel * 64, 0, rows, panels, 32, 0, 0) name "gated" panels 4 flops_per_row 4096
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.1.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @conv(@rows.gated + row * 128 - 128, @rows.gated + row * 128, @rows.gated + row * 128 + 128, @index.positions + row * 4, @taps, @rows.embed + row * 128, @rows.all + row * 128) name "all" modes 1
//       CHECK: plan.step @step.2.selected over selected
//  CHECK-NEXT:   plan.for_rows @conv.bias(@rows.gated[by @index.selected] + row * 128 - 128, @rows.gated[by @index.selected] + row * 128, @rows.gated[by @index.selected] + row * 128 + 128, @index.positions[by @index.selected] + row * 4, @taps, @bias, @rows.some.selected + row * 128) name "some" modes 2
module {
  kernel.define @gated row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32, gated, bias, activation = "silu"}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @conv(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @conv.bias(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %ats = encoder.select_rows %at : tensor<?xi32> -> !at
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %g = kernel.linear @gated(%x, @w.packed bias @b.packed) panels 4 by 1
        rows by 6 {name = "gated"} : !rows -> !rows
    %a = kernel.short_conv @conv(%g at %at : tensor<?xi32>) weights [@taps]
        scale %x : !rows {name = "all"} : !rows -> !rows
    %b = kernel.short_conv @conv.bias(%g at %ats : !at) weights [@taps, @bias]
        {name = "some"} : !rows -> !selected
    %d = encoder.either all %a selected %b : !rows, !selected -> !demanded
    kernel.output "tokens" columns 32 per_token
    kernel.store @copy(%d) to "tokens" columns 0, 32 pick : !demanded
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<4x32x16xf32> {
    %0 = encoder.tensor "up" in "model.safetensors" : tensor<32x32xf32>
    %1 = encoder.tensor "gate" in "model.safetensors" : tensor<32x32xf32>
    %2 = kernel.pack_gated %0 gate %1 : tensor<32x32xf32> by 8
        : tensor<32x32xf32> -> tensor<4x32x16xf32>
    encoder.yield %2 : tensor<4x32x16xf32>
  }
  encoder.weight @b.packed : tensor<64xf32> {
    %0 = encoder.tensor "b" in "model.safetensors" : tensor<32xf32>
    %1 = kernel.pack_gated %0 gate %0 : tensor<32xf32> by 8
        : tensor<32xf32> -> tensor<64xf32>
    encoder.yield %1 : tensor<64xf32>
  }
  encoder.weight @taps : tensor<3x32xf32> {
    %0 = encoder.tensor "conv" in "model.safetensors" : tensor<32x1x3xf32>
    %1 = kernel.transpose %0 : tensor<32x1x3xf32> -> tensor<3x32xf32>
    encoder.yield %1 : tensor<3x32xf32>
  }
  encoder.weight @bias : tensor<32xf32> {
    %0 = encoder.tensor "conv.bias" in "model.safetensors" : tensor<32xf32>
    encoder.yield %0 : tensor<32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// What multiplies a convolution is made in its step, from the norm once more: it
// and the norm take no memory of the arena.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.norm block
//   CHECK-DAG: plan.slot @rows.input arena
//   CHECK-DAG: plan.slot @rows.norm_0 block
//   CHECK-DAG: plan.slot @rows.scale block
//       CHECK: plan.step @step.0.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @embed
//  CHECK-NEXT:   plan.for_rows @norm(@rows.embed + row * 128, @gain, @rows.norm + row * 128) name "norm"
//  CHECK-NEXT:   plan.call @linear(@rows.norm + row * 128, {{.*}} name "input"
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.1.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @norm(@rows.embed + row * 128, @gain, @rows.norm_0 + row * 128) name "norm"
//  CHECK-NEXT:   plan.call @linear(@rows.norm_0 + row * 128, {{.*}} name "scale"
//  CHECK-NEXT:   plan.for_rows @conv({{.*}}, @rows.scale + row * 128, @rows.conv + row * 128) name "conv"
//  CHECK-NEXT:   plan.call @out(@rows.conv + row * 128, {{.*}} name "out"
module {
  kernel.define @linear row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32}
  kernel.define @out row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32, ldr = 32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @conv(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %n = kernel.rows @norm(%x) weights [@gain] {name = "norm"} : (!rows) -> !rows
    %g = kernel.linear @linear(%n, @w.packed) panels 2 by 1 rows by 6
        {name = "input"} : !rows -> !rows
    %s = kernel.linear @linear(%n, @w.packed) panels 2 by 1 rows by 6
        {name = "scale"} : !rows -> !rows
    %c = kernel.short_conv @conv(%g at %at : tensor<?xi32>) weights [@taps]
        scale %s : !rows {name = "conv"} : !rows -> !rows
    %o = kernel.linear @out(%c, @w.packed residual %x : !rows) panels 2 by 1
        rows by 6 {name = "out"} : !rows -> !rows
    kernel.output "tokens" columns 32 per_token
    kernel.store @copy(%o) to "tokens" columns 0, 32 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @gain : tensor<32xf32> {
    %0 = encoder.tensor "gain" in "model.safetensors" : tensor<32xf32>
    encoder.yield %0 : tensor<32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
  encoder.weight @taps : tensor<3x32xf32> {
    %0 = encoder.tensor "conv" in "model.safetensors" : tensor<32x1x3xf32>
    %1 = kernel.transpose %0 : tensor<32x1x3xf32> -> tensor<3x32xf32>
    encoder.yield %1 : tensor<3x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// Nothing reads the normalized value behind the convolution, so that it would
// have to be kept for the norm alone: what multiplies is kept instead.
// CHECK-LABEL: kernel.output "alone"
//   CHECK-DAG: plan.slot @rows.scale arena
//       CHECK: plan.step @step.1.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @conv
module {
  kernel.define @linear row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @conv(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %n = kernel.rows @norm(%x) weights [@gain] {name = "norm"} : (!rows) -> !rows
    %g = kernel.linear @linear(%n, @w.packed) panels 2 by 1 rows by 6
        {name = "input"} : !rows -> !rows
    %s = kernel.linear @linear(%n, @w.packed) panels 2 by 1 rows by 6
        {name = "scale"} : !rows -> !rows
    %c = kernel.short_conv @conv(%g at %at : tensor<?xi32>) weights [@taps]
        scale %s : !rows {name = "conv"} : !rows -> !rows
    kernel.output "alone" columns 32 per_token
    kernel.store @copy(%c) to "alone" columns 0, 32 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @gain : tensor<32xf32> {
    %0 = encoder.tensor "gain" in "model.safetensors" : tensor<32xf32>
    encoder.yield %0 : tensor<32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
  encoder.weight @taps : tensor<3x32xf32> {
    %0 = encoder.tensor "conv" in "model.safetensors" : tensor<32x1x3xf32>
    %1 = kernel.transpose %0 : tensor<32x1x3xf32> -> tensor<3x32xf32>
    encoder.yield %1 : tensor<3x32xf32>
  }
}
