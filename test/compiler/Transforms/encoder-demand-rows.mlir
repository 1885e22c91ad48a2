// RUN: encast-opt %s --encoder-demand-rows | FileCheck %s

!rows = tensor<?x8xf32>
!picked = tensor<?x8xf32, #encoder.rows<picked>>
!sequences = tensor<?x8xf32, #encoder.rows<sequences>>

encoder.weight @w : tensor<8x8xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<8x8xf32>
  encoder.yield %0 : tensor<8x8xf32>
}
encoder.weight @g : tensor<8xf32> {
  %0 = encoder.tensor "g" in "model.safetensors" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}

encoder.weight @h : tensor<4xf32> {
  %0 = encoder.tensor "h" in "model.safetensors" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}
encoder.weight @conv : tensor<8x1x3xf32> {
  %0 = encoder.tensor "conv" in "model.safetensors" : tensor<8x1x3xf32>
  encoder.yield %0 : tensor<8x1x3xf32>
}
encoder.weight @rope : tensor<64x4xf32> {
  %0 = encoder.rope_table theta 1.0e4 : tensor<64x4xf32>
  encoder.yield %0 : tensor<64x4xf32>
}

// First tokens alone: query, projection and norm are computed for selected
// rows, keys and values for all; the tail for all rows has no reader left.
// CHECK-LABEL: func.func @first_token
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>)
//  CHECK-NEXT:   %[[K:.*]] = encoder.linear %[[X]], @w {name = "key"}
//  CHECK-NEXT:   %[[V:.*]] = encoder.linear %[[X]], @w {name = "value"}
//  CHECK-NEXT:   %[[S:.*]] = encoder.select_rows %[[X]] : tensor<?x8xf32> -> tensor<?x8xf32, #encoder.rows<selected>>
//  CHECK-NEXT:   %[[Q:.*]] = encoder.linear %[[S]], @w {name = "query"}
//  CHECK-NEXT:   %[[A:.*]] = encoder.attention %[[Q]], %[[K]], %[[V]] heads 2 scale 5.000000e-01 {layer = 1 : i64, name = "self"} : tensor<?x8xf32, #encoder.rows<selected>>, tensor<?x8xf32>
//  CHECK-NEXT:   %[[O:.*]] = encoder.linear %[[A]], @w residual %[[S]]
//  CHECK-NEXT:   %[[N:.*]] = encoder.layer_norm %[[O]], @g
//  CHECK-NEXT:   %[[F:.*]] = encoder.first %[[N]] : tensor<?x8xf32, #encoder.rows<selected>>
//  CHECK-NEXT:   encoder.output "cls" %[[F]] :
//  CHECK-NEXT:   return
func.func @first_token(%x: !rows) {
  %q = encoder.linear %x, @w {name = "query"} : !rows -> !rows
  %k = encoder.linear %x, @w {name = "key"} : !rows -> !rows
  %v = encoder.linear %x, @w {name = "value"} : !rows -> !rows
  %a = encoder.attention %q, %k, %v heads 2 scale 0.5
      {layer = 1 : i64, name = "self"} : !rows, !rows
  %o = encoder.linear %a, @w residual %x : !rows : !rows -> !rows
  %n = encoder.layer_norm %o, @g epsilon 1.0e-12 : !rows
  %f = encoder.first %n : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  return
}

// Queries are rotated by the positions of their rows; keys by those of all.
// Norms of heads and a window change nothing.
// CHECK-LABEL: func.func @rotated_queries
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>)
//  CHECK-NEXT:   %[[P:.*]] = encoder.input positions
//  CHECK-NEXT:   %[[K:.*]] = encoder.linear %[[X]], @w {name = "key"}
//  CHECK-NEXT:   %[[KR:.*]] = encoder.rope %[[K]], %[[P]] in @rope heads 2 : tensor<?x8xf32>, tensor<?xi32>
//  CHECK-NEXT:   %[[V:.*]] = encoder.linear %[[X]], @w {name = "value"}
//  CHECK-NEXT:   %[[S:.*]] = encoder.select_rows %[[X]]
//  CHECK-NEXT:   %[[Q:.*]] = encoder.linear %[[S]], @w {name = "query"}
//  CHECK-NEXT:   %[[N:.*]] = encoder.rms_norm %[[Q]], @h heads 2 {{.*}} : tensor<?x8xf32, #encoder.rows<selected>>
//  CHECK-NEXT:   %[[PS:.*]] = encoder.select_rows %[[P]] : tensor<?xi32> -> tensor<?xi32, #encoder.rows<selected>>
//  CHECK-NEXT:   %[[QR:.*]] = encoder.rope %[[N]], %[[PS]] in @rope heads 2 : tensor<?x8xf32, #encoder.rows<selected>>, tensor<?xi32, #encoder.rows<selected>>
//  CHECK-NEXT:   encoder.attention %[[QR]], %[[KR]], %[[V]] heads 2 scale 5.000000e-01 window 3 : tensor<?x8xf32, #encoder.rows<selected>>, tensor<?x8xf32>
//  CHECK-NEXT:   encoder.first
func.func @rotated_queries(%x: !rows) {
  %p = encoder.input positions : tensor<?xi32>
  %q = encoder.linear %x, @w {name = "query"} : !rows -> !rows
  %n = encoder.rms_norm %q, @h heads 2 epsilon 1.0e-5 : !rows
  %qr = encoder.rope %n, %p in @rope heads 2 : !rows, tensor<?xi32>
  %k = encoder.linear %x, @w {name = "key"} : !rows -> !rows
  %kr = encoder.rope %k, %p in @rope heads 2 : !rows, tensor<?xi32>
  %v = encoder.linear %x, @w {name = "value"} : !rows -> !rows
  %a = encoder.attention %qr, %kr, %v heads 2 scale 0.5 window 3
      : !rows, !rows
  %f = encoder.first %a : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  return
}

