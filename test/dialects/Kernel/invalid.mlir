// RUN: encast-opt %s -verify-diagnostics -split-input-file -o /dev/null

// Kernels: the fields of their family, and no others.

// expected-error @+1 {{needs lda}}
kernel.define @k row "r" operands 9 {k = 24, ldc = 32}

// -----

// expected-error @+1 {{expects a positive i64 as k, but got "24"}}
kernel.define @k row "r" operands 9 {k = "24", lda = 32, ldc = 32}

// -----

// expected-error @+1 {{expects a positive i64 as k, but got 0 : i64}}
kernel.define @k row "r" operands 9 {k = 0, lda = 32, ldc = 32}

// -----

// expected-error @+1 {{expects a positive i64 as k, but got 24 : i32}}
kernel.define @k row "r" operands 9 {k = 24 : i32, lda = 32, ldc = 32}

// -----

// A bias that is given as false would be a bias.
// expected-error @+1 {{expects no value as bias, but got false}}
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32, bias = false}

// -----

// expected-error @+1 {{expects a string as activation, but got 1 : i64}}
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32, activation = 1}

// -----

// expected-error @+1 {{has unknown "activaton"}}
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32, activaton = "gelu"}

// -----

// expected-error @+1 {{expects a positive i64 as ldo, but got 0 : i64}}
kernel.define @k row "r" operands 10 {head_size = 12, ldo = 0}

// -----

// A window of 0 is one key, no window is all of them.
// expected-error @+1 {{expects an i64 from 0 as window, but got -1 : i64}}
kernel.define @k row "r" operands 10 {head_size = 12, ldo = 32, window = -1}

// -----

// expected-error @+1 {{expects no value as gated, but got false}}
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32, gated = false}

// -----

// expected-error @+1 {{expects a positive i64 as planes, but got 0 : i64}}
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32, planes = 0}

// -----

// expected-error @+1 {{expects a finite f32 as scale, but got 0x7F800000 : f32}}
kernel.define @k row "r" operands 10 {head_size = 12, ldo = 32, scale = 0x7F800000 : f32}

// -----

// expected-error @+1 {{has unknown "k"}}
kernel.define @k row "r" operands 10 {head_size = 12, ldo = 32, scale = 1.0 : f32, k = 24}

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

// Nothing is rounded where it is packed.
encoder.weight @w : tensor<2x2x32xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17x4xf32>' to a 'tensor<2x2x32xbf16>'}}
  %1 = kernel.pack %0 : tensor<17x4xf32> -> tensor<2x2x32xbf16>
  encoder.yield %1 : tensor<2x2x32xbf16>
}

// -----

encoder.weight @w : tensor<2x1x32xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<17x3xbf16>
  // expected-error @+1 {{cannot pack a 'tensor<17x3xbf16>' to a 'tensor<2x1x32xbf16>'}}
  %1 = kernel.pack %0 : tensor<17x3xbf16> -> tensor<2x1x32xbf16>
  encoder.yield %1 : tensor<2x1x32xbf16>
}

// -----

encoder.weight @w : tensor<32xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<17xbf16>
  // expected-error @+1 {{cannot pack a 'tensor<17xbf16>' to a 'tensor<32xbf16>'}}
  %1 = kernel.pack %0 : tensor<17xbf16> -> tensor<32xbf16>
  encoder.yield %1 : tensor<32xbf16>
}

// -----

encoder.weight @w : tensor<3x2x32xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<17x4xbf16>
  %1 = encoder.tensor "g" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17x4xbf16>' and a 'tensor<17x4xf32>' by 8 to a 'tensor<3x2x32xbf16>'}}
  %2 = kernel.pack_gated %0 gate %1 : tensor<17x4xf32> by 8 : tensor<17x4xbf16> -> tensor<3x2x32xbf16>
  encoder.yield %2 : tensor<3x2x32xbf16>
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

encoder.weight @w : tensor<2x4x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<16x4xf32>
  %1 = encoder.tensor "t" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<16x4xf32>' and a 'tensor<17x4xf32>' by 8 to a 'tensor<2x4x16xf32>'}}
  %2 = kernel.pack_gated %0 gate %1 : tensor<17x4xf32> by 8 : tensor<16x4xf32> -> tensor<2x4x16xf32>
  encoder.yield %2 : tensor<2x4x16xf32>
}

