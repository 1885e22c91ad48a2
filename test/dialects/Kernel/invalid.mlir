// RUN: encast-opt %s -verify-diagnostics -split-input-file -o /dev/null

// Kernels: the fields of their family, and no others.

// expected-error @+1 {{needs lda}}
kernel.define @k row "r" operands 8 {k = 24, ldc = 32}

// -----

// expected-error @+1 {{expects a positive i64 as k, but got "24"}}
kernel.define @k row "r" operands 8 {k = "24", lda = 32, ldc = 32}

// -----

// expected-error @+1 {{expects a positive i64 as k, but got 0 : i64}}
kernel.define @k row "r" operands 8 {k = 0, lda = 32, ldc = 32}

// -----

// expected-error @+1 {{expects a positive i64 as k, but got 24 : i32}}
kernel.define @k row "r" operands 8 {k = 24 : i32, lda = 32, ldc = 32}

// -----

// A bias that is given as false would be a bias.
// expected-error @+1 {{expects no value as bias, but got false}}
kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32, bias = false}

// -----

// expected-error @+1 {{expects a string as activation, but got 1 : i64}}
kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32, activation = 1}

// -----

// expected-error @+1 {{has unknown "activaton"}}
kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32, activaton = "gelu"}

// -----

// expected-error @+1 {{needs scale}}
kernel.define @k row "r" operands 9 {head_size = 12, ldo = 32}

// -----

// expected-error @+1 {{expects a finite f32 as scale, but got 0x7F800000 : f32}}
kernel.define @k row "r" operands 9 {head_size = 12, ldo = 32, scale = 0x7F800000 : f32}

// -----

// expected-error @+1 {{has unknown "k"}}
kernel.define @k row "r" operands 9 {head_size = 12, ldo = 32, scale = 1.0 : f32, k = 24}

// -----

// expected-error @+1 {{attribute 'operands' failed to satisfy constraint: 64-bit integer from 1 to 65536}}
kernel.define @k row "r" operands 0 {k = 24, lda = 32, ldc = 32}

// -----

// Recipes.

encoder.weight @w : tensor<32x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<25x4xf32>
  // expected-error @+1 {{cannot pad groups of 12 of 25 rows to 16}}
  %1 = kernel.pad_rows %0 groups 12 to 16 : tensor<25x4xf32> -> tensor<32x4xf32>
  encoder.yield %1 : tensor<32x4xf32>
}

// -----

encoder.weight @w : tensor<32x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<24x4xf32>
  // expected-error @+1 {{cannot pad groups of 12 of 24 rows to 8}}
  %1 = kernel.pad_rows %0 groups 12 to 8 : tensor<24x4xf32> -> tensor<32x4xf32>
  encoder.yield %1 : tensor<32x4xf32>
}

// -----

encoder.weight @w : tensor<33x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<24x4xf32>
  // expected-error @+1 {{expects 32 rows, but results in 'tensor<33x4xf32>'}}
  %1 = kernel.pad_rows %0 groups 12 to 16 : tensor<24x4xf32> -> tensor<33x4xf32>
  encoder.yield %1 : tensor<33x4xf32>
}

// -----

encoder.weight @w : tensor<1x4x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17x4xf32>' to a 'tensor<1x4x16xf32>'}}
  %1 = kernel.pack %0 : tensor<17x4xf32> -> tensor<1x4x16xf32>
  encoder.yield %1 : tensor<1x4x16xf32>
}

// -----

encoder.weight @w : tensor<1x4x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<1x4x16xf32>
  // expected-error @+1 {{cannot pack a 'tensor<1x4x16xf32>' to a 'tensor<1x4x16xf32>'}}
  %1 = kernel.pack %0 : tensor<1x4x16xf32> -> tensor<1x4x16xf32>
  encoder.yield %1 : tensor<1x4x16xf32>
}

// -----

func.func @f(%w: tensor<17x4xf32>) {
  // expected-error @+1 {{expects to be in the recipe of an encoder.weight}}
  %1 = kernel.pack %w : tensor<17x4xf32> -> tensor<2x4x16xf32>
  return
}

// -----

