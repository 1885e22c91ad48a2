// RUN: encast-opt %s --encoder-to-kernel --split-input-file --verify-diagnostics
// RUN: not encast-opt %s --encoder-to-kernel="target=z80" --split-input-file 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not encast-opt %s --encoder-to-kernel="target=x86-64-v3+x87" --split-input-file 2>&1 | FileCheck %s --check-prefix=FEATURE
// RUN: not encast-opt %s --encoder-to-kernel="target=x86-64-v3-avx2" --split-input-file 2>&1 | FileCheck %s --check-prefix=LEAST

// The target is looked at first.
// TARGET: error: unknown target 'z80'
// FEATURE: error: target 'x86-64-v3+x87' has the unknown feature 'x87'
// LEAST: error: target 'x86-64-v3-avx2' lacks avx2

!rows = tensor<?x272xf32>

// Kernels keep the results of a head in registers, up to 256 columns.
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %q = encoder.linear %x, @w : !rows -> !rows
    // expected-error@below {{has heads of size 272, at most 256 work}}
    %a = encoder.attention %q, %q, %q heads 1 scale 1.0 : !rows, !rows
    %p = encoder.first %a
        : !rows -> tensor<?x272xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x272xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x272xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x272xf32>
    encoder.yield %0 : tensor<5x272xf32>
  }
  encoder.weight @w : tensor<272x272xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<272x272xf32>
    encoder.yield %0 : tensor<272x272xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// An activation is part of a linear or nowhere.
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{cannot be lowered to a kernel}}
    %a = encoder.activation gelu %x : !rows
    %p = encoder.first %a : !rows -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
}

// -----

// expected-error@below {{has no function @encode}}
module {
}

// -----

// expected-error@below {{has no function @encode}}
module {
  func.func private @encode()
}

// -----

// Inputs are operations, outputs are too.
module {
  // expected-error@below {{expects one block, without arguments and results}}
  func.func @encode(%x: tensor<?x8xf32>) {
    return
  }
}