// -----

// Groups of 12 would be neither a half of a panel nor a tile.
encoder.weight @w : tensor<3x4x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<16x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<16x4xf32>' and a 'tensor<16x4xf32>' by 12 to a 'tensor<3x4x16xf32>'}}
  %1 = kernel.pack_gated %0 gate %0 : tensor<16x4xf32> by 12 : tensor<16x4xf32> -> tensor<3x4x16xf32>
  encoder.yield %1 : tensor<3x4x16xf32>
}

// -----

// 17 columns take 3 groups of 8, but 2 of 16.
encoder.weight @w : tensor<3x4x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17x4xf32>' and a 'tensor<17x4xf32>' by 16 to a 'tensor<3x4x16xf32>'}}
  %1 = kernel.pack_gated %0 gate %0 : tensor<17x4xf32> by 16 : tensor<17x4xf32> -> tensor<3x4x16xf32>
  encoder.yield %1 : tensor<3x4x16xf32>
}

// -----

encoder.weight @w : tensor<1x1x1024xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17x4xf32>' in 2 planes to a 'tensor<1x1x1024xbf16>'}}
  %1 = kernel.pack_tiles %0 planes 2 : tensor<17x4xf32> -> tensor<1x1x1024xbf16>
  encoder.yield %1 : tensor<1x1x1024xbf16>
}

// -----

// With a gate a pair of tiles holds 16 columns of each.
encoder.weight @w : tensor<1x1x1024xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17x4xf32>' in 1 planes to a 'tensor<1x1x1024xbf16>'}}
  %1 = kernel.pack_tiles %0 gate %0 : tensor<17x4xf32> planes 1 : tensor<17x4xf32> -> tensor<1x1x1024xbf16>
  encoder.yield %1 : tensor<1x1x1024xbf16>
}

// -----

encoder.weight @w : tensor<1x1x3072xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17x4xf32>' in 3 planes to a 'tensor<1x1x3072xbf16>'}}
  %1 = kernel.pack_tiles %0 planes 3 : tensor<17x4xf32> -> tensor<1x1x3072xbf16>
  encoder.yield %1 : tensor<1x1x3072xbf16>
}

// -----

// Only planes of bf16 add up to the weight.
encoder.weight @w : tensor<1x1x2048xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<17x4xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17x4xf32>' in 2 planes to a 'tensor<1x1x2048xf32>'}}
  %1 = kernel.pack_tiles %0 planes 2 : tensor<17x4xf32> -> tensor<1x1x2048xf32>
  encoder.yield %1 : tensor<1x1x2048xf32>
}

// -----

encoder.weight @w : tensor<1x1x1024xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<17xf32>
  // expected-error @+1 {{cannot pack a 'tensor<17xf32>' in 1 planes to a 'tensor<1x1x1024xbf16>'}}
  %1 = kernel.pack_tiles %0 planes 1 : tensor<17xf32> -> tensor<1x1x1024xbf16>
  encoder.yield %1 : tensor<1x1x1024xbf16>
}

// -----

encoder.weight @w : tensor<3x8xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<8x2x3xf32>
  // expected-error @+1 {{cannot transpose a 'tensor<8x2x3xf32>' to a 'tensor<3x8xf32>'}}
  %1 = kernel.transpose %0 : tensor<8x2x3xf32> -> tensor<3x8xf32>
  encoder.yield %1 : tensor<3x8xf32>
}

// -----

encoder.weight @w : tensor<3x8xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<8x1x3xbf16>
  // expected-error @+1 {{cannot transpose a 'tensor<8x1x3xbf16>' to a 'tensor<3x8xbf16>'}}
  %1 = kernel.transpose %0 : tensor<8x1x3xbf16> -> tensor<3x8xbf16>
  encoder.yield %1 : tensor<3x8xbf16>
}

// -----

// Values: f32 rows, or one to three planes of bf16.

