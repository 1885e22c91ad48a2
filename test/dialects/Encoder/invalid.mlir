// RUN: encast-opt %s -verify-diagnostics -split-input-file -o /dev/null

// Types of rows: the number of columns, the element, one spelling for tokens.

// expected-error @+1 {{operand #0 must be rows (tensor<?xNxf32>, 1 <= N <= 1048576, all tokens or encoded by #encoder.rows), but got 'tensor<?x?xf32>'}}
func.func @f(%x: tensor<?x?xf32>) { %0 = encoder.normalize %x : tensor<?x?xf32> return }

// -----

// expected-error-re @+1 {{operand #0 must be rows {{.*}}, but got 'tensor<?x1048577xf32>'}}
func.func @f(%x: tensor<?x1048577xf32>) { %0 = encoder.normalize %x : tensor<?x1048577xf32> return }

// -----

// expected-error-re @+1 {{operand #0 must be rows {{.*}}, but got 'tensor<?x0xf32>'}}
func.func @f(%x: tensor<?x0xf32>) { %0 = encoder.normalize %x : tensor<?x0xf32> return }

// -----

// expected-error-re @+1 {{operand #0 must be rows {{.*}}, but got 'tensor<4x24xf32>'}}
func.func @f(%x: tensor<4x24xf32>) { %0 = encoder.normalize %x : tensor<4x24xf32> return }

// -----

// expected-error-re @+1 {{operand #0 must be rows {{.*}}, but got 'tensor<?x24xf16>'}}
func.func @f(%x: tensor<?x24xf16>) { %0 = encoder.normalize %x : tensor<?x24xf16> return }

// -----

// expected-error-re @+1 {{operand #0 must be rows {{.*}}, but got 'tensor<?x24xf32, 3 : i32>'}}
func.func @f(%x: tensor<?x24xf32, 3 : i32>) { %0 = encoder.normalize %x : tensor<?x24xf32, 3 : i32> return }

// -----

// expected-error-re @+1 {{operand #0 must be rows {{.*}}, but got 'tensor<?x24xf32, #encoder.rows<tokens>>'}}
func.func @f(%x: tensor<?x24xf32, #encoder.rows<tokens>>) { %0 = encoder.normalize %x : tensor<?x24xf32, #encoder.rows<tokens>> return }

// -----

// expected-error @+1 {{result #0 must be an integer per token, or per selected one (tensor<?xi32>), but got 'tensor<4xi32>'}}
func.func @f() { %0 = encoder.input ids : tensor<4xi32> return }

// -----

// Weights.

// expected-error @+1 {{attribute 'type' failed to satisfy constraint: type attribute of a weight (f32, f16 or bf16, 1 to 3 static dimensions, at most 2^40 elements)}}
encoder.weight @w : tensor<f32> {
  %0 = encoder.tensor "t" in "f" : tensor<1xf32>
  encoder.yield %0 : tensor<1xf32>
}

// -----

encoder.weight @w : tensor<4xf32> {
  // expected-error-re @+1 {{result #0 must be a weight {{.*}}, but got 'tensor<4611686018427387904x4xf32>'}}
  %0 = encoder.tensor "t" in "f" : tensor<4611686018427387904x4xf32>
  encoder.yield %0 : tensor<4611686018427387904x4xf32>
}

// -----

encoder.weight @w : tensor<4xf32> {
  // expected-error-re @+1 {{result #0 must be a weight {{.*}}, but got 'tensor<4xi32>'}}
  %0 = encoder.tensor "t" in "f" : tensor<4xi32>
  encoder.yield %0 : tensor<4xi32>
}

// -----

// expected-error @+1 {{is a 'tensor<4xf32>', but its recipe yields a 'tensor<4xf16>'}}
encoder.weight @w : tensor<4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4xf16>
  encoder.yield %0 : tensor<4xf16>
}

// -----

// expected-error @+1 {{has a recipe that does not yield its last value}}
encoder.weight @w : tensor<4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4xf32>
  %1 = encoder.tensor "u" in "f" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{has a recipe that does not end with encoder.yield}}
encoder.weight @w : tensor<4xf32> {
  llvm.unreachable
}

// -----

// expected-error @+1 {{has 'arith.constant' in its recipe}}
encoder.weight @w : tensor<4xf32> {
  %c = arith.constant 1 : i32
  %0 = encoder.tensor "t" in "f" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}

// -----

