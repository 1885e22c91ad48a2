// RUN: encast-opt %s --encoder-merge-linears --split-input-file | FileCheck %s

!rows = tensor<?x8xf32>

// One product over three times the columns reads the input once; attention
// reads its parts where they lie.
// CHECK-LABEL: func.func @query_key_value
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>)
//  CHECK-NEXT:   %[[QKV:.*]] = encoder.linear %[[X]], @self.query_key_value.weight bias @self.query_key_value.bias {layer = 1 : i64, name = "self.query_key_value"} : tensor<?x8xf32> -> tensor<?x24xf32>
//  CHECK-NEXT:   %[[Q:.*]] = encoder.columns %[[QKV]] from 0 {layer = 1 : i64, name = "self.query"} : tensor<?x24xf32> -> tensor<?x8xf32>
//  CHECK-NEXT:   %[[K:.*]] = encoder.columns %[[QKV]] from 8 {{.*}} name = "self.key"
//  CHECK-NEXT:   %[[V:.*]] = encoder.columns %[[QKV]] from 16 {{.*}} name = "self.value"
//  CHECK-NEXT:   encoder.attention %[[Q]], %[[K]], %[[V]]
//
// Recipes continue those of the parts, which nothing uses any more.
//   CHECK-NOT: encoder.weight @self.query.weight
// CHECK-LABEL: encoder.weight @self.query_key_value.weight : tensor<24x8xbf16>
//  CHECK-NEXT:   %[[Q:.*]] = encoder.tensor "q" {{.*}} : tensor<8x8xbf16>
//  CHECK-NEXT:   %[[S:.*]] = encoder.scale %[[Q]] by 5.000000e-01
//  CHECK-NEXT:   %[[K:.*]] = encoder.tensor "k"
//  CHECK-NEXT:   %[[V:.*]] = encoder.tensor "v"
//  CHECK-NEXT:   %[[QKV:.*]] = encoder.concat %[[S]], %[[K]], %[[V]] : {{.*}} -> tensor<24x8xbf16>
//  CHECK-NEXT:   encoder.yield %[[QKV]]
//
// A part of another type is cast, and so are all to f32.
// CHECK-LABEL: encoder.weight @self.query_key_value.bias : tensor<24xf32>
//  CHECK-NEXT:   %[[QT:.*]] = encoder.tensor "q.bias"
//  CHECK-NEXT:   %[[Q:.*]] = encoder.cast %[[QT]] : tensor<8xbf16> -> tensor<8xf32>
//  CHECK-NEXT:   %[[K:.*]] = encoder.tensor "k.bias" {{.*}} : tensor<8xf32>
//  CHECK-NEXT:   %[[VT:.*]] = encoder.tensor "v.bias"
//  CHECK-NEXT:   %[[V:.*]] = encoder.cast %[[VT]] : tensor<8xf16> -> tensor<8xf32>
//  CHECK-NEXT:   encoder.concat %[[Q]], %[[K]], %[[V]] : tensor<8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<24xf32>
//   CHECK-NOT: encoder.weight
func.func @query_key_value(%x: !rows) {
  %q = encoder.linear %x, @self.query.weight bias @self.query.bias
      {layer = 1 : i64, name = "self.query"} : !rows -> !rows
  %k = encoder.linear %x, @self.key.weight bias @self.key.bias
      {layer = 1 : i64, name = "self.key"} : !rows -> !rows
  %v = encoder.linear %x, @self.value.weight bias @self.value.bias
      {layer = 1 : i64, name = "self.value"} : !rows -> !rows
  %a = encoder.attention %q, %k, %v heads 2 scale 1.0 : !rows, !rows
  %p = encoder.pick %a : !rows -> tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "tokens" %p : tensor<?x8xf32, #encoder.rows<picked>>
  return
}
encoder.weight @self.query.weight : tensor<8x8xbf16> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<8x8xbf16>
  %1 = encoder.scale %0 by 0.5 : tensor<8x8xbf16>
  encoder.yield %1 : tensor<8x8xbf16>
}
encoder.weight @self.query.bias : tensor<8xbf16> {
  %0 = encoder.tensor "q.bias" in "model.safetensors" : tensor<8xbf16>
  encoder.yield %0 : tensor<8xbf16>
}
encoder.weight @self.key.weight : tensor<8x8xbf16> {
  %0 = encoder.tensor "k" in "model.safetensors" : tensor<8x8xbf16>
  encoder.yield %0 : tensor<8x8xbf16>
}
encoder.weight @self.key.bias : tensor<8xf32> {
  %0 = encoder.tensor "k.bias" in "model.safetensors" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}
