// RUN: encast-opt %s -verify-diagnostics -split-input-file -o /dev/null

// Slots: the fields of their kind, and no others.

// expected-error @+1 {{of kind arena needs rows}}
plan.slot @a arena row_bytes 64

// -----

// expected-error @+1 {{of kind arena needs row_bytes}}
plan.slot @a arena rows tokens

// -----

// expected-error @+1 {{of kind block needs row_bytes}}
plan.slot @a block

// -----

// expected-error @+1 {{of kind block cannot have rows}}
plan.slot @a block rows tokens row_bytes 64

// -----

// expected-error @+1 {{of kind ids cannot have row_bytes}}
plan.slot @a ids row_bytes 64

// -----

// expected-error @+1 {{of kind output cannot have offset}}
plan.slot @a output offset 0 index 0

// -----

// expected-error @+1 {{of kind output needs index}}
plan.slot @a output

// -----

// expected-error @+1 {{of kind ids cannot have index}}
plan.slot @a ids index 0

// -----

// expected-error @+1 {{of kind workspace cannot have outputs}}
plan.slot @a workspace row_bytes 64 outputs 1

// -----

// expected-error @+1 {{is needed for no output}}
plan.slot @a arena rows tokens row_bytes 64 outputs 0

// -----

// expected-error @+1 {{has rows attention_tokens, expected tokens, selected, picked, sequences or packed}}
plan.slot @a arena rows attention_tokens row_bytes 64

// -----

// expected-error @+1 {{has rows attention_runs, expected tokens, selected, picked, sequences or packed}}
plan.slot @a arena rows attention_runs row_bytes 64

// -----

// expected-error @+1 {{attribute 'row_bytes' failed to satisfy constraint: 64-bit integer from 1 to 1099511627776}}
plan.slot @a arena rows tokens row_bytes -64

// -----

// expected-error @+1 {{attribute 'index' failed to satisfy constraint: 64-bit integer from 0 to 63}}
plan.slot @a output index 64

// -----

// expected-error @+1 {{attribute 'offset' failed to satisfy constraint: 64-bit integer from 0 to 1099511627776}}
plan.slot @a block row_bytes 64 offset 9223372036854775807

// -----

// expected-error @+1 {{attribute 'block_bytes' failed to satisfy constraint: 64-bit integer from 0 to 1099511627776}}
plan.memory block -1 workspace 0

// -----

// Steps.

// expected-error @+1 {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
plan.step @s over tokens rows 8 by 8 split 0 {
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
// expected-error @+1 {{over attention needs heads}}
plan.step @s over attention_tokens rows 8 by 8 split 0 { plan.call @k(0) }

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
// expected-error @+1 {{has heads, but is not over attention}}
plan.step @s over tokens heads 2 rows 8 by 8 split 0 { plan.call @k(0) }

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
// expected-error @+1 {{attribute 'max_rows' failed to satisfy constraint: 64-bit integer from 1 to 65536}}
plan.step @s over tokens rows -8 by 8 split 0 { plan.call @k(0) }

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
// expected-error @+1 {{attribute 'row_tile' failed to satisfy constraint: 64-bit integer from 1 to 65536}}
plan.step @s over tokens rows 8 by 0 split 0 { plan.call @k(0) }

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
// expected-error @+1 {{cuts blocks of 8 rows at multiples of 9}}
plan.step @s over tokens rows 8 by 9 split 0 { plan.call @k(0) }

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
// expected-error @+1 {{attribute 'split_rows' failed to satisfy constraint: 64-bit integer from 0 to 2147483646}}
plan.step @s over tokens rows 8 by 8 split -1 { plan.call @k(0) }

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
// expected-error @+1 {{over attention needs heads}}
plan.step @s over attention_runs rows 8 by 8 split 0 { plan.call @k(0) }

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
// expected-error @+1 {{walks over packed rows, which only slots have}}
plan.step @s over packed rows 8 by 8 split 0 { plan.call @k(0) }

// -----

// expected-error @+1 {{holds 'arith.constant', expected calls only}}
plan.step @s over tokens rows 8 by 8 split 0 { %c = arith.constant 1 : i32 }

// -----

// Calls.

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{calls @k, which is not defined}}
  plan.call @k()
}

// -----