// Linears.

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{kernel @f is not a kernel.define}}
  %0 = kernel.linear @f(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{changes the rows of 'tensor<?x24xf32>'}}
  %0 = kernel.linear @f(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects 2 panels for 24 columns, but got 3}}
  %0 = kernel.linear @f(%x, @w) panels 3 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects 2 panels for 24 columns, but got 1}}
  %0 = kernel.linear @f(%x, @w) panels 1 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{attribute 'panels' failed to satisfy constraint: 64-bit integer from 1 to 2147483647}}
  %0 = kernel.linear @f(%x, @w) panels 0 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{attribute 'panel_tile' failed to satisfy constraint: 64-bit integer from 1 to 65536}}
  %0 = kernel.linear @f(%x, @w) panels 2 by -1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>, %y: tensor<?x25xf32>) {
  // expected-error @+1 {{expects a residual of type 'tensor<?x24xf32>', but got 'tensor<?x25xf32>'}}
  %0 = kernel.linear @f(%x, @w residual %y : tensor<?x25xf32>) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 25, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a kernel with k of 24, but that of @k is 25}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 24, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a kernel with lda of 32, but that of @k is 24}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Panel-major results have rows of one panel.
kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a kernel with ldc of 16, but that of @k is 32}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a kernel with ldr of 32, but that of @k is 0}}
  %0 = kernel.linear @k(%x, @w residual %x : tensor<?x24xf32>) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32, bias}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{has no bias, unlike its kernel @k}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{has a bias, unlike its kernel @k}}
  %0 = kernel.linear @k(%x, @w bias @b) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{weight @k is not an encoder.weight}}
  %0 = kernel.linear @k(%x, @k) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// A weight that is not packed.
kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32}
encoder.weight @w : tensor<24x24xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<24x24xf32>
  encoder.yield %0 : tensor<24x24xf32>
}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a weight of type 'tensor<2x24x16xf32>', but @w is a 'tensor<24x24xf32>'}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 32, bias}
encoder.weight @w : tensor<2x24x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x24x16xf32>
  encoder.yield %0 : tensor<2x24x16xf32>
}
encoder.weight @b : tensor<24xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<24xf32>
  encoder.yield %0 : tensor<24xf32>
}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a bias of type 'tensor<32xf32>', but @b is a 'tensor<24xf32>'}}
  %0 = kernel.linear @k(%x, @w bias @b) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Attention.

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{cannot split 24 columns into 5 heads}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 5 of 1 rows by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects 1 planes for heads of 12 columns, but got 2}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 2 of 2 rows by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects the first planes of query, key and value, but got 2 numbers}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0] heads 2 of 1 rows by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>, %s: tensor<?x24xf32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?x24xf32, #encoder.rows<selected>>'}}
  %0 = kernel.attention @k(%x, %s, %s) planes [0, 0, 0] heads 2 of 1 rows by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32, #encoder.rows<selected>> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects operands of panel-major linears}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 2 of 1 rows by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{attribute 'workspace_bytes' failed to satisfy constraint: 64-bit integer from 1 to 1099511627776}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 2 of 1 rows by 24 workspace 0 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 16}
encoder.weight @w : tensor<2x24x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x24x16xf32>
  encoder.yield %0 : tensor<2x24x16xf32>
}
func.func @f(%x: tensor<?x24xf32>) {
  %q = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  // expected-error @+1 {{reads planes 1 to 3 of 2}}
  %0 = kernel.attention @k(%q, %q, %q) planes [0, 1, 0] heads 2 of 1 rows by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 16}
kernel.define @a row "r" operands 9 {head_size = 16, ldo = 32, scale = 1.0 : f32}
encoder.weight @w : tensor<2x24x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x24x16xf32>
  encoder.yield %0 : tensor<2x24x16xf32>
}
func.func @f(%x: tensor<?x24xf32>) {
  %q = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  // expected-error @+1 {{expects a kernel with head_size of 12, but that of @a is 16}}
  %0 = kernel.attention @a(%q, %q, %q) planes [0, 0, 0] heads 2 of 1 rows by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Row programs.

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{program @absent is not a func.func}}
  %0 = kernel.rows @absent(%x) : (tensor<?x24xf32>) -> tensor<?x24xf32>
  return
}