func.func @f() {
  // expected-error @+1 {{expects to be in the recipe of an encoder.weight}}
  %0 = encoder.tensor "t" in "f" : tensor<4xf32>
  return
}

// -----

encoder.weight @w : tensor<8x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  %1 = encoder.tensor "u" in "f" : tensor<4x5xf32>
  // expected-error @+1 {{cannot put a 'tensor<4x5xf32>' into a 'tensor<8x4xf32>'}}
  %2 = encoder.concat %0, %1 : tensor<4x4xf32>, tensor<4x5xf32> -> tensor<8x4xf32>
  encoder.yield %2 : tensor<8x4xf32>
}

// -----

encoder.weight @w : tensor<9x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  // expected-error @+1 {{of 8 rows has a result of 9}}
  %1 = encoder.concat %0, %0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<9x4xf32>
  encoder.yield %1 : tensor<9x4xf32>
}

// -----

encoder.weight @w : tensor<2x5xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  // expected-error @+1 {{cannot take a 'tensor<2x5xf32>' from a 'tensor<4x4xf32>'}}
  %1 = encoder.slice %0 from 0 : tensor<4x4xf32> -> tensor<2x5xf32>
  encoder.yield %1 : tensor<2x5xf32>
}

// -----

encoder.weight @w : tensor<2x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  // expected-error @+1 {{takes rows 3 to 5 of 4}}
  %1 = encoder.slice %0 from 3 : tensor<4x4xf32> -> tensor<2x4xf32>
  encoder.yield %1 : tensor<2x4xf32>
}

// -----

encoder.weight @w : tensor<2x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  // expected-error @+1 {{attribute 'begin' failed to satisfy constraint: 64-bit integer from 0 to 2147483646}}
  %1 = encoder.slice %0 from -1 : tensor<4x4xf32> -> tensor<2x4xf32>
  encoder.yield %1 : tensor<2x4xf32>
}

// -----

encoder.weight @w : tensor<4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4xf32>
  // expected-error @+1 {{expects a finite factor, but got 0x7FF0000000000000 : f64}}
  %1 = encoder.scale %0 by 0x7FF0000000000000 : tensor<4xf32>
  encoder.yield %1 : tensor<4xf32>
}

// -----

encoder.weight @w : tensor<5xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4xf16>
  // expected-error @+1 {{changes the shape of 'tensor<4xf16>' to 'tensor<5xf32>'}}
  %1 = encoder.cast %0 : tensor<4xf16> -> tensor<5xf32>
  encoder.yield %1 : tensor<5xf32>
}

// -----

encoder.weight @w : tensor<4x3xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  // expected-error @+1 {{takes columns 2 to 5 of 4}}
  %1 = encoder.slice_columns %0 from 2 : tensor<4x4xf32> -> tensor<4x3xf32>
  encoder.yield %1 : tensor<4x3xf32>
}

// -----

encoder.weight @w : tensor<3x3xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  // expected-error @+1 {{cannot take a 'tensor<3x3xf32>' from a 'tensor<4x4xf32>'}}
  %1 = encoder.slice_columns %0 from 0 : tensor<4x4xf32> -> tensor<3x3xf32>
  encoder.yield %1 : tensor<3x3xf32>
}

// -----

encoder.weight @w : tensor<4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x1xf32>
  // expected-error @+1 {{cannot take a 'tensor<4xf32>' from a 'tensor<4x1xf32>'}}
  %1 = encoder.slice_columns %0 from 0 : tensor<4x1xf32> -> tensor<4xf32>
  encoder.yield %1 : tensor<4xf32>
}

// -----

encoder.weight @w : tensor<70x6xf32> {
  // expected-error @+1 {{expects a finite theta above 0, but got 0.000000e+00 : f64}}
  %0 = encoder.rope_table theta 0.0 : tensor<70x6xf32>
  encoder.yield %0 : tensor<70x6xf32>
}

// -----

encoder.weight @w : tensor<70x5xf32> {
  // expected-error @+1 {{expects a matrix of f32 with an even number of columns, but got 'tensor<70x5xf32>'}}
  %0 = encoder.rope_table theta 1.0e4 : tensor<70x5xf32>
  encoder.yield %0 : tensor<70x5xf32>
}

// -----

encoder.weight @w : tensor<70x6xbf16> {
  // expected-error @+1 {{expects a matrix of f32 with an even number of columns, but got 'tensor<70x6xbf16>'}}
  %0 = encoder.rope_table theta 1.0e4 : tensor<70x6xbf16>
  encoder.yield %0 : tensor<70x6xbf16>
}

