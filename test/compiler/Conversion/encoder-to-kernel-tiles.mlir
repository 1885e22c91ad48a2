// RUN: encast-opt %s --encoder-to-kernel="target=sapphirerapids" --split-input-file | FileCheck %s
// RUN: encast-opt %s --encoder-to-kernel="target=x86-64-v4" --split-input-file | FileCheck %s --check-prefix=FMA --implicit-check-not="tensor<?x{{[123]}}x" --implicit-check-not=pack_tiles

!rows = tensor<?x64xf32>
!wide = tensor<?x40xf32>

// Where a target has tiles, a linear multiplies terms of bf16 as its precision says:
// of two terms each for bf16x3. What computes its input makes the planes if nothing
// else reads it; else a program splits the value, once for all who multiply it. A
// residual is f32.
//
// Tiles are pairs of panels: 40 columns take 4 panels, the weight and the bias are
// padded to 64 columns.
// CHECK-LABEL: module attributes {kernel.target = "sapphirerapids"}
//   CHECK-DAG: kernel.define @[[UP:.*]] row "linear_bf16x3_32x32_amx" operands 10 {activation = "gelu", bias, k = 64 : i64, lda = 160 : i64, ldc = 160 : i64, plane_stride = 64 : i64, planes = 2 : i64}
//   CHECK-DAG: kernel.define @[[DOWN:.*]] row "linear_bf16x3_32x32_amx" operands 10 {k = 40 : i64, lda = 160 : i64, ldc = 64 : i64, ldr = 64 : i64}
//       CHECK:   %[[X:.*]] = kernel.embed
//  CHECK-NEXT:   %[[N:.*]] = kernel.rows @"layer_norm_64_1e-05_no_bias_planes_2"(%[[X]]) weights [@gain] {name = "norm"} : (tensor<?x64xf32>) -> tensor<?x2x64xbf16>
//  CHECK-NEXT:   %[[U:.*]] = kernel.linear @[[UP]](%[[N]], @up.bf16x3 bias @up.bias.bf16x3) panels 4 by 2 rows by 32 workspace {{[0-9]+}} {name = "up"} : tensor<?x2x64xbf16> -> tensor<?x2x40xbf16>
//  CHECK-NEXT:   %[[D:.*]] = kernel.linear @[[DOWN]](%[[U]], @down.bf16x3 residual %[[X]] : tensor<?x64xf32>) panels 4 by 2 rows by 32 {{.*}} -> tensor<?x64xf32>
//  CHECK-NEXT:   %[[S:.*]] = kernel.rows @split_64_planes_2(%[[D]]) {name = "down"} : (tensor<?x64xf32>) -> tensor<?x2x64xbf16>
//  CHECK-NEXT:   %[[A:.*]] = kernel.linear @{{.*}}(%[[S]], @square.bf16x3)
//  CHECK-NEXT:   %[[B:.*]] = kernel.linear @{{.*}}(%[[S]], @square.bf16x3)
//  CHECK-NEXT:   kernel.rows @add_64(%[[A]], %[[B]])
//       CHECK: encoder.weight @up.bf16x3 : tensor<2x2x2048xbf16>
//       CHECK:   %[[P:.*]] = kernel.pad_rows %{{.*}} groups 40 to 64 : tensor<40x64xf32> -> tensor<64x64xf32>
//  CHECK-NEXT:   kernel.pack_tiles %[[P]] planes 2 : tensor<64x64xf32> -> tensor<2x2x2048xbf16>
//       CHECK: encoder.weight @up.bias.bf16x3 : tensor<64xf32>
//       CHECK:   kernel.pad_rows %{{.*}} groups 40 to 64 : tensor<40xf32> -> tensor<64xf32>
//       CHECK: encoder.weight @down.bf16x3 : tensor<2x2x2048xbf16>
//   CHECK-NOT:   pad_rows
//       CHECK:   kernel.pack_tiles %{{.*}} planes 2 : tensor<64x40xf32> -> tensor<2x2x2048xbf16>
//
// Without tiles all of it is f32.
// FMA-LABEL: module attributes {kernel.target = "x86-64-v4"}
//       FMA:   kernel.rows @"layer_norm_64_1e-05_no_bias"
//       FMA:   kernel.linear @linear_f32_8x48_avx512{{.*}} panels 3 by 3 rows by 8 {name = "up"}
//   FMA-NOT:   split
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %n = encoder.layer_norm %x, @gain epsilon 1.0e-5 {name = "norm"} : !rows
    %u = encoder.linear %n, @up bias @up.bias activation gelu precision bf16x3
        {name = "up"} : !rows -> !wide
    %d = encoder.linear %u, @down residual %x : !rows precision bf16x3
        {name = "down"} : !wide -> !rows
    %a = encoder.linear %d, @square precision bf16x3 {name = "one"} : !rows -> !rows
    %b = encoder.linear %d, @square precision bf16x3 {name = "two"} : !rows -> !rows
    %s = encoder.add %a, %b : !rows
    %p = encoder.pick %s : !rows -> tensor<?x64xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x64xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
  encoder.weight @gain : tensor<64xf32> {
    %0 = encoder.tensor "gain" in "model.safetensors" : tensor<64xf32>
    encoder.yield %0 : tensor<64xf32>
  }
  encoder.weight @up : tensor<40x64xf32> {
    %0 = encoder.tensor "up" in "model.safetensors" : tensor<40x64xf32>
    encoder.yield %0 : tensor<40x64xf32>
  }
  encoder.weight @up.bias : tensor<40xf32> {
    %0 = encoder.tensor "up.bias" in "model.safetensors" : tensor<40xf32>
    encoder.yield %0 : tensor<40xf32>
  }
  encoder.weight @down : tensor<64x40xf32> {
    %0 = encoder.tensor "down" in "model.safetensors" : tensor<64x40xf32>
    encoder.yield %0 : tensor<64x40xf32>
  }
  encoder.weight @square : tensor<64x64xf32> {
    %0 = encoder.tensor "square" in "model.safetensors" : tensor<64x64xf32>
    encoder.yield %0 : tensor<64x64xf32>
  }
}

