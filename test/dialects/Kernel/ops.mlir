// RUN: encast-opt %s | encast-opt | FileCheck %s
// RUN: encast-opt %s --mlir-print-op-generic | encast-opt | FileCheck %s

// CHECK: module attributes {kernel.target = "x86-64-v3"}
module attributes {kernel.target = "x86-64-v3"} {

// CHECK: kernel.define @linear row "linear_f32_6x16_avx2" operands 8 {activation = "gelu", bias, k = 24 : i64, lda = 32 : i64, ldc = 32 : i64, ldr = 32 : i64}
kernel.define @linear row "linear_f32_6x16_avx2" operands 8
    {k = 24, lda = 32, ldc = 32, ldr = 32, bias, activation = "gelu"}
// CHECK: kernel.define @heads row "linear_f32_6x16_avx2" operands 8 {k = 24 : i64, lda = 32 : i64, ldc = 16 : i64}
kernel.define @heads row "linear_f32_6x16_avx2" operands 8
    {k = 24, lda = 32, ldc = 16}
kernel.define @heads.residual row "linear_f32_6x16_avx2" operands 8
    {k = 24, lda = 32, ldc = 32, ldr = 32}
// CHECK: kernel.define @attention row "attention_f32_24_avx2" operands 9 {head_size = 12 : i64, ldo = 32 : i64, scale = 2.500000e-01 : f32}
kernel.define @attention row "attention_f32_24_avx2" operands 9
    {head_size = 12, ldo = 32, scale = 0.25 : f32}

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

// CHECK-LABEL: func.func @encode
func.func @encode() {
  %ids = encoder.input ids : tensor<?xi32>
  // CHECK: %[[X:.*]] = kernel.embed @two(%ids) in [@words] : tensor<?xi32> -> tensor<?x24xf32>
  %x = kernel.embed @two(%ids) in [@words] : tensor<?xi32> -> tensor<?x24xf32>
  // CHECK: %[[Q:.*]] = kernel.linear @heads(%[[X]], @heads.packed) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  %q = kernel.linear @heads(%x, @heads.packed) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: %[[C:.*]] = kernel.attention @attention(%[[Q]], %[[Q]], %[[Q]]) planes [0, 0, 0] heads 2 of 1 rows by 24 workspace 4096 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  %c = kernel.attention @attention(%q, %q, %q) planes [0, 0, 0] heads 2 of 1 rows by 24 workspace 4096 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
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
  return
}
}
