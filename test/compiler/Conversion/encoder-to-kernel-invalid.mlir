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

// Only linears write the planes that attention reads.
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{reads 'tensor<?x32xf32>', which no linear computes}}
    %a = encoder.attention %x, %x, %x heads 2 scale 1.0 : !rows, !rows
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

!rows = tensor<?x32xf32>

// A kernel finds values behind keys, in planes of one linear.
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %k = encoder.linear %x, @w : !rows -> !rows
    %v = encoder.linear %x, @w : !rows -> !rows
    // expected-error@below {{reads keys and values of different linears}}
    %a = encoder.attention %k, %k, %v heads 2 scale 1.0 : !rows, !rows
    %p = encoder.first %a : !rows -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w : tensor<32x32xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    encoder.yield %0 : tensor<32x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// Others read rows, attention reads planes.
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{is read by attention and by other operations}}
    %q = encoder.linear %x, @w : !rows -> !rows
    %b = encoder.attention %q, %q, %q heads 2 scale 1.0 : !rows, !rows
    %a = encoder.add %b, %q : !rows
    %p = encoder.first %a : !rows -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w : tensor<32x32xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    encoder.yield %0 : tensor<32x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// Two head sizes would need two layouts, if they fill no whole planes.
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{is read by attention and by other operations}}
    %q = encoder.linear %x, @w : !rows -> !rows
    %b = encoder.attention %q, %q, %q heads 2 scale 1.0 : !rows, !rows
    %c = encoder.attention %q, %q, %q heads 4 scale 1.0 : !rows, !rows
    %a = encoder.add %b, %c : !rows
    %p = encoder.first %a : !rows -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w : tensor<32x32xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<32x32xf32>
    encoder.yield %0 : tensor<32x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// A head must begin at a plane.
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    %l = encoder.linear %x, @w : !rows -> tensor<?x64xf32>
    %q = encoder.columns %l from 8 : tensor<?x64xf32> -> !rows
    // expected-error@below {{reads columns from 8, which is no multiple of the head size 16}}
    %a = encoder.attention %q, %q, %q heads 2 scale 1.0 : !rows, !rows
    %p = encoder.first %a : !rows -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w : tensor<64x32xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<64x32xf32>
    encoder.yield %0 : tensor<64x32xf32>
  }
}

// -----

!rows = tensor<?x32xf32>

// The columns of all heads must be there.
module {
  func.func @encode() {
    %ids = encoder.input ids : tensor<?xi32>
    %x = encoder.embedding %ids in [@words] : tensor<?xi32> -> !rows
    // expected-error@below {{has 40 columns, which heads of size 16 do not fill}}
    %l = encoder.linear %x, @w : !rows -> tensor<?x40xf32>
    %q = encoder.columns %l from 0 : tensor<?x40xf32> -> !rows
    %a = encoder.attention %q, %q, %q heads 2 scale 1.0 : !rows, !rows
    %p = encoder.first %a : !rows -> tensor<?x32xf32, #encoder.rows<sequences>>
    encoder.output "cls" %p : tensor<?x32xf32, #encoder.rows<sequences>>
    return
  }
  encoder.weight @words : tensor<5x32xf32> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<5x32xf32>
    encoder.yield %0 : tensor<5x32xf32>
  }
  encoder.weight @w : tensor<40x32xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<40x32xf32>
    encoder.yield %0 : tensor<40x32xf32>
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
