// RUN: encast-opt %s --encoder-fold-attention-scale --split-input-file | FileCheck %s

!rows = tensor<?x8xf32>

// A power of two changes exponents only, so weights, also of type bf16, stay
// exact.
// CHECK-LABEL: func.func @power_of_two
//       CHECK:   encoder.attention {{.*}} scale 1.000000e+00
// CHECK-LABEL: encoder.weight @q :
//       CHECK:   %[[W:.*]] = encoder.tensor
//  CHECK-NEXT:   %[[S:.*]] = encoder.scale %[[W]] by 1.250000e-01 : tensor<8x8xbf16>
//  CHECK-NEXT:   encoder.yield %[[S]]
// CHECK-LABEL: encoder.weight @q.bias :
//       CHECK:   encoder.scale %{{.*}} by 1.250000e-01 : tensor<8xf32>
func.func @power_of_two(%x: !rows, %k: !rows, %v: !rows) -> !rows {
  %q = encoder.linear %x, @q bias @q.bias : !rows -> !rows
  %0 = encoder.attention %q, %k, %v heads 2 scale 0.125 : !rows, !rows
  return %0 : !rows
}
encoder.weight @q : tensor<8x8xbf16> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<8x8xbf16>
  encoder.yield %0 : tensor<8x8xbf16>
}
encoder.weight @q.bias : tensor<8xf32> {
  %0 = encoder.tensor "q.bias" in "model.safetensors" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}

// -----

!rows = tensor<?x8xf32>

// No power of two, so a product with it would round weights.
// CHECK-LABEL: func.func @negative_scale_rounds
//       CHECK:   encoder.attention {{.*}} scale 1.767800e-01
//   CHECK-NOT:   encoder.scale
func.func @negative_scale_rounds(%x: !rows, %k: !rows, %v: !rows) -> !rows {
  %q = encoder.linear %x, @q : !rows -> !rows
  %0 = encoder.attention %q, %k, %v heads 2 scale 0.17678 : !rows, !rows
  return %0 : !rows
}
encoder.weight @q : tensor<8x8xf32> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}

// -----

!rows = tensor<?x8xf32>