// -----

// Symbols.

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{weight @f is not an encoder.weight}}
  %0 = encoder.linear %x, @f : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

encoder.weight @w : tensor<4x5xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x5xf32>
  encoder.yield %0 : tensor<4x5xf32>
}
func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects a weight of shape [5, 4], but @w is a 'tensor<4x5xf32>'}}
  %0 = encoder.linear %x, @w : tensor<?x4xf32> -> tensor<?x5xf32>
  return
}

// -----

encoder.weight @w : tensor<4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}
func.func @f(%x: tensor<?x5xf32>) {
  // expected-error @+1 {{expects weight of size 5, but @w is a 'tensor<4xf32>'}}
  %0 = encoder.layer_norm %x, @w epsilon 1.0e-5 : tensor<?x5xf32>
  return
}

// -----

encoder.weight @w : tensor<4x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  encoder.yield %0 : tensor<4x4xf32>
}
func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects bias of size 4, but @w is a 'tensor<4x4xf32>'}}
  %0 = encoder.linear %x, @w bias @w : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects a finite epsilon of at least 0, but got -1.000000e+00 : f64}}
  %0 = encoder.layer_norm %x, @w epsilon -1.0 : tensor<?x4xf32>
  return
}

// -----

func.func @f(%ids: tensor<?xi32>) {
  // expected-error @+1 {{has 1 indices for 2 tables}}
  %0 = encoder.embedding %ids in [@w, @w] : tensor<?xi32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%ids: tensor<?xi32>) {
  // expected-error @+1 {{expects symbols of weights as tables, but got 7 : i64}}
  %0 = encoder.embedding %ids in [7] : tensor<?xi32> -> tensor<?x4xf32>
  return
}

// -----

// A table has a row for each value of its index.
module attributes {encoder.model = {default_output = 0 : i64, family = "bert",
    hidden = 24 : i64, layers = 2 : i64, max_tokens = 70 : i64, metadata = "{}",
    pad_id = -1 : i64, token_types = 0 : i64, vocabulary = 97 : i64}} {
encoder.weight @w : tensor<96x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<96x4xf32>
  encoder.yield %0 : tensor<96x4xf32>
}
func.func @f() {
  %ids = encoder.input ids : tensor<?xi32>
  // expected-error @+1 {{expects a table of 4 columns and at least 97 rows, but @w is a 'tensor<96x4xf32>'}}
  %0 = encoder.embedding %ids in [@w] : tensor<?xi32> -> tensor<?x4xf32>
  return
}
}

// -----

encoder.weight @w : tensor<4x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  encoder.yield %0 : tensor<4x4xf32>
}
encoder.weight @g : tensor<4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}
func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects a gate of shape [4, 4], but @g is a 'tensor<4xf32>'}}
  %0 = encoder.linear %x, @w gate @g : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

encoder.weight @w : tensor<4x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4x4xf32>
  encoder.yield %0 : tensor<4x4xf32>
}
encoder.weight @b : tensor<4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<4xf32>
  encoder.yield %0 : tensor<4xf32>
}
func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects gate_bias of size 4, but @w is a 'tensor<4x4xf32>'}}
  %0 = encoder.linear %x, @w bias @b gate @w gate_bias @w : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

// With heads, the gain is of one.
encoder.weight @g : tensor<8xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}
func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{expects weight of size 4, but @g is a 'tensor<8xf32>'}}
  %0 = encoder.rms_norm %x, @g heads 2 epsilon 1.0e-5 : tensor<?x8xf32>
  return
}

// -----

// A rope table has the columns of a head and a row for each position, also of
// selected rows.
module attributes {encoder.model = {default_output = 0 : i64, family = "bert",
    hidden = 24 : i64, layers = 2 : i64, max_tokens = 70 : i64, metadata = "{}",
    pad_id = -1 : i64, token_types = 0 : i64, vocabulary = 97 : i64}} {
encoder.weight @rope : tensor<69x4xf32> {
  %0 = encoder.rope_table theta 1.0e4 : tensor<69x4xf32>
  encoder.yield %0 : tensor<69x4xf32>
}
func.func @f(%x: tensor<?x8xf32, #encoder.rows<selected>>) {
  %p = encoder.input positions : tensor<?xi32>
  %s = encoder.select_rows %p : tensor<?xi32> -> tensor<?xi32, #encoder.rows<selected>>
  // expected-error @+1 {{expects a table of f32, 4 columns and at least 70 rows, but @rope is a 'tensor<69x4xf32>'}}
  %0 = encoder.rope %x, %s in @rope heads 2 : tensor<?x8xf32, #encoder.rows<selected>>, tensor<?xi32, #encoder.rows<selected>>
  return
}
}

