// RUN: encast-opt %s --kernel-to-plan --split-input-file --verify-diagnostics

!rows = tensor<?x16xf32>

// An output that nothing stores would leave memory as it was.
module {
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @copy(%ids) in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{'tokens' is stored 0 times, expected once}}
    kernel.output "tokens" columns 16 per_token
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>

// Two stores would race.
module {
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @copy(%ids) in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{'tokens' is stored 2 times, expected once}}
    kernel.output "tokens" columns 16 per_token
    kernel.store @copy(%x) to "tokens" columns 0, 16 pick : !rows
    kernel.store @copy(%x) to "tokens" columns 0, 16 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>

// Calls that store run for the bit of their output, and this has none.
module {
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @copy(%ids) in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{stores 'logits', which no kernel.output declares}}
    kernel.store @copy(%x) to "logits" columns 0, 16 pick : !rows
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!selected = tensor<?x16xf32, #encoder.rows<selected>>
!demanded = tensor<?x16xf32, #encoder.rows<demanded>>

// One slot holds either side of an either; keys need all rows in every run.
module {
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @copy(%ids) in [@words] : tensor<?xi32> -> !rows
    %all = kernel.rows @copy(%x) : (!rows) -> !rows
    %s = kernel.gather @copy(%all) by selected : !rows -> !selected
    %t = kernel.rows @copy(%s) : (!selected) -> !selected
    // expected-error@below {{cannot keep both sides in one slot: 'all' is needed elsewhere}}
    %d = encoder.either all %all selected %t : !rows, !selected -> !demanded
    kernel.output "tokens" columns 16 per_token all_rows
    kernel.store @copy(%d) to "tokens" columns 0, 16 pick : !demanded
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!selected = tensor<?x16xf32, #encoder.rows<selected>>
!demanded = tensor<?x16xf32, #encoder.rows<demanded>>

// Nor can one side be that of two.
module {
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @copy(%ids) in [@words] : tensor<?xi32> -> !rows
    %s = kernel.gather @copy(%x) by selected : !rows -> !selected
    %0 = kernel.rows @copy(%x) : (!rows) -> !rows
    %1 = kernel.rows @copy(%x) : (!rows) -> !rows
    %c = encoder.either all %0 selected %s : !rows, !selected -> !demanded
    // expected-error@below {{cannot keep both sides in one slot: 'selected' is needed elsewhere}}
    %d = encoder.either all %1 selected %s : !rows, !selected -> !demanded
    kernel.output "tokens" columns 16 per_token all_rows
    kernel.store @copy(%d) to "tokens" columns 0, 16 pick : !demanded
    kernel.output "again" columns 16 per_token
    kernel.store @copy(%c) to "again" columns 0, 16 pick : !demanded
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!selected = tensor<?x16xf32, #encoder.rows<selected>>
!demanded = tensor<?x16xf32, #encoder.rows<demanded>>

// Whose rows a run computes is known to gathers and pools alone.
module {
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @copy(%ids) in [@words] : tensor<?xi32> -> !rows
    %s = kernel.gather @copy(%x) by selected : !rows -> !selected
    %0 = kernel.rows @copy(%x) : (!rows) -> !rows
    %c = encoder.either all %0 selected %s : !rows, !selected -> !demanded
    // expected-error@below {{computes demanded rows, which only first, pick and pool may read}}
    %d = kernel.rows @copy(%c) : (!demanded) -> !demanded
    kernel.output "tokens" columns 16 per_token
    kernel.store @copy(%d) to "tokens" columns 0, 16 pick : !demanded
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

!rows = tensor<?x16xf32>
!picked = tensor<?x16xf32, #encoder.rows<picked>>

// What is no kernel yet has no call.
module {
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = kernel.embed @copy(%ids) in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{is not an operation of the kernel stage}}
    %p = encoder.pick %x : !rows -> !picked
    kernel.output "tokens" columns 16 per_token
    kernel.store @copy(%p) to "tokens" columns 0, 16 : !picked
    return
  }
  encoder.weight @words : tensor<5x16xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x16xf32>
    encoder.yield %0 : tensor<5x16xf32>
  }
}

// -----

// expected-error@below {{has no function @encode}}
module {
}