// -----

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{passes 3 operands to @two, which is a '(memref<24xf32>, memref<24xf32>) -> ()'}}
  %0 = kernel.rows @two(%x, %x) : (tensor<?x24xf32>, tensor<?x24xf32>) -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{has 2 columns for 1 operands}}
  %0 = kernel.rows @two(%x) columns [0, 8] : (tensor<?x24xf32>) -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{reads from column 24 of 'tensor<?x24xf32>'}}
  %0 = kernel.rows @two(%x) columns [24] : (tensor<?x24xf32>) -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects symbols as weights, but got 3 : i64}}
  %0 = kernel.rows @two(%x) weights [3] : (tensor<?x24xf32>) -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{weight @f is not an encoder.weight}}
  %0 = kernel.rows @two(%x) weights [@f] : (tensor<?x24xf32>) -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects rows that are sequences, but got 'tensor<?x24xf32>'}}
  %0 = kernel.rows @two(%x) : (tensor<?x24xf32>) -> tensor<?x24xf32, #encoder.rows<sequences>>
  return
}

// -----

func.func @f(%ids: tensor<?xi32>) {
  // expected-error @+1 {{table @f is not an encoder.weight}}
  %0 = kernel.embed @two(%ids) in [@f] : tensor<?xi32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects rows that are selected, but got 'tensor<?x24xf32, #encoder.rows<picked>>'}}
  %0 = kernel.gather @two(%x) by selected : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<picked>>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects as many columns as 'tensor<?x24xf32>', but got 'tensor<?x23xf32, #encoder.rows<sequences>>'}}
  %0 = kernel.gather @two(%x) by first : tensor<?x24xf32> -> tensor<?x23xf32, #encoder.rows<sequences>>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32, #encoder.rows<picked>>) {
  // expected-error @+1 {{expects rows that are tokens or demanded, but got 'tensor<?x24xf32, #encoder.rows<picked>>'}}
  %0 = kernel.pool @two(%x) : tensor<?x24xf32, #encoder.rows<picked>> -> tensor<?x24xf32, #encoder.rows<sequences>>
  return
}

// -----

// Outputs.

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{stores 'x', which no kernel.output declares}}
  kernel.store @two(%x) to "x" columns 0, 24 pick : tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{'x' is stored 0 times, expected once}}
  kernel.output "x" columns 24 per_token
  return
}

// -----

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{'x' is stored 2 times, expected once}}
  kernel.output "x" columns 24 per_token
  kernel.store @two(%x) to "x" columns 0, 24 pick : tensor<?x24xf32>
  kernel.store @two(%x) to "x" columns 0, 24 pick : tensor<?x24xf32>
  return
}

// -----

kernel.output "x" columns 24 per_token
// expected-error @+1 {{"x" is declared twice}}
kernel.output "x" columns 24 per_token

// -----

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>) {
  kernel.output "x" columns 24 per_token
  // expected-error @+1 {{stores 8 columns of 'x', which has 24}}
  kernel.store @two(%x) to "x" columns 0, 8 pick : tensor<?x24xf32>
  return
}

// -----

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>) {
  kernel.output "x" columns 24 per_token
  // expected-error @+1 {{stores columns 8 to 32 of 24}}
  kernel.store @two(%x) to "x" columns 8, 24 pick : tensor<?x24xf32>
  return
}

// -----

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>) {
  kernel.output "x" columns 24
  // expected-error @+1 {{picks rows for 'x', which is not per token}}
  kernel.store @two(%x) to "x" columns 0, 24 pick : tensor<?x24xf32>
  return
}

// -----

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>) {
  kernel.output "x" columns 24
  // expected-error @+1 {{expects rows that are sequences, but got 'tensor<?x24xf32>'}}
  kernel.store @two(%x) to "x" columns 0, 24 : tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 8 {k = 24, lda = 32, ldc = 16}
encoder.weight @w : tensor<96x24xf16> {
  %0 = encoder.tensor "t" in "f" : tensor<96x24xf16>
  encoder.yield %0 : tensor<96x24xf16>
}
func.func private @three(memref<16xf32>, index, memref<16xf32>)
func.func @f(%x: tensor<?x24xf32, #encoder.rows<picked>>) {
  kernel.output "x" columns 97 per_token
  // expected-error @+1 {{expects a weight of shape [97, 24], but @w is a 'tensor<96x24xf16>'}}
  kernel.linear_store @k(%x, @w transpose @three) to "x" by @three columns 97 panels by 1 rows by 6 : tensor<?x24xf32, #encoder.rows<picked>>
  return
}

// -----

// expected-error @+1 {{has attribute "kernel.target", which means nothing here}}
module attributes {kernel.target = 3 : i64} {}