// -----

encoder.weight @rope : tensor<70x4xf32> {
  %0 = encoder.rope_table theta 1.0e4 : tensor<70x4xf32>
  encoder.yield %0 : tensor<70x4xf32>
}
func.func @f(%x: tensor<?x8xf32>, %p: tensor<?xi32>) {
  // expected-error @+1 {{expects a table of f32, 2 columns and at least 1 rows, but @rope is a 'tensor<70x4xf32>'}}
  %0 = encoder.rope %x, %p in @rope heads 4 : tensor<?x8xf32>, tensor<?xi32>
  return
}

// -----

encoder.weight @w : tensor<8x3xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<8x3xf32>
  encoder.yield %0 : tensor<8x3xf32>
}
func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{expects a weight of shape [8, 1, 3], but @w is a 'tensor<8x3xf32>'}}
  %0 = encoder.short_conv %x, @w : tensor<?x8xf32> -> tensor<?x8xf32>
  return
}

// -----

encoder.weight @w : tensor<8x1x3xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<8x1x3xf32>
  encoder.yield %0 : tensor<8x1x3xf32>
}
func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{expects bias of size 8, but @w is a 'tensor<8x1x3xf32>'}}
  %0 = encoder.short_conv %x, @w bias @w : tensor<?x8xf32> -> tensor<?x8xf32>
  return
}

// -----

// Rows.

// Callers give integers of all tokens.
func.func @f() {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?xi32, #encoder.rows<selected>>'}}
  %0 = encoder.input positions : tensor<?xi32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%p: tensor<?xi32>) {
  // expected-error @+1 {{result #0 must be rows (tensor<?xNxf32>, 1 <= N <= 1048576, all tokens or encoded by #encoder.rows) or an integer per token, or per selected one (tensor<?xi32>), but got 'tensor<?xi32, #encoder.rows<picked>>'}}
  %0 = encoder.select_rows %p : tensor<?xi32> -> tensor<?xi32, #encoder.rows<picked>>
  return
}

// -----

encoder.weight @w : tensor<97x4xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<97x4xf32>
  encoder.yield %0 : tensor<97x4xf32>
}
func.func @f(%ids: tensor<?xi32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?xi32, #encoder.rows<selected>>'}}
  %0 = encoder.embedding %ids in [@w] : tensor<?xi32, #encoder.rows<selected>> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{has a gate_bias, but no gate}}
  %0 = encoder.linear %x, @w bias @b gate_bias @b : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{has a bias, but no gate_bias}}
  %0 = encoder.linear %x, @w bias @b gate @w : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{has a gate_bias, but no bias}}
  %0 = encoder.linear %x, @w gate @w gate_bias @b : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects a finite epsilon of at least 0, but got 0x7FF8000000000000 : f64}}
  %0 = encoder.rms_norm %x, @w epsilon 0x7FF8000000000000 : tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{cannot split 4 columns into 3 heads}}
  %0 = encoder.rms_norm %x, @w heads 3 epsilon 1.0e-5 : tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %p: tensor<?xi32>) {
  // expected-error @+1 {{cannot split 4 columns into 3 heads}}
  %0 = encoder.rope %x, %p in @w heads 3 : tensor<?x4xf32>, tensor<?xi32>
  return
}

// -----

func.func @f(%x: tensor<?x9xf32>, %p: tensor<?xi32>) {
  // expected-error @+1 {{cannot split heads of size 3 into halves}}
  %0 = encoder.rope %x, %p in @w heads 3 : tensor<?x9xf32>, tensor<?xi32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #encoder.rows<selected>>, %p: tensor<?xi32>) {
  // expected-error @+1 {{expects rows that are selected, but got 'tensor<?xi32>'}}
  %0 = encoder.rope %x, %p in @w heads 2 : tensor<?x4xf32, #encoder.rows<selected>>, tensor<?xi32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?x4xf32, #encoder.rows<selected>>'}}
  %0 = encoder.short_conv %x, @w : tensor<?x4xf32, #encoder.rows<selected>> -> tensor<?x4xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects rows that are tokens or selected, but got 'tensor<?x4xf32, #encoder.rows<picked>>'}}
  %0 = encoder.short_conv %x, @w : tensor<?x4xf32> -> tensor<?x4xf32, #encoder.rows<picked>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects as many columns as 'tensor<?x4xf32>', but got 'tensor<?x5xf32>'}}
  %0 = encoder.short_conv %x, @w : tensor<?x4xf32> -> tensor<?x5xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %y: tensor<?x6xf32>) {
  // expected-error @+1 {{cannot share 3 heads of keys by 4 heads}}
  %0 = encoder.attention %x, %y, %y heads 4 key_heads 3 scale 1.0 : tensor<?x8xf32>, tensor<?x6xf32>
  return
}