// -----

!rows = tensor<?x64xf32>

// Weights that are bf16 as they are need one term of three of the activations, and
// lose nothing by it: that is f32 there, and as good as bf16x3. A gate counts.
// CHECK-LABEL: module attributes
//       CHECK:   %[[P:.*]] = kernel.rows @split_64_planes_3
//  CHECK-NEXT:   %[[A:.*]] = kernel.linear @linear_bf16x3w_32x32_amx{{.*}}(%[[P]], @exact.bf16x3w) {{.*}} {name = "exact"} : tensor<?x3x64xbf16> -> tensor<?x3x64xbf16>
//  CHECK-NEXT:   %[[B:.*]] = kernel.linear @linear_bf16x3w_32x32_amx{{.*}}(%[[A]], @exact.bf16x3w) {{.*}} {name = "exact3"} : tensor<?x3x64xbf16> -> tensor<?x1x64xbf16>
//  CHECK-NEXT:   %[[C:.*]] = kernel.linear @linear_bf16_32x32_amx{{.*}}(%[[B]], @exact.bf16) {{.*}} {name = "exact1"} : tensor<?x1x64xbf16> -> tensor<?x1x64xbf16>
//  CHECK-NEXT:   %[[D:.*]] = kernel.linear @linear_bf16_32x32_amx{{.*}}(%[[C]], @other.bf16) {{.*}} {name = "other1"} : tensor<?x1x64xbf16> -> tensor<?x2x64xbf16>
//  CHECK-NEXT:   %[[E:.*]] = kernel.linear @linear_bf16x3_32x32_amx{{.*}}.gated{{.*}}(%[[D]], @[[MIXED:exact.bf16x3]]) panels 8 by 2 {{.*}} {name = "mixed"} : tensor<?x2x64xbf16> -> tensor<?x3x64xbf16>
//  CHECK-NEXT:   kernel.linear @linear_bf16x3w_32x32_amx{{.*}}.gated.silu(%[[E]], @[[GATED:.*]]) panels 8 by 2 {{.*}} {name = "gated"} : tensor<?x3x64xbf16> -> tensor<?x64xf32>
//   CHECK-DAG: encoder.weight @[[GATED]] : tensor<4x2x1024xbf16>
//   CHECK-DAG: encoder.weight @exact.bf16 : tensor<2x2x1024xbf16>
//   CHECK-DAG: encoder.weight @exact.bf16x3w : tensor<2x2x1024xbf16>
//   CHECK-DAG: encoder.weight @[[MIXED]] : tensor<4x2x2048xbf16>
//   CHECK-DAG: kernel.pack_tiles %{{.*}} gate %{{.*}} : tensor<64x64xf32> planes 2 : tensor<64x64xbf16> -> tensor<4x2x2048xbf16>
//
// Without tiles such weights are stored in bf16 for f32 products, which are the
// same, and so are others that bf16 may round.
// FMA-LABEL: module attributes
//       FMA:   kernel.define @[[WIDENS:.*]] row "linear_f32_8x48_avx512" operands 10 {bf16_weights, k = 64 : i64, lda = 64 : i64, ldc = 64 : i64}
//       FMA:   %[[A:.*]] = kernel.linear @[[WIDENS]](%{{.*}}, @exact.packed.bf16) panels 4 by 3 rows by 8 workspace 12288 {name = "exact"}
//  FMA-NEXT:   %[[B:.*]] = kernel.linear @[[WIDENS]](%[[A]], @exact.packed.bf16) {{.*}} {name = "exact3"}
//  FMA-NEXT:   %[[C:.*]] = kernel.linear @[[WIDENS]](%[[B]], @exact.packed.bf16) {{.*}} {name = "exact1"}
//  FMA-NEXT:   %[[D:.*]] = kernel.linear @[[WIDENS]](%[[C]], @other.packed.bf16) {{.*}} {name = "other1"}
//  FMA-NEXT:   %[[E:.*]] = kernel.linear @linear_f32_8x48_avx512.k64.a64.c64.gated(%[[D]], @exact.packed) panels 8 by 3 rows by 8 {name = "mixed"}
//  FMA-NEXT:   kernel.linear @linear_f32_8x48_avx512.k64.a64.c64.gated.bf16_weights.silu(%[[E]], @[[GATED:.*]]) panels 8 by 3 rows by 8 workspace 12288 {name = "gated"}
//   FMA-DAG: encoder.weight @exact.packed.bf16 : tensor<4x32x32xbf16>
//   FMA-DAG: encoder.weight @[[GATED]] : tensor<8x32x32xbf16>
//   FMA-DAG:   kernel.pack_gated %{{.*}} gate %{{.*}} : tensor<64x64xbf16> by 8 : tensor<64x64xbf16> -> tensor<8x32x32xbf16>
//   FMA-DAG: encoder.weight @exact.packed : tensor<8x64x16xf32>
//       FMA: encoder.weight @other.packed.bf16 : tensor<4x32x32xbf16>
//       FMA:   %[[CAST:.*]] = encoder.cast %{{.*}} : tensor<64x64xf32> -> tensor<64x64xbf16>
//  FMA-NEXT:   kernel.pack %[[CAST]] : tensor<64x64xbf16> -> tensor<4x32x32xbf16>
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %a = encoder.linear %x, @exact {name = "exact"} : !rows -> !rows
    %b = encoder.linear %a, @exact precision bf16x3 {name = "exact3"} : !rows -> !rows
    %c = encoder.linear %b, @exact precision bf16 {name = "exact1"} : !rows -> !rows
    %d = encoder.linear %c, @other precision bf16 {name = "other1"} : !rows -> !rows
    %e = encoder.linear %d, @exact gate @other precision bf16x3 {name = "mixed"} : !rows -> !rows
    %f = encoder.linear %e, @exact gate @exact activation silu {name = "gated"} : !rows -> !rows
    %p = encoder.pick %f : !rows -> tensor<?x64xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x64xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
  encoder.weight @exact : tensor<64x64xbf16> {
    %0 = encoder.tensor "exact" in "model.safetensors" : tensor<64x64xbf16>
    encoder.yield %0 : tensor<64x64xbf16>
  }
  encoder.weight @other : tensor<64x64xf32> {
    %0 = encoder.tensor "other" in "model.safetensors" : tensor<64x64xf32>
    encoder.yield %0 : tensor<64x64xf32>
  }
}