// A convolution reads neighbours, so what it sums stays for all rows; its scale
// and all behind it are computed for selected rows. The norm is computed for both,
// as the tail reads its input, the residual, anyway.
// CHECK-LABEL: func.func @short_convolution
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>)
//  CHECK-NEXT:   %[[N:.*]] = encoder.rms_norm %[[X]], @g
//  CHECK-NEXT:   %[[G:.*]] = encoder.linear %[[N]], @w gate @w {name = "input"} : tensor<?x8xf32> ->
//  CHECK-NEXT:   %[[SX:.*]] = encoder.select_rows %[[X]]
//  CHECK-NEXT:   %[[SN:.*]] = encoder.rms_norm %[[SX]], @g
//  CHECK-NEXT:   %[[SCALE:.*]] = encoder.linear %[[SN]], @w {name = "scale"}
//  CHECK-NEXT:   %[[C:.*]] = encoder.short_conv %[[G]], @conv : tensor<?x8xf32> -> tensor<?x8xf32, #encoder.rows<selected>>
//  CHECK-NEXT:   %[[M:.*]] = encoder.multiply %[[SCALE]], %[[C]] : tensor<?x8xf32, #encoder.rows<selected>>
//  CHECK-NEXT:   encoder.linear %[[M]], @w residual %[[SX]]
//  CHECK-NEXT:   encoder.first
func.func @short_convolution(%x: !rows) {
  %n = encoder.rms_norm %x, @g epsilon 1.0e-5 : !rows
  %g = encoder.linear %n, @w gate @w {name = "input"} : !rows -> !rows
  %c = encoder.short_conv %g, @conv : !rows -> !rows
  %s = encoder.linear %n, @w {name = "scale"} : !rows -> !rows
  %m = encoder.multiply %s, %c : !rows
  %o = encoder.linear %m, @w residual %x : !rows : !rows -> !rows
  %f = encoder.first %o : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  return
}

// The tail reads nothing but the norm: its rows are selected.
// CHECK-LABEL: func.func @norm_alone
//       CHECK:   %[[N:.*]] = encoder.layer_norm
//       CHECK:   %[[S:.*]] = encoder.select_rows %[[N]]
//  CHECK-NEXT:   encoder.attention %[[S]], %[[N]], %[[N]] {{.*}} : tensor<?x8xf32, #encoder.rows<selected>>
func.func @norm_alone(%x: !rows) {
  %n = encoder.layer_norm %x, @g epsilon 1.0e-5 : !rows
  %a = encoder.attention %n, %n, %n heads 2 scale 0.5 : !rows, !rows
  %o = encoder.linear %a, @w residual %n : !rows : !rows -> !rows
  %f = encoder.first %o : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  return
}

// Behind attention, a convolution of the last layer needs all of its rows.
// CHECK-LABEL: func.func @attention_below_convolution
//       CHECK:   encoder.attention {{.*}} : tensor<?x8xf32>, tensor<?x8xf32>
//  CHECK-NEXT:   encoder.short_conv {{.*}} -> tensor<?x8xf32, #encoder.rows<selected>>
//   CHECK-NOT:   encoder.attention
//       CHECK:   return
func.func @attention_below_convolution(%x: !rows) {
  %a = encoder.attention %x, %x, %x heads 2 scale 0.5 : !rows, !rows
  %c = encoder.short_conv %a, @conv : !rows -> !rows
  %f = encoder.first %c : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  return
}