// -----

func.func @f(%x: tensor<?x8xf32>, %y: tensor<?x6xf32>) {
  // expected-error @+1 {{expects keys of 2 heads of size 2, but got 'tensor<?x6xf32>'}}
  %0 = encoder.attention %x, %y, %y heads 4 key_heads 2 scale 1.0 : tensor<?x8xf32>, tensor<?x6xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{attribute 'window' failed to satisfy constraint: 64-bit integer from 0 to 2147483646}}
  %0 = encoder.attention %x, %x, %x heads 2 scale 1.0 window -1 : tensor<?x4xf32>, tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{cannot select a 'tensor<?x5xf32, #encoder.rows<selected>>' from a 'tensor<?x4xf32>'}}
  %0 = encoder.select_rows %x : tensor<?x4xf32> -> tensor<?x5xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{changes the rows of 'tensor<?x4xf32>' to those of 'tensor<?x4xf32, #encoder.rows<selected>>'}}
  %0 = encoder.linear %x, @w : tensor<?x4xf32> -> tensor<?x4xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x5xf32>) {
  // expected-error @+1 {{expects a residual of type 'tensor<?x4xf32>', but got 'tensor<?x5xf32>'}}
  %0 = encoder.linear %x, @w residual %y : tensor<?x5xf32> : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{changes the rows of 'tensor<?x4xf32>'}}
  %0 = encoder.columns %x from 0 : tensor<?x4xf32> -> tensor<?x4xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{takes columns 2 to 5 of 4}}
  %0 = encoder.columns %x from 2 : tensor<?x4xf32> -> tensor<?x3xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x4xf32, #encoder.rows<sequences>>) {
  // expected-error @+1 {{puts 'tensor<?x4xf32, #encoder.rows<sequences>>' beside 'tensor<?x8xf32>'}}
  %0 = encoder.concat_columns %x, %y : tensor<?x4xf32>, tensor<?x4xf32, #encoder.rows<sequences>> -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{of 8 columns has a result of 9}}
  %0 = encoder.concat_columns %x, %x : tensor<?x4xf32>, tensor<?x4xf32> -> tensor<?x9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{cannot split 4 columns into 3 heads}}
  %0 = encoder.attention %x, %x, %x heads 3 scale 1.0 : tensor<?x4xf32>, tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{attribute 'heads' failed to satisfy constraint: 64-bit integer from 1 to 65536}}
  %0 = encoder.attention %x, %x, %x heads 0 scale 1.0 : tensor<?x4xf32>, tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects a finite scale, but got 0x7FF8000000000000 : f64}}
  %0 = encoder.attention %x, %x, %x heads 2 scale 0x7FF8000000000000 : tensor<?x4xf32>, tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x4xf32, #encoder.rows<sequences>>) {
  // expected-error @+1 {{expects rows that are tokens or selected, but got 'tensor<?x4xf32, #encoder.rows<sequences>>'}}
  %0 = encoder.attention %y, %x, %x heads 2 scale 1.0 : tensor<?x4xf32, #encoder.rows<sequences>>, tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x4xf32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are tokens, but got 'tensor<?x4xf32, #encoder.rows<selected>>'}}
  %0 = encoder.attention %x, %y, %y heads 2 scale 1.0 : tensor<?x4xf32>, tensor<?x4xf32, #encoder.rows<selected>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x8xf32>) {
  // expected-error @+1 {{expects keys of 2 heads of size 2, but got 'tensor<?x8xf32>'}}
  %0 = encoder.attention %x, %y, %y heads 2 scale 1.0 : tensor<?x4xf32>, tensor<?x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects rows that are selected, but got 'tensor<?x4xf32>'}}
  %0 = encoder.select_rows %x : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %y: tensor<?x4xf32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are demanded, but got 'tensor<?x4xf32>'}}
  %0 = encoder.either all %x selected %y : tensor<?x4xf32>, tensor<?x4xf32, #encoder.rows<selected>> -> tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #encoder.rows<sequences>>) {
  // expected-error @+1 {{expects rows that are tokens or selected or demanded, but got 'tensor<?x4xf32, #encoder.rows<sequences>>'}}
  %0 = encoder.first %x : tensor<?x4xf32, #encoder.rows<sequences>> -> tensor<?x4xf32, #encoder.rows<sequences>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects rows that are picked, but got 'tensor<?x4xf32, #encoder.rows<sequences>>'}}
  %0 = encoder.pick %x : tensor<?x4xf32> -> tensor<?x4xf32, #encoder.rows<sequences>>
  return
}