encoder.weight @self.value.weight : tensor<8x8xbf16> {
  %0 = encoder.tensor "v" in "model.safetensors" : tensor<8x8xbf16>
  encoder.yield %0 : tensor<8x8xbf16>
}
encoder.weight @self.value.bias : tensor<8xf16> {
  %0 = encoder.tensor "v.bias" in "model.safetensors" : tensor<8xf16>
  encoder.yield %0 : tensor<8xf16>
}

// -----

!rows = tensor<?x8xf32>
!selected = tensor<?x8xf32, #encoder.rows<selected>>

// Runs for selected rows need keys and values of all rows, but queries of few:
// only keys and values are merged. The query's weight serves both queries.
// CHECK-LABEL: func.func @query_is_needed_for_selected_rows
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>)
//  CHECK-NEXT:   encoder.linear %[[X]], @q : tensor<?x8xf32> -> tensor<?x8xf32>
//  CHECK-NEXT:   %[[KV:.*]] = encoder.linear %[[X]], @k_v.weight {name = "k_v"} : tensor<?x8xf32> -> tensor<?x16xf32>
//  CHECK-NEXT:   encoder.columns %[[KV]] from 0 :
//  CHECK-NEXT:   encoder.columns %[[KV]] from 8 :
//  CHECK-NEXT:   encoder.attention
//  CHECK-NEXT:   %[[S:.*]] = encoder.select_rows %[[X]]
//  CHECK-NEXT:   encoder.linear %[[S]], @q :
//       CHECK: encoder.weight @q : tensor<8x8xf32>
//       CHECK: encoder.weight @k_v.weight : tensor<16x8xf32>
func.func @query_is_needed_for_selected_rows(%x: !rows) {
  %q = encoder.linear %x, @q : !rows -> !rows
  %k = encoder.linear %x, @k : !rows -> !rows
  %v = encoder.linear %x, @v : !rows -> !rows
  %a = encoder.attention %q, %k, %v heads 2 scale 1.0 : !rows, !rows
  %s = encoder.select_rows %x : !rows -> !selected
  %qs = encoder.linear %s, @q : !selected -> !selected
  %as = encoder.attention %qs, %k, %v heads 2 scale 1.0 : !selected, !rows
  %d = encoder.either all %a selected %as
      : !rows, !selected -> tensor<?x8xf32, #encoder.rows<demanded>>
  %p = encoder.pick %d
      : tensor<?x8xf32, #encoder.rows<demanded>>
      -> tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "tokens" %p : tensor<?x8xf32, #encoder.rows<picked>>
  return
}
encoder.weight @q : tensor<8x8xf32> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @k : tensor<8x8xf32> {
  %0 = encoder.tensor "k" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @v : tensor<8x8xf32> {
  %0 = encoder.tensor "v" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}

// -----

!rows = tensor<?x8xf32>

// A merged linear is panel-major, so readers besides attention keep theirs; so
// do a residual, an activation, another input, and a bias that others lack.
// CHECK-LABEL: func.func @negative_other_linears
//   CHECK-NOT:   encoder.columns
//   CHECK-COUNT-6: encoder.linear {{.*}} -> tensor<?x8xf32>
//   CHECK-NOT:   encoder.columns
//       CHECK:   return
func.func @negative_other_linears(%x: !rows, %y: !rows) {
  %plain = encoder.linear %x, @w : !rows -> !rows
  %residual = encoder.linear %x, @w residual %y : !rows : !rows -> !rows
  %activated = encoder.linear %x, @w activation tanh : !rows -> !rows
  %other = encoder.linear %y, @w : !rows -> !rows
  %biased = encoder.linear %x, @w bias @b : !rows -> !rows
  %read = encoder.linear %x, @w : !rows -> !rows
  %0 = encoder.attention %plain, %residual, %activated heads 2 scale 1.0
      : !rows, !rows
  %1 = encoder.attention %other, %biased, %read heads 2 scale 1.0
      : !rows, !rows
  %2 = encoder.add %0, %1 : !rows
  %3 = encoder.add %2, %read : !rows
  %p = encoder.pick %3 : !rows -> tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "tokens" %p : tensor<?x8xf32, #encoder.rows<picked>>
  return
}
encoder.weight @w : tensor<8x8xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @b : tensor<8xf32> {
  %0 = encoder.tensor "b" in "model.safetensors" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}

// -----

!rows = tensor<?x8xf32>

// A matrix that is exactly bf16 would lose its type beside one that is not.
// CHECK-LABEL: func.func @negative_exact_and_inexact_matrices
//       CHECK:   encoder.linear %{{.*}}, @q : tensor<?x8xf32> -> tensor<?x8xf32>
//  CHECK-NEXT:   encoder.linear %{{.*}}, @k_v.weight
func.func @negative_exact_and_inexact_matrices(%x: !rows) {
  %q = encoder.linear %x, @q : !rows -> !rows
  %k = encoder.linear %x, @k : !rows -> !rows
  %v = encoder.linear %x, @v : !rows -> !rows
  %0 = encoder.attention %q, %k, %v heads 2 scale 1.0 : !rows, !rows
  %p = encoder.pick %0 : !rows -> tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "tokens" %p : tensor<?x8xf32, #encoder.rows<picked>>
  return
}
encoder.weight @q : tensor<8x8xf32> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @k : tensor<8x8xbf16> {
  %0 = encoder.tensor "k" in "model.safetensors" : tensor<8x8xbf16>
  encoder.yield %0 : tensor<8x8xbf16>
}
encoder.weight @v : tensor<8x8xbf16> {
  %0 = encoder.tensor "v" in "model.safetensors" : tensor<8x8xbf16>
  encoder.yield %0 : tensor<8x8xbf16>
}

// -----

!rows = tensor<?x8xf32>

// Linears that different outputs need stay apart: a run computes what it asks
// for only.
// CHECK-LABEL: func.func @negative_needed_by_different_outputs
//   CHECK-COUNT-2: encoder.linear {{.*}} -> tensor<?x8xf32>
//   CHECK-NOT:   encoder.columns
//       CHECK:   return
func.func @negative_needed_by_different_outputs(%x: !rows) {
  %0 = encoder.linear %x, @w : !rows -> !rows
  %1 = encoder.attention %0, %x, %x heads 2 scale 1.0 : !rows, !rows
  %2 = encoder.linear %x, @w : !rows -> !rows
  %3 = encoder.attention %2, %x, %x heads 2 scale 0.5 : !rows, !rows
  %p = encoder.pick %1 : !rows -> tensor<?x8xf32, #encoder.rows<picked>>
  %r = encoder.pick %3 : !rows -> tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "one" %p : tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "two" %r : tensor<?x8xf32, #encoder.rows<picked>>
  return
}
encoder.weight @w : tensor<8x8xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}