func.func @f(%x: tensor<?x4x24xbf16>) {
  // expected-error @+1 {{must be rows (as of the encoder, or bf16 planes tensor<?xPxNxbf16>, 1 <= P <= 3), but got 'tensor<?x4x24xbf16>'}}
  %0 = kernel.linear @f(%x, @w) panels 2 by 1 rows by 6 : tensor<?x4x24xbf16> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x2x24xf32>) {
  // expected-error @+1 {{must be rows (as of the encoder, or bf16 planes tensor<?xPxNxbf16>, 1 <= P <= 3), but got 'tensor<?x2x24xf32>'}}
  %0 = kernel.linear @f(%x, @w) panels 2 by 1 rows by 6 : tensor<?x2x24xf32> -> tensor<?x24xf32>
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

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects 2 panels for 24 columns, but got 3}}
  %0 = kernel.linear @k(%x, @w) panels 3 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects 2 panels for 24 columns, but got 1}}
  %0 = kernel.linear @k(%x, @w) panels 1 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
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

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>, %y: tensor<?x25xf32>) {
  // expected-error @+1 {{expects a residual and sums of type 'tensor<?x24xf32>', but got 'tensor<?x25xf32>'}}
  %0 = kernel.linear @k(%x, @w residual %y : tensor<?x25xf32>) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 25, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a kernel with k of 24, but that of @k is 25}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 24, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a kernel with lda of 32, but that of @k is 24}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Panel-major results have rows of one panel.
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a kernel with ldc of 16, but that of @k is 32}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects a kernel with ldr of 32, but that of @k is 0}}
  %0 = kernel.linear @k(%x, @w residual %x : tensor<?x24xf32>) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32, bias}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{has no bias, unlike its kernel @k}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{has a bias, unlike its kernel @k}}
  %0 = kernel.linear @k(%x, @w bias @b) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{weight @k is not an encoder.weight}}
  %0 = kernel.linear @k(%x, @k) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Kernels say of which type their weights are.
kernel.define @k row "r" operands 9 {k = 23, lda = 32, ldc = 32, bf16_weights}
encoder.weight @w : tensor<2x23x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x23x16xf32>
  encoder.yield %0 : tensor<2x23x16xf32>
}
func.func @f(%x: tensor<?x23xf32>) {
  // expected-error @+1 {{expects a weight of type 'tensor<2x12x32xbf16>', but @w is a 'tensor<2x23x16xf32>'}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 workspace 1472 : tensor<?x23xf32> -> tensor<?x24xf32>
  return
}

// -----

// They widen them in a workspace.
kernel.define @k row "r" operands 9 {k = 23, lda = 32, ldc = 32, bf16_weights}
func.func @f(%x: tensor<?x23xf32>) {
  // expected-error @+1 {{expects a workspace for its kernel @k, which widens bf16_weights}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x23xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 96, ldc = 32, bf16_weights}
func.func @f(%x: tensor<?x2x24xbf16>) {
  // expected-error @+1 {{multiplies planes, unlike its kernel @k with bf16_weights}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 2 rows by 32 workspace 64 : tensor<?x2x24xbf16> -> tensor<?x24xf32>
  return
}

// -----

// A weight that is not packed.
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32}
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

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32, bias}
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

// A panel of a gated linear makes 8 columns.
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 32, gated}
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects 3 panels for 24 columns, but got 2}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Tiles come in pairs.
kernel.define @k row "r" operands 9 {k = 24, lda = 64, ldc = 64}
func.func @f(%x: tensor<?x1x24xbf16>) {
  // expected-error @+1 {{expects 4 panels for 40 columns, but got 3}}
  %0 = kernel.linear @k(%x, @w) panels 3 by 2 rows by 32 : tensor<?x1x24xbf16> -> tensor<?x40xf32>
  return
}

// -----

// Residuals are f32.
kernel.define @k row "r" operands 9 {k = 24, lda = 64, ldc = 64}
func.func @f(%x: tensor<?x1x24xbf16>) {
  // expected-error @+1 {{expects a residual and sums of type 'tensor<?x1x24xbf16>', but got 'tensor<?x1x24xbf16>'}}
  %0 = kernel.linear @k(%x, @w residual %x : tensor<?x1x24xbf16>) panels 2 by 2 rows by 32 : tensor<?x1x24xbf16> -> tensor<?x1x24xbf16>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 64, ldc = 32}
func.func @f(%x: tensor<?x1x24xbf16>, %y: tensor<?x24xf32>) {
  // expected-error @+1 {{and its kernel @k do not both accumulate}}
  %0 = kernel.linear @k(%x, @w accumulate %y : tensor<?x24xf32>) panels 2 by 2 rows by 32 : tensor<?x1x24xbf16> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 64, ldc = 32, accumulate}
