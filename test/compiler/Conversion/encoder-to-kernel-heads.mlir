// RUN: encast-opt %s --encoder-to-kernel="target=x86-64-v3" --split-input-file | FileCheck %s

!rows = tensor<?x32xf32>
!wide = tensor<?x20xf32>

// A gate and what it multiplies are one call on interleaved panels: 20 columns take
// 3 panels, of 8 columns of each.
// CHECK-LABEL: module attributes
//   CHECK-DAG: kernel.define @[[UP:.*]] row "linear_f32_6x16_avx2" operands 10 {activation = "silu", bias, gated, k = 32 : i64, lda = 32 : i64, ldc = 32 : i64}
//   CHECK-DAG: kernel.define @[[DOWN:.*]] row "linear_f32_6x16_avx2" operands 10 {gated, k = 20 : i64, lda = 32 : i64, ldc = 32 : i64, ldr = 32 : i64}
//       CHECK:   %[[X:.*]] = kernel.embed
//  CHECK-NEXT:   %[[U:.*]] = kernel.linear @[[UP]](%[[X]], @up.packed bias @up.bias.packed) panels 3 by 1 rows by 6 : tensor<?x32xf32> -> tensor<?x20xf32>
//  CHECK-NEXT:   kernel.linear @[[DOWN]](%[[U]], @down.packed residual %[[X]] : tensor<?x32xf32>) panels 4 by 1 rows by 6
//       CHECK: encoder.weight @up.packed : tensor<3x32x16xf32>
//       CHECK:   %[[W:.*]] = encoder.slice %{{.*}} from 20
//       CHECK:   %[[G:.*]] = encoder.slice %{{.*}} from 0
//       CHECK:   kernel.pack_gated %[[W]] gate %[[G]] : tensor<20x32xf16> by 8 : tensor<20x32xf16> -> tensor<3x32x16xf32>
//       CHECK: encoder.weight @up.bias.packed : tensor<48xf32>
//       CHECK:   kernel.pack_gated %{{.*}} gate %{{.*}} : tensor<20xf32> by 8 : tensor<20xf32> -> tensor<48xf32>
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %u = encoder.linear %x, @up bias @up.bias gate @gate gate_bias @gate.bias
        activation silu : !rows -> !wide
    %d = encoder.linear %u, @down gate @down.gate residual %x : !rows
        : !wide -> !rows
    %p = encoder.pick %d : !rows -> tensor<?x32xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x32xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @up : tensor<20x32xf16> {
    %0 = encoder.tensor "wi" in "model.safetensors" : tensor<40x32xf16>
    %1 = encoder.slice %0 from 20 : tensor<40x32xf16> -> tensor<20x32xf16>
    encoder.yield %1 : tensor<20x32xf16>
  }
  encoder.weight @gate : tensor<20x32xf16> {
    %0 = encoder.tensor "wi" in "model.safetensors" : tensor<40x32xf16>
    %1 = encoder.slice %0 from 0 : tensor<40x32xf16> -> tensor<20x32xf16>
    encoder.yield %1 : tensor<20x32xf16>
  }
  encoder.weight @up.bias : tensor<20xf32> {
    %0 = encoder.tensor "up.bias" in "model.safetensors" : tensor<20xf32>
    encoder.yield %0 : tensor<20xf32>
  }
  encoder.weight @gate.bias : tensor<20xf32> {
    %0 = encoder.tensor "gate.bias" in "model.safetensors" : tensor<20xf32>
    encoder.yield %0 : tensor<20xf32>
  }
  encoder.weight @down : tensor<32x20xf32> {
    %0 = encoder.tensor "down" in "model.safetensors" : tensor<32x20xf32>
    encoder.yield %0 : tensor<32x20xf32>
  }
  encoder.weight @down.gate : tensor<32x20xf32> {
    %0 = encoder.tensor "down.gate" in "model.safetensors" : tensor<32x20xf32>
    encoder.yield %0 : tensor<32x20xf32>
  }
}