// -----

!rows = tensor<?x64xf32>
!inner = tensor<?x4010xf32>

// 4010 columns between two linears are never in memory as a whole: chunks of 1344,
// 1344 and 1322 of them are made and added to the residual, one behind the other. The
// last sum takes the bias.
// CHECK-LABEL: module attributes
//       CHECK:   %[[X:.*]] = kernel.embed
//  CHECK-NEXT:   %[[P:.*]] = kernel.rows @split_64_planes_1(%[[X]])
//  CHECK-NEXT:   %[[U0:.*]] = kernel.linear @[[UP:.*]](%[[P]], @up.rows.0.bf16 bias @up.bias.rows.0.bf16) panels 168 by 2 {{.*}} {name = "up"} : tensor<?x1x64xbf16> -> tensor<?x1x1344xbf16>
//  CHECK-NEXT:   %[[S0:.*]] = kernel.linear @{{[^ ]*}}(%[[U0]], @down.columns.0.bf16 residual %[[X]] : tensor<?x64xf32>) panels 4 by 2 {{.*}} -> tensor<?x64xf32>
//  CHECK-NEXT:   %[[U1:.*]] = kernel.linear @[[UP]](%[[P]], @up.rows.1344.bf16 bias @up.bias.rows.1344.bf16) {{.*}} -> tensor<?x1x1344xbf16>
//  CHECK-NEXT:   %[[S1:.*]] = kernel.linear @{{[^ ]*}}.r64(%[[U1]], @down.columns.1344.bf16 residual %[[S0]] : tensor<?x64xf32>)
//  CHECK-NEXT:   %[[U2:.*]] = kernel.linear @{{[^ ]*}}(%[[P]], @up.rows.2688.bf16 bias @up.bias.rows.2688.bf16) panels 168 by 2 {{.*}} -> tensor<?x1x1322xbf16>
//  CHECK-NEXT:   kernel.linear @{{[^ ]*}}.bias.r64(%[[U2]], @down.columns.2688.bf16 bias @down.bias{{.*}} residual %[[S1]] : tensor<?x64xf32>) panels 4 by 2 {{.*}} {name = "down"} : tensor<?x1x1322xbf16> -> tensor<?x64xf32>
//
// Rows of the first weight and its gate are padded to whole planes, as tiles and
// biases, which gates share by 16.
//       CHECK: encoder.weight @up.rows.2688.bf16 : tensor<84x2x1024xbf16>
//   CHECK-DAG:   encoder.slice %{{.*}} from 2688 : tensor<4010x64xf32> -> tensor<1322x64xf32>
//   CHECK-DAG:   kernel.pad_rows %{{.*}} groups 1322 to 1344
//       CHECK:   kernel.pack_tiles %{{.*}} gate %{{.*}} : tensor<1344x64xf32> planes 1 : tensor<1344x64xf32> -> tensor<84x2x1024xbf16>
//       CHECK: encoder.weight @up.bias.rows.2688.bf16 : tensor<2688xf32>
//       CHECK:   kernel.pack_gated %{{.*}} gate %{{.*}} : tensor<1344xf32> by 16 : tensor<1344xf32> -> tensor<2688xf32>
//       CHECK: encoder.weight @down.columns.2688.bf16 : tensor<2x42x1024xbf16>
//       CHECK:   encoder.slice_columns %{{.*}} from 2688 : tensor<64x4010xf32> -> tensor<64x1322xf32>
//
// A chain of fused multiply-adds would be another sum, so f32 kernels make no
// chunks.
// FMA-LABEL: module attributes
//       FMA:   %[[U:.*]] = kernel.linear {{.*}} -> tensor<?x4010xf32>
//  FMA-NEXT:   kernel.linear {{.*}}(%[[U]], @down.packed.bf16 bias @down.bias.packed residual
//   FMA-NOT:   accumulate
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %u = encoder.linear %x, @up bias @up.bias gate @gate gate_bias @up.bias activation silu precision bf16
        {name = "up"} : !rows -> !inner
    %d = encoder.linear %u, @down bias @down.bias residual %x : !rows precision bf16
        {name = "down"} : !inner -> !rows
    %p = encoder.pick %d : !rows -> tensor<?x64xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x64xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
  encoder.weight @up : tensor<4010x64xf32> {
    %0 = encoder.tensor "up" in "model.safetensors" : tensor<4010x64xf32>
    encoder.yield %0 : tensor<4010x64xf32>
  }
  encoder.weight @gate : tensor<4010x64xf32> {
    %0 = encoder.tensor "gate" in "model.safetensors" : tensor<4010x64xf32>
    encoder.yield %0 : tensor<4010x64xf32>
  }
  encoder.weight @up.bias : tensor<4010xf32> {
    %0 = encoder.tensor "up.bias" in "model.safetensors" : tensor<4010xf32>
    encoder.yield %0 : tensor<4010xf32>
  }
  encoder.weight @down : tensor<64x4010xf32> {
    %0 = encoder.tensor "down" in "model.safetensors" : tensor<64x4010xf32>
    encoder.yield %0 : tensor<64x4010xf32>
  }
  encoder.weight @down.bias : tensor<64xf32> {
    %0 = encoder.tensor "down.bias" in "model.safetensors" : tensor<64xf32>
    encoder.yield %0 : tensor<64xf32>
  }
}

