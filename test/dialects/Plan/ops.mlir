// RUN: encast-opt %s | encast-opt | FileCheck %s
// RUN: encast-opt %s --mlir-print-op-generic | encast-opt | FileCheck %s

encoder.weight @w : tensor<4x24x16xf32> {
  %0 = encoder.tensor "w" in "model.safetensors" : tensor<4x24x16xf32>
  encoder.yield %0 : tensor<4x24x16xf32>
}
kernel.define @linear row "linear_f32_6x16_avx2" operands 2 {k = 24, lda = 32, ldc = 32}
func.func private @program(memref<24xf32>, memref<24xf32>)
llvm.func @compiled(!llvm.ptr, !llvm.ptr)

// Slots of every kind.
// CHECK: plan.slot @hidden arena rows tokens row_bytes 128{{$}}
// CHECK: plan.slot @planes arena rows selected row_bytes 192 offset 64 outputs 5
// CHECK: plan.slot @pooled arena rows sequences row_bytes 64 offset 0 outputs -9223372036854775808
// CHECK: plan.slot @out output index 1
// CHECK: plan.slot @ids ids
// CHECK: plan.slot @types types
// CHECK: plan.slot @positions positions
// CHECK: plan.slot @selected selected
// CHECK: plan.slot @first first
// CHECK: plan.slot @pick pick
// CHECK: plan.slot @up block row_bytes 192 offset 24576
// CHECK: plan.slot @scratch workspace row_bytes 4096
// CHECK: plan.slot @group workspace rows picked row_bytes 64 offset 4096
// CHECK: plan.slot @packed arena rows packed row_bytes 256 offset 256
plan.slot @hidden arena rows tokens row_bytes 128
plan.slot @planes arena rows selected row_bytes 192 offset 64 outputs 5
plan.slot @pooled arena rows sequences row_bytes 64 offset 0 outputs -9223372036854775808
plan.slot @out output index 1
plan.slot @ids ids
plan.slot @types types
plan.slot @positions positions
plan.slot @selected selected
plan.slot @first first
plan.slot @pick pick
plan.slot @up block row_bytes 192 offset 24576
plan.slot @scratch workspace row_bytes 4096
plan.slot @group workspace rows picked row_bytes 64 offset 4096
plan.slot @packed arena rows packed row_bytes 256 offset 256

// CHECK: plan.memory block 49152 workspace 8192
plan.memory block 49152 workspace 8192