// Only the last layer has a tail: the layer below is needed for all rows, for
// keys and values.
// CHECK-LABEL: func.func @two_layers
//       CHECK:   %[[BELOW:.*]] = encoder.attention {{.*}} {name = "below"} : tensor<?x8xf32>, tensor<?x8xf32>
//  CHECK-NEXT:   %[[S:.*]] = encoder.select_rows %[[BELOW]]
//  CHECK-NEXT:   %[[LAST:.*]] = encoder.attention %[[S]], %[[BELOW]], %[[BELOW]] {{.*}} {name = "last"} : tensor<?x8xf32, #encoder.rows<selected>>, tensor<?x8xf32>
//  CHECK-NEXT:   encoder.first %[[LAST]]
func.func @two_layers(%x: !rows) {
  %0 = encoder.attention %x, %x, %x heads 2 scale 0.5 {name = "below"}
      : !rows, !rows
  %1 = encoder.attention %0, %0, %0 heads 2 scale 0.5 {name = "last"}
      : !rows, !rows
  %f = encoder.first %1 : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  return
}

// A per-token output reads all rows unless the caller gives some, so both tails
// stay and share keys and values. The output can do with selected rows.
// CHECK-LABEL: func.func @per_token
//       CHECK:   %[[K:.*]] = encoder.linear {{.*}} {name = "key"}
//  CHECK-NEXT:   %[[V:.*]] = encoder.linear {{.*}} {name = "value"}
//  CHECK-NEXT:   %[[ALL:.*]] = encoder.attention %{{.*}}, %[[K]], %[[V]]
//  CHECK-NEXT:   %[[S:.*]] = encoder.select_rows
//  CHECK-NEXT:   %[[Q:.*]] = encoder.linear %[[S]], @w {name = "query"}
//  CHECK-NEXT:   %[[SELECTED:.*]] = encoder.attention %[[Q]], %[[K]], %[[V]]
//  CHECK-NEXT:   %[[D:.*]] = encoder.either all %[[ALL]] selected %[[SELECTED]] {{.*}} -> tensor<?x8xf32, #encoder.rows<demanded>>
//  CHECK-NEXT:   %[[P:.*]] = encoder.pick %[[D]]
//  CHECK-NEXT:   encoder.output "last_hidden_state" %[[P]] :
func.func @per_token(%x: !rows) {
  %q = encoder.linear %x, @w {name = "query"} : !rows -> !rows
  %k = encoder.linear %x, @w {name = "key"} : !rows -> !rows
  %v = encoder.linear %x, @w {name = "value"} : !rows -> !rows
  %a = encoder.attention %q, %k, %v heads 2 scale 0.5 {name = "self"}
      : !rows, !rows
  %p = encoder.pick %a : !rows -> !picked
  encoder.output "last_hidden_state" %p : !picked
  return
}

// A mean needs all rows in any case, and the runtime must know that; a run that
// asks for the first token alone needs few.
// CHECK-LABEL: func.func @first_token_and_mean
//       CHECK:   %[[ALL:.*]] = encoder.attention
//  CHECK-NEXT:   %[[S:.*]] = encoder.select_rows
//  CHECK-NEXT:   %[[SELECTED:.*]] = encoder.attention %[[S]]
//  CHECK-NEXT:   %[[D:.*]] = encoder.either all %[[ALL]] selected %[[SELECTED]]
//  CHECK-NEXT:   encoder.first %[[D]]
//  CHECK-NEXT:   encoder.pool mean %[[D]]
//  CHECK-NEXT:   encoder.output "cls" %{{[^ ]*}} :
//  CHECK-NEXT:   encoder.output "mean" %{{[^ ]*}} all_rows :
func.func @first_token_and_mean(%x: !rows) {
  %a = encoder.attention %x, %x, %x heads 2 scale 0.5 : !rows, !rows
  %f = encoder.first %a : !rows -> !sequences
  %m = encoder.pool mean %a : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  encoder.output "mean" %m : !sequences
  return
}

// Several readers of one value share one tail of selected rows; with rows given
// by the caller both can do without the others.
// CHECK-LABEL: func.func @several_readers
//   CHECK-COUNT-2: encoder.attention
//   CHECK-NOT:   encoder.attention
//       CHECK:   %[[D:.*]] = encoder.either
//  CHECK-NEXT:   encoder.first %[[D]]
//  CHECK-NEXT:   encoder.first %[[D]]
//  CHECK-NEXT:   encoder.pick %[[D]]
//   CHECK-NOT:   all_rows
//       CHECK:   return
func.func @several_readers(%x: !rows) {
  %a = encoder.attention %x, %x, %x heads 2 scale 0.5 : !rows, !rows
  %f = encoder.first %a : !rows -> !sequences
  %g = encoder.first %a : !rows -> !sequences
  %p = encoder.pick %a : !rows -> !picked
  encoder.output "cls" %f : !sequences
  encoder.output "pooled" %g : !sequences
  encoder.output "tokens" %p : !picked
  return
}