// -----

!rows = tensor<?x64xf32>
!inner = tensor<?x1000xf32>

// With more planes a residual comes last: to be added once is more exact.
// CHECK-LABEL: module attributes
//       CHECK:   %[[X:.*]] = kernel.embed
//       CHECK:   %[[U0:.*]] = kernel.linear {{.*}}@up.rows.0.bf16x3) {{.*}} -> tensor<?x2x512xbf16>
//  CHECK-NEXT:   %[[S0:.*]] = kernel.linear @{{[^ ]*}}(%[[U0]], @down.columns.0.bf16x3) {{.*}} -> tensor<?x64xf32>
//  CHECK-NEXT:   %[[U1:.*]] = kernel.linear {{.*}}@up.rows.512.bf16x3) {{.*}} -> tensor<?x2x488xbf16>
//  CHECK-NEXT:   kernel.linear @{{[^ ]*}}.accumulate.r64(%[[U1]], @down.columns.512.bf16x3 residual %[[X]] : tensor<?x64xf32> accumulate %[[S0]] : tensor<?x64xf32>)
//   FMA-LABEL: module attributes
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %u = encoder.linear %x, @up activation gelu precision bf16x3 : !rows -> !inner
    %d = encoder.linear %u, @down residual %x : !rows precision bf16x3 : !inner -> !rows
    %p = encoder.pick %d : !rows -> tensor<?x64xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x64xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
  encoder.weight @up : tensor<1000x64xf32> {
    %0 = encoder.tensor "up" in "model.safetensors" : tensor<1000x64xf32>
    encoder.yield %0 : tensor<1000x64xf32>
  }
  encoder.weight @down : tensor<64x1000xf32> {
    %0 = encoder.tensor "down" in "model.safetensors" : tensor<64x1000xf32>
    encoder.yield %0 : tensor<64x1000xf32>
  }
}

