// RUN: encast-opt %s --kernel-to-plan --split-input-file | FileCheck %s

!rows = tensor<?x32xf32>
!planes = tensor<?x1x32xbf16>

// A sum goes on where it is, as long as only parts of it read it; the bias and the
// residual come with the last part. What has been added up may be read by all.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.part block row_bytes 128
//   CHECK-NOT: plan.slot @rows.second
//   CHECK-NOT: plan.slot @rows.third
//       CHECK: plan.step
//       CHECK:   plan.call @first(@rows.split + row * 128, @w.packed + panel * 1024, @rows.part + row * 128 + panel * 64, 0, 0, {{.*}}) name "part"
//  CHECK-NEXT:   plan.call @next(@rows.split + row * 128, @w.packed + panel * 1024, @rows.part + row * 128 + panel * 64, 0, 0, {{.*}}) name "second"
//  CHECK-NEXT:   plan.call @last(@rows.split + row * 128, @w.packed + panel * 1024, @rows.part + row * 128 + panel * 64, @bias + panel * 64, @rows.embed + row * 128 + panel * 64, {{.*}}) name "third"
//  CHECK-NEXT:   plan.for_rows @norm(@rows.part + row * 128, @rows.norm + row * 128)
module {
  kernel.define @first row "linear_bf16_32x32_amx" operands 10
      {k = 32, lda = 64, ldc = 32}
  kernel.define @next row "linear_bf16_32x32_amx" operands 10
      {k = 32, lda = 64, ldc = 32, accumulate}
  kernel.define @last row "linear_bf16_32x32_amx" operands 10
      {k = 32, lda = 64, ldc = 32, ldr = 32, bias, accumulate}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %p = kernel.rows @norm(%x) {name = "split"} : (!rows) -> !planes
    %a = kernel.linear @first(%p, @w.packed) panels 2 by 2 rows by 32
        {name = "part"} : !planes -> !rows
    %b = kernel.linear @next(%p, @w.packed accumulate %a : !rows) panels 2 by 2
        rows by 32 {name = "second"} : !planes -> !rows
    %c = kernel.linear @last(%p, @w.packed bias @bias residual %x : !rows
        accumulate %b : !rows) panels 2 by 2 rows by 32 {name = "third"}
        : !planes -> !rows
    %n = kernel.rows @norm(%c) {name = "norm"} : (!rows) -> !rows
    kernel.output "tokens" columns 32 per_token
    kernel.store @norm(%n) to "tokens" columns 0, 32 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<1x1x1024xbf16> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack_tiles %0 planes 1 : tensor<32x32xf32> -> tensor<1x1x1024xbf16>
    encoder.yield %1 : tensor<1x1x1024xbf16>
  }
  encoder.weight @bias : tensor<32xf32> {
    %0 = encoder.tensor "bias" in "model.safetensors" : tensor<32xf32>
    encoder.yield %0 : tensor<32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// A sum that an output reads lives in the arena from its first part on.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.part arena rows tokens row_bytes 128
//       CHECK: plan.call @first(@rows.embed + row * 128, @w.packed + panel * 2048, @rows.part + row * 128 + panel * 64, {{.*}}) name "part"
//  CHECK-NEXT: plan.call @next(@rows.embed + row * 128, @w.packed + panel * 2048, @rows.part + row * 128 + panel * 64, {{.*}}) name "second"
//       CHECK: plan.for_rows @norm(@rows.part[by @index.pick] + row * 128, @output.tokens
module {
  kernel.define @first row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32}
  kernel.define @next row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32, accumulate}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %a = kernel.linear @first(%x, @w.packed) panels 2 by 1 rows by 6
        {name = "part"} : !rows -> !rows
    %b = kernel.linear @next(%x, @w.packed accumulate %a : !rows) panels 2 by 1
        rows by 6 {name = "second"} : !rows -> !rows
    kernel.output "tokens" columns 32 per_token
    kernel.store @norm(%b) to "tokens" columns 0, 32 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// A linear writes over its residual if it is the last to read it; so does the next
