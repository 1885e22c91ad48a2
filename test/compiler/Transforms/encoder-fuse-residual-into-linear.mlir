// RUN: encast-opt %s --encoder-fuse-residual-into-linear | FileCheck %s
// RUN: encast-opt %s --encoder-fuse-residual-into-linear --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOC

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

// The kernel adds the residual while results are in registers.
// CHECK-LABEL: func.func @residual
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>, %[[Y:.*]]: tensor<?x4xf32>)
//  CHECK-NEXT:   %[[DOWN:.*]] = encoder.linear %[[X]], @w bias @b residual %[[Y]] : {{.*}} {layer = 1 : i64, name = "down"}
//  CHECK-NEXT:   return %[[DOWN]]
//
// Diagnostics still find both places.
// LOC-LABEL: func.func @residual
//       LOC:   encoder.linear {{.*}} loc(fused["{{.*}}":[[#@LINE + 2]]:{{[0-9]+}}, "{{.*}}":[[#@LINE + 4]]:{{[0-9]+}}])
func.func @residual(%x: !in, %y: !out) -> !out {
  %down = encoder.linear %x, @w bias @b {layer = 1 : i64, name = "down"}
      : !in -> !out
  %0 = encoder.add %down, %y {layer = 1 : i64, name = "sum"} : !out
  return %0 : !out
}

// The sum is the same whichever side the linear stands on.
// CHECK-LABEL: func.func @linear_on_the_right
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>, %[[Y:.*]]: tensor<?x4xf32>)
//  CHECK-NEXT:   encoder.linear %[[X]], @w residual %[[Y]]
//  CHECK-NEXT:   return
func.func @linear_on_the_right(%x: !in, %y: !out) -> !out {
  %0 = encoder.linear %x, @w : !in -> !out
  %1 = encoder.add %y, %0 : !out
  return %1 : !out
}

// The linear moves down to the addition, because the residual comes behind it.
// CHECK-LABEL: func.func @residual_behind_linear
//       CHECK:   %[[NORM:.*]] = encoder.layer_norm
//  CHECK-NEXT:   encoder.linear %{{.*}}, @w residual %[[NORM]]
//  CHECK-NEXT:   return
func.func @residual_behind_linear(%x: !in, %y: !out) -> !out {
  %0 = encoder.linear %x, @w : !in -> !out
  %1 = encoder.layer_norm %y, @b epsilon 1.0e-12 : !out
  %2 = encoder.add %0, %1 : !out
  return %2 : !out
}

// A linear applies its activation before it adds the residual.
// CHECK-LABEL: func.func @linear_has_activation
//       CHECK:   encoder.linear %{{.*}}, @w activation gelu residual
//  CHECK-NEXT:   return
func.func @linear_has_activation(%x: !in, %y: !out) -> !out {
  %0 = encoder.linear %x, @w activation gelu : !in -> !out
  %1 = encoder.add %0, %y : !out
  return %1 : !out
}

// Of a gated linear, the residual is added to the product.
// CHECK-LABEL: func.func @linear_has_gate
//       CHECK:   encoder.linear %{{.*}}, @w gate @w activation silu residual %{{.*}} precision bf16 :
//  CHECK-NEXT:   return
func.func @linear_has_gate(%x: !in, %y: !out) -> !out {
  %0 = encoder.linear %x, @w gate @w activation silu precision bf16
      : !in -> !out
  %1 = encoder.add %0, %y : !out
  return %1 : !out
}

// Of two linears one is the residual of the other.
// CHECK-LABEL: func.func @sum_of_two_linears
//       CHECK:   %[[R:.*]] = encoder.linear
//   CHECK-NOT:   residual
//       CHECK:   encoder.linear %{{.*}}, @w residual %[[R]]
//  CHECK-NEXT:   return
func.func @sum_of_two_linears(%x: !in, %y: !in) -> !out {
  %0 = encoder.linear %x, @w : !in -> !out
  %1 = encoder.linear %y, @w : !in -> !out
  %2 = encoder.add %0, %1 : !out
  return %2 : !out
}

// A second reader needs the value before the addition.
// CHECK-LABEL: func.func @negative_linear_has_other_reader
//       CHECK:   encoder.linear
//   CHECK-NOT:   residual
//       CHECK:   encoder.add
func.func @negative_linear_has_other_reader(%x: !in, %y: !out)
    -> (!out, !out) {
  %0 = encoder.linear %x, @w : !in -> !out
  %1 = encoder.add %0, %y : !out
  return %0, %1 : !out, !out
}

// A value added to itself is read twice.
// CHECK-LABEL: func.func @negative_added_to_itself
//       CHECK:   encoder.linear
//   CHECK-NOT:   residual
//       CHECK:   encoder.add
func.func @negative_added_to_itself(%x: !in) -> !out {
  %0 = encoder.linear %x, @w : !in -> !out
  %1 = encoder.add %0, %0 : !out
  return %1 : !out
}

// A linear has one residual, so only the first of two additions is fused.
// CHECK-LABEL: func.func @negative_linear_has_residual
//       CHECK:   encoder.linear %{{.*}}, @w residual
//  CHECK-NEXT:   encoder.add
func.func @negative_linear_has_residual(%x: !in, %y: !out, %z: !out) -> !out {
  %0 = encoder.linear %x, @w : !in -> !out
  %1 = encoder.add %0, %y : !out
  %2 = encoder.add %1, %z : !out
  return %2 : !out
}

// An addition behind something else stays one.
// CHECK-LABEL: func.func @negative_no_linear
//       CHECK:   encoder.add
func.func @negative_no_linear(%x: !out, %y: !out) -> !out {
  %0 = encoder.add %x, %y : !out
  return %0 : !out
}