// -----

!rows = tensor<?x40xf32>
!keys = tensor<?x20xf32>
!selected = tensor<?x40xf32, #encoder.rows<selected>>
!demanded = tensor<?x40xf32, #encoder.rows<demanded>>

// Heads that are normalized or rotated on their way to attention are laid out by
// that program, right behind the linear, others by the linear itself, or by a copy if others read it row by
// row (values of @kv, whose keys are rotated). Two heads of queries share one of
// keys and values. A window of 0 is one key; without one the kernel sees all.
// CHECK-LABEL: module attributes
//   CHECK-DAG: kernel.define @[[ONE:.*]] row "attention_f32_24_avx2" operands 10 {head_size = 10 : i64, ldo = 64 : i64, query_heads = 2 : i64, scale = 5.000000e-01 : f32, window = 0 : i64}
//   CHECK-DAG: kernel.define @[[THREE:.*]] row "attention_f32_24_avx2" operands 10 {head_size = 10 : i64, ldo = 64 : i64, query_heads = 2 : i64, scale = 5.000000e-01 : f32, window = 3 : i64}
//       CHECK:   %[[Q:.*]] = kernel.linear @{{.*}}.c64(%[[X:.*]], @q.packed) panels 3
//  CHECK-NEXT:   %[[Q3:.*]] = kernel.heads @"heads_4x10_norm_1e-05_rope_panels"(%[[Q]] at %[[AT:.*]] : tensor<?xi32>) column 0 weights [@q.gain, @rope] panel_major 4 {name = "query.rope"} : tensor<?x40xf32> -> tensor<?x40xf32>
//  CHECK-NEXT:   %[[Q1:.*]] = kernel.heads @"heads_4x10_norm_1e-05_rope_panels"(%[[Q]] at %[[AT]] : tensor<?xi32>)
//  CHECK-NEXT:   %[[KV:.*]] = kernel.linear @{{.*}}.c64(%[[X]], @kv.packed) panels 3
//  CHECK-NEXT:   %[[K3:.*]] = kernel.heads @heads_2x10_rope_panels(%[[KV]] at %[[AT]] : tensor<?xi32>) column 0 weights [@rope] panel_major 2
//  CHECK-NEXT:   %[[K1:.*]] = kernel.heads @heads_2x10_rope_panels(%[[KV]] at
//  CHECK-NEXT:   %[[W:.*]] = kernel.heads @heads_2x10_panels(%[[KV]]) column 20 weights [] panel_major 2
//  CHECK-NEXT:   %[[KS:.*]] = kernel.heads @heads_2x10_rope_panels(%[[KV]] at
//  CHECK-NEXT:   %[[V:.*]] = kernel.linear @{{.*}}.c16(%[[X]], @v.heads.10.packed) panels 2 by 1 rows by 6 panel_major
//  CHECK-NEXT:   %[[A:.*]] = kernel.attention @[[THREE]](%[[Q3]], %[[K3]], %[[V]]) planes [0, 0, 0] heads 4 by 2 of 1 rows 192 by 24 workspace
//  CHECK-NEXT:   kernel.attention @[[ONE]](%[[Q1]], %[[K1]], %[[W]]) planes [0, 0, 0]
//
// Selected queries have their own positions.
//       CHECK:   %[[S:.*]] = kernel.gather @copy_40(%[[X]]) by selected
//  CHECK-NEXT:   %[[ATS:.*]] = encoder.select_rows %[[AT]]
//  CHECK-NEXT:   %[[QS:.*]] = kernel.linear @{{.*}}.c64(%[[S]], @q.packed)
//  CHECK-NEXT:   %[[QSR:.*]] = kernel.heads @heads_4x10_rope_panels(%[[QS]] at %[[ATS]] : tensor<?xi32, #encoder.rows<selected>>) column 0 weights [@rope] panel_major 4
//       CHECK:   %[[T:.*]] = kernel.attention @[[THREE]](%[[QSR]], %[[KS]], %[[V]])
//  CHECK-NEXT:   encoder.either all %[[A]] selected %[[T]]
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %q = encoder.linear %x, @q : !rows -> !rows
    %qn = encoder.rms_norm %q, @q.gain heads 4 epsilon 1.0e-5 : !rows
    %qr = encoder.rope %qn, %at in @rope heads 4 {name = "query.rope"} : !rows, tensor<?xi32>
    %k = encoder.linear %x, @kv : !rows -> !rows
    %kc = encoder.columns %k from 0 : !rows -> !keys
    %kr = encoder.rope %kc, %at in @rope heads 2 : !keys, tensor<?xi32>
    %v = encoder.columns %k from 20 : !rows -> !keys
    %w = encoder.linear %x, @v : !rows -> !keys
    %a = encoder.attention %qr, %kr, %w heads 4 key_heads 2 scale 0.5 window 3 : !rows, !keys
    %b = encoder.attention %qr, %kr, %v heads 4 key_heads 2 scale 0.5 window 0 : !rows, !keys
    %s = encoder.select_rows %x : !rows -> !selected
    %ats = encoder.select_rows %at : tensor<?xi32> -> tensor<?xi32, #encoder.rows<selected>>
    %qs = encoder.linear %s, @q : !selected -> !selected
    %qsr = encoder.rope %qs, %ats in @rope heads 4 : !selected, tensor<?xi32, #encoder.rows<selected>>
    %c = encoder.attention %qsr, %kr, %w heads 4 key_heads 2 scale 0.5 window 3 : !selected, !keys
    %d = encoder.either all %a selected %c : !rows, !selected -> !demanded
    %p = encoder.pick %d : !demanded -> tensor<?x40xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x40xf32, #encoder.rows<picked>>
    %f = encoder.first %b : !rows -> tensor<?x40xf32, #encoder.rows<sequences>>
    encoder.output "first" %f : tensor<?x40xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x40xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x40xf32>
    encoder.yield %0 : tensor<5x40xf32>
  }
  encoder.weight @q : tensor<40x40xf32> {
    %0 = encoder.tensor "q" in "model.safetensors" : tensor<40x40xf32>
    encoder.yield %0 : tensor<40x40xf32>
  }
  encoder.weight @q.gain : tensor<10xf32> {
    %0 = encoder.tensor "q.gain" in "model.safetensors" : tensor<10xf32>
    encoder.yield %0 : tensor<10xf32>
  }
  encoder.weight @kv : tensor<40x40xf32> {
    %0 = encoder.tensor "kv" in "model.safetensors" : tensor<40x40xf32>
    encoder.yield %0 : tensor<40x40xf32>
  }
  encoder.weight @v : tensor<20x40xf32> {
    %0 = encoder.tensor "v" in "model.safetensors" : tensor<20x40xf32>
    encoder.yield %0 : tensor<20x40xf32>
  }
  encoder.weight @rope : tensor<512x10xf32> {
    %0 = encoder.rope_table theta 10000.0 : tensor<512x10xf32>
    encoder.yield %0 : tensor<512x10xf32>
  }
}