func.func @f(%x: tensor<?x1x24xbf16>) {
  // expected-error @+1 {{and its kernel @k do not both accumulate}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 2 rows by 32 : tensor<?x1x24xbf16> -> tensor<?x24xf32>
  return
}

// -----

// Sums that go on in the same memory are gone for other readers.
kernel.define @k row "r" operands 9 {k = 24, lda = 64, ldc = 32, accumulate}
func.func @f(%x: tensor<?x1x24xbf16>, %y: tensor<?x24xf32>) {
  // expected-error @+1 {{accumulates to a value that others read}}
  %0 = kernel.linear @k(%x, @w accumulate %y : tensor<?x24xf32>) panels 2 by 2 rows by 32 : tensor<?x1x24xbf16> -> tensor<?x24xf32>
  %1 = kernel.rows @two(%y) : (tensor<?x24xf32>) -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 64, ldc = 32}
func.func @f(%x: tensor<?x1x24xbf16>) {
  // expected-error @+1 {{expects a kernel with planes of 2, but that of @k is 0}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 2 rows by 32 : tensor<?x1x24xbf16> -> tensor<?x2x24xbf16>
  return
}

// -----

// Rows of two planes of 32 columns are 96 elements apart.
kernel.define @k row "r" operands 9 {k = 24, lda = 64, ldc = 32}
func.func @f(%x: tensor<?x2x24xbf16>) {
  // expected-error @+1 {{expects a kernel with lda of 96, but that of @k is 64}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 2 rows by 32 : tensor<?x2x24xbf16> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 96, ldc = 32}
encoder.weight @w : tensor<2x24x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x24x16xf32>
  encoder.yield %0 : tensor<2x24x16xf32>
}
func.func @f(%x: tensor<?x2x24xbf16>) {
  // expected-error @+1 {{expects a weight of 1 pairs of panels and 1 steps of 32 columns, but @w is a 'tensor<2x24x16xf32>'}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 2 rows by 32 : tensor<?x2x24xbf16> -> tensor<?x24xf32>
  return
}

// -----

// Two planes are multiplied by two, only three are by those of f32.
kernel.define @k row "r" operands 9 {k = 24, lda = 96, ldc = 32}
encoder.weight @w : tensor<1x1x1024xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<24x24xf32>
  %1 = kernel.pack_tiles %0 planes 1 : tensor<24x24xf32> -> tensor<1x1x1024xf32>
  encoder.yield %1 : tensor<1x1x1024xf32>
}
func.func @f(%x: tensor<?x2x24xbf16>) {
  // expected-error @+1 {{expects a weight of 1 pairs of panels and 1 steps of 32 columns, but @w is a 'tensor<1x1x1024xf32>'}}
  %0 = kernel.linear @k(%x, @w) panels 2 by 2 rows by 32 : tensor<?x2x24xbf16> -> tensor<?x24xf32>
  return
}

// -----

// Attention.

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{cannot share 3 heads of keys among 2 heads}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 2 by 3 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?x24xf32, #encoder.rows<selected>>'}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{cannot split 24 columns into 5 heads}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 5 by 5 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects 1 planes for heads of 12 columns, but got 2}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 2 by 2 of 2 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects the first planes of query, key and value, but got 2 numbers}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>, %s: tensor<?x24xf32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?x24xf32, #encoder.rows<selected>>'}}
  %0 = kernel.attention @k(%x, %s, %s) planes [0, 0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32, #encoder.rows<selected>>, tensor<?x24xf32, #encoder.rows<selected>> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects panel-major operands}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{attribute 'workspace_bytes' failed to satisfy constraint: 64-bit integer from 1 to 1099511627776}}
  %0 = kernel.attention @k(%x, %x, %x) planes [0, 0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 0 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 16}
encoder.weight @w : tensor<2x24x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x24x16xf32>
  encoder.yield %0 : tensor<2x24x16xf32>
}
func.func @f(%x: tensor<?x24xf32>) {
  %q = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  // expected-error @+1 {{reads planes 1 to 3 of 2}}
  %0 = kernel.attention @k(%q, %q, %q) planes [0, 1, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 16}
kernel.define @a row "r" operands 10 {head_size = 16, ldo = 32, scale = 1.0 : f32}
encoder.weight @w : tensor<2x24x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x24x16xf32>
  encoder.yield %0 : tensor<2x24x16xf32>
}
func.func @f(%x: tensor<?x24xf32>) {
  %q = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  // expected-error @+1 {{expects a kernel with head_size of 12, but that of @a is 16}}
  %0 = kernel.attention @a(%q, %q, %q) planes [0, 0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Fewer heads of keys take fewer planes.
kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 16}
encoder.weight @w : tensor<2x24x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x24x16xf32>
  encoder.yield %0 : tensor<2x24x16xf32>
}
func.func private @one(memref<16xf32>, memref<16xf32>, index)
func.func @f(%x: tensor<?x24xf32>) {
  %q = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  %v = kernel.heads @one(%x) column 0 weights [] panel_major 1 : tensor<?x24xf32> -> tensor<?x12xf32>
  // expected-error @+1 {{reads planes 1 to 2 of 1}}
  %0 = kernel.attention @k(%q, %q, %v) planes [0, 1, 1] heads 2 by 1 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x12xf32> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 16}