// one over the sum.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-NOT: plan.slot @rows.first
//   CHECK-NOT: plan.slot @rows.second
//       CHECK: plan.for_rows @norm(@rows.embed + row * 128, @rows.norm + row * 128)
//  CHECK-NEXT: plan.call @linear(@rows.norm + row * 128, @w.packed + panel * 2048, @rows.embed + row * 128 + panel * 64, 0, @rows.embed + row * 128 + panel * 64, {{.*}}) name "first"
//  CHECK-NEXT: plan.for_rows @norm(@rows.embed + row * 128, @rows.norm_0 + row * 128)
//  CHECK-NEXT: plan.call @linear(@rows.norm_0 + row * 128, @w.packed + panel * 2048, @rows.embed + row * 128 + panel * 64, 0, @rows.embed + row * 128 + panel * 64, {{.*}}) name "second"
//  CHECK-NEXT: plan.for_rows @norm(@rows.embed + row * 128, @rows.last + row * 128)
module {
  kernel.define @linear row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32, ldr = 32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %n = kernel.rows @norm(%x) {name = "norm"} : (!rows) -> !rows
    %a = kernel.linear @linear(%n, @w.packed residual %x : !rows) panels 2 by 1
        rows by 6 {name = "first"} : !rows -> !rows
    %m = kernel.rows @norm(%a) {name = "norm"} : (!rows) -> !rows
    %b = kernel.linear @linear(%m, @w.packed residual %a : !rows) panels 2 by 1
        rows by 6 {name = "second"} : !rows -> !rows
    %l = kernel.rows @norm(%b) {name = "last"} : (!rows) -> !rows
    kernel.output "tokens" columns 32 per_token
    kernel.store @norm(%l) to "tokens" columns 0, 32 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// In the arena, too, even if only the block needs the first sum, as long as the
// arena needs a later one. If it needs none (@negative_block), the sum is in the
// block: what follows may take the arena's memory.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-NOT: plan.slot @rows.first
//   CHECK-NOT: plan.slot @rows.second
//   CHECK-DAG: plan.slot @rows.embed arena rows tokens row_bytes 128
//   CHECK-DAG: plan.slot @rows.negative_block block row_bytes 128
//       CHECK: plan.step @step.1.tokens over tokens
//       CHECK:   plan.call @linear({{.*}}, @rows.embed + row * 128 + panel * 64, 0, @rows.embed + row * 128 + panel * 64, {{.*}}) name "first"
//  CHECK-NEXT:   plan.for_rows @norm(@rows.embed + row * 128, @rows.norm_0 + row * 128)
//  CHECK-NEXT:   plan.call @linear({{.*}}, @rows.embed + row * 128 + panel * 64, 0, @rows.embed + row * 128 + panel * 64, {{.*}}) name "second"
//       CHECK: plan.step @step.3.tokens over tokens
//       CHECK:   plan.call @linear({{.*}}, @rows.negative_block + row * 128 + panel * 64, 0, @rows.embed + row * 128 + panel * 64, {{.*}}) name "negative_block"
module {
  kernel.define @linear row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32, ldr = 32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr)
  func.func private @conv(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %n = kernel.rows @norm(%x) {name = "norm"} : (!rows) -> !rows
    %c = kernel.short_conv @conv(%n at %at : tensor<?xi32>) weights [@taps]
        {name = "conv"} : !rows -> !rows
    %a = kernel.linear @linear(%c, @w.packed residual %x : !rows) panels 2 by 1
        rows by 6 {name = "first"} : !rows -> !rows
    %m = kernel.rows @norm(%a) {name = "norm"} : (!rows) -> !rows
    %b = kernel.linear @linear(%m, @w.packed residual %a : !rows) panels 2 by 1
        rows by 6 {name = "second"} : !rows -> !rows
    %d = kernel.short_conv @conv(%b at %at : tensor<?xi32>) weights [@taps]
        {name = "conv"} : !rows -> !rows
    %e = kernel.short_conv @conv(%d at %at : tensor<?xi32>) weights [@taps]
        {name = "conv"} : !rows -> !rows
    %f = kernel.linear @linear(%e, @w.packed residual %b : !rows) panels 2 by 1
        rows by 6 {name = "negative_block"} : !rows -> !rows
    %l = kernel.rows @norm(%f) {name = "last"} : (!rows) -> !rows
    kernel.output "tokens" columns 32 per_token
    kernel.store @norm(%l) to "tokens" columns 0, 32 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
  encoder.weight @taps : tensor<3x32xf32> {
    %0 = encoder.tensor "conv" in "model.safetensors" : tensor<32x1x3xf32>
    %1 = kernel.transpose %0 : tensor<32x1x3xf32> -> tensor<3x32xf32>
    encoder.yield %1 : tensor<3x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// It must not
//   - where others read the residual later (@negative_later),
//   - where it multiplies what it adds: a panel would read what the one before it
//     has written (@negative_input),
//   - in the block, if the arena needs the sum (@negative_kept).
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.negative_later block row_bytes 128
//   CHECK-DAG: plan.slot @rows.negative_input block row_bytes 128
//   CHECK-DAG: plan.slot @rows.negative_kept arena rows tokens row_bytes 128
//       CHECK: plan.call @linear(@rows.norm + row * 128, @w.packed + panel * 2048, @rows.negative_later + row * 128 + panel * 64, 0, @rows.embed + row * 128 + panel * 64, {{.*}}) name "negative_later"
//  CHECK-NEXT: plan.for_rows @add(@rows.embed + row * 128, @rows.negative_later + row * 128, @rows.sum + row * 128)
//  CHECK-NEXT: plan.call @linear(@rows.sum + row * 128, @w.packed + panel * 2048, @rows.negative_input + row * 128 + panel * 64, 0, @rows.sum + row * 128 + panel * 64, {{.*}}) name "negative_input"
//  CHECK-NEXT: plan.for_rows @norm(@rows.negative_input + row * 128, @rows.norm_0 + row * 128)
//  CHECK-NEXT: plan.call @linear(@rows.norm_0 + row * 128, @w.packed + panel * 2048, @rows.negative_kept + row * 128 + panel * 64, 0, @rows.negative_input + row * 128 + panel * 64, {{.*}}) name "negative_kept"
module {
  kernel.define @linear row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32, ldr = 32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @norm(!llvm.ptr, !llvm.ptr)
  func.func private @add(!llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %n = kernel.rows @norm(%x) {name = "norm"} : (!rows) -> !rows
    %a = kernel.linear @linear(%n, @w.packed residual %x : !rows) panels 2 by 1
        rows by 6 {name = "negative_later"} : !rows -> !rows
    %s = kernel.rows @add(%x, %a) {name = "sum"} : (!rows, !rows) -> !rows
    %b = kernel.linear @linear(%s, @w.packed residual %s : !rows) panels 2 by 1
        rows by 6 {name = "negative_input"} : !rows -> !rows
    %m = kernel.rows @norm(%b) {name = "norm"} : (!rows) -> !rows
    %c = kernel.linear @linear(%m, @w.packed residual %b : !rows) panels 2 by 1
        rows by 6 {name = "negative_kept"} : !rows -> !rows
    kernel.output "tokens" columns 32 per_token
    kernel.store @norm(%c) to "tokens" columns 0, 32 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
}

// -----

!rows = tensor<?x32xf32>
!selected = tensor<?x32xf32, #encoder.rows<selected>>
!demanded = tensor<?x32xf32, #encoder.rows<demanded>>
!sequences = tensor<?x32xf32, #encoder.rows<sequences>>

// Nor
//   - where a run may want only one of the two (@negative_modes: selected rows
//     need the residual, not the sum),
//   - where neighbours are read in the same step: another block may not have read
//     them yet (@negative_neighbours). In a later step they are read.
// CHECK-LABEL: kernel.output "tokens"
//   CHECK-DAG: plan.slot @rows.embed arena rows tokens row_bytes 128
//   CHECK-DAG: plan.slot @rows.negative_neighbours arena rows tokens row_bytes 128
//   CHECK-DAG: plan.slot @rows.negative_modes arena rows selected row_bytes 128
//       CHECK: plan.step @step.1.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @conv(@rows.embed + row * 128 - 128, @rows.embed + row * 128, @rows.embed + row * 128 + 128, {{.*}}, @rows.conv + row * 128)
//  CHECK-NEXT:   plan.call @linear(@rows.conv + row * 128, @w.packed + panel * 2048, @rows.negative_neighbours + row * 128 + panel * 64, 0, @rows.embed + row * 128 + panel * 64, {{.*}}) name "negative_neighbours"
//       CHECK: plan.step @step.2.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @conv(@rows.negative_neighbours + row * 128 - 128, {{.*}}, @rows.conv_0 + row * 128)
//       CHECK: plan.step @step.3.tokens over tokens
//  CHECK-NEXT:   plan.for_rows @conv(@rows.conv_0 + row * 128 - 128, {{.*}}, @rows.conv_1 + row * 128)
//  CHECK-NEXT:   plan.call @linear(@rows.conv_1 + row * 128, @w.packed + panel * 2048, @rows.negative_neighbours + row * 128 + panel * 64, 0, @rows.negative_neighbours + row * 128 + panel * 64, {{.*}}) name "later"
//  CHECK-NEXT:   plan.call @linear(@rows.conv_1 + row * 128, @w.packed + panel * 2048, @rows.negative_modes + row * 128 + panel * 64, 0, @rows.negative_neighbours + row * 128 + panel * 64, {{.*}}) name "negative_modes" {{.*}}modes 1
module {
  kernel.define @linear row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32, ldr = 32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func private @conv(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %c = kernel.short_conv @conv(%x at %at : tensor<?xi32>) weights [@taps]
        {name = "conv"} : !rows -> !rows
    %a = kernel.linear @linear(%c, @w.packed residual %x : !rows) panels 2 by 1
        rows by 6 {name = "negative_neighbours"} : !rows -> !rows
    %d = kernel.short_conv @conv(%a at %at : tensor<?xi32>) weights [@taps]
        {name = "conv"} : !rows -> !rows
    %e = kernel.short_conv @conv(%d at %at : tensor<?xi32>) weights [@taps]
        {name = "conv"} : !rows -> !rows
    %b = kernel.linear @linear(%e, @w.packed residual %a : !rows) panels 2 by 1
        rows by 6 {name = "later"} : !rows -> !rows
    %m = kernel.linear @linear(%e, @w.packed residual %b : !rows) panels 2 by 1
        rows by 6 {name = "negative_modes"} : !rows -> !rows
    %s = kernel.gather @copy(%b) by selected : !rows -> !selected
    %f = encoder.either all %m selected %s : !rows, !selected -> !demanded
    %p = kernel.gather @copy(%f) by first : !demanded -> !sequences
    kernel.output "tokens" columns 32
    kernel.store @copy(%p) to "tokens" columns 0, 32 : !sequences
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
  encoder.weight @taps : tensor<3x32xf32> {
    %0 = encoder.tensor "conv" in "model.safetensors" : tensor<32x1x3xf32>
    %1 = kernel.transpose %0 : tensor<32x1x3xf32> -> tensor<3x32xf32>
    encoder.yield %1 : tensor<3x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>
!sequences = tensor<?x32xf32, #encoder.rows<sequences>>

// What a convolution reads last may be written over in its step if the first and
// last rows of tiles are kept beside it, which the next block then reads: @a for
// @b. Not if nothing of that size comes behind (@b), or tiles have few rows (@c).
// CHECK-LABEL: kernel.output "pooled"
//   CHECK-NOT: plan.slot @rows.{{[bc]}}.edges
//   CHECK-DAG: plan.slot @rows.a.edges arena rows packed row_bytes 8
//   CHECK-DAG: plan.slot @rows.a arena rows tokens row_bytes 128
//       CHECK: plan.step @step.0.tokens over tokens rows 32 by 32
//       CHECK:   plan.call @linear({{.*}}, @rows.a + row * 128 + panel * 64, {{.*}}) name "a"
//  CHECK-NEXT:   plan.for_rows @copy_32(@rows.a + row * 128, @rows.a.edges[edge of 32] + row * 128) edges_of 32 name "a"
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.1.tokens over tokens rows 32 by 32
//  CHECK-NEXT:   plan.for_rows @conv(@rows.a[edges @rows.a.edges of 32] + row * 128 - 128, @rows.a + row * 128, @rows.a[edges @rows.a.edges of 32] + row * 128 + 128, {{.*}})
//  CHECK-NEXT:   plan.call @linear({{.*}}, @rows.b + row * 128 + panel * 64, {{.*}}) name "b"
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.2.tokens over tokens rows 6 by 6
//  CHECK-NEXT:   plan.for_rows @conv(@rows.b + row * 128 - 128, @rows.b + row * 128, @rows.b + row * 128 + 128, {{.*}})
//  CHECK-NEXT:   plan.call @linear({{.*}}) name "c"
//  CHECK-NEXT: }
//  CHECK-NEXT: plan.step @step.3.tokens
//  CHECK-NEXT:   plan.for_rows @conv(@rows.c + row * 128 - 128, @rows.c + row * 128, @rows.c + row * 128 + 128, {{.*}})
module {
  kernel.define @linear row "linear_f32_6x16_avx2" operands 10
      {k = 32, lda = 32, ldc = 32}
  func.func private @embed(!llvm.ptr, !llvm.ptr)
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func private @pool(!llvm.ptr, index, !llvm.ptr)
  func.func private @conv(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %at = encoder.input positions : tensor<?xi32>
    %x = kernel.embed @embed(%ids) in [@words] : tensor<?xi32> -> !rows
    %a = kernel.linear @linear(%x, @w.packed) panels 2 by 1 rows by 32
        {name = "a"} : !rows -> !rows
    %c0 = kernel.short_conv @conv(%a at %at : tensor<?xi32>) weights [@taps]
        : !rows -> !rows
    %b = kernel.linear @linear(%c0, @w.packed) panels 2 by 1 rows by 32
        {name = "b"} : !rows -> !rows
    %c1 = kernel.short_conv @conv(%b at %at : tensor<?xi32>) weights [@taps]
        : !rows -> !rows
    %c = kernel.linear @linear(%c1, @w.packed) panels 2 by 1 rows by 6
        {name = "c"} : !rows -> !rows
    %c2 = kernel.short_conv @conv(%c at %at : tensor<?xi32>) weights [@taps]
        : !rows -> !rows
    %p = kernel.pool @pool(%c2) : !rows -> !sequences
    kernel.output "pooled" columns 32 all_rows
    kernel.store @copy(%p) to "pooled" columns 0, 32 : !sequences
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w.packed : tensor<2x32x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    %1 = kernel.pack %0 : tensor<32x32xf32> -> tensor<2x32x16xf32>
    encoder.yield %1 : tensor<2x32x16xf32>
  }
  encoder.weight @taps : tensor<3x32xf32> {
    %0 = encoder.tensor "conv" in "model.safetensors" : tensor<32x1x3xf32>
    %1 = kernel.transpose %0 : tensor<32x1x3xf32> -> tensor<3x32xf32>
    encoder.yield %1 : tensor<3x32xf32>
  }
}