// -----

!rows = tensor<?x80xf32>
!keys = tensor<?x40xf32>

// Attention by tiles: heads of 20 columns become planes of 32, the query carries
// the scale of the scores. Keys and values of two heads are packed once for the
// four of queries.
// CHECK-LABEL: module attributes
//   CHECK-DAG: kernel.define @[[PACK:.*]] row "attention_pack_bf16x3_avx512" operands 6 {head_size = 20 : i64, kv_plane_stride = 64 : i64, ldkv = 160 : i64}
//   CHECK-DAG: kernel.define @[[ATTENTION:.*]] row "attention_bf16x3_32_amx" operands 9 {head_size = 20 : i64, ldo = 96 : i64, ldq = 288 : i64, q_plane_stride = 128 : i64, query_heads = 2 : i64}
//       CHECK:   %[[QKV:.*]] = kernel.linear {{.*}} {name = "qkv"} : tensor<?x2x80xbf16> -> tensor<?x160xf32>
//  CHECK-NEXT:   %[[K:.*]] = kernel.heads @heads_2x20_planes_2(%[[QKV]]) column 80 weights [] {{.*}} : tensor<?x160xf32> -> tensor<?x2x64xbf16>
//  CHECK-NEXT:   %[[V:.*]] = kernel.heads @heads_2x20_planes_2(%[[QKV]]) column 120 weights [] {{.*}} : tensor<?x160xf32> -> tensor<?x2x64xbf16>
//  CHECK-NEXT:   %[[Q:.*]] = kernel.heads @"heads_4x20_norm_1e-05_rope_times_0.721{{[0-9]*}}_planes_2"(%[[QKV]] at %{{.*}} : tensor<?xi32>) column 0 weights [@gain, @rope] {name = "q"} : tensor<?x160xf32> -> tensor<?x2x128xbf16>
//  CHECK-NEXT:   %[[P:.*]]:2 = kernel.attention_pack @[[PACK]](%[[K]], %[[V]]) heads 2 row_bytes 128 {name = "self"} : tensor<?x2x64xbf16>
//  CHECK-NEXT:   %[[A:.*]] = kernel.tile_attention @[[ATTENTION]](%[[Q]], %[[P]]#0, %[[P]]#1) heads 4 by 2 row_bytes 128 rows 512 by 32 workspace {{[0-9]+}} {name = "self"} : tensor<?x2x128xbf16>, tensor<?x2x64xbf16> -> tensor<?x80xf32>
//
// Heads that end within a plane fill none up: the result is f32, and split.
//  CHECK-NEXT:   %[[S:.*]] = kernel.rows @split_80_planes_2(%[[A]])
//  CHECK-NEXT:   kernel.linear {{.*}}(%[[S]], @o.bf16x3)
//
// FMA-LABEL: module attributes
//       FMA:   %[[QKV:.*]] = kernel.linear {{.*}} -> tensor<?x160xf32>
//       FMA:   kernel.heads @"heads_4x20_norm_1e-05_rope_panels"(%[[QKV]] at
//       FMA:   kernel.attention @"attention_f32_48_avx512
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %qkv = encoder.linear %x, @qkv precision bf16x3 {name = "qkv"} : !rows -> tensor<?x160xf32>
    %q = encoder.columns %qkv from 0 : tensor<?x160xf32> -> !rows
    %k = encoder.columns %qkv from 80 : tensor<?x160xf32> -> !keys
    %v = encoder.columns %qkv from 120 : tensor<?x160xf32> -> !keys
    %qn = encoder.rms_norm %q, @gain heads 4 epsilon 1.0e-5 : !rows
    %qr = encoder.rope %qn, %at in @rope heads 4 {name = "q"} : !rows, tensor<?xi32>
    %a = encoder.attention %qr, %k, %v heads 4 key_heads 2 scale 0.5 precision bf16x3
        {name = "self"} : !rows, !keys
    %o = encoder.linear %a, @o precision bf16x3 {name = "o"} : !rows -> tensor<?x64xf32>
    %p = encoder.pick %o : tensor<?x64xf32> -> tensor<?x64xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x64xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x80xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x80xf32>
    encoder.yield %0 : tensor<5x80xf32>
  }
  encoder.weight @qkv : tensor<160x80xf32> {
    %0 = encoder.tensor "qkv" in "model.safetensors" : tensor<160x80xf32>
    encoder.yield %0 : tensor<160x80xf32>
  }
  encoder.weight @o : tensor<64x80xf32> {
    %0 = encoder.tensor "o" in "model.safetensors" : tensor<64x80xf32>
    encoder.yield %0 : tensor<64x80xf32>
  }
  encoder.weight @gain : tensor<20xf32> {
    %0 = encoder.tensor "gain" in "model.safetensors" : tensor<20xf32>
    encoder.yield %0 : tensor<20xf32>
  }
  encoder.weight @rope : tensor<512x20xf32> {
    %0 = encoder.rope_table theta 10000.0 : tensor<512x20xf32>
    encoder.yield %0 : tensor<512x20xf32>
  }
}