kernel.define @a row "r" operands 10 {head_size = 12, ldo = 24, scale = 1.0 : f32}
encoder.weight @w : tensor<2x24x16xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<2x24x16xf32>
  encoder.yield %0 : tensor<2x24x16xf32>
}
func.func @f(%x: tensor<?x24xf32>) {
  %q = kernel.linear @k(%x, @w) panels 2 by 1 rows by 6 panel_major : tensor<?x24xf32> -> tensor<?x24xf32>
  // expected-error @+1 {{expects a kernel with ldo of 32, but that of @a is 24}}
  %0 = kernel.attention @a(%q, %q, %q) planes [0, 0, 0] heads 2 by 2 of 1 rows 192 by 24 workspace 64 : tensor<?x24xf32>, tensor<?x24xf32>, tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Packs of keys and values.

func.func @f(%k: tensor<?x2x24xbf16>) {
  // expected-error @+1 {{expects bf16 planes of 1 heads of whole tiles, but got 'tensor<?x2x24xbf16>'}}
  %0, %1 = kernel.attention_pack @f(%k, %k) heads 1 row_bytes 96 : tensor<?x2x24xbf16>
  return
}

// -----

func.func @f(%k: tensor<?x32xf32>) {
  // expected-error @+1 {{expects bf16 planes of 1 heads of whole tiles, but got 'tensor<?x32xf32>'}}
  %0, %1 = kernel.attention_pack @f(%k, %k) heads 1 row_bytes 128 : tensor<?x32xf32>
  return
}

// -----

func.func @f(%k: tensor<?x2x32xbf16, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?x2x32xbf16, #encoder.rows<selected>>'}}
  %0, %1 = kernel.attention_pack @f(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%k: tensor<?x2x64xbf16>) {
  // expected-error @+1 {{expects packed rows of 128 bytes, but got 256}}
  %0, %1 = kernel.attention_pack @f(%k, %k) heads 2 row_bytes 256 : tensor<?x2x64xbf16>
  return
}

// -----

func.func @f(%k: tensor<?x2x32xbf16>) {
  // expected-error @+1 {{kernel @f is not a kernel.define}}
  %0, %1 = kernel.attention_pack @f(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  return
}

// -----

kernel.define @p row "r" operands 5 {head_size = 32, ldkv = 64}
func.func @f(%k: tensor<?x2x32xbf16>) {
  // expected-error @+1 {{expects a kernel with ldkv of 96, but that of @p is 64}}
  %0, %1 = kernel.attention_pack @p(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  return
}

// -----

// Tile attention.

func.func @f(%q: tensor<?x2x32xbf16>) {
  // expected-error @+1 {{expects 1 packed heads of keys and values}}
  %0 = kernel.tile_attention @f(%q, %q, %q) heads 1 by 1 row_bytes 128 rows 512 by 32 workspace 64 : tensor<?x2x32xbf16>, tensor<?x2x32xbf16> -> tensor<?x32xf32>
  return
}

// -----

kernel.define @p row "r" operands 5 {head_size = 32, ldkv = 160}
func.func @f(%k: tensor<?x2x64xbf16>) {
  %pk, %pv = kernel.attention_pack @p(%k, %k) heads 2 row_bytes 128 : tensor<?x2x64xbf16>
  // expected-error @+1 {{expects 1 packed heads of keys and values}}
  %0 = kernel.tile_attention @f(%k, %pk, %pv) heads 2 by 1 row_bytes 128 rows 512 by 32 workspace 64 : tensor<?x2x64xbf16>, tensor<?x2x64xbf16> -> tensor<?x64xf32>
  return
}

// -----

kernel.define @p row "r" operands 5 {head_size = 32, ldkv = 96}
func.func @f(%k: tensor<?x2x32xbf16>) {
  %pk, %pv = kernel.attention_pack @p(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  // expected-error @+1 {{cannot share 2 heads of keys among 1 heads}}
  %0 = kernel.tile_attention @f(%k, %pk, %pv) heads 1 by 2 row_bytes 128 rows 512 by 32 workspace 64 : tensor<?x2x32xbf16>, tensor<?x2x32xbf16> -> tensor<?x32xf32>
  return
}

// -----

// Heads of 12 columns fill tiles of 32.
kernel.define @p row "r" operands 5 {head_size = 12, ldkv = 96}
func.func @f(%q: tensor<?x2x24xbf16>, %k: tensor<?x2x32xbf16>) {
  %pk, %pv = kernel.attention_pack @p(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  // expected-error @+1 {{expects a query of bf16 planes of 64 columns, but got 'tensor<?x2x24xbf16>'}}
  %0 = kernel.tile_attention @f(%q, %pk, %pv) heads 2 by 1 row_bytes 128 rows 512 by 32 workspace 64 : tensor<?x2x24xbf16>, tensor<?x2x32xbf16> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @p row "r" operands 5 {head_size = 12, ldkv = 96}
kernel.define @a row "r" operands 8 {head_size = 32, ldq = 160, ldo = 32}
func.func @f(%q: tensor<?x2x64xbf16>, %k: tensor<?x2x32xbf16>) {
  %pk, %pv = kernel.attention_pack @p(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  // expected-error @+1 {{expects a kernel with head_size of 12, but that of @a is 32}}
  %0 = kernel.tile_attention @a(%q, %pk, %pv) heads 2 by 1 row_bytes 128 rows 512 by 32 workspace 64 : tensor<?x2x64xbf16>, tensor<?x2x32xbf16> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @p row "r" operands 5 {head_size = 12, ldkv = 96}
kernel.define @a row "r" operands 8 {head_size = 12, ldq = 128, ldo = 32}
func.func @f(%q: tensor<?x2x64xbf16>, %k: tensor<?x2x32xbf16>) {
  %pk, %pv = kernel.attention_pack @p(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  // expected-error @+1 {{expects a kernel with ldq of 160, but that of @a is 128}}
  %0 = kernel.tile_attention @a(%q, %pk, %pv) heads 2 by 1 row_bytes 128 rows 512 by 32 workspace 64 : tensor<?x2x64xbf16>, tensor<?x2x32xbf16> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @p row "r" operands 5 {head_size = 12, ldkv = 96}
kernel.define @a row "r" operands 8 {head_size = 12, ldq = 160, ldo = 32, planes = 2}
func.func @f(%q: tensor<?x2x64xbf16>, %k: tensor<?x2x32xbf16>) {
  %pk, %pv = kernel.attention_pack @p(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  // expected-error @+1 {{expects a kernel with planes of 0, but that of @a is 2}}
  %0 = kernel.tile_attention @a(%q, %pk, %pv) heads 2 by 1 row_bytes 128 rows 512 by 32 workspace 64 : tensor<?x2x64xbf16>, tensor<?x2x32xbf16> -> tensor<?x24xf32>
  return
}

// -----

kernel.define @p row "r" operands 5 {head_size = 32, ldkv = 96}
kernel.define @a row "r" operands 8 {head_size = 32, ldq = 96, ldo = 32, planes = 2}
func.func @f(%k: tensor<?x2x32xbf16>) {
  %pk, %pv = kernel.attention_pack @p(%k, %k) heads 1 row_bytes 128 : tensor<?x2x32xbf16>
  // expected-error @+1 {{expects a kernel with ldo of 96, but that of @a is 32}}
  %0 = kernel.tile_attention @a(%k, %pk, %pv) heads 1 by 1 row_bytes 128 rows 512 by 32 workspace 64 : tensor<?x2x32xbf16>, tensor<?x2x32xbf16> -> tensor<?x2x32xbf16>
  return
}

// -----

// Heads and convolutions.

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects rows that are selected, but got 'tensor<?x24xf32>'}}
  %0 = kernel.heads @two(%x) column 0 weights [] : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{reads from column 24 of 'tensor<?x24xf32>'}}
  %0 = kernel.heads @two(%x) column 24 weights [] : tensor<?x24xf32> -> tensor<?x12xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{expects symbols as weights, but got "gain"}}
  %0 = kernel.heads @two(%x) column 0 weights ["gain"] : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>, %at: tensor<?xi32, #encoder.rows<selected>>) {
  // expected-error @+1 {{rotates 'tensor<?x24xf32>' by positions 'tensor<?xi32, #encoder.rows<selected>>'}}
  %0 = kernel.heads @two(%x at %at : tensor<?xi32, #encoder.rows<selected>>) column 0 weights [] : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// Panels take the bytes from a plane to the next.
func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>) {
  // expected-error @+1 {{passes 3 operands to @two, which is a '(memref<24xf32>, memref<24xf32>) -> ()'}}
  %0 = kernel.heads @two(%x) column 0 weights [] panel_major 2 : tensor<?x24xf32> -> tensor<?x24xf32>
  return
}

// -----

// A neighbour of a selected row may not be selected.
func.func @f(%x: tensor<?x24xf32, #encoder.rows<selected>>, %at: tensor<?xi32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?x24xf32, #encoder.rows<selected>>'}}
  %0 = kernel.short_conv @two(%x at %at : tensor<?xi32, #encoder.rows<selected>>) weights [] : tensor<?x24xf32, #encoder.rows<selected>> -> tensor<?x24xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>, %at: tensor<?xi32>) {
  // expected-error @+1 {{expects rows that are tokens or selected, but got 'tensor<?x24xf32, #encoder.rows<picked>>'}}
  %0 = kernel.short_conv @two(%x at %at : tensor<?xi32>) weights [] : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<picked>>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>, %at: tensor<?xi32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are selected, but got 'tensor<?x24xf32>'}}
  %0 = kernel.short_conv @two(%x at %at : tensor<?xi32, #encoder.rows<selected>>) weights [] scale %x : tensor<?x24xf32> : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x24xf32>, %at: tensor<?xi32>) {
  // expected-error @+1 {{computes 'tensor<?x24xf32, #encoder.rows<selected>>' at positions 'tensor<?xi32>'}}
  %0 = kernel.short_conv @two(%x at %at : tensor<?xi32>) weights [] : tensor<?x24xf32> -> tensor<?x24xf32, #encoder.rows<selected>>
  return
}

// -----

func.func private @two(memref<24xf32>, memref<24xf32>)
func.func @f(%x: tensor<?x24xf32>, %at: tensor<?xi32>) {
  // expected-error @+1 {{passes 5 operands to @two, which is a '(memref<24xf32>, memref<24xf32>) -> ()'}}
  %0 = kernel.short_conv @two(%x at %at : tensor<?xi32>) weights [] : tensor<?x24xf32> -> tensor<?x24xf32>
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

kernel.define @k row "r" operands 9 {k = 24, lda = 32, ldc = 16}
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

kernel.define @k row "r" operands 9 {k = 24, lda = 64, ldc = 48}
encoder.weight @w : tensor<97x24xf16> {
  %0 = encoder.tensor "t" in "f" : tensor<97x24xf16>
  encoder.yield %0 : tensor<97x24xf16>
}
func.func private @three(memref<16xf32>, index, memref<16xf32>)
func.func @f(%x: tensor<?x1x24xbf16, #encoder.rows<picked>>) {
  kernel.output "x" columns 97 per_token
  // expected-error @+1 {{multiplies tiles, which come in pairs of panels, but goes by 3}}
  kernel.linear_store @k(%x, @w transpose @three) to "x" by @three columns 97 panels by 3 rows by 32 : tensor<?x1x24xbf16, #encoder.rows<picked>>
  return
}

// -----

// expected-error @+1 {{has attribute "kernel.target", which means nothing here}}
module attributes {kernel.target = 3 : i64} {}