// -----

!rows = tensor<?x8xf32>

// Shared weights are merged as often as they are read, and the merged weight
// takes a name that is free.
// CHECK-LABEL: func.func @one_weight_twice
//       CHECK:   encoder.linear %{{.*}}, @[[MERGED:w_w.weight_0]] {name = "w_w"}
//       CHECK: encoder.weight @[[MERGED]] : tensor<16x8xf32>
//       CHECK:   encoder.tensor "w"
//       CHECK:   encoder.tensor "w"
func.func @one_weight_twice(%x: !rows) {
  %0 = encoder.linear %x, @w : !rows -> !rows
  %1 = encoder.linear %x, @w : !rows -> !rows
  %2 = encoder.attention %0, %1, %1 heads 2 scale 1.0 : !rows, !rows
  %p = encoder.pick %2 : !rows -> tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "tokens" %p : tensor<?x8xf32, #encoder.rows<picked>>
  return
}
encoder.weight @w : tensor<8x8xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @w_w.weight : tensor<8x8xf32> {
  %0 = encoder.tensor "other" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}

// -----

!rows = tensor<?x8xf32>

// Heads that are normalized or rotated lie row by row, keys and values that
// attention reads at once do not; and a gate stays with its linear, a precision
// with its own.
// CHECK-LABEL: func.func @negative_other_layouts
//   CHECK-COUNT-6: encoder.linear {{.*}} -> tensor<?x8xf32>
//   CHECK-NOT:   encoder.columns
//       CHECK:   return
func.func @negative_other_layouts(%x: !rows, %positions: tensor<?xi32>) {
  %q = encoder.linear %x, @w : !rows -> !rows
  %qn = encoder.rms_norm %q, @g heads 2 epsilon 1.0e-5 : !rows
  %k = encoder.linear %x, @w : !rows -> !rows
  %kr = encoder.rope %k, %positions in @rope heads 2 : !rows, tensor<?xi32>
  %v = encoder.linear %x, @w : !rows -> !rows
  %0 = encoder.attention %qn, %kr, %v heads 2 scale 1.0 : !rows, !rows
  %gated = encoder.linear %x, @w gate @w : !rows -> !rows
  %also = encoder.linear %x, @w gate @w : !rows -> !rows
  %low = encoder.linear %x, @w precision bf16 : !rows -> !rows
  %1 = encoder.attention %gated, %also, %also heads 2 scale 1.0 : !rows, !rows
  %2 = encoder.attention %low, %1, %1 heads 2 scale 1.0 : !rows, !rows
  %3 = encoder.add %0, %2 : !rows
  %p = encoder.pick %3 : !rows -> tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "tokens" %p : tensor<?x8xf32, #encoder.rows<picked>>
  return
}
encoder.weight @w : tensor<8x8xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<8x8xf32>
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