// -----

!rows = tensor<?x64xf32>

// Heads that fill planes are stored as such where linears read them. One term each,
// so planes are rows of 64 columns; the query of a kernel that computes exponentials
// in integers carries 128 times the scale.
//
// A norm that a residual adds, too, stays f32.
// CHECK-LABEL: module attributes
//   CHECK-DAG: kernel.define @[[ATTENTION:.*]] row "attention_bf16_32_amx" operands 9 {head_size = 32 : i64, ldo = 96 : i64, ldq = 96 : i64, plane_stride = 64 : i64, planes = 1 : i64, q_plane_stride = 64 : i64, window = 4 : i64}
//       CHECK:   kernel.heads @heads_2x32_times_92.33{{[0-9]*}}_planes_1
//       CHECK:   %[[A:.*]] = kernel.tile_attention @[[ATTENTION]]({{.*}}) heads 2 by 2 row_bytes 64 rows 512 by 32 {{.*}} -> tensor<?x1x64xbf16>
//  CHECK-NEXT:   %[[O:.*]] = kernel.linear {{.*}}(%[[A]], @q.bf16) {{.*}} -> tensor<?x64xf32>
//  CHECK-NEXT:   %[[R:.*]] = kernel.rows @"rms_norm_64_1e-05"(%[[O]]) weights [@gain] : (tensor<?x64xf32>) -> tensor<?x64xf32>
//  CHECK-NEXT:   %[[S:.*]] = kernel.rows @split_64_planes_1(%[[R]])
//  CHECK-NEXT:   kernel.linear {{.*}}(%[[S]], @q.bf16 residual %[[R]] : tensor<?x64xf32>)
//
// FMA-LABEL: module attributes
//       FMA:   kernel.attention {{.*}} heads 2 by 2 of 2
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %q = encoder.linear %x, @q precision bf16 {name = "q"} : !rows -> !rows
    %a = encoder.attention %q, %q, %q heads 2 scale 0.5 window 4 precision bf16
        {name = "self"} : !rows, !rows
    %o = encoder.linear %a, @q precision bf16 {name = "o"} : !rows -> !rows
    %r = encoder.rms_norm %o, @gain epsilon 1.0e-5 : !rows
    %b = encoder.linear %r, @q residual %r : !rows precision bf16 {name = "b"} : !rows -> !rows
    %p = encoder.pick %b : !rows -> tensor<?x64xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x64xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
  encoder.weight @q : tensor<64x64xf32> {
    %0 = encoder.tensor "q" in "model.safetensors" : tensor<64x64xf32>
    encoder.yield %0 : tensor<64x64xf32>
  }
  encoder.weight @gain : tensor<64xf32> {
    %0 = encoder.tensor "gain" in "model.safetensors" : tensor<64xf32>
    encoder.yield %0 : tensor<64xf32>
  }
}

