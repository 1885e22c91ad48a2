// RUN: encast-opt %s | encast-opt | FileCheck %s
// RUN: encast-opt %s --mlir-print-op-generic | encast-opt | FileCheck %s

// Facts of the model and the targets that it was printed for.
// CHECK: module attributes {encoder.model = {attended_length, {{.*}}vocabulary = 97 : i64}, encoder.targets = "x86-64-v3,znver4"}
module attributes {encoder.model = {attended_length, default_output = 0 : i64,
    family = "bert",
    hidden = 24 : i64, layers = 2 : i64, max_tokens = 70 : i64, metadata = "{}",
    pad_id = -1 : i64, token_types = 0 : i64, vocabulary = 97 : i64},
    encoder.targets = "x86-64-v3,znver4"} {

// CHECK: encoder.source "model.safetensors" sha256 "53aa5117"
encoder.source "model.safetensors" sha256 "53aa5117"

// Recipes, with each of their operations.
// CHECK-LABEL: encoder.weight @qkv : tensor<48x24xf32> {
//       CHECK:   %[[Q:.*]] = encoder.tensor "q" in "model.safetensors" : tensor<24x24xbf16>
//       CHECK:   %[[K:.*]] = encoder.tensor "k" in "more/model.safetensors" : tensor<48x24xbf16>
//       CHECK:   %[[PART:.*]] = encoder.slice %[[K]] from 24 : tensor<48x24xbf16> -> tensor<24x24xbf16>
//       CHECK:   %[[SCALED:.*]] = encoder.scale %[[Q]] by 1.250000e-01 : tensor<24x24xbf16>
//       CHECK:   %[[ALL:.*]] = encoder.concat %[[SCALED]], %[[PART]] : tensor<24x24xbf16>, tensor<24x24xbf16> -> tensor<48x24xbf16>
//       CHECK:   %[[F32:.*]] = encoder.cast %[[ALL]] : tensor<48x24xbf16> -> tensor<48x24xf32>
//       CHECK:   encoder.yield %[[F32]] : tensor<48x24xf32>
encoder.weight @qkv : tensor<48x24xf32> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<24x24xbf16>
  %1 = encoder.tensor "k" in "more/model.safetensors" : tensor<48x24xbf16>
  %2 = encoder.slice %1 from 24 : tensor<48x24xbf16> -> tensor<24x24xbf16>
  %3 = encoder.scale %0 by 0.125 : tensor<24x24xbf16>
  %4 = encoder.concat %3, %2 : tensor<24x24xbf16>, tensor<24x24xbf16> -> tensor<48x24xbf16>
  %5 = encoder.cast %4 : tensor<48x24xbf16> -> tensor<48x24xf32>
  encoder.yield %5 : tensor<48x24xf32>
}
// Columns of a matrix, a table that no checkpoint holds, a depthwise convolution.
// CHECK-LABEL: encoder.weight @part : tensor<24x8xf32> {
//       CHECK:   encoder.slice_columns %{{.*}} from 16 : tensor<24x24xf32> -> tensor<24x8xf32>
encoder.weight @part : tensor<24x8xf32> {
  %0 = encoder.tensor "square" in "model.safetensors" : tensor<24x24xf32>
  %1 = encoder.slice_columns %0 from 16 : tensor<24x24xf32> -> tensor<24x8xf32>
  encoder.yield %1 : tensor<24x8xf32>
}
// CHECK-LABEL: encoder.weight @rope : tensor<70x6xf32> {
//       CHECK:   encoder.rope_table theta 1.000000e+06 : tensor<70x6xf32>
encoder.weight @rope : tensor<70x6xf32> {
  %0 = encoder.rope_table theta 1.0e+06 : tensor<70x6xf32>
  encoder.yield %0 : tensor<70x6xf32>
}
encoder.weight @conv : tensor<24x1x3xf32> {
  %0 = encoder.tensor "conv" in "model.safetensors" : tensor<24x1x3xf32>
  encoder.yield %0 : tensor<24x1x3xf32>
}
encoder.weight @head : tensor<6xf32> {
  %0 = encoder.tensor "head" in "model.safetensors" : tensor<6xf32>
  encoder.yield %0 : tensor<6xf32>
}
encoder.weight @words : tensor<97x24xf16> {
  %0 = encoder.tensor "words" in "model.safetensors" : tensor<97x24xf16>
  encoder.yield %0 : tensor<97x24xf16>
}
encoder.weight @places : tensor<70x24xf16> {
  %0 = encoder.tensor "places" in "model.safetensors" : tensor<70x24xf16>
  encoder.yield %0 : tensor<70x24xf16>
}
encoder.weight @types : tensor<1x24xf16> {
  %0 = encoder.tensor "types" in "model.safetensors" : tensor<1x24xf16>
  encoder.yield %0 : tensor<1x24xf16>
}
encoder.weight @square : tensor<24x24xf32> {
  %0 = encoder.tensor "square" in "model.safetensors" : tensor<24x24xf32>
  encoder.yield %0 : tensor<24x24xf32>
}
encoder.weight @vector : tensor<24xf32> {
  %0 = encoder.tensor "vector" in "model.safetensors" : tensor<24xf32>
  encoder.yield %0 : tensor<24xf32>
}