// -----

!rows = tensor<?x8xf32>

// Grouped heads: keys and values have fewer columns than the query. All three
// keep their precision.
// CHECK-LABEL: func.func @grouped_heads
//       CHECK:   %[[QKV:.*]] = encoder.linear %{{.*}}, @q_k_v.weight precision bf16 {{.*}} : tensor<?x8xf32> -> tensor<?x16xf32>
//       CHECK:   encoder.columns %[[QKV]] from 0 {{.*}} -> tensor<?x8xf32>
//       CHECK:   encoder.columns %[[QKV]] from 8 {{.*}} -> tensor<?x4xf32>
//       CHECK:   encoder.columns %[[QKV]] from 12 {{.*}} -> tensor<?x4xf32>
func.func @grouped_heads(%x: !rows) {
  %q = encoder.linear %x, @q precision bf16 : !rows -> !rows
  %k = encoder.linear %x, @k precision bf16 : !rows -> tensor<?x4xf32>
  %v = encoder.linear %x, @v precision bf16 : !rows -> tensor<?x4xf32>
  %a = encoder.attention %q, %k, %v heads 4 key_heads 2 scale 1.0
      : !rows, tensor<?x4xf32>
  %p = encoder.pick %a : !rows -> tensor<?x8xf32, #encoder.rows<picked>>
  encoder.output "tokens" %p : tensor<?x8xf32, #encoder.rows<picked>>
  return
}
encoder.weight @q : tensor<8x8xf32> {
  %0 = encoder.tensor "q" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @k : tensor<4x8xf32> {
  %0 = encoder.tensor "k" in "model.safetensors" : tensor<4x8xf32>
  encoder.yield %0 : tensor<4x8xf32>
}
encoder.weight @v : tensor<4x8xf32> {
  %0 = encoder.tensor "v" in "model.safetensors" : tensor<4x8xf32>
  encoder.yield %0 : tensor<4x8xf32>
}