// -----

!rows = tensor<?x64xf32>

// A convolution reads one plane of what products of bf16 made; what multiplies it
// does not cross a step and stays f32. From other arithmetic it reads f32.
// CHECK-LABEL: module attributes
//       CHECK:   %[[G:.*]] = kernel.linear {{.*}} {name = "input"} : tensor<?x1x64xbf16> -> tensor<?x1x64xbf16>
//       CHECK:   %[[S:.*]] = kernel.linear {{.*}} {name = "scale"} : tensor<?x1x64xbf16> -> tensor<?x64xf32>
//  CHECK-NEXT:   %[[C:.*]] = kernel.short_conv @short_conv_64_bf16_scale_planes_2(%[[G]] at %{{.*}} scale %[[S]] : tensor<?x64xf32>{{.*}} : tensor<?x1x64xbf16> -> tensor<?x2x64xbf16>
//  CHECK-NEXT:   %[[E:.*]] = kernel.linear {{.*}}(%[[C]], {{.*}} {name = "exact"} : tensor<?x2x64xbf16> -> tensor<?x64xf32>
//  CHECK-NEXT:   kernel.short_conv @short_conv_64(%[[E]] at
//
// FMA-LABEL: module attributes
//       FMA:   kernel.short_conv @short_conv_64_scale(%{{.*}} : tensor<?x64xf32> -> tensor<?x64xf32>
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %g = encoder.linear %x, @w precision bf16 {name = "input"} : !rows -> !rows
    %s = encoder.linear %x, @w precision bf16 {name = "scale"} : !rows -> !rows
    %c = encoder.short_conv %g, @conv : !rows -> !rows
    %m = encoder.multiply %c, %s : !rows
    %e = encoder.linear %m, @w precision bf16x3 {name = "exact"} : !rows -> !rows
    %d = encoder.short_conv %e, @conv : !rows -> !rows
    %p = encoder.pick %d : !rows -> tensor<?x64xf32, #encoder.rows<picked>>
    encoder.output "tokens" %p : tensor<?x64xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<5x64xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x64xf32>
    encoder.yield %0 : tensor<5x64xf32>
  }
  encoder.weight @w : tensor<64x64xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<64x64xf32>
    encoder.yield %0 : tensor<64x64xf32>
  }
  encoder.weight @conv : tensor<64x1x3xf32> {
    %0 = encoder.tensor "conv" in "model.safetensors" : tensor<64x1x3xf32>
    encoder.yield %0 : tensor<64x1x3xf32>
  }
}

// -----

!rows = tensor<?x40xf32>
!picked = tensor<?x40xf32, #encoder.rows<picked>>