// So small a power of two could make weights subnormal, which rounds them; a
// scale of 1 has nothing to fold, and a sign is no power of two.
// CHECK-LABEL: func.func @negative_other_scales
//       CHECK:   encoder.attention {{.*}} scale 3.814697265625E-6
//       CHECK:   encoder.attention {{.*}} scale 1.000000e+00
//       CHECK:   encoder.attention {{.*}} scale -1.250000e-01
//   CHECK-NOT:   encoder.scale
func.func @negative_other_scales(%x: !rows, %k: !rows, %v: !rows)
    -> (!rows, !rows, !rows) {
  %q0 = encoder.linear %x, @q0 : !rows -> !rows
  %0 = encoder.attention %q0, %k, %v heads 2 scale 3.814697265625e-6
      : !rows, !rows
  %q1 = encoder.linear %x, @q1 : !rows -> !rows
  %1 = encoder.attention %q1, %k, %v heads 2 scale 1.0 : !rows, !rows
  %q2 = encoder.linear %x, @q2 : !rows -> !rows
  %2 = encoder.attention %q2, %k, %v heads 2 scale -0.125 : !rows, !rows
  return %0, %1, %2 : !rows, !rows, !rows
}
encoder.weight @q0 : tensor<8x8xf32> {
  %0 = encoder.tensor "q0" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @q1 : tensor<8x8xf32> {
  %0 = encoder.tensor "q1" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @q2 : tensor<8x8xf32> {
  %0 = encoder.tensor "q2" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}

// -----

!rows = tensor<?x8xf32>

// Another linear reads the weight of the query unscaled.
// CHECK-LABEL: func.func @negative_weight_has_other_reader
//       CHECK:   encoder.attention {{.*}} scale 1.250000e-01
//   CHECK-NOT:   encoder.scale
func.func @negative_weight_has_other_reader(%x: !rows, %v: !rows) -> !rows {
  %q = encoder.linear %x, @qk bias @q.bias : !rows -> !rows
  %k = encoder.linear %x, @qk : !rows -> !rows
  %0 = encoder.attention %q, %k, %v heads 2 scale 0.125 : !rows, !rows
  return %0 : !rows
}
encoder.weight @qk : tensor<8x8xf32> {
  %0 = encoder.tensor "qk" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @q.bias : tensor<8xf32> {
  %0 = encoder.tensor "q.bias" in "model.safetensors" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}

// -----

!rows = tensor<?x8xf32>

// If only the bias is shared, the weight must stay unscaled too.
// CHECK-LABEL: func.func @negative_bias_has_other_reader
//       CHECK:   encoder.attention {{.*}} scale 1.250000e-01
//   CHECK-NOT:   encoder.scale
func.func @negative_bias_has_other_reader(%x: !rows, %v: !rows) -> !rows {
  %q = encoder.linear %x, @q bias @bias : !rows -> !rows
  %k = encoder.linear %x, @k bias @bias : !rows -> !rows
  %0 = encoder.attention %q, %k, %v heads 2 scale 0.125 : !rows, !rows
  return %0 : !rows
}
encoder.weight @q : tensor<8x8xf32> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @k : tensor<8x8xf32> {
  %0 = encoder.tensor "k" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @bias : tensor<8xf32> {
  %0 = encoder.tensor "bias" in "model.safetensors" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}

// -----

!rows = tensor<?x8xf32>

// A second attention with its own scale, an activation, a residual: each keeps
// the query from being the product alone.
// CHECK-LABEL: func.func @negative_query_is_more_than_a_product
//       CHECK:   encoder.attention {{.*}} scale 1.250000e-01
//       CHECK:   encoder.attention {{.*}} scale 2.500000e-01
//       CHECK:   encoder.attention {{.*}} scale 5.000000e-01
//       CHECK:   encoder.attention {{.*}} scale 6.250000e-02
//       CHECK:   encoder.attention {{.*}} scale 3.125000e-02
//   CHECK-NOT:   encoder.scale
func.func @negative_query_is_more_than_a_product(%x: !rows, %k: !rows, %v: !rows)
    -> (!rows, !rows, !rows, !rows, !rows) {
  %q0 = encoder.linear %x, @q0 : !rows -> !rows
  %0 = encoder.attention %q0, %k, %v heads 2 scale 0.125 : !rows, !rows
  %1 = encoder.attention %q0, %k, %v heads 2 scale 0.25 : !rows, !rows
  %q1 = encoder.linear %x, @q1 activation tanh : !rows -> !rows
  %2 = encoder.attention %q1, %k, %v heads 2 scale 0.5 : !rows, !rows
  %q2 = encoder.linear %x, @q2 residual %x : !rows : !rows -> !rows
  %3 = encoder.attention %q2, %k, %v heads 2 scale 0.0625 : !rows, !rows
  %4 = encoder.attention %x, %k, %v heads 2 scale 0.03125 : !rows, !rows
  return %0, %1, %2, %3, %4 : !rows, !rows, !rows, !rows, !rows
}
encoder.weight @q0 : tensor<8x8xf32> {
  %0 = encoder.tensor "q0" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @q1 : tensor<8x8xf32> {
  %0 = encoder.tensor "q1" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @q2 : tensor<8x8xf32> {
  %0 = encoder.tensor "q2" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}

// -----

!rows = tensor<?x8xf32>

// A rotation of half a vector is half the rotation, bit by bit.
// CHECK-LABEL: func.func @query_is_rotated
//       CHECK:   encoder.attention {{.*}} scale 1.000000e+00
//       CHECK: encoder.scale %{{.*}} by 5.000000e-01
func.func @query_is_rotated(%x: !rows, %k: !rows, %p: tensor<?xi32>) -> !rows {
  %q = encoder.linear %x, @q : !rows -> !rows
  %r = encoder.rope %q, %p in @rope heads 2 : !rows, tensor<?xi32>
  %0 = encoder.attention %r, %k, %k heads 2 scale 0.5 : !rows, !rows
  return %0 : !rows
}
encoder.weight @q : tensor<8x8xf32> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @rope : tensor<64x4xf32> {
  %0 = encoder.rope_table theta 1.0e4 : tensor<64x4xf32>
  encoder.yield %0 : tensor<64x4xf32>
}

// -----

!rows = tensor<?x8xf32>

// The norm of a head would undo a scale in front of it. A rotation or product
// that something else reads must not change.
// CHECK-LABEL: func.func @negative_other_queries
//       CHECK:   encoder.attention {{.*}} scale 5.000000e-01
//       CHECK:   encoder.attention {{.*}} scale 2.500000e-01
//       CHECK:   encoder.attention {{.*}} scale 1.250000e-01
//   CHECK-NOT:   encoder.scale
func.func @negative_other_queries(%x: !rows, %k: !rows, %p: tensor<?xi32>)
    -> (!rows, !rows, !rows, !rows) {
  %q0 = encoder.linear %x, @q0 : !rows -> !rows
  %n0 = encoder.rms_norm %q0, @g heads 2 epsilon 1.0e-5 : !rows
  %r0 = encoder.rope %n0, %p in @rope heads 2 : !rows, tensor<?xi32>
  %0 = encoder.attention %r0, %k, %k heads 2 scale 0.5 : !rows, !rows
  %q1 = encoder.linear %x, @q1 : !rows -> !rows
  %r1 = encoder.rope %q1, %p in @rope heads 2 : !rows, tensor<?xi32>
  %1 = encoder.attention %r1, %k, %k heads 2 scale 0.25 : !rows, !rows
  %q2 = encoder.linear %x, @q2 gate @q1 : !rows -> !rows
  %2 = encoder.attention %q2, %k, %k heads 2 scale 0.125 : !rows, !rows
  return %0, %1, %2, %r1 : !rows, !rows, !rows, !rows
}
encoder.weight @q0 : tensor<8x8xf32> {
  %0 = encoder.tensor "q0" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @q1 : tensor<8x8xf32> {
  %0 = encoder.tensor "q1" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @q2 : tensor<8x8xf32> {
  %0 = encoder.tensor "q2" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @g : tensor<4xf32> {
  %0 = encoder.tensor "g" in "model.safetensors" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}
encoder.weight @rope : tensor<64x4xf32> {
  %0 = encoder.rope_table theta 1.0e4 : tensor<64x4xf32>
  encoder.yield %0 : tensor<64x4xf32>
}
