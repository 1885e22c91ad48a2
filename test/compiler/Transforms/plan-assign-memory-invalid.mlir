// RUN: encast-opt %s --plan-assign-memory --split-input-file --verify-diagnostics

// A block is of one step, so its rows are gone in the next.
module {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  // expected-error@below {{is used by more than one step}}
  plan.slot @a block row_bytes 64
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@a + row * 64)
  }
  plan.step @s1 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@a + row * 64)
  }
}

// -----

// A workspace is of one call.
module {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  // expected-error@below {{is used by more than one call}}
  plan.slot @a workspace row_bytes 64
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@a)
    plan.for_rows @f(@a)
  }
}

// -----

// More than 1 TB is no block.
// expected-error@below {{attribute 'block_bytes' failed to satisfy constraint}}
module {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @a block row_bytes 1099511627776
  plan.step @s0 over tokens rows 65536 by 1 split 0 {
    plan.for_rows @f(@a + row * 64)
  }
}
