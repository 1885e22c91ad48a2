// RUN: encast-opt %s | encast-opt | FileCheck %s
// RUN: encast-opt %s --mlir-print-op-generic | encast-opt | FileCheck %s

// CHECK: module attributes {kernel.target = "x86-64-v3"}
module attributes {kernel.target = "x86-64-v3"} {

// CHECK: kernel.define @linear row "linear_f32_6x16_avx2" operands 10 {activation = "gelu", bias, k = 24 : i64, lda = 32 : i64, ldc = 32 : i64, ldr = 32 : i64}
kernel.define @linear row "linear_f32_6x16_avx2" operands 10
    {k = 24, lda = 32, ldc = 32, ldr = 32, bias, activation = "gelu"}
// CHECK: kernel.define @heads row "linear_f32_6x16_avx2" operands 10 {k = 24 : i64, lda = 32 : i64, ldc = 16 : i64}
kernel.define @heads row "linear_f32_6x16_avx2" operands 10
    {k = 24, lda = 32, ldc = 16}
kernel.define @heads.residual row "linear_f32_6x16_avx2" operands 10
    {k = 24, lda = 32, ldc = 32, ldr = 32}
kernel.define @vocabulary row "linear_bf16_32x32_amx" operands 10
    {k = 24, lda = 64, ldc = 128}
// CHECK: kernel.define @attention row "attention_f32_24_avx2" operands 10 {head_size = 12 : i64, ldo = 32 : i64, scale = 2.500000e-01 : f32}
kernel.define @attention row "attention_f32_24_avx2" operands 10
    {head_size = 12, ldo = 32, scale = 0.25 : f32}
// CHECK: kernel.define @gated row "linear_f32_6x16_avx2" operands 10 {activation = "silu", gated, k = 24 : i64, lda = 32 : i64, ldc = 32 : i64}
kernel.define @gated row "linear_f32_6x16_avx2" operands 10
    {k = 24, lda = 32, ldc = 32, gated, activation = "silu"}
// CHECK: kernel.define @window row "attention_f32_24_avx2" operands 10 {head_size = 12 : i64, ldo = 32 : i64, query_heads = 2 : i64, scale = 1.000000e+00 : f32, window = 0 : i64}
kernel.define @window row "attention_f32_24_avx2" operands 10
    {head_size = 12, ldo = 32, scale = 1.0 : f32, query_heads = 2, window = 0}
kernel.define @up.tiles row "linear_bf16x3_32x32_amx" operands 10
    {k = 24, lda = 96, ldc = 96, planes = 2, plane_stride = 32}
kernel.define @down.tiles row "linear_bf16x3_32x32_amx" operands 10
    {k = 24, lda = 96, ldc = 32}
kernel.define @down.sum row "linear_bf16x3_32x32_amx" operands 10
    {k = 24, lda = 96, ldc = 32, ldr = 32, accumulate}
// CHECK: kernel.define @pack row "attention_pack_bf16x3_avx512" operands 6 {head_size = 12 : i64, kv_plane_stride = 32 : i64, ldkv = 96 : i64}
kernel.define @pack row "attention_pack_bf16x3_avx512" operands 6
    {head_size = 12, ldkv = 96, kv_plane_stride = 32}
// CHECK: kernel.define @tiles row "attention_bf16x3_32_amx" operands 9 {head_size = 12 : i64, ldo = 32 : i64, ldq = 160 : i64, q_plane_stride = 64 : i64, query_heads = 2 : i64}
kernel.define @tiles row "attention_bf16x3_32_amx" operands 9
    {head_size = 12, ldo = 32, ldq = 160, q_plane_stride = 64, query_heads = 2}
kernel.define @tiles.planes row "attention_bf16x3_32_amx" operands 9
    {head_size = 32, ldo = 160, ldq = 160, q_plane_stride = 64, query_heads = 2,
     planes = 2, plane_stride = 64}
kernel.define @pack.32 row "attention_pack_bf16x3_avx512" operands 6
    {head_size = 32, ldkv = 96, kv_plane_stride = 32}

// CHECK: kernel.define @pairs row "linear_f32_6x16_avx2" operands 10 {bf16_weights, k = 23 : i64, lda = 32 : i64, ldc = 32 : i64}
kernel.define @pairs row "linear_f32_6x16_avx2" operands 10
    {k = 23, lda = 32, ldc = 32, bf16_weights}

// CHECK-LABEL: encoder.weight @heads.packed
//       CHECK:   %[[T:.*]] = encoder.tensor
//       CHECK:   %[[PADDED:.*]] = kernel.pad_rows %[[T]] groups 12 to 16 : tensor<24x24xf16> -> tensor<32x24xf16>
//       CHECK:   kernel.pack %[[PADDED]] : tensor<32x24xf16> -> tensor<2x24x16xf32>
encoder.weight @heads.packed : tensor<2x24x16xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<24x24xf16>
  %1 = kernel.pad_rows %0 groups 12 to 16 : tensor<24x24xf16> -> tensor<32x24xf16>
  %2 = kernel.pack %1 : tensor<32x24xf16> -> tensor<2x24x16xf32>
  encoder.yield %2 : tensor<2x24x16xf32>
}
encoder.weight @bias.packed : tensor<32xf32> {
  %0 = encoder.tensor "b" in "model.safetensors" : tensor<24xf32>
  // CHECK: kernel.pack %{{.*}} : tensor<24xf32> -> tensor<32xf32>
  %1 = kernel.pack %0 : tensor<24xf32> -> tensor<32xf32>
  encoder.yield %1 : tensor<32xf32>
}
encoder.weight @gated.packed : tensor<4x24x16xf32> {
  %0 = encoder.tensor "up" in "model.safetensors" : tensor<24x24xf16>
  %1 = encoder.tensor "gate" in "model.safetensors" : tensor<24x24xbf16>
  // CHECK: kernel.pack_gated %{{.*}} gate %{{.*}} : tensor<24x24xbf16> by 16 : tensor<24x24xf16> -> tensor<4x24x16xf32>
  %2 = kernel.pack_gated %0 gate %1 : tensor<24x24xbf16> by 16 : tensor<24x24xf16> -> tensor<4x24x16xf32>
  encoder.yield %2 : tensor<4x24x16xf32>
}
// By groups of 8 columns there is less to fill up.
encoder.weight @gated.by.8 : tensor<3x24x16xf32> {
  %0 = encoder.tensor "up" in "model.safetensors" : tensor<24x24xf16>
  // CHECK: kernel.pack_gated %{{.*}} gate %{{.*}} : tensor<24x24xf16> by 8 : tensor<24x24xf16> -> tensor<3x24x16xf32>
  %1 = kernel.pack_gated %0 gate %0 : tensor<24x24xf16> by 8 : tensor<24x24xf16> -> tensor<3x24x16xf32>
  encoder.yield %1 : tensor<3x24x16xf32>
}
encoder.weight @gated.bias : tensor<48xf32> {
  %0 = encoder.tensor "up.bias" in "model.safetensors" : tensor<24xf16>
  // CHECK: kernel.pack_gated %{{.*}} gate %{{.*}} : tensor<24xf16> by 8 : tensor<24xf16> -> tensor<48xf32>
  %1 = kernel.pack_gated %0 gate %0 : tensor<24xf16> by 8 : tensor<24xf16> -> tensor<48xf32>
  encoder.yield %1 : tensor<48xf32>
}
// Pairs of k in bf16.
encoder.weight @pairs.packed : tensor<2x12x32xbf16> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<24x23xbf16>
  // CHECK: kernel.pack %{{.*}} : tensor<24x23xbf16> -> tensor<2x12x32xbf16>
  %1 = kernel.pack %0 : tensor<24x23xbf16> -> tensor<2x12x32xbf16>
  encoder.yield %1 : tensor<2x12x32xbf16>
}
encoder.weight @gated.pairs : tensor<3x12x32xbf16> {
  %0 = encoder.tensor "up" in "model.safetensors" : tensor<24x24xbf16>
  // CHECK: kernel.pack_gated %{{.*}} gate %{{.*}} : tensor<24x24xbf16> by 8 : tensor<24x24xbf16> -> tensor<3x12x32xbf16>
  %1 = kernel.pack_gated %0 gate %0 : tensor<24x24xbf16> by 8 : tensor<24x24xbf16> -> tensor<3x12x32xbf16>
  encoder.yield %1 : tensor<3x12x32xbf16>
}
encoder.weight @tiles.2 : tensor<1x1x2048xbf16> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<24x24xf16>
  // CHECK: kernel.pack_tiles %{{.*}} planes 2 : tensor<24x24xf16> -> tensor<1x1x2048xbf16>
  %1 = kernel.pack_tiles %0 planes 2 : tensor<24x24xf16> -> tensor<1x1x2048xbf16>
  encoder.yield %1 : tensor<1x1x2048xbf16>
}
encoder.weight @tiles.f32 : tensor<1x1x1024xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<24x24xf16>
  // CHECK: kernel.pack_tiles %{{.*}} planes 1 : tensor<24x24xf16> -> tensor<1x1x1024xf32>
  %1 = kernel.pack_tiles %0 planes 1 : tensor<24x24xf16> -> tensor<1x1x1024xf32>
  encoder.yield %1 : tensor<1x1x1024xf32>
}
encoder.weight @tiles.gated : tensor<2x1x1024xbf16> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<24x24xbf16>
  // CHECK: kernel.pack_tiles %{{.*}} gate %{{.*}} : tensor<24x24xbf16> planes 1 : tensor<24x24xbf16> -> tensor<2x1x1024xbf16>
  %1 = kernel.pack_tiles %0 gate %0 : tensor<24x24xbf16> planes 1 : tensor<24x24xbf16> -> tensor<2x1x1024xbf16>
  encoder.yield %1 : tensor<2x1x1024xbf16>
}
encoder.weight @taps : tensor<3x24xf32> {
  %0 = encoder.tensor "conv" in "model.safetensors" : tensor<24x1x3xbf16>
  // CHECK: kernel.transpose %{{.*}} : tensor<24x1x3xbf16> -> tensor<3x24xf32>
  %1 = kernel.transpose %0 : tensor<24x1x3xbf16> -> tensor<3x24xf32>
  encoder.yield %1 : tensor<3x24xf32>
}
encoder.weight @transposed : tensor<24x8xf32> {
  %0 = encoder.tensor "matrix" in "model.safetensors" : tensor<8x24xf16>
  // CHECK: kernel.transpose %{{.*}} : tensor<8x24xf16> -> tensor<24x8xf32>
  %1 = kernel.transpose %0 : tensor<8x24xf16> -> tensor<24x8xf32>
  encoder.yield %1 : tensor<24x8xf32>
}
encoder.weight @rope : tensor<64x12xf32> {
  %0 = encoder.rope_table theta 10000.0 : tensor<64x12xf32>
  encoder.yield %0 : tensor<64x12xf32>
}
encoder.weight @words : tensor<97x24xf16> {
  %0 = encoder.tensor "words" in "model.safetensors" : tensor<97x24xf16>
  encoder.yield %0 : tensor<97x24xf16>
}
encoder.weight @gain : tensor<24xf32> {
  %0 = encoder.tensor "gain" in "model.safetensors" : tensor<24xf32>
  encoder.yield %0 : tensor<24xf32>
}

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func private @three(memref<24xf32>, memref<24xf32>, memref<24xf32>)
func.func private @prefix(memref<16xf32>, index, memref<16xf32>)
func.func private @split(memref<24xf32>, memref<64xbf16>)
func.func private @norm.rope(memref<24xf32>, memref<12xf32>, memref<1xi32>, memref<12xf32>, memref<16xf32>, index)
func.func private @rope.planes(memref<24xf32>, memref<1xi32>, memref<12xf32>, memref<128xbf16>)
func.func private @conv(memref<24xf32>, memref<24xf32>, memref<24xf32>, memref<2xi32>, memref<72xf32>, memref<24xf32>)
func.func private @conv.scale(memref<24xf32>, memref<24xf32>, memref<24xf32>, memref<2xi32>, memref<72xf32>, memref<24xf32>, memref<24xf32>, memref<24xf32>)