kernel.define @k row "r" operands 8 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{passes 2 operands to @k, which takes 8}}
  plan.call @k(rows, panels)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{reads @x, which is not defined}}
  plan.call @k(@x + row * 64)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 64
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{has a term of -64 in the address of @x, expected 0 to 1099511627776}}
  plan.call @k(@x + row * -64)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 64
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{has planes of picked, expected tokens, selected or packed}}
  plan.call @k(@x + plane(0 + panel * 1, picked))
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 64
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{takes rows by @x, which is no index slot}}
  plan.call @k(@x[by @x] + row * 64)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x block row_bytes 64
plan.slot @ids ids
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{takes rows of @x by a table, but they are local}}
  plan.call @k(@x[by @ids] + row * 64)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{passes panel_columns outside of 'plan.for_panels'}}
  plan.call @k(panel_columns)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x block row_bytes 64
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{reads ahead @x, which is no weight}}
  plan.call @k(ahead @x)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{reads ahead @x, which is no weight}}
  plan.call @k(ahead @x)
}

// -----

func.func private @program(index)
plan.slot @x block row_bytes 64
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{reads ahead @x, which is no weight}}
  plan.for_rows @program(1) ahead @x
}

// -----

func.func private @program(index)
encoder.weight @w : tensor<8xf32> {
  %w = encoder.tensor "w" in "model.safetensors" : tensor<8xf32>
  encoder.yield %w : tensor<8xf32>
}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{reads ahead, which only a 'plan.call' does for its item}}
  plan.for_rows @program(ahead @w)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{has an operand that is neither an address nor a number: 7 : i32}}
  "plan.call"() {callee = @k, args = [7 : i32]} : () -> ()
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{runs for no output}}
  plan.call @k(0) outputs 0
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{attribute 'modes' failed to satisfy constraint: 64-bit integer from 1 to 3}}
  plan.call @k(0) modes 4
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{attribute 'panels' failed to satisfy constraint: 64-bit integer from 0 to 2147483646}}
  plan.call @k(0) panels -4
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{attribute 'flops_per_row' failed to satisfy constraint: 64-bit integer from 0 to 1152921504606846976}}
  plan.call @k(0) flops_per_row 9223372036854775807
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  plan.for_panels columns 16 panels 1 {
    // expected-error @+1 {{has panels of its own inside of 'plan.for_panels'}}
    plan.call @k(0) panels 1
  }
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{of 17 columns has 2 panels, but got 1}}
  plan.for_panels columns 17 panels 1 { plan.call @k(0) }
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{of 32 columns has 2 panels, but got 3}}
  plan.for_panels columns 32 panels 3 { plan.call @k(0) }
}

// -----

func.func private @p()
plan.step @s over tokens rows 8 by 8 split 0 {
  plan.for_panels columns 64 panels 4 by 3 {
    // expected-error @+1 {{takes 2 panels at once, but groups have 3}}
    plan.for_each_panel @p() by 2
  }
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{holds 'arith.constant', expected calls only}}
  plan.for_panels columns 16 panels 1 { %c = arith.constant 1 : i32 }
}

// -----

func.func private @p()
// expected-error @+1 {{expects parent op 'plan.for_panels'}}
plan.for_each_panel @p()

// -----

// Addresses stay in the rows of their slot.

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{walks over rows of 192 bytes, but those of @x have 128}}
  plan.call @k(@x + row * 192)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{walks over rows of 192 bytes, but those of @x have 128}}
  plan.call @k(@x + key * 192)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x block row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // The last of two panels ends the row.
  plan.call @k(@x + row * 128 + panel * 64) panels 2
  // expected-error @+1 {{reaches beyond the 128 bytes of a row of @x in 3 panels}}
  plan.call @k(@x + row * 128 + panel * 64) panels 3
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{reaches beyond the 128 bytes of a row of @x in 2147483646 panels}}
  plan.call @k(@x + row * 128 + panel * 1099511627776) panels 2147483646
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{reaches beyond the 128 bytes of a row of @x in 1 panels}}
  plan.call @k(@x + row * 128 + 128)
}

// -----

// Two heads of two planes each.
kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 256
plan.step @s over attention_tokens heads 2 rows 8 by 8 split 0 {
  plan.call @k(@x + row * 64 + plane(0 + panel * 2, tokens))
  // expected-error @+1 {{reaches beyond the 256 bytes of a row of @x in 2 panels}}
  plan.call @k(@x + row * 64 + plane(2 + panel * 2, tokens))
}

// -----

