// RUN: encast-opt %s --encoder-fuse-gate-into-linear | FileCheck %s
// RUN: encast-opt %s --encoder-fuse-gate-into-linear --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOC

!in = tensor<?x8xf32>
!out = tensor<?x4xf32>

encoder.weight @gate : tensor<4x8xf32> {
  %0 = encoder.tensor "gate" in "model.safetensors" : tensor<4x8xf32>
  encoder.yield %0 : tensor<4x8xf32>
}
encoder.weight @up : tensor<4x8xf32> {
  %0 = encoder.tensor "up" in "model.safetensors" : tensor<4x8xf32>
  encoder.yield %0 : tensor<4x8xf32>
}
encoder.weight @bg : tensor<4xf32> {
  %0 = encoder.tensor "bg" in "model.safetensors" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}
encoder.weight @bu : tensor<4xf32> {
  %0 = encoder.tensor "bu" in "model.safetensors" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}

// A feed-forward with a gate: one pass over the input makes both factors, and
// neither is ever written.
// CHECK-LABEL: func.func @activated_gate
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>)
//  CHECK-NEXT:   %[[UP:.*]] = encoder.linear %[[X]], @up bias @bu gate @gate gate_bias @bg activation silu {layer = 1 : i64, name = "up"} : tensor<?x8xf32> -> tensor<?x4xf32>
//  CHECK-NEXT:   return %[[UP]]
//
// Diagnostics still find all three places.
// LOC-LABEL: func.func @activated_gate
//       LOC:   encoder.linear {{.*}} loc(fused["{{.*}}":[[#@LINE + 2]]:{{[0-9]+}}, "{{.*}}":[[#@LINE + 4]]:{{[0-9]+}}, "{{.*}}":[[#@LINE + 6]]:{{[0-9]+}}])
func.func @activated_gate(%x: !in) -> !out {
  %0 = encoder.linear %x, @gate bias @bg activation silu
      {layer = 1 : i64, name = "gate"} : !in -> !out
  %1 = encoder.linear %x, @up bias @bu {layer = 1 : i64, name = "up"}
      : !in -> !out
  %2 = encoder.multiply %0, %1 {layer = 1 : i64, name = "product"} : !out
  return %2 : !out
}

// The factor with the activation is the gate on either side.
// CHECK-LABEL: func.func @activated_gate_on_the_right
//  CHECK-NEXT:   encoder.linear %{{.*}}, @up gate @gate activation gelu :
//  CHECK-NEXT:   return
func.func @activated_gate_on_the_right(%x: !in) -> !out {
  %0 = encoder.linear %x, @up : !in -> !out
  %1 = encoder.linear %x, @gate activation gelu : !in -> !out
  %2 = encoder.multiply %0, %1 : !out
  return %2 : !out
}

// In front of a short convolution neither factor has an activation: the first
// is the gate.
// CHECK-LABEL: func.func @plain_factors
//  CHECK-NEXT:   encoder.linear %{{.*}}, @up gate @gate precision bf16 :
//  CHECK-NEXT:   return
func.func @plain_factors(%x: !in) -> !out {
  %0 = encoder.linear %x, @gate precision bf16 : !in -> !out
  %1 = encoder.linear %x, @up precision bf16 : !in -> !out
  %2 = encoder.multiply %0, %1 : !out
  return %2 : !out
}

// CHECK-LABEL: func.func @negative_both_activated
//       CHECK:   encoder.multiply
func.func @negative_both_activated(%x: !in) -> !out {
  %0 = encoder.linear %x, @gate activation silu : !in -> !out
  %1 = encoder.linear %x, @up activation tanh : !in -> !out
  %2 = encoder.multiply %0, %1 : !out
  return %2 : !out
}

// CHECK-LABEL: func.func @negative_different_inputs
//       CHECK:   encoder.multiply
func.func @negative_different_inputs(%x: !in, %y: !in) -> !out {
  %0 = encoder.linear %x, @gate : !in -> !out
  %1 = encoder.linear %y, @up : !in -> !out
  %2 = encoder.multiply %0, %1 : !out
  return %2 : !out
}

// The scale of a short convolution multiplies what is no linear.
// CHECK-LABEL: func.func @negative_no_linear
//       CHECK:   encoder.multiply
func.func @negative_no_linear(%x: !in, %y: !out) -> !out {
  %0 = encoder.linear %x, @gate : !in -> !out
  %1 = encoder.multiply %0, %y : !out
  return %1 : !out
}

// A second reader needs a factor alone; so does a square.
// CHECK-LABEL: func.func @negative_other_readers
//       CHECK:   encoder.multiply
//       CHECK:   encoder.multiply
func.func @negative_other_readers(%x: !in) -> (!out, !out, !out) {
  %0 = encoder.linear %x, @gate : !in -> !out
  %1 = encoder.linear %x, @up : !in -> !out
  %2 = encoder.multiply %0, %1 : !out
  %3 = encoder.linear %x, @up activation relu : !in -> !out
  %4 = encoder.multiply %3, %3 : !out
  return %0, %2, %4 : !out, !out, !out
}

// A residual is added to a factor, not to the product; and a linear has one
// gate.
// CHECK-LABEL: func.func @negative_factor_has_epilogue
//       CHECK:   encoder.multiply
//       CHECK:   encoder.multiply
func.func @negative_factor_has_epilogue(%x: !in, %y: !out) -> (!out, !out) {
  %0 = encoder.linear %x, @gate residual %y : !out : !in -> !out
  %1 = encoder.linear %x, @up : !in -> !out
  %2 = encoder.multiply %0, %1 : !out
  %3 = encoder.linear %x, @up gate @gate : !in -> !out
  %4 = encoder.linear %x, @up : !in -> !out
  %5 = encoder.multiply %3, %4 : !out
  return %2, %5 : !out, !out
}

// Kernels have a bias for all columns or for none, and one precision.
// CHECK-LABEL: func.func @negative_unlike_linears
//       CHECK:   encoder.multiply
//       CHECK:   encoder.multiply
func.func @negative_unlike_linears(%x: !in) -> (!out, !out) {
  %0 = encoder.linear %x, @gate bias @bg : !in -> !out
  %1 = encoder.linear %x, @up : !in -> !out
  %2 = encoder.multiply %0, %1 : !out
  %3 = encoder.linear %x, @gate precision bf16 : !in -> !out
  %4 = encoder.linear %x, @up : !in -> !out
  %5 = encoder.multiply %3, %4 : !out
  return %2, %5 : !out, !out
}
