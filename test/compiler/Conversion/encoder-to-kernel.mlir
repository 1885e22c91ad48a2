// RUN: encast-opt %s --encoder-to-kernel="target=x86-64-v3" --split-input-file | FileCheck %s
// RUN: encast-opt %s --encoder-to-kernel="target=x86-64-v4" --split-input-file | FileCheck %s --check-prefix=AVX512
// RUN: encast-opt %s --encoder-to-kernel="target=x86-64-v4-avx512" --split-input-file | FileCheck %s --check-prefix=FEATURE

!rows = tensor<?x32xf32>
!picked = tensor<?x32xf32, #encoder.rows<picked>>

// Attention reads planes of 16 columns, so the linear that it reads writes
// them. Heads of 16 columns fill a plane each; head 0 of keys is plane 2.
// CHECK-LABEL: module attributes {kernel.target = "x86-64-v3"}
//   CHECK-DAG: kernel.define @[[LINEAR:linear_f32_6x16_avx2.k32.a32.c16.bias]] row "linear_f32_6x16_avx2" operands 10 {bias, k = 32 : i64, lda = 32 : i64, ldc = 16 : i64}
//   CHECK-DAG: kernel.define @[[ATTENTION:.*]] row "attention_f32_24_avx2" operands 10 {head_size = 16 : i64, ldo = 32 : i64, scale = 2.500000e-01 : f32}
//       CHECK: func.func @encode
//       CHECK:   %[[X:.*]] = kernel.embed @{{.*}}(%{{.*}}) in [@words]
//  CHECK-NEXT:   %[[QKV:.*]] = kernel.linear @[[LINEAR]](%[[X]], @qkv.packed bias @qkv.bias.packed) panels 6 by 1 rows by 6 panel_major
//  CHECK-SAME:     {layer = 1 : i64, name = "qkv"} : tensor<?x32xf32> -> tensor<?x96xf32>
//  CHECK-NEXT:   kernel.attention @[[ATTENTION]](%[[QKV]], %[[QKV]], %[[QKV]]) planes [0, 2, 4] heads 2 by 2 of 1 rows 192 by 24 workspace
//  CHECK-SAME:     {name = "self"}
//
// Packed weights continue the recipes of the weights, which nothing else reads.
//   CHECK-NOT: encoder.weight @qkv :
// CHECK-LABEL: encoder.weight @qkv.packed : tensor<6x32x16xf32>
//   CHECK-NOT:   kernel.pad_rows
//       CHECK:   kernel.pack %{{.*}} : tensor<96x32xf16> -> tensor<6x32x16xf32>
// CHECK-LABEL: encoder.weight @qkv.bias.packed : tensor<96xf32>
//       CHECK:   kernel.pack %{{.*}} : tensor<96xf32> -> tensor<96xf32>
//
// With AVX-512 other kernels take more rows and panels at once.
// AVX512-LABEL: module attributes {kernel.target = "x86-64-v4"}
//   AVX512-DAG: kernel.define @[[LINEAR:.*]] row "linear_f32_8x48_avx512"
//   AVX512-DAG: kernel.define @[[ATTENTION:.*]] row "attention_f32_48_avx512"
//       AVX512:   kernel.linear @[[LINEAR]]({{.*}}) panels 6 by 3 rows by 8 panel_major
//       AVX512:   kernel.attention @[[ATTENTION]]({{.*}}) planes [0, 2, 4] heads 2 by 2 of 1 rows 192 by 48 workspace
//
// Kernels are chosen by features, not by the name of the target.
// FEATURE-LABEL: module attributes {kernel.target = "x86-64-v4-avx512"}
//   FEATURE-DAG: kernel.define {{.*}} row "linear_f32_6x16_avx2"
//   FEATURE-DAG: kernel.define {{.*}} row "attention_f32_24_avx2"
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %qkv = encoder.linear %x, @qkv bias @qkv.bias {layer = 1 : i64, name = "qkv"}
        : !rows -> tensor<?x96xf32>
    %q = encoder.columns %qkv from 0 : tensor<?x96xf32> -> !rows
    %k = encoder.columns %qkv from 32 : tensor<?x96xf32> -> !rows
    %v = encoder.columns %qkv from 64 : tensor<?x96xf32> -> !rows
    %a = encoder.attention %q, %k, %v heads 2 scale 0.25 {name = "self"}
        : !rows, !rows
    %p = encoder.pick %a : !rows -> !picked
    encoder.output "tokens" %p : !picked
    return
  }
  encoder.weight @words : tensor<5x32xf16> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf16>
    encoder.yield %0 : tensor<5x32xf16>
  }
  encoder.weight @qkv : tensor<96x32xf16> {
    %0 = encoder.tensor "qkv" in "model.safetensors" : tensor<96x32xf16>
    encoder.yield %0 : tensor<96x32xf16>
  }
  encoder.weight @qkv.bias : tensor<96xf32> {
    %0 = encoder.tensor "qkv.bias" in "model.safetensors" : tensor<96xf32>
    encoder.yield %0 : tensor<96xf32>
  }
}

