// RUN: encast-opt %s --encoder-fuse-activation-into-linear | FileCheck %s
// RUN: encast-opt %s --encoder-fuse-activation-into-linear --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOC

!in = tensor<?x8xf32>
!out = tensor<?x4xf32>

encoder.weight @w : tensor<4x8xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<4x8xf32>
  encoder.yield %0 : tensor<4x8xf32>
}
encoder.weight @b : tensor<4xf32> {
  %0 = encoder.tensor "b" in "model.safetensors" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}

// The kernel applies the activation while results are in registers.
// CHECK-LABEL: func.func @activation
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>)
//  CHECK-NEXT:   %[[UP:.*]] = encoder.linear %[[X]], @w bias @b activation gelu {layer = 1 : i64, name = "up"}
//  CHECK-NEXT:   return %[[UP]]
//
// Diagnostics still find both places.
// LOC-LABEL: func.func @activation
//       LOC:   encoder.linear {{.*}} loc(fused["{{.*}}":[[#@LINE + 2]]:{{[0-9]+}}, "{{.*}}":[[#@LINE + 4]]:{{[0-9]+}}])
func.func @activation(%x: !in) -> !out {
  %up = encoder.linear %x, @w bias @b {layer = 1 : i64, name = "up"}
      : !in -> !out
  %act = encoder.activation gelu %up {layer = 1 : i64, name = "act"} : !out
  return %act : !out
}

// Every kind of activation is one of the linear, which needs no bias for it.
// CHECK-LABEL: func.func @all_kinds
//       CHECK:   encoder.linear %{{.*}}, @w activation gelu_tanh :
//  CHECK-NEXT:   encoder.linear %{{.*}}, @w activation relu :
//  CHECK-NEXT:   encoder.linear %{{.*}}, @w activation silu :
//  CHECK-NEXT:   encoder.linear %{{.*}}, @w activation quick_gelu :
//  CHECK-NEXT:   encoder.linear %{{.*}}, @w activation tanh :
//  CHECK-NEXT:   encoder.linear %{{.*}}, @w activation sigmoid :
//  CHECK-NEXT:   return
func.func @all_kinds(%x: !in) -> (!out, !out, !out, !out, !out, !out) {
  %a = encoder.linear %x, @w : !in -> !out
  %0 = encoder.activation gelu_tanh %a : !out
  %b = encoder.linear %x, @w : !in -> !out
  %1 = encoder.activation relu %b : !out
  %c = encoder.linear %x, @w : !in -> !out
  %2 = encoder.activation silu %c : !out
  %d = encoder.linear %x, @w : !in -> !out
  %3 = encoder.activation quick_gelu %d : !out
  %e = encoder.linear %x, @w : !in -> !out
  %4 = encoder.activation tanh %e : !out
  %f = encoder.linear %x, @w : !in -> !out
  %5 = encoder.activation sigmoid %f : !out
  return %0, %1, %2, %3, %4, %5 : !out, !out, !out, !out, !out, !out
}

// A second reader needs the value before the activation.
// CHECK-LABEL: func.func @negative_linear_has_other_reader
//       CHECK:   encoder.linear
//   CHECK-NOT:   activation
//       CHECK:   encoder.activation gelu
func.func @negative_linear_has_other_reader(%x: !in) -> (!out, !out) {
  %0 = encoder.linear %x, @w : !in -> !out
  %1 = encoder.activation gelu %0 : !out
  return %0, %1 : !out, !out
}

// A linear has one activation, so only the first of two is fused.
// CHECK-LABEL: func.func @negative_linear_has_activation
//       CHECK:   encoder.linear %{{.*}}, @w activation tanh :
//  CHECK-NEXT:   encoder.activation relu
func.func @negative_linear_has_activation(%x: !in) -> !out {
  %0 = encoder.linear %x, @w : !in -> !out
  %1 = encoder.activation tanh %0 : !out
  %2 = encoder.activation relu %1 : !out
  return %2 : !out
}

// A residual is added behind the activation of a linear, here it comes before.
// CHECK-LABEL: func.func @negative_linear_has_residual
//       CHECK:   encoder.linear
//   CHECK-NOT:   activation
//  CHECK-SAME:   residual
//  CHECK-NEXT:   encoder.activation gelu
func.func @negative_linear_has_residual(%x: !in, %y: !out) -> !out {
  %0 = encoder.linear %x, @w residual %y : !out : !in -> !out
  %1 = encoder.activation gelu %0 : !out
  return %1 : !out
}

// Only linears have an epilogue.
// CHECK-LABEL: func.func @negative_input_is_no_linear
//       CHECK:   encoder.layer_norm
//  CHECK-NEXT:   encoder.activation gelu
func.func @negative_input_is_no_linear(%x: !out) -> !out {
  %0 = encoder.layer_norm %x, @b epsilon 1.0e-12 : !out
  %1 = encoder.activation gelu %0 : !out
  return %1 : !out
}

// The activation of a gated linear is that of the gate, not of the product.
// CHECK-LABEL: func.func @negative_linear_has_gate
//       CHECK:   encoder.linear %{{.*}}, @w gate @w :
//  CHECK-NEXT:   encoder.activation gelu
func.func @negative_linear_has_gate(%x: !in) -> !out {
  %0 = encoder.linear %x, @w gate @w : !in -> !out
  %1 = encoder.activation gelu %0 : !out
  return %1 : !out
}