// A workspace holds one group of panels.
kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x workspace rows tokens row_bytes 64
plan.step @s over tokens rows 8 by 8 split 0 {
  plan.for_panels columns 64 panels 4 by 2 {
    // expected-error @+1 {{reaches beyond the 64 bytes of a row of @x in 2 panels}}
    plan.call @k(@x + row * 64 + panel * 64)
  }
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows sequences row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{takes rows of tokens from @x, which has sequences}}
  plan.call @k(@x + row * 128)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over attention_selected heads 1 rows 8 by 8 split 0 {
  // expected-error @+1 {{takes rows of selected from @x, which has tokens}}
  plan.call @k(@x + plane(0 + panel * 1, selected))
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows picked row_bytes 128
plan.step @s over picked rows 8 by 8 split 0 {
  // expected-error @+1 {{takes rows of tokens from @x, which has picked}}
  plan.call @k(@x + key * 128)
}

// -----

// Packed rows belong to packed slots, and to nothing else.
kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over attention_tokens heads 1 rows 32 by 32 split 0 {
  // expected-error @+1 {{takes rows of packed from @x, which has tokens}}
  plan.call @k(@x + packed * 128)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over attention_tokens heads 1 rows 32 by 32 split 0 {
  // expected-error @+1 {{takes rows of packed from @x, which has tokens}}
  plan.call @k(@x + position * 128)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over attention_tokens heads 1 rows 32 by 32 split 0 {
  // expected-error @+1 {{takes rows of packed from @x, which has tokens}}
  plan.call @k(@x + plane(0 + panel * 2, packed))
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows packed row_bytes 128
plan.step @s over attention_tokens heads 1 rows 32 by 32 split 0 {
  // expected-error @+1 {{takes rows of attention_tokens from @x, which has packed}}
  plan.call @k(@x + row * 128)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows packed row_bytes 128
plan.step @s over attention_tokens heads 1 rows 32 by 32 split 0 {
  // expected-error @+1 {{takes rows of tokens from @x, which has packed}}
  plan.call @k(@x + packed * 128 + plane(0 + panel * 2, tokens))
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows packed row_bytes 128
plan.step @s over attention_tokens heads 1 rows 32 by 32 split 0 {
  // expected-error @+1 {{walks over rows of 256 bytes, but those of @x have 128}}
  plan.call @k(@x + packed * 256 + plane(0 + panel * 2, packed))
}

// -----

// Two heads of 128 bytes a row.
kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows packed row_bytes 256
plan.step @s over attention_tokens heads 2 rows 32 by 32 split 0 {
  plan.call @k(@x + packed * 128 + position * 128 + plane(0 + panel * 2, packed))
  // expected-error @+1 {{reaches beyond the 256 bytes of a row of @x in 2 panels}}
  plan.call @k(@x + packed * 128 + position * 128 + plane(2 + panel * 2, packed))
}

// -----

// Queries that follow each other are selected rows, too.
kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @s arena rows selected row_bytes 128
plan.slot @x arena rows tokens row_bytes 128
plan.step @step over attention_runs heads 1 rows 8 by 8 split 0 {
  plan.call @k(@s + row * 128)
  // expected-error @+1 {{takes rows of attention_runs from @x, which has tokens}}
  plan.call @k(@x + row * 128)
}

// -----

// A neighbour is a row before or behind, of the arena, for a row program.
func.func private @p(memref<32xf32>)
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  plan.for_rows @p(@x + row * 128 - 128)
  plan.for_rows @p(@x + row * 128 + 128)
  // expected-error @+1 {{has a term of -64 in the address of @x, expected 0 or more}}
  plan.for_rows @p(@x + row * 128 - 64)
}

// -----

func.func private @p(memref<32xf32>)
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{reaches beyond the 128 bytes of a row of @x in 1 panels}}
  plan.for_rows @p(@x + row * 128 + 256)
}

// -----

func.func private @p(memref<32xf32>)
plan.slot @x block row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{has a term of -128 in the address of @x, expected 0 or more}}
  plan.for_rows @p(@x + row * 128 - 128)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{has a term of -128 in the address of @x, expected 0 or more}}
  plan.call @k(@x + row * 128 - 128)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @x positions
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{has a term of -4 in the address of @x, expected 0 or more}}
  plan.call @k(@x + row * 4 - 4)
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
encoder.weight @w : tensor<8xf32> {
  %0 = encoder.tensor "t" in "f" : tensor<8xf32>
  encoder.yield %0 : tensor<8xf32>
}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{has a term of -4 in the address of @w, expected 0 or more}}
  plan.call @k(@w - 4)
}