// -----

// Heads of 20 columns fill 2 planes each, the rest of which is zero: the weight
// gets zero rows, and the linear computes 3 * 2 heads of 2 panels.
// CHECK-LABEL: module attributes
//       CHECK:   kernel.linear @{{.*}}, @qkv.heads.20.packed) panels 12 by 1 rows by 6 panel_major {{.*}} -> tensor<?x120xf32>
//       CHECK:   kernel.attention {{.*}} planes [0, 4, 8] heads 2 by 2 of 2
// CHECK-LABEL: encoder.weight @qkv.heads.20.packed : tensor<12x8x16xf32>
//       CHECK:   %[[P:.*]] = kernel.pad_rows %{{.*}} groups 20 to 32 : tensor<120x8xf32> -> tensor<192x8xf32>
//       CHECK:   kernel.pack %[[P]] : tensor<192x8xf32> -> tensor<12x8x16xf32>
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> tensor<?x8xf32>
    %qkv = encoder.linear %x, @qkv : tensor<?x8xf32> -> tensor<?x120xf32>
    %q = encoder.columns %qkv from 0 : tensor<?x120xf32> -> tensor<?x40xf32>
    %k = encoder.columns %qkv from 40 : tensor<?x120xf32> -> tensor<?x40xf32>
    %v = encoder.columns %qkv from 80 : tensor<?x120xf32> -> tensor<?x40xf32>
    %a = encoder.attention %q, %k, %v heads 2 scale 1.0
        : tensor<?x40xf32>, tensor<?x40xf32>
    %p = encoder.pick %a
        : tensor<?x40xf32> -> tensor<?x40xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x40xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x8xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x8xf32>
    encoder.yield %0 : tensor<5x8xf32>
  }
  encoder.weight @qkv : tensor<120x8xf32> {
    %0 = encoder.tensor "qkv" in "model.safetensors" : tensor<120x8xf32>
    encoder.yield %0 : tensor<120x8xf32>
  }
}

// -----

!rows = tensor<?x32xf32>
!wide = tensor<?x512xf32>
!sequences = tensor<?x32xf32, #encoder.rows<sequences>>