// CHECK-LABEL: func.func @encode
func.func @encode() {
  %ids = encoder.input ids : tensor<?xi32>
  // CHECK: %[[X:.*]] = kernel.embed @two(%ids) in [@words] : tensor<?xi32> -> tensor<?x24xf32>
  %x = kernel.embed @two(%ids) in [@words] : tensor<?xi32> -> tensor<?x24xf32>
  // CHECK: %[[Q:.*]] = kernel.linear @heads(%[[X]], @heads.packed) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  %q = kernel.linear @heads(%x, @heads.packed) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: %[[C:.*]] = kernel.attention @attention(%[[Q]], %[[Q]], %[[Q]]) planes [0, 0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 4096 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  %c = kernel.attention @attention(%q, %q, %q) planes [0, 0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 4096 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: %[[Y:.*]] = kernel.linear @linear(%[[C]], @heads.packed bias @bias.packed residual %[[X]] : tensor<?x24xf32>) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  %y = kernel.linear @linear(%c, @heads.packed bias @bias.packed residual %x : tensor<?x24xf32>) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  // Each part of an epilogue may be missing.
  // CHECK: kernel.linear @heads.residual(%[[C]], @heads.packed residual %[[X]] : tensor<?x24xf32>) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  %z = kernel.linear @heads.residual(%c, @heads.packed residual %x : tensor<?x24xf32>) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: %[[N:.*]] = kernel.rows @three(%[[Y]]) weights [@gain] {layer = 1 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  %n = kernel.rows @three(%y) weights [@gain] {layer = 1 : i64} : (tensor<?x24xf32>) -> tensor<?x24xf32>
  // CHECK: kernel.rows @two(%[[Y]]) columns [8] : (tensor<?x24xf32>) -> tensor<?x16xf32>
  %part = kernel.rows @two(%y) columns [8] : (tensor<?x24xf32>) -> tensor<?x16xf32>
  // CHECK: kernel.gather @two(%[[N]]) by selected : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  %s = kernel.gather @two(%n) by selected : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  // CHECK: kernel.gather @two({{.*}}) by first
  %f = kernel.gather @two(%s) by first : tensor<?x24xf32, #encoder.rows<selected>> -> tensor<?x24xf32, #encoder.rows<sequences>>
  // CHECK: %[[P:.*]] = kernel.gather @two(%[[N]]) by pick
  %p = kernel.gather @two(%n) by pick : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<picked>>
  // CHECK: %[[POOLED:.*]] = kernel.pool @prefix(%[[N]]) : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<sequences>>
  %pooled = kernel.pool @prefix(%n) : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<sequences>>
  // CHECK: kernel.output "rows" columns 8 per_token{{$}}
  kernel.output "rows" columns 8 per_token
  // CHECK: kernel.store @two(%[[N]]) to "rows" columns 16, 8 pick : tensor<?x24xf32>
  kernel.store @two(%n) to "rows" columns 16, 8 pick : tensor<?x24xf32>
  // CHECK: kernel.output "pooled" columns 24 all_rows
  kernel.output "pooled" columns 24 all_rows
  // CHECK: kernel.store @two(%[[POOLED]]) to "pooled" columns 0, 24 : tensor<?x24xf32, #encoder.rows<sequences>>
  kernel.store @two(%pooled) to "pooled" columns 0, 24 : tensor<?x24xf32, #encoder.rows<sequences>>
  // CHECK: kernel.output "token_logits" columns 97 per_token
  kernel.output "token_logits" columns 97 per_token
  // CHECK: kernel.linear_store @heads(%[[P]], @words transpose @prefix) to "token_logits" by @prefix columns 97 panels by 1 rows by 6 : tensor<?x24xf32, #encoder.rows<picked>>
  kernel.linear_store @heads(%p, @words transpose @prefix) to "token_logits" by @prefix columns 97 panels by 1 rows by 6 : tensor<?x24xf32, #encoder.rows<picked>>
  // CHECK: kernel.output "wide" columns 24 per_token
  kernel.output "wide" columns 24 per_token
  // CHECK: kernel.linear_store @heads(%[[P]], @heads.packed) to "wide" by @prefix columns 24 panels by 1 rows by 6 {name = "head"}
  kernel.linear_store @heads(%p, @heads.packed) to "wide" by @prefix columns 24 panels by 1 rows by 6 {name = "head"} : tensor<?x24xf32, #encoder.rows<picked>>
  // CHECK: kernel.output "tiles" columns 97 per_token
  kernel.output "tiles" columns 97 per_token
  // CHECK: %[[S:.*]] = kernel.rows @split(%[[P]])
  %t = kernel.rows @split(%p) : (tensor<?x24xf32, #encoder.rows<picked>>) -> tensor<?x1x24xbf16, #encoder.rows<picked>>
  // CHECK: kernel.linear_store @vocabulary(%[[S]], @words transpose @prefix) to "tiles" by @prefix columns 97 panels by 8 rows by 32 workspace 4096 : tensor<?x1x24xbf16, #encoder.rows<picked>>
  kernel.linear_store @vocabulary(%t, @words transpose @prefix) to "tiles" by @prefix columns 97 panels by 8 rows by 32 workspace 4096 : tensor<?x1x24xbf16, #encoder.rows<picked>>
  return
}
// Heads are normalized and rotated on their way to attention, which reads panels
// of them; heads of queries may share those of keys and values.
// CHECK-LABEL: func.func @panels
func.func @panels(%x: tensor<?x24xf32>, %at: tensor<?xi32>) {
  // CHECK: %[[Q:.*]] = kernel.heads @norm.rope(%{{.*}} at %{{.*}} : tensor<?xi32>) column 0 weights [@gain, @rope] panel_major 2 {name = "q"} : tensor<?x24xf32> -> tensor<?x24xf32>
  %q = kernel.heads @norm.rope(%x at %at : tensor<?xi32>) column 0 weights [@gain, @rope] panel_major 2 {name = "q"} : tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: %[[K:.*]] = kernel.heads @prefix(%{{.*}}) column 12 weights [] panel_major 1 : tensor<?x24xf32> -> tensor<?x12xf32>
  %k = kernel.heads @prefix(%x) column 12 weights [] panel_major 1 : tensor<?x24xf32> -> tensor<?x12xf32>
  // CHECK: kernel.attention @window(%[[Q]], %[[K]], %[[K]]) planes [0, 0, 0] heads 2 by 1 of 1 rows 192 by 24 workspace 4096 : tensor<?x24xf32>, tensor<?x12xf32>, tensor<?x12xf32> -> tensor<?x24xf32>
  %a = kernel.attention @window(%q, %k, %k) planes [0, 0, 0] heads 2 by 1 of 1 rows 192 by 24 workspace 4096 : tensor<?x24xf32>, tensor<?x12xf32>, tensor<?x12xf32> -> tensor<?x24xf32>
  // Half of a gated linear's columns are gates.
  // CHECK: kernel.linear @gated({{.*}}, @gated.by.8) panels 3 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  %g = kernel.linear @gated(%a, @gated.by.8) panels 3 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  // A token and its neighbours; selected rows have their own positions.
  // CHECK: kernel.short_conv @conv(%{{.*}} at %{{.*}} : tensor<?xi32>) weights [@taps] : tensor<?x24xf32> -> tensor<?x24xf32>
  %c = kernel.short_conv @conv(%g at %at : tensor<?xi32>) weights [@taps] : tensor<?x24xf32> -> tensor<?x24xf32>
  %ats = encoder.select_rows %at : tensor<?xi32> -> tensor<?xi32, #encoder.rows<selected>>
  %s = kernel.gather @two(%x) by selected : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  // CHECK: kernel.short_conv @conv.scale(%{{.*}} at %{{.*}} : tensor<?xi32, #encoder.rows<selected>>) weights [@taps, @gain] scale %{{.*}} : tensor<?x24xf32, #encoder.rows<selected>> : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  %d = kernel.short_conv @conv.scale(%g at %ats : tensor<?xi32, #encoder.rows<selected>>) weights [@taps, @gain] scale %s : tensor<?x24xf32, #encoder.rows<selected>> : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  return
}

// Where kernels multiply tiles, values are bf16 planes.
// CHECK-LABEL: func.func @planes
func.func @planes(%x: tensor<?x24xf32>, %at: tensor<?xi32>) {
  // CHECK: %[[P:.*]] = kernel.rows @split(%{{.*}}) : (tensor<?x24xf32>) -> tensor<?x2x24xbf16>
  %p = kernel.rows @split(%x) : (tensor<?x24xf32>) -> tensor<?x2x24xbf16>
  // CHECK: %[[U:.*]] = kernel.linear @up.tiles(%[[P]], @tiles.2) panels 2 by 2 rows by 32 workspace 2048 : tensor<?x2x24xbf16> -> tensor<?x2x24xbf16>
  %u = kernel.linear @up.tiles(%p, @tiles.2) panels 2 by 2 rows by 32 workspace 2048 : tensor<?x2x24xbf16> -> tensor<?x2x24xbf16>
  // Sums go on from one call to the next.
  // CHECK: %[[S:.*]] = kernel.linear @down.tiles(%[[U]], @tiles.2) panels 2 by 2 rows by 32 : tensor<?x2x24xbf16> -> tensor<?x24xf32>
  %s = kernel.linear @down.tiles(%u, @tiles.2) panels 2 by 2 rows by 32 : tensor<?x2x24xbf16> -> tensor<?x24xf32>
  // CHECK: kernel.linear @down.sum(%[[U]], @tiles.2 residual %{{.*}} : tensor<?x24xf32> accumulate %[[S]] : tensor<?x24xf32>) panels 2 by 2 rows by 32 : tensor<?x2x24xbf16> -> tensor<?x24xf32>
  %t = kernel.linear @down.sum(%u, @tiles.2 residual %x : tensor<?x24xf32> accumulate %s : tensor<?x24xf32>) panels 2 by 2 rows by 32 : tensor<?x2x24xbf16> -> tensor<?x24xf32>
  // CHECK: %[[Q:.*]] = kernel.heads @rope.planes(%{{.*}} at %{{.*}} : tensor<?xi32>) column 0 weights [@rope] : tensor<?x24xf32> -> tensor<?x2x64xbf16>
  %q = kernel.heads @rope.planes(%t at %at : tensor<?xi32>) column 0 weights [@rope] : tensor<?x24xf32> -> tensor<?x2x64xbf16>
  %k = kernel.heads @split(%t) column 12 weights [] : tensor<?x24xf32> -> tensor<?x2x32xbf16>
  // CHECK: %[[KV:.*]]:2 = kernel.attention_pack @pack(%{{.*}}, %{{.*}}) heads 1 row_bytes 128 {name = "self"} : tensor<?x2x32xbf16>
  %pk, %pv = kernel.attention_pack @pack(%k, %k) heads 1 row_bytes 128 {name = "self"} : tensor<?x2x32xbf16>
  // CHECK: kernel.tile_attention @tiles(%[[Q]], %[[KV]]#0, %[[KV]]#1) heads 2 by 1 row_bytes 128 rows 512 by 32 workspace 8192 : tensor<?x2x64xbf16>, tensor<?x2x32xbf16> -> tensor<?x24xf32>
  %a = kernel.tile_attention @tiles(%q, %pk, %pv) heads 2 by 1 row_bytes 128 rows 512 by 32 workspace 8192 : tensor<?x2x64xbf16>, tensor<?x2x32xbf16> -> tensor<?x24xf32>
  // Heads that fill tiles may be stored as planes.
  %pk2, %pv2 = kernel.attention_pack @pack.32(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  // CHECK: kernel.tile_attention @tiles.planes({{.*}} : tensor<?x2x64xbf16>, tensor<?x2x32xbf16> -> tensor<?x2x64xbf16>
  %b = kernel.tile_attention @tiles.planes(%q, %pk2, %pv2) heads 2 by 1 row_bytes 128 rows 512 by 32 workspace 8192 : tensor<?x2x64xbf16>, tensor<?x2x32xbf16> -> tensor<?x2x64xbf16>
  return
}
}