// Two values of the last layer are two tails, each behind its own either.
// CHECK-LABEL: func.func @readers_of_two_values
//       CHECK:   %[[A:.*]] = encoder.attention {{.*}} {name = "self"} : tensor<?x8xf32>, tensor<?x8xf32>
//       CHECK:   %[[DA:.*]] = encoder.either all %[[A]]
//       CHECK:   %[[N:.*]] = encoder.layer_norm %[[A]]
//       CHECK:   %[[DN:.*]] = encoder.either all %[[N]]
//       CHECK:   encoder.pick %[[DN]]
//       CHECK:   encoder.pick %[[DA]]
func.func @readers_of_two_values(%x: !rows) {
  %a = encoder.attention %x, %x, %x heads 2 scale 0.5 {name = "self"}
      : !rows, !rows
  %n = encoder.layer_norm %a, @g epsilon 1.0e-12 : !rows
  %p = encoder.pick %n : !rows -> !picked
  %r = encoder.pick %a : !rows -> !picked
  encoder.output "normed" %p : !picked
  encoder.output "plain" %r : !picked
  return
}

// A head that adds the residual of the embeddings reads selected rows of them.
// CHECK-LABEL: func.func @tail_reads_two_values
//  CHECK-SAME:   (%[[X:.*]]: tensor<?x8xf32>, %[[Y:.*]]: tensor<?x8xf32>)
//   CHECK-DAG:   %[[SX:.*]] = encoder.select_rows %[[X]]
//   CHECK-DAG:   %[[SY:.*]] = encoder.select_rows %[[Y]]
//   CHECK-DAG:   %[[A:.*]] = encoder.attention %[[SX]], %[[X]], %[[X]]
//       CHECK:   encoder.add %[[A]], %[[SY]] : tensor<?x8xf32, #encoder.rows<selected>>
func.func @tail_reads_two_values(%x: !rows, %y: !rows) {
  %a = encoder.attention %x, %x, %x heads 2 scale 0.5 : !rows, !rows
  %s = encoder.add %a, %y : !rows
  %f = encoder.first %s : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  return
}

// Pooling over tokens needs every row: nothing changes but the mark.
// CHECK-LABEL: func.func @negative_mean
//   CHECK-NOT:   encoder.select_rows
//       CHECK:   encoder.attention
//  CHECK-NEXT:   encoder.pool mean
//  CHECK-NEXT:   encoder.output "mean" %{{.*}} all_rows
//  CHECK-NEXT:   return
func.func @negative_mean(%x: !rows) {
  %a = encoder.attention %x, %x, %x heads 2 scale 0.5 : !rows, !rows
  %m = encoder.pool mean %a : !rows -> !sequences
  encoder.output "mean" %m : !sequences
  return
}

// Without attention or convolution a tail saves nothing that gathering rows does not save.
// CHECK-LABEL: func.func @negative_no_attention
//  CHECK-NEXT:   encoder.layer_norm
//  CHECK-NEXT:   encoder.first
//  CHECK-NEXT:   encoder.output "cls" %{{[^ ]*}} all_rows :
func.func @negative_no_attention(%x: !rows) {
  %n = encoder.layer_norm %x, @g epsilon 1.0e-12 : !rows
  %f = encoder.first %n : !rows -> !sequences
  encoder.output "cls" %f : !sequences
  return
}

// What is split already is not split again, as when a printed stage is resumed.
// CHECK-LABEL: func.func @negative_split_already
//   CHECK-COUNT-1: encoder.select_rows
//   CHECK-NOT:   encoder.select_rows
//   CHECK-COUNT-1: encoder.either
//   CHECK-NOT:   encoder.either
//       CHECK:   return
func.func @negative_split_already(%x: !rows) {
  %a = encoder.attention %x, %x, %x heads 2 scale 0.5 : !rows, !rows
  %s = encoder.select_rows %x
      : !rows -> tensor<?x8xf32, #encoder.rows<selected>>
  %t = encoder.attention %s, %x, %x heads 2 scale 0.5
      : tensor<?x8xf32, #encoder.rows<selected>>, !rows
  %d = encoder.either all %a selected %t
      : !rows, tensor<?x8xf32, #encoder.rows<selected>>
      -> tensor<?x8xf32, #encoder.rows<demanded>>
  %p = encoder.pick %d : tensor<?x8xf32, #encoder.rows<demanded>> -> !picked
  encoder.output "tokens" %p : !picked
  return
}