// A head over a vocabulary multiplies as all linears do, a group of pairs of panels
// at a time. A table that the embedding shares stays as it is; a program packs pairs
// of its panels, in the planes that the precision wants. A weight of its own is
// packed once, with its bias to whole pairs.
// CHECK-LABEL: module attributes
//   CHECK-DAG: kernel.define @[[EXACT:linear_bf16x3w_32x32_amx.*]] row "linear_bf16x3w_32x32_amx" operands 10 {bias, k = 40 : i64, lda = 224 : i64, ldc = 128 : i64}
//       CHECK:   %[[P:.*]] = kernel.gather @copy_40(%{{.*}}) by pick
//   CHECK-DAG:   %[[P1:.*]] = kernel.rows @split_40_planes_1(%[[P]])
//   CHECK-DAG:   %[[P2:.*]] = kernel.rows @split_40_planes_2(%[[P]])
//   CHECK-DAG:   %[[P3:.*]] = kernel.rows @split_40_planes_3(%[[P]])
//       CHECK:   kernel.output "exact" columns 97 per_token
//  CHECK-NEXT:   kernel.linear_store @[[EXACT]](%[[P3]], @exact bias @exact.bias.bf16x3w transpose @transpose_pair_40_bf16_planes_1) to "exact" by @copy_prefix_128 columns 97 panels by 8 rows by 32 workspace {{[0-9]+}} {name = "exact"} : tensor<?x3x40xbf16, #encoder.rows<picked>>
//       CHECK:   kernel.linear_store @linear_bf16_32x32_amx{{.*}}(%[[P1]], @exact transpose @transpose_pair_40_bf16_planes_1) to "exact1"
//       CHECK:   kernel.linear_store @linear_bf16x6_32x32_amx{{.*}}(%[[P3]], @words transpose @transpose_pair_40_f32) to "words"
//       CHECK:   kernel.linear_store @linear_bf16x3_32x32_amx{{.*}}(%[[P2]], @words transpose @transpose_pair_40_f32_planes_2) to "words3"
//       CHECK:   kernel.linear_store @linear_bf16x3_32x32_amx{{.*}}(%[[P2]], @wide.bf16x3) to "wide" by @copy_prefix_128 columns 1025 panels by 8
//       CHECK: encoder.weight @exact.bias.bf16x3w : tensor<128xf32>
//       CHECK: encoder.weight @wide.bf16x3 : tensor<33x2x2048xbf16>
//   CHECK-DAG: func.func private @transpose_pair_40_bf16_planes_1(%{{.*}}: memref<32x40xbf16>, %{{.*}}: index, %{{.*}}: memref<2048xbf16>)
//   CHECK-DAG: func.func private @transpose_pair_40_f32_planes_2(%{{.*}}: memref<32x40xf32>, %{{.*}}: index, %{{.*}}: memref<4096xbf16>)
//   CHECK-DAG: func.func private @transpose_pair_40_f32(%{{.*}}: memref<32x40xf32>, %{{.*}}: index, %{{.*}}: memref<2048xf32>)
//
// FMA-LABEL: module attributes
//       FMA:   kernel.linear_store @linear_f32_8x48_avx512{{.*}}, @exact bias @exact.bias.packed transpose @transpose_panel_40_bf16) {{.*}} panels by 3 rows by 8 {name = "exact"}
// FMA-COUNT-4: kernel.linear_store @linear_f32_8x48_avx512
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids, %ids in [@words, @exact]
        : tensor<?xi32>, tensor<?xi32> -> !rows
    %p = encoder.pick %x : !rows -> !picked
    %a = encoder.linear %p, @exact bias @exact.bias {name = "exact"}
        : !picked -> tensor<?x97xf32, #encoder.rows<picked>>
    encoder.output "exact" %a : tensor<?x97xf32, #encoder.rows<picked>>
    %b = encoder.linear %p, @exact precision bf16
        : !picked -> tensor<?x97xf32, #encoder.rows<picked>>
    encoder.output "exact1" %b : tensor<?x97xf32, #encoder.rows<picked>>
    %c = encoder.linear %p, @words
        : !picked -> tensor<?x97xf32, #encoder.rows<picked>>
    encoder.output "words" %c : tensor<?x97xf32, #encoder.rows<picked>>
    %d = encoder.linear %p, @words precision bf16x3
        : !picked -> tensor<?x97xf32, #encoder.rows<picked>>
    encoder.output "words3" %d : tensor<?x97xf32, #encoder.rows<picked>>
    %e = encoder.linear %p, @wide precision bf16x3
        : !picked -> tensor<?x1025xf32, #encoder.rows<picked>>
    encoder.output "wide" %e : tensor<?x1025xf32, #encoder.rows<picked>>
    return
  }
  encoder.weight @words : tensor<97x40xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<97x40xf32>
    encoder.yield %0 : tensor<97x40xf32>
  }
  encoder.weight @exact : tensor<97x40xbf16> {
    %0 = encoder.tensor "exact" in "model.safetensors" : tensor<97x40xbf16>
    encoder.yield %0 : tensor<97x40xbf16>
  }
  encoder.weight @exact.bias : tensor<97xf32> {
    %0 = encoder.tensor "exact.bias" in "model.safetensors" : tensor<97xf32>
    encoder.yield %0 : tensor<97xf32>
  }
  encoder.weight @wide : tensor<1025x40xf32> {
    %0 = encoder.tensor "wide" in "model.safetensors" : tensor<1025x40xf32>
    encoder.yield %0 : tensor<1025x40xf32>
  }
}
