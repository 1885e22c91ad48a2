// RUN: encast-opt %s --encoder-assign-precision | FileCheck %s --check-prefix=F32
// RUN: encast-opt %s --encoder-assign-precision=precision=bf16 | FileCheck %s --check-prefixes=LOW,BF16 -DPRECISION=bf16
// RUN: encast-opt %s --encoder-assign-precision=precision=bf16x3 | FileCheck %s --check-prefixes=LOW,BF16X3 -DPRECISION=bf16x3

!rows = tensor<?x8xf32>
!picked = tensor<?x8xf32, #encoder.rows<picked>>

encoder.weight @w : tensor<8x8xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @g : tensor<8xf32> {
  %0 = encoder.tensor "g" in "model.safetensors" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}

// Linears and attention of blocks and heads are of this precision, everything
// between them stays f32; so that the default leaves no trace.
// F32-LABEL: func.func @model
//   F32-NOT:   precision
//       F32:   return
// LOW-LABEL: func.func @model
//       LOW:   encoder.linear %{{.*}}, @w precision [[PRECISION]] :
//  LOW-NEXT:   encoder.linear %{{.*}}, @w gate @w activation silu precision [[PRECISION]] :
//  LOW-NEXT:   encoder.rms_norm %{{.*}}, @g epsilon 1.000000e-05 :
//  LOW-NEXT:   encoder.attention %{{.*}} heads 2 scale 1.000000e+00 precision [[PRECISION]] :
//  LOW-NEXT:   encoder.pick
//  LOW-NEXT:   encoder.linear %{{.*}}, @w precision [[PRECISION]] :
func.func @model(%x: !rows) {
  %0 = encoder.linear %x, @w : !rows -> !rows
  %1 = encoder.linear %0, @w gate @w activation silu : !rows -> !rows
  %2 = encoder.rms_norm %1, @g epsilon 1.0e-5 : !rows
  %3 = encoder.attention %2, %2, %2 heads 2 scale 1.0 : !rows, !rows
  %4 = encoder.pick %3 : !rows -> !picked
  %5 = encoder.linear %4, @w : !picked -> !picked
  encoder.output "x" %5 : !picked
  return
}

// A choice that was made, in a printed stage, stays.
// F32-LABEL: func.func @negative_chosen_already
//       F32:   encoder.linear %{{.*}} precision bf16x3 :
//  F32-NEXT:   encoder.attention {{.*}} precision bf16 :
// BF16-LABEL: func.func @negative_chosen_already
//       BF16:   encoder.linear %{{.*}} precision bf16x3 :
// BF16X3-LABEL: func.func @negative_chosen_already
//       BF16X3:   encoder.attention {{.*}} precision bf16 :
func.func @negative_chosen_already(%x: !rows) -> !rows {
  %0 = encoder.linear %x, @w precision bf16x3 : !rows -> !rows
  %1 = encoder.attention %0, %0, %0 heads 2 scale 1.0 precision bf16
      : !rows, !rows
  return %1 : !rows
}