// -----

// Syntax.

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{offset is out of range}}
  plan.call @k(@x + -9223372036854775808)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{offset is out of range}}
  plan.call @k(@x - -9223372036854775808)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{unknown number 'row'}}
  plan.call @k(row)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{address has a term twice}}
  plan.call @k(@x + row * 4 + row * 8)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{address has a term twice}}
  plan.call @k(@x + 4 + 8)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{address has a term twice}}
  plan.call @k(@x - 4 + 8)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{address has a term twice}}
  plan.call @k(@x + 4 - 8)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{address has a term twice}}
  plan.call @k(@x + packed * 4 + packed * 8)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{address has a term twice}}
  plan.call @k(@x + position * 4 + position * 8)
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{address has a term twice}}
  plan.call @k(@x + plane(0 + panel * 1, tokens) + plane(0 + panel * 1, tokens))
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{unknown domain 'all'}}
  plan.call @k(@x + plane(0 + panel * 1, all))
}

// -----

plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{expected 'by'}}
  plan.call @k(@x[@ids])
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{runs per head, but has no panels}}
  plan.call @k(0) per_head
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{passes rows_to_next_head, but does not run per head}}
  plan.call @k(rows_to_next_head) panels 2
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over selected rows 8 by 8 split 0 {
  // expected-error @+1 {{runs per head in a step over selected, expected tokens}}
  plan.call @k(0) panels 2 per_head
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.step @s over tokens rows 8 by 8 split 0 {
  // expected-error @+1 {{runs per head, which only kernels do}}
  plan.for_panels columns 16 panels 1 per_head { plan.call @k(0) }
}

// -----

// A tile has two edges; they lie in packed rows, of which there are whole tiles.
func.func private @p(memref<32xf32>)
plan.slot @x arena rows tokens row_bytes 128
plan.slot @edges arena rows packed row_bytes 8
plan.slot @rows arena rows tokens row_bytes 8
plan.step @s over tokens rows 32 by 32 split 0 {
  plan.for_rows @p(@edges[edge of 32] + row * 128) edges_of 32
  // expected-error @+1 {{takes edges of tiles of 16 rows from @edges, which has no place for them}}
  plan.for_rows @p(@x[edges @edges of 16] + row * 128 - 128)
}

// -----

func.func private @p(memref<32xf32>)
plan.slot @rows arena rows tokens row_bytes 8
plan.step @s over tokens rows 32 by 32 split 0 {
  // expected-error @+1 {{takes edges of tiles of 32 rows from @rows, which has no place for them}}
  plan.for_rows @p(@rows[edge of 32] + row * 128) edges_of 32
}

// -----

func.func private @p(memref<32xf32>)
plan.slot @x arena rows tokens row_bytes 128
plan.step @s over tokens rows 32 by 32 split 0 {
  // expected-error @+1 {{takes edges of tiles of 32 rows from @y, which has no place for them}}
  plan.for_rows @p(@x[edges @y of 32] + row * 128 - 128)
}

// -----

func.func private @p(memref<32xf32>)
plan.step @s over tokens rows 32 by 32 split 0 {
  // expected-error @+1 {{expected tiles of 1 row or more}}
  plan.for_rows @p(@x[edge of 0] + row * 128)
}

// -----

// The row, or the one before or behind, and nothing else.
func.func private @p(memref<32xf32>)
plan.slot @x arena rows tokens row_bytes 128
plan.slot @edges arena rows packed row_bytes 8
plan.slot @ids ids
plan.step @s over tokens rows 32 by 32 split 0 {
  // expected-error @+1 {{takes edges of tiles from @edges by more than a row}}
  plan.for_rows @p(@x[edges @edges of 32] + row * 128 + panel * 16)
}

// -----

func.func private @p(memref<32xf32>)
plan.slot @x arena rows tokens row_bytes 128
plan.slot @edges arena rows packed row_bytes 8
plan.step @s over tokens rows 32 by 32 split 0 {
  // expected-error @+1 {{takes edges of tiles from @edges by more than a row}}
  plan.for_rows @p(@x[edges @edges of 32])
}

// -----

kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
plan.slot @edges arena rows packed row_bytes 8
plan.step @s over tokens rows 32 by 32 split 0 {
  // expected-error @+1 {{takes edges of tiles from @edges by more than a row}}
  plan.call @k(@edges[edge of 32] + row * 128)
}