// -----

!rows = tensor<?x32xf32>
!wide = tensor<?x64xf32>

// What else attention may read: rows that no linear computes, or one with a gate or
// a residual, whose epilogues are row by row; heads that do not begin at a plane;
// columns of columns, which are a copy. Each is laid out by a program.
// CHECK-LABEL: module attributes
//       CHECK:   %[[X:.*]] = kernel.embed
//  CHECK-NEXT:   %[[P:.*]] = kernel.heads @heads_2x16_panels(%[[X]]) column 0 weights [] panel_major 2
//  CHECK-NEXT:   %[[R:.*]] = kernel.linear @{{.*}}(%[[X]], @w.packed residual %[[X]] : tensor<?x32xf32>) panels 2 by 1 rows by 6 :
//  CHECK-NEXT:   %[[Q:.*]] = kernel.heads @heads_2x16_panels(%[[R]]) column 0
//  CHECK-NEXT:   %[[G:.*]] = kernel.linear @{{.*}}.gated(%[[X]], @[[GATED:.*]]) panels 4 by 1 rows by 6 :
//  CHECK-NEXT:   %[[S:.*]] = kernel.heads @heads_2x16_panels(%[[G]]) column 0
//  CHECK-NEXT:   kernel.attention @{{.*}}(%[[P]], %[[Q]], %[[S]]) planes [0, 0, 0]
//       CHECK:   %[[L:.*]] = kernel.linear @{{.*}}(%{{.*}}, @wide.packed) panels 4 by 1 rows by 6 : {{.*}} -> tensor<?x64xf32>
//       CHECK:   kernel.heads @heads_2x16_panels(%[[L]]) column 8
//       CHECK:   %[[M:.*]] = kernel.linear @{{.*}}(%{{.*}}, @wide.packed) panels 4 by 1 rows by 6 : {{.*}} -> tensor<?x64xf32>
//       CHECK:   kernel.rows @copy_48(%[[M]]) columns [16]
//       CHECK:   kernel.heads @heads_2x16_panels(%{{.*}}) column 16
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %r = encoder.linear %x, @w residual %x : !rows : !rows -> !rows
    %g = encoder.linear %x, @w gate @w : !rows -> !rows
    %a = encoder.attention %x, %r, %g heads 2 scale 1.0 : !rows, !rows
    %l = encoder.linear %a, @wide : !rows -> !wide
    %q = encoder.columns %l from 8 : !wide -> !rows
    %b = encoder.attention %q, %q, %q heads 2 scale 1.0 : !rows, !rows
    %m = encoder.linear %b, @wide : !rows -> !wide
    %k = encoder.columns %m from 0 : !wide -> !rows
    %c = encoder.columns %m from 16 : !wide -> tensor<?x48xf32>
    %v = encoder.columns %c from 16 : tensor<?x48xf32> -> !rows
    %d = encoder.attention %k, %k, %v heads 2 scale 1.0 : !rows, !rows
    %p = encoder.first %d : !rows -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w : tensor<32x32xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    encoder.yield %0 : tensor<32x32xf32>
  }
  encoder.weight @wide : tensor<64x32xf32> {
    %0 = encoder.tensor "wide" in "model.safetensors" : tensor<64x32xf32>
    encoder.yield %0 : tensor<64x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>
!selected = tensor<?x32xf32, #encoder.rows<selected>>
!demanded = tensor<?x32xf32, #encoder.rows<demanded>>

// A product of a convolution that nothing else reads is its epilogue, whichever
// side it stands on; taps are transposed once. Selected rows have positions of
// their own.
// CHECK-LABEL: module attributes
//       CHECK:   %[[ATS:.*]] = encoder.select_rows %
//       CHECK:   %[[X:.*]] = kernel.embed
//  CHECK-NEXT:   %[[A:.*]] = kernel.short_conv @{{.*}}(%[[X]] at %[[AT:.*]] : tensor<?xi32>) weights [@conv.transposed, @bias] scale %[[X]] : tensor<?x32xf32> {name = "fused"}
//  CHECK-NEXT:   %[[B:.*]] = kernel.short_conv @{{.*}}(%[[A]] at %[[AT]] : tensor<?xi32>) weights [@conv.transposed] scale %[[X]] : tensor<?x32xf32> {name = "other"}
//  CHECK-NEXT:   %[[C:.*]] = kernel.short_conv @{{[^ ]*}}(%[[B]] at %[[AT]] : tensor<?xi32>) weights [@conv.transposed] {name = "alone"}
//  CHECK-NEXT:   %[[D:.*]] = kernel.rows @multiply_32(%[[C]], %[[C]])
//  CHECK-NEXT:   %[[N:.*]] = kernel.rows @"rms_norm_32_1e-05"(%[[D]]) weights [@bias]
//  CHECK-NEXT:   kernel.short_conv @{{[^ ]*}}(%[[N]] at %[[ATS]] : tensor<?xi32, #encoder.rows<selected>>) weights [@conv.transposed] {{.*}}: tensor<?x32xf32> -> tensor<?x32xf32, #encoder.rows<selected>>
//       CHECK: encoder.weight @conv.transposed : tensor<3x32xf32>
//       CHECK:   kernel.transpose %{{.*}} : tensor<32x1x3xbf16> -> tensor<3x32xf32>
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %c0 = encoder.short_conv %x, @conv bias @bias {name = "fused"} : !rows -> !rows
    %a = encoder.multiply %c0, %x : !rows
    %c1 = encoder.short_conv %a, @conv {name = "other"} : !rows -> !rows
    %b = encoder.multiply %x, %c1 : !rows
    %c2 = encoder.short_conv %b, @conv {name = "alone"} : !rows -> !rows
    %d = encoder.multiply %c2, %c2 : !rows
    %n = encoder.rms_norm %d, @bias epsilon 1.0e-5 : !rows
    %s = encoder.short_conv %n, @conv : !rows -> !selected
    %f = encoder.either all %n selected %s : !rows, !selected -> !demanded
    %p = encoder.first %f : !demanded -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @conv : tensor<32x1x3xbf16> {
    %0 = encoder.tensor "conv" in "model.safetensors" : tensor<32x1x3xbf16>
    encoder.yield %0 : tensor<32x1x3xbf16>
  }
  encoder.weight @bias : tensor<32xf32> {
    %0 = encoder.tensor "bias" in "model.safetensors" : tensor<32xf32>
    encoder.yield %0 : tensor<32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// What works in other heads than attention is a program of its own; so is a norm
// of whole rows.
// CHECK-LABEL: module attributes
//       CHECK:   %[[X:.*]] = kernel.embed
//  CHECK-NEXT:   %[[N:.*]] = kernel.heads @"heads_4x8_norm_1e-05"(%[[X]]) column 0 weights [@gain]
//  CHECK-NEXT:   %[[Q:.*]] = kernel.heads @heads_2x16_panels(%[[N]])
//       CHECK:   %[[R:.*]] = kernel.heads @heads_4x8_rope(%[[X]] at %{{.*}} : tensor<?xi32>) column 0 weights [@rope]
//  CHECK-NEXT:   %[[K:.*]] = kernel.heads @heads_2x16_panels(%[[R]])
//       CHECK:   %[[W:.*]] = kernel.rows @"rms_norm_32_1e-05"(%[[X]]) weights [@wide]
//  CHECK-NEXT:   %[[V:.*]] = kernel.heads @heads_2x16_panels(%[[W]])
//       CHECK:   kernel.attention @{{.*}}(%[[Q]], %[[K]], %[[V]])
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %n = encoder.rms_norm %x, @gain heads 4 epsilon 1.0e-5 : !rows
    %r = encoder.rope %x, %at in @rope heads 4 : !rows, tensor<?xi32>
    %w = encoder.rms_norm %x, @wide epsilon 1.0e-5 : !rows
    %a = encoder.attention %n, %r, %w heads 2 scale 0.5 : !rows, !rows
    %f = encoder.first %a : !rows -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %f : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @gain : tensor<8xf32> {
    %0 = encoder.tensor "gain" in "model.safetensors" : tensor<8xf32>
    encoder.yield %0 : tensor<8xf32>
  }
  encoder.weight @wide : tensor<32xf32> {
    %0 = encoder.tensor "wide" in "model.safetensors" : tensor<32xf32>
    encoder.yield %0 : tensor<32xf32>
  }
  encoder.weight @rope : tensor<9x8xf32> {
    %0 = encoder.tensor "rope" in "model.safetensors" : tensor<9x8xf32>
    encoder.yield %0 : tensor<9x8xf32>
  }
}