// CHECK: plan.step @step.0 over tokens rows 192 by 6 split 64 layer 1 {
plan.step @step.0 over tokens rows 192 by 6 split 64 layer 1 {
  // Terms of addresses, in the order in which they print.
  // CHECK: plan.call @linear(@hidden + row * 128, @w + panel * 1536)
  plan.call @linear(@hidden + row * 128, @w + panel * 1536)
  // CHECK: plan.call @linear(@planes + row * 64 + plane(2 + panel * 4, selected), @planes + key * 64 + plane(0 + panel * 1, tokens) + 32)
  plan.call @linear(@planes + plane(2 + panel * 4, selected) + row * 64, @planes + 32 + plane(0 + panel * 1, tokens) + key * 64)
  // CHECK: plan.call @linear(@scratch, 64)
  plan.call @linear(@scratch, 64)
  // CHECK: plan.call @linear(ahead @w, 1)
  plan.call @linear(ahead @w, 1)
  // The rows before and behind; both signs of an offset are read.
  // CHECK: plan.for_rows @program(@hidden + row * 128 - 128, @hidden[by @selected] + row * 128 + 128)
  plan.for_rows @program(@hidden - 128 + row * 128, @hidden[by @selected] + row * 128 + 128)
  // CHECK: plan.for_rows @program(@hidden + row * 128 - 128, @hidden + row * 128 + 128)
  plan.for_rows @program(@hidden + row * 128 + -128, @hidden + row * 128 - -128)
  // Neighbours of other tiles, from where the edges of tiles are copied to.
  // CHECK: plan.for_rows @program(@hidden + row * 128, @packed[edge of 32] + row * 128) edges_of 32 name "edges"
  plan.for_rows @program(@hidden + row * 128, @packed[edge of 32] + row * 128) edges_of 32 name "edges"
  // CHECK: plan.for_rows @program(@hidden[edges @packed of 32] + row * 128 - 128, @hidden[edges @packed of 32] + row * 128 + 128)
  plan.for_rows @program(@hidden[edges @packed of 32] + row * 128 - 128, @hidden[edges @packed of 32] + row * 128 + 128)
  // Rows by a table, or from the start of the sequence.
  // CHECK: plan.for_rows @program(@w[by @ids] + row * 48, @hidden[by sequence] + row * 128)
  plan.for_rows @program(@w[by @ids] + row * 48, @hidden[by sequence] + row * 128)
  // CHECK: plan.for_rows @program(0, 1) name "norm" ahead @w{{$}}
  plan.for_rows @program(0, 1) name "norm" ahead @w
  // Numbers of the item.
  // CHECK: plan.call @linear(rows, panels)
  // CHECK: plan.call @linear(keys, sequence_tokens)
  // CHECK: plan.call @linear(token_plane_bytes, selected_plane_bytes)
  plan.call @linear(rows, panels)
  plan.call @linear(keys, sequence_tokens)
  plan.call @linear(token_plane_bytes, selected_plane_bytes)
  // What the walker and the profile need.
  // CHECK: plan.call @linear(0, -1) name "layer.0.up" panels 6 by 3 modes 2 outputs 5 flops_per_row 3456 flops_per_row_and_key 48 {note = "kept"}
  plan.call @linear(0, -1) name "layer.0.up" panels 6 by 3 modes 2 outputs 5 flops_per_row 3456 flops_per_row_and_key 48 {note = "kept"}
  // Defaults are not printed, also those given by name.
  // CHECK: plan.call @linear(1, 2) panels 4{{$}}
  plan.call @linear(1, 2) {panels = 4 : i64, panel_tile = 1 : i64, modes = 3 : i64, outputs = -1 : i64}
  // CHECK: plan.call @linear(1, rows_to_next_head) panels 4 per_head by 2{{$}}
  plan.call @linear(1, rows_to_next_head) panels 4 per_head by 2
  // CHECK: plan.for_panels columns 97 name "head" panels 7 by 2 {
  // CHECK:   plan.for_each_panel @program(@w + panel * 768, panel_columns)
  // CHECK:   plan.call @linear(@group + row * 64, group_columns)
  // CHECK:   plan.for_rows @program(@group + row * 64, @out + row * 388 + panel * 64)
  // CHECK: }
  plan.for_panels columns 97 name "head" panels 7 by 2 {
    plan.for_each_panel @program(@w + panel * 768, panel_columns)
    plan.call @linear(@group + row * 64, group_columns)
    plan.for_rows @program(@group + row * 64, @out + row * 388 + panel * 64)
  }
  // One panel more makes pairs of them.
  // CHECK: plan.for_panels columns 97 panels 8 by 4 {
  // CHECK:   plan.for_each_panel @program(@w + panel * 768, panel_columns) by 2 {note = "kept"}
  // CHECK: }
  plan.for_panels columns 97 panels 8 by 4 {
    plan.for_each_panel @program(@w + panel * 768, panel_columns) by 2 {note = "kept"}
  }
}
// CHECK: plan.step @step.1 over attention_selected heads 12 rows 24 by 24 split 0 {
plan.step @step.1 over attention_selected heads 12 rows 24 by 24 split 0 {
  // CHECK: plan.invoke @compiled kernel "attention" name "layer.0.self" panels 2 modes 1
  plan.invoke @compiled kernel "attention" name "layer.0.self" panels 2 modes 1
  // CHECK: plan.invoke @compiled kernel "attention" flops_per_row_and_key 256 window 64
  plan.invoke @compiled kernel "attention" flops_per_row_and_key 256 window 64
}
// CHECK: plan.step @step.2 over selected rows 6 by 6 split 0
// CHECK: plan.step @step.3 over picked rows 6 by 6 split 0
// CHECK: plan.step @step.4 over sequences rows 6 by 6 split 0
// CHECK: plan.step @step.5 over attention_tokens heads 1 rows 6 by 6 split 0
plan.step @step.2 over selected rows 6 by 6 split 0 { plan.call @linear(0, 0) }
plan.step @step.3 over picked rows 6 by 6 split 0 { plan.call @linear(0, 0) }
plan.step @step.4 over sequences rows 6 by 6 split 0 { plan.call @linear(0, 0) }
plan.step @step.5 over attention_tokens heads 1 rows 6 by 6 split 0 { plan.call @linear(0, 0) }

// CHECK: plan.step @step.6 over attention_runs heads 2 rows 32 by 32 split 0
plan.step @step.6 over attention_runs heads 2 rows 32 by 32 split 0 {
  // Packed rows, of a sequence and of a tile in it.
  // CHECK: plan.call @linear(@packed + packed * 128 + plane(0 + panel * 2, packed), @packed + packed * 128 + position * 128 + plane(0 + panel * 2, packed))
  plan.call @linear(@packed + packed * 128 + plane(0 + panel * 2, packed), @packed + plane(0 + panel * 2, packed) + position * 128 + packed * 128)
  // CHECK: plan.call @linear(position, keys)
  plan.call @linear(position, keys)
}

// Addresses and numbers as attributes of their own.
// CHECK: attributes {address = #plan.at<@hidden[by @first] + row * 128 + 4>, count = #plan<count rows>}
func.func private @attributes() attributes {address = #plan.at<@hidden[by @first] + row * 128 + 4>, count = #plan<count rows>}