// The epilogue is part of the kernel, which is defined once for each shape; a
// row of 512 columns takes 528, so that rows do not share cache sets.
// CHECK-LABEL: module attributes
//   CHECK-DAG: kernel.define @[[UP:[^ ]*]] row {{.*}} {activation = "gelu", bias, k = 32 : i64, lda = 32 : i64, ldc = 528 : i64}
//   CHECK-DAG: kernel.define @[[DOWN:[^ ]*]] row {{.*}} {k = 512 : i64, lda = 528 : i64, ldc = 32 : i64, ldr = 32 : i64}
//   CHECK-NOT: kernel.define
//       CHECK:   %[[X:.*]] = kernel.embed
//       CHECK:   %[[U:.*]] = kernel.linear @[[UP]](%[[X]], @up.packed bias @up.bias.packed) panels 32
//  CHECK-NEXT:   %[[D:.*]] = kernel.linear @[[DOWN]](%[[U]], @down.packed residual %[[X]] : tensor<?x32xf32>) panels 2
//  CHECK-NEXT:   %[[V:.*]] = kernel.linear @[[UP]](%[[D]], @up.packed bias @up.bias.packed) panels 32
//
// Other operations are programs for a row of their shape; columns are read
// where they lie.
//  CHECK-NEXT:   %[[N:.*]] = kernel.rows @"layer_norm_512_1e-12"(%[[V]]) weights [@g, @up.bias]
//  CHECK-NEXT:   %[[S:.*]] = kernel.rows @add_512(%[[N]], %[[V]])
//  CHECK-NEXT:   %[[C:.*]] = kernel.rows @copy_32(%[[S]]) columns [64]
//  CHECK-NEXT:   %[[L:.*]] = kernel.rows @normalize_32(%[[C]])
//  CHECK-NEXT:   %[[P:.*]] = kernel.pool @pool_mean_32{{[^ ]*}}(%[[L]]) : tensor<?x32xf32> -> tensor<?x32xf32, #encoder.rows<sequences>>
//  CHECK-NEXT:   %[[F:.*]] = kernel.gather @copy_32(%[[L]]) by first
//  CHECK-NEXT:   %[[B:.*]] = kernel.rows @{{.*}}(%[[P]], %[[F]]) : {{.*}} -> tensor<?x64xf32, #encoder.rows<sequences>>
//  CHECK-NEXT:   kernel.output "both" columns 64 all_rows
//  CHECK-NEXT:   kernel.store @copy_64(%[[B]]) to "both" columns 0, 64
//
// An output of columns is a store of them, and so is one of picked rows.
//  CHECK-NEXT:   kernel.output "part" columns 8
//  CHECK-NEXT:   kernel.store @copy_8(%[[P]]) to "part" columns 24, 8 :
//  CHECK-NEXT:   kernel.output "tokens" columns 32 per_token
//  CHECK-NEXT:   kernel.store @copy_32(%[[L]]) to "tokens" columns 0, 32 pick :
//  CHECK-NEXT:   return
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %u = encoder.linear %x, @up bias @up.bias activation gelu : !rows -> !wide
    %d = encoder.linear %u, @down residual %x : !rows : !wide -> !rows
    %v = encoder.linear %d, @up bias @up.bias activation gelu : !rows -> !wide
    %n = encoder.layer_norm %v, @g bias @up.bias epsilon 1.0e-12 : !wide
    %s = encoder.add %n, %v : !wide
    %c = encoder.columns %s from 64 : !wide -> !rows
    %l = encoder.normalize %c : !rows
    %p = encoder.pool mean %l : !rows -> !sequences
    %f = encoder.first %l : !rows -> !sequences
    %b = encoder.concat_columns %p, %f : !sequences, !sequences
        -> tensor<?x64xf32, #encoder.rows<sequences>>
    encoder.output "both" %b all_rows
        : tensor<?x64xf32, #encoder.rows<sequences>>
    %e = encoder.columns %p from 24
        : !sequences -> tensor<?x8xf32, #encoder.rows<sequences>>
    encoder.output "part" %e : tensor<?x8xf32, #encoder.rows<sequences>>
    %t = encoder.pick %l : !rows -> tensor<?x32xf32, #encoder.rows<picked>>
    encoder.output "tokens" %t : tensor<?x32xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @up : tensor<512x32xf32> {
    %0 = encoder.tensor "up" in "model.safetensors" : tensor<512x32xf32>
    encoder.yield %0 : tensor<512x32xf32>
  }
  encoder.weight @up.bias : tensor<512xf32> {
    %0 = encoder.tensor "up.bias" in "model.safetensors" : tensor<512xf32>
    encoder.yield %0 : tensor<512xf32>
  }
  encoder.weight @down : tensor<32x512xf32> {
    %0 = encoder.tensor "down" in "model.safetensors" : tensor<32x512xf32>
    encoder.yield %0 : tensor<32x512xf32>
  }
  encoder.weight @g : tensor<512xf32> {
    %0 = encoder.tensor "g" in "model.safetensors" : tensor<512xf32>
    encoder.yield %0 : tensor<512xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!picked = tensor<?x16xf32, #encoder.rows<picked>>

// A vocabulary's weight that the embedding shares stays row-major and is packed
// a group at a time; a wide one of its own is packed once, in bf16 if that holds
// it. Neither result is ever in memory as a whole. What is narrow is stored from its
// rows.
// CHECK-LABEL: module attributes
//       CHECK:   %[[P:.*]] = kernel.gather @copy_16(%{{.*}}) by pick
//       CHECK:   kernel.output "tied" columns 40 per_token
//  CHECK-NEXT:   kernel.linear_store @{{.*}}(%[[P]], @words bias @words.bias.packed transpose @[[TRANSPOSE:.*]]) to "tied" by @[[STORE:.*]] columns 40 panels by 1 rows by 6 {name = "tied"}
//       CHECK:   kernel.output "wide" columns 1025 per_token
//  CHECK-NEXT:   kernel.linear_store @{{[^ ]*}}.bf16_weights(%[[P]], @wide.packed.bf16) to "wide" by @[[STORE]] columns 1025 panels by 1 rows by 6
//       CHECK:   %[[N:.*]] = kernel.linear {{.*}}@narrow.packed) panels 64
//       CHECK:   kernel.store @copy_1024(%[[N]]) to "narrow"
//       CHECK: encoder.weight @words : tensor<40x16xbf16>
//   CHECK-NOT: encoder.weight @words.packed
//       CHECK: encoder.weight @wide.packed.bf16 : tensor<65x8x32xbf16>
//
//       AVX512:   kernel.linear_store {{.*}} to "tied" {{.*}} panels by 3 rows by 8
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %p = encoder.pick %x : !rows -> !picked
    %tied = encoder.linear %p, @words bias @words.bias {name = "tied"}
        : !picked -> tensor<?x40xf32, #encoder.rows<picked>>
    encoder.output "tied" %tied : tensor<?x40xf32, #encoder.rows<picked>>
    %wide = encoder.linear %p, @wide
        : !picked -> tensor<?x1025xf32, #encoder.rows<picked>>
    encoder.output "wide" %wide : tensor<?x1025xf32, #encoder.rows<picked>>
    %narrow = encoder.linear %p, @narrow
        : !picked -> tensor<?x1024xf32, #encoder.rows<picked>>
    encoder.output "narrow" %narrow : tensor<?x1024xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<40x16xbf16> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<40x16xbf16>
    encoder.yield %0 : tensor<40x16xbf16>
  }
  encoder.weight @words.bias : tensor<40xf32> {
    %0 = encoder.tensor "words.bias" in "model.safetensors" : tensor<40xf32>
    encoder.yield %0 : tensor<40xf32>
  }
  encoder.weight @wide : tensor<1025x16xbf16> {
    %0 = encoder.tensor "wide" in "model.safetensors" : tensor<1025x16xbf16>
    encoder.yield %0 : tensor<1025x16xbf16>
  }
  encoder.weight @narrow : tensor<1024x16xf32> {
    %0 = encoder.tensor "narrow" in "model.safetensors" : tensor<1024x16xf32>
    encoder.yield %0 : tensor<1024x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!selected = tensor<?x16xf32, #encoder.rows<selected>>
!demanded = tensor<?x16xf32, #encoder.rows<demanded>>

// A tail for selected rows gathers them first; its query lies in a value of its
// own, and both sides stay.
// CHECK-LABEL: module attributes
//       CHECK:   %[[QKV:.*]] = kernel.linear {{.*}} panel_major
//       CHECK:   %[[ALL:.*]] = kernel.attention @{{.*}}(%[[QKV]], %[[QKV]], %[[QKV]]) planes [0, 1, 2]
//       CHECK:   %[[S:.*]] = kernel.gather @copy_16(%{{.*}}) by selected : tensor<?x16xf32> -> tensor<?x16xf32, #encoder.rows<selected>>
//       CHECK:   %[[Q:.*]] = kernel.linear @{{.*}}(%[[S]], @q.packed) {{.*}} panel_major
//       CHECK:   %[[T:.*]] = kernel.attention @{{.*}}(%[[Q]], %[[QKV]], %[[QKV]]) planes [0, 1, 2]
//       CHECK:   %[[D:.*]] = encoder.either all %[[ALL]] selected %[[T]]
//       CHECK:   kernel.store @copy_16(%[[D]]) to "tokens" columns 0, 16 pick :
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %qkv = encoder.linear %x, @qkv : !rows -> tensor<?x48xf32>
    %q = encoder.columns %qkv from 0 : tensor<?x48xf32> -> !rows
    %k = encoder.columns %qkv from 16 : tensor<?x48xf32> -> !rows
    %v = encoder.columns %qkv from 32 : tensor<?x48xf32> -> !rows
    %a = encoder.attention %q, %k, %v heads 1 scale 0.25 : !rows, !rows
    %s = encoder.select_rows %x : !rows -> !selected
    %qs = encoder.linear %s, @q : !selected -> !selected
    %t = encoder.attention %qs, %k, %v heads 1 scale 0.25 : !selected, !rows
    %d = encoder.either all %a selected %t : !rows, !selected -> !demanded
    %p = encoder.pick %d : !demanded -> tensor<?x16xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x16xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
  encoder.weight @qkv : tensor<48x16xf32> {
    %0 = encoder.tensor "qkv" in "model.safetensors" : tensor<48x16xf32>
    encoder.yield %0 : tensor<48x16xf32>
  }
  encoder.weight @q : tensor<16x16xf32> {
    %0 = encoder.tensor "q" in "model.safetensors" : tensor<16x16xf32>
    encoder.yield %0 : tensor<16x16xf32>
  }
}