// Values print with the name of their layer, without the layer's number.
// CHECK-LABEL: func.func @values
func.func @values() {
  // CHECK: %ids = encoder.input ids : tensor<?xi32>
  // CHECK: %token_types = encoder.input token_types : tensor<?xi32>
  // CHECK: %positions = encoder.input positions : tensor<?xi32>
  %ids = encoder.input ids : tensor<?xi32>
  %types = encoder.input token_types : tensor<?xi32>
  %positions = encoder.input positions : tensor<?xi32>
  // CHECK: %embeddings = encoder.embedding %ids, %token_types, %positions in [@words, @types, @places] {name = "embeddings"} : tensor<?xi32>, tensor<?xi32>, tensor<?xi32> -> tensor<?x24xf32>
  %x = encoder.embedding %ids, %types, %positions in [@words, @types, @places] {name = "embeddings"} : tensor<?xi32>, tensor<?xi32>, tensor<?xi32> -> tensor<?x24xf32>
  // CHECK: %dense = encoder.linear %embeddings, @square {layer = 1 : i64, name = "encoder.layer.0.dense"} : tensor<?x24xf32> -> tensor<?x24xf32>
  %y = encoder.linear %x, @square {layer = 1 : i64, name = "encoder.layer.0.dense"} : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// CHECK-LABEL: func.func @operations
// CHECK-SAME: (%[[X:.*]]: tensor<?x24xf32>, %[[S:.*]]: tensor<?x24xf32, #encoder.rows<selected>>
func.func @operations(%x: tensor<?x24xf32>,
                      %s: tensor<?x24xf32, #encoder.rows<selected>>) {
  // An epilogue in each of its parts.
  // CHECK: encoder.linear %[[X]], @square bias @vector : tensor<?x24xf32> -> tensor<?x24xf32>
  %0 = encoder.linear %x, @square bias @vector : tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: encoder.linear %[[X]], @square activation gelu_tanh : tensor<?x24xf32> -> tensor<?x24xf32>
  %1 = encoder.linear %x, @square activation gelu_tanh : tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: encoder.linear %[[S]], @square bias @vector activation tanh residual %[[S]] : tensor<?x24xf32, #encoder.rows<selected>> : tensor<?x24xf32, #encoder.rows<selected>> -> tensor<?x24xf32, #encoder.rows<selected>>
  %2 = encoder.linear %s, @square bias @vector activation tanh residual %s : tensor<?x24xf32, #encoder.rows<selected>> : tensor<?x24xf32, #encoder.rows<selected>> -> tensor<?x24xf32, #encoder.rows<selected>>
  // CHECK: encoder.linear %[[X]], @square gate @square activation silu precision bf16 : tensor<?x24xf32> -> tensor<?x24xf32>
  %g0 = encoder.linear %x, @square gate @square activation silu precision bf16 : tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: encoder.linear %[[X]], @square bias @vector gate @square gate_bias @vector residual %[[X]] : tensor<?x24xf32> precision bf16x3 : tensor<?x24xf32> -> tensor<?x24xf32>
  %g1 = encoder.linear %x, @square bias @vector gate @square gate_bias @vector residual %x : tensor<?x24xf32> precision bf16x3 : tensor<?x24xf32> -> tensor<?x24xf32>
  // What a linear has by default is not printed.
  // CHECK: encoder.linear %[[X]], @square : tensor<?x24xf32> -> tensor<?x24xf32>
  %g2 = encoder.linear %x, @square activation none precision f32 : tensor<?x24xf32> -> tensor<?x24xf32>
  // Row by row.
  // CHECK: encoder.layer_norm %[[X]], @vector bias @vector epsilon 1.000000e-05 : tensor<?x24xf32>
  %3 = encoder.layer_norm %x, @vector bias @vector epsilon 1.0e-5 : tensor<?x24xf32>
  // CHECK: encoder.layer_norm %[[X]], @vector epsilon 0.000000e+00 : tensor<?x24xf32>
  %4 = encoder.layer_norm %x, @vector epsilon 0.0 : tensor<?x24xf32>
  // CHECK: encoder.rms_norm %[[X]], @vector epsilon 1.000000e-05 : tensor<?x24xf32>
  %r0 = encoder.rms_norm %x, @vector epsilon 1.0e-5 : tensor<?x24xf32>
  // CHECK: encoder.rms_norm %[[S]], @head heads 4 epsilon 1.000000e-05 : tensor<?x24xf32, #encoder.rows<selected>>
  %r1 = encoder.rms_norm %s, @head heads 4 epsilon 1.0e-5 : tensor<?x24xf32, #encoder.rows<selected>>
  // CHECK: encoder.multiply %[[X]], %[[X]] : tensor<?x24xf32>
  %r2 = encoder.multiply %x, %x : tensor<?x24xf32>
  // CHECK: encoder.activation none %[[X]]
  // CHECK: encoder.activation gelu %[[X]]
  // CHECK: encoder.activation relu %[[X]]
  // CHECK: encoder.activation silu %[[X]]
  // CHECK: encoder.activation quick_gelu %[[X]]
  // CHECK: encoder.activation sigmoid %[[X]] : tensor<?x24xf32>
  %a0 = encoder.activation none %x : tensor<?x24xf32>
  %a1 = encoder.activation gelu %x : tensor<?x24xf32>
  %a2 = encoder.activation relu %x : tensor<?x24xf32>
  %a3 = encoder.activation silu %x : tensor<?x24xf32>
  %a4 = encoder.activation quick_gelu %x : tensor<?x24xf32>
  %a5 = encoder.activation sigmoid %x : tensor<?x24xf32>
  // CHECK: encoder.add %[[X]], %[[X]] : tensor<?x24xf32>
  %5 = encoder.add %x, %x : tensor<?x24xf32>
  // CHECK: encoder.normalize %[[X]] : tensor<?x24xf32>
  %6 = encoder.normalize %x : tensor<?x24xf32>
  // CHECK: %[[PART:.*]] = encoder.columns %[[X]] from 8 : tensor<?x24xf32> -> tensor<?x16xf32>
  %7 = encoder.columns %x from 8 : tensor<?x24xf32> -> tensor<?x16xf32>
  // CHECK: encoder.concat_columns %[[X]], %[[PART]] : tensor<?x24xf32>, tensor<?x16xf32> -> tensor<?x40xf32>
  %8 = encoder.concat_columns %x, %7 : tensor<?x24xf32>, tensor<?x16xf32> -> tensor<?x40xf32>
  // Between rows.
  // CHECK: encoder.attention %[[S]], %[[X]], %[[X]] heads 3 scale 2.500000e-01 : tensor<?x24xf32, #encoder.rows<selected>>, tensor<?x24xf32>
  %9 = encoder.attention %s, %x, %x heads 3 scale 0.25 : tensor<?x24xf32, #encoder.rows<selected>>, tensor<?x24xf32>
  // CHECK: %[[KEYS:.*]] = encoder.columns %[[X]] from 0
  // CHECK: encoder.attention %[[X]], %[[KEYS]], %[[KEYS]] heads 6 key_heads 3 scale 2.500000e-01 window 64 precision bf16 : tensor<?x24xf32>, tensor<?x12xf32>
  %keys = encoder.columns %x from 0 : tensor<?x24xf32> -> tensor<?x12xf32>
  %w = encoder.attention %x, %keys, %keys heads 6 key_heads 3 scale 0.25 window 64 precision bf16 : tensor<?x24xf32>, tensor<?x12xf32>
  // CHECK: encoder.short_conv %[[X]], @conv : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  %c0 = encoder.short_conv %x, @conv : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  // CHECK: encoder.short_conv %[[X]], @conv bias @vector : tensor<?x24xf32> -> tensor<?x24xf32>
  %c1 = encoder.short_conv %x, @conv bias @vector : tensor<?x24xf32> -> tensor<?x24xf32>
  // Positions of the same rows.
  // CHECK: %positions = encoder.input positions
  %positions = encoder.input positions : tensor<?xi32>
  // CHECK: encoder.rope %[[X]], %positions in @rope heads 4 : tensor<?x24xf32>, tensor<?xi32>
  %q0 = encoder.rope %x, %positions in @rope heads 4 : tensor<?x24xf32>, tensor<?xi32>
  // CHECK: %[[POSITIONS:.*]] = encoder.select_rows %positions : tensor<?xi32> -> tensor<?xi32, #encoder.rows<selected>>
  %few = encoder.select_rows %positions : tensor<?xi32> -> tensor<?xi32, #encoder.rows<selected>>
  // CHECK: encoder.rope %[[S]], %[[POSITIONS]] in @rope heads 4 : tensor<?x24xf32, #encoder.rows<selected>>, tensor<?xi32, #encoder.rows<selected>>
  %q1 = encoder.rope %s, %few in @rope heads 4 : tensor<?x24xf32, #encoder.rows<selected>>, tensor<?xi32, #encoder.rows<selected>>
  // CHECK: encoder.select_rows %[[X]] : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  %10 = encoder.select_rows %x : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  // CHECK: %[[D:.*]] = encoder.either all %[[X]] selected %[[S]] : tensor<?x24xf32>, tensor<?x24xf32, #encoder.rows<selected>> -> tensor<?x24xf32, #encoder.rows<demanded>>
  %d = encoder.either all %x selected %s : tensor<?x24xf32>, tensor<?x24xf32, #encoder.rows<selected>> -> tensor<?x24xf32, #encoder.rows<demanded>>
  // CHECK: encoder.first %[[D]] : tensor<?x24xf32, #encoder.rows<demanded>> -> tensor<?x24xf32, #encoder.rows<sequences>>
  %11 = encoder.first %d : tensor<?x24xf32, #encoder.rows<demanded>> -> tensor<?x24xf32, #encoder.rows<sequences>>
  // CHECK: %[[PICKED:.*]] = encoder.pick %[[D]] : tensor<?x24xf32, #encoder.rows<demanded>> -> tensor<?x24xf32, #encoder.rows<picked>>
  %picked = encoder.pick %d : tensor<?x24xf32, #encoder.rows<demanded>> -> tensor<?x24xf32, #encoder.rows<picked>>
  // CHECK: encoder.pool max %[[X]] : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<sequences>>
  // CHECK: encoder.pool mean_sqrt_length %[[X]]
  // CHECK: encoder.pool weighted_mean %[[X]]
  // CHECK: encoder.pool last %[[X]]
  // CHECK: %[[MEAN:.*]] = encoder.pool mean %[[D]]
  %p0 = encoder.pool max %x : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<sequences>>
  %p1 = encoder.pool mean_sqrt_length %x : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<sequences>>
  %p2 = encoder.pool weighted_mean %x : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<sequences>>
  %p3 = encoder.pool last %x : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<sequences>>
  %mean = encoder.pool mean %d : tensor<?x24xf32, #encoder.rows<demanded>> -> tensor<?x24xf32, #encoder.rows<sequences>>
  // CHECK: encoder.output "rows" %[[PICKED]] : tensor<?x24xf32, #encoder.rows<picked>>
  encoder.output "rows" %picked : tensor<?x24xf32, #encoder.rows<picked>>
  // CHECK: encoder.output "mean" %[[MEAN]] all_rows : tensor<?x24xf32, #encoder.rows<sequences>>
  encoder.output "mean" %mean all_rows : tensor<?x24xf32, #encoder.rows<sequences>>
  return
}
}