// -----

// A pool needs every row.
func.func @f(%x: tensor<?x4xf32, #encoder.rows<selected>>) {
  // expected-error @+1 {{expects rows that are tokens or demanded, but got 'tensor<?x4xf32, #encoder.rows<selected>>'}}
  %0 = encoder.pool mean %x : tensor<?x4xf32, #encoder.rows<selected>> -> tensor<?x4xf32, #encoder.rows<sequences>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects rows that are picked or sequences, but got 'tensor<?x4xf32>'}}
  encoder.output "x" %x : tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32, #encoder.rows<picked>>) {
  encoder.output "x" %x : tensor<?x4xf32, #encoder.rows<picked>>
  // expected-error @+1 {{"x" is declared twice}}
  encoder.output "x" %x : tensor<?x4xf32, #encoder.rows<picked>>
  return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{attribute 'layer' failed to satisfy constraint: 64-bit integer from 1 to 65536}}
  %0 = encoder.normalize %x {layer = 0 : i64} : tensor<?x4xf32>
  return
}

// -----

// The module.

// expected-error @+1 {{encoder.model expects vocabulary from 1 to 2147483647, but got 0 : i64}}
module attributes {encoder.model = {default_output = 0 : i64, family = "bert",
    hidden = 24 : i64, layers = 2 : i64, max_tokens = 70 : i64, metadata = "{}",
    pad_id = 0 : i64, token_types = 2 : i64, vocabulary = 0 : i64}} {}

// -----

// expected-error @+1 {{encoder.model has no vocabulary}}
module attributes {encoder.model = {family = "bert", metadata = "{}"}} {}

// -----

// expected-error @+1 {{encoder.model has no string family}}
module attributes {encoder.model = {default_output = 0 : i64, family = 7 : i64,
    hidden = 24 : i64, layers = 2 : i64, max_tokens = 70 : i64, metadata = "{}",
    pad_id = 0 : i64, token_types = 2 : i64, vocabulary = 9 : i64}} {}

// -----

// expected-error @+1 {{encoder.model expects attended_length without a value, but got true}}
module attributes {encoder.model = {attended_length = true, family = "bert",
    default_output = 0 : i64, hidden = 24 : i64, layers = 2 : i64,
    max_tokens = 70 : i64, metadata = "{}", pad_id = 0 : i64,
    token_types = 2 : i64, vocabulary = 9 : i64}} {}

// -----

// expected-error @+1 {{encoder.model expects to be a dictionary of a module}}
module attributes {encoder.model = "bert"} {}

// -----

// expected-error @+1 {{has attribute "encoder.targets", which means nothing here}}
module attributes {encoder.targets = 3 : i64} {}

// -----

// expected-error @+1 {{has attribute "encoder.other", which means nothing here}}
func.func private @f() attributes {encoder.other}

// -----

// Programs over rows read norms and the bias of a convolution as f32.
encoder.weight @g : tensor<4xf16> {
  %0 = encoder.tensor "t" in "f" : tensor<4xf16>
  encoder.yield %0 : tensor<4xf16>
}
func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects weight of f32, but @g is a 'tensor<4xf16>'}}
  %0 = encoder.layer_norm %x, @g epsilon 1.0e-5 : tensor<?x4xf32>
  return
}

// -----

encoder.weight @g : tensor<4xbf16> {
  %0 = encoder.tensor "t" in "f" : tensor<4xbf16>
  encoder.yield %0 : tensor<4xbf16>
}
func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{expects weight of f32, but @g is a 'tensor<4xbf16>'}}
  %0 = encoder.rms_norm %x, @g epsilon 1.0e-5 : tensor<?x4xf32>
  return
}
