// RUN: encast-opt %s --plan-assign-memory --split-input-file | FileCheck %s
// RUN: encast-opt %s --plan-assign-memory --plan-assign-memory --split-input-file | FileCheck %s

// A slot lives from its first to its last step. @a and @b meet in step 0, @b
// and @c in step 1, so each pair lies side by side; @a ends before @c begins, so
// these have the same bytes of a row. @d is written over @b, whose rows the step
// before was the last to read.
// CHECK-LABEL: module @arena
//       CHECK: plan.slot @a arena rows tokens row_bytes 64 offset 0
//  CHECK-NEXT: plan.slot @b arena rows tokens row_bytes 64 offset 64
//  CHECK-NEXT: plan.slot @c arena rows tokens row_bytes 64 offset 0
//  CHECK-NEXT: plan.slot @d arena rows tokens row_bytes 64 offset 64
//  CHECK-NEXT: plan.memory block 0 workspace 0
//  CHECK-NEXT: plan.step @s0
module @arena {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @a arena rows tokens row_bytes 64
  plan.slot @b arena rows tokens row_bytes 64
  plan.slot @c arena rows tokens row_bytes 64
  plan.slot @d arena rows tokens row_bytes 64
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@a + row * 64, @b + row * 64)
  }
  plan.step @s1 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@b + row * 64, @c + row * 64)
  }
  plan.step @s2 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@c + row * 64, @d + row * 64)
  }
}

// -----

// A slot that is read again keeps its place through the steps between, which
// do not touch it.
// CHECK-LABEL: module @read_again
//       CHECK: plan.slot @residual {{.*}} offset 0
//       CHECK: plan.slot @b {{.*}} offset 64
//       CHECK: plan.slot @c {{.*}} offset 128
//       CHECK: plan.slot @d {{.*}} offset 64
module @read_again {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @residual arena rows tokens row_bytes 64
  plan.slot @b arena rows tokens row_bytes 64
  plan.slot @c arena rows tokens row_bytes 64
  plan.slot @d arena rows tokens row_bytes 64
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@residual + row * 64)
  }
  plan.step @s1 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@b + row * 64)
  }
  plan.step @s2 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@b + row * 64, @c + row * 64)
  }
  plan.step @s3 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@c + row * 64, @d + row * 64, @residual + row * 64)
  }
}

// -----

// Of two slots the large one is placed first: memory is that of 4096 and 64 bytes
// a row.
// CHECK-LABEL: module @sizes
//       CHECK: plan.slot @large {{.*}} offset 0
//  CHECK-NEXT: plan.slot @small {{.*}} offset 4096
//  CHECK-NEXT: plan.slot @small_again {{.*}} offset 4096
//  CHECK-NEXT: plan.slot @large_again {{.*}} offset 0
module @sizes {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @large arena rows tokens row_bytes 4096
  plan.slot @small arena rows tokens row_bytes 64
  plan.slot @small_again arena rows tokens row_bytes 64
  plan.slot @large_again arena rows tokens row_bytes 4096
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@large + row * 4096, @small + row * 64)
  }
  plan.step @s1 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@small_again + row * 64, @large_again + row * 4096)
  }
}

// -----

// Slots lie in the lowest gap that is large enough, several in that of one that is
// larger: @late and @half where @large was, @other_half where @middle was.
// CHECK-LABEL: module @gaps
//       CHECK: plan.slot @first {{.*}} offset 320
//  CHECK-NEXT: plan.slot @large {{.*}} offset 0
//  CHECK-NEXT: plan.slot @middle {{.*}} offset 576
//  CHECK-NEXT: plan.slot @last {{.*}} offset 768
//  CHECK-NEXT: plan.slot @late {{.*}} offset 0
//  CHECK-NEXT: plan.slot @half {{.*}} offset 160
//  CHECK-NEXT: plan.slot @other_half {{.*}} offset 576
module @gaps {
  func.func private @f(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  func.func private @g(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr)
  plan.slot @first arena rows tokens row_bytes 256
  plan.slot @large arena rows tokens row_bytes 320
  plan.slot @middle arena rows tokens row_bytes 192
  plan.slot @last arena rows tokens row_bytes 176
  plan.slot @late arena rows tokens row_bytes 160
  plan.slot @half arena rows tokens row_bytes 128
  plan.slot @other_half arena rows tokens row_bytes 128
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@first + row * 256, @large + row * 320,
        @middle + row * 192, @last + row * 176)
  }
  plan.step @s1 over tokens rows 8 by 8 split 0 {
    plan.for_rows @g(@first + row * 256, @last + row * 176, @late + row * 160,
        @half + row * 128, @other_half + row * 128)
  }
}

// -----

// To place the largest first is not always best: @large would push @long to 192,
// into the middle of what @left and @right find. Those of the step where most is
// alive come first, and no bytes are left between them.
// CHECK-LABEL: module @heaviest_step_first
//       CHECK: plan.slot @large {{.*}} offset 128
//  CHECK-NEXT: plan.slot @long {{.*}} offset 0
//  CHECK-NEXT: plan.slot @left {{.*}} offset 128
//  CHECK-NEXT: plan.slot @right {{.*}} offset 256
module @heaviest_step_first {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  func.func private @g(!llvm.ptr, !llvm.ptr, !llvm.ptr)
  plan.slot @large arena rows tokens row_bytes 192
  plan.slot @long arena rows tokens row_bytes 128
  plan.slot @left arena rows tokens row_bytes 128
  plan.slot @right arena rows tokens row_bytes 128
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@large + row * 192, @long + row * 128)
  }
  plan.step @s1 over tokens rows 8 by 8 split 0 {
    plan.for_rows @g(@long + row * 128, @left + row * 128, @right + row * 128)
  }
  plan.step @s2 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@left + row * 128, @right + row * 128)
  }
}

// -----

// A slot with a row for each sequence is placed behind all that have one for each
// token, however large its rows are.
// CHECK-LABEL: module @sequences
//       CHECK: plan.slot @pooled {{.*}} offset 64
//  CHECK-NEXT: plan.slot @tokens {{.*}} offset 0
module @sequences {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @pooled arena rows sequences row_bytes 4096
  plan.slot @tokens arena rows tokens row_bytes 64
  plan.step @s0 over sequences rows 8 by 8 split 0 {
    plan.for_rows @f(@tokens[by sequence] + row * 64, @pooled + row * 4096)
  }
}

// -----

// In a block a slot may take the bytes of one that no later call reads. @c
// follows both that live with it, @d fits where @a was. Rows count: a block has
// 10 of them. Offsets are multiples of 64.
// CHECK-LABEL: module @block
//       CHECK: plan.slot @a block row_bytes 128 offset 0
//  CHECK-NEXT: plan.slot @b block row_bytes 64 offset 1280
//  CHECK-NEXT: plan.slot @c block row_bytes 256 offset 1920
//  CHECK-NEXT: plan.slot @d block row_bytes 64 offset 0
//
// The next step has the same bytes again, and the block is as large as that of
// the largest step.
//  CHECK-NEXT: plan.slot @next block row_bytes 36 offset 0
//       CHECK: plan.memory block 4480 workspace 0
module @block {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @a block row_bytes 128
  plan.slot @b block row_bytes 64
  plan.slot @c block row_bytes 256
  plan.slot @d block row_bytes 64
  plan.slot @next block row_bytes 36
  plan.step @s0 over tokens rows 10 by 1 split 0 {
    plan.for_rows @f(@a + row * 128)
    plan.for_rows @f(@a + row * 128, @b + row * 64)
    plan.for_rows @f(@a + row * 128, @c + row * 256)
    plan.for_rows @f(@b + row * 64, @c + row * 256, @d + row * 64)
  }
  plan.step @s1 over tokens rows 3 by 1 split 0 {
    plan.for_rows @f(@next + row * 36)
  }
}

// -----

// A slot does not fit into a gap that is smaller than itself.
// CHECK-LABEL: module @gap
//       CHECK: plan.slot @a block row_bytes 64 offset 0
//  CHECK-NEXT: plan.slot @b block row_bytes 64 offset 640
//  CHECK-NEXT: plan.slot @wide block row_bytes 128 offset 1280
//       CHECK: plan.memory block 2560 workspace 0
module @gap {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @a block row_bytes 64
  plan.slot @b block row_bytes 64
  plan.slot @wide block row_bytes 128
  plan.step @s0 over tokens rows 10 by 1 split 0 {
    plan.for_rows @f(@a + row * 64, @b + row * 64)
    plan.for_rows @f(@b + row * 64, @wide + row * 128)
  }
}

// -----

// Workspaces begin at 0 for each call, because only one runs at a time; the
// slots of one call lie behind each other. With rows the bytes are those of
// each row of a block, here 10, else those in all.
// CHECK-LABEL: module @workspace
//       CHECK: plan.slot @panels workspace row_bytes 100 offset 0
//  CHECK-NEXT: plan.slot @group workspace rows picked row_bytes 192 offset 128
//  CHECK-NEXT: plan.slot @scores workspace row_bytes 320 offset 0
//       CHECK: plan.memory block 0 workspace 2048
module @workspace {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @panels workspace row_bytes 100
  plan.slot @group workspace rows picked row_bytes 192
  plan.slot @scores workspace row_bytes 320
  plan.step @s0 over picked rows 10 by 1 split 0 {
    plan.for_panels columns 40 panels 3 by 3 {
      plan.for_each_panel @f(@panels + panel * 32)
      plan.for_rows @f(@panels, @group + row * 192)
      plan.for_rows @f(@group + row * 192)
    }
    plan.for_rows @f(@scores)
  }
}

// -----

// Memory that a printed plan has is assigned anew: rows may have been edited.
// CHECK-LABEL: module @negative_old_memory
//       CHECK: plan.slot @a block row_bytes 64 offset 0
//       CHECK: plan.memory block 512 workspace 0
//   CHECK-NOT: plan.memory
module @negative_old_memory {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @a block row_bytes 64 offset 4096
  plan.memory block 8192 workspace 64
  plan.step @s0 over tokens rows 8 by 1 split 0 {
    plan.for_rows @f(@a + row * 64)
  }
}

// -----

// Tables and outputs are not the compiler's memory.
// CHECK-LABEL: module @negative_no_memory
//       CHECK: plan.slot @ids ids{{$}}
//  CHECK-NEXT: plan.slot @out output index 0{{$}}
//  CHECK-NEXT: plan.memory block 0 workspace 0
module @negative_no_memory {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @ids ids
  plan.slot @out output index 0
  plan.step @s0 over tokens rows 8 by 1 split 0 {
    plan.for_rows @f(@ids + row * 4, @out + row * 4)
  }
}

// -----

// In one step a value may take the rows of another that has been read, as long as
// each block touches its own rows only, and rows are as large: @next follows @x.
// @small has other rows. @same follows @y, not @next, which its own call reads.
// CHECK-LABEL: module @same_step
//       CHECK: plan.slot @x {{.*}} offset [[#X:]]
//  CHECK-NEXT: plan.slot @y {{.*}} offset [[#Y:64-X]]
//  CHECK-NEXT: plan.slot @next {{.*}} offset [[#X]]
//  CHECK-NEXT: plan.slot @small {{.*}} offset 128
//  CHECK-NEXT: plan.slot @same {{.*}} offset [[#Y]]
module @same_step {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @x arena rows tokens row_bytes 64
  plan.slot @y arena rows tokens row_bytes 64
  plan.slot @next arena rows tokens row_bytes 64
  plan.slot @small arena rows tokens row_bytes 32
  plan.slot @same arena rows tokens row_bytes 64
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@x + row * 64)
  }
  plan.step @s1 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@x + row * 64, @y + row * 64)
    plan.for_rows @f(@y + row * 64, @next + row * 64, @small + row * 32)
    plan.for_rows @f(@next + row * 64, @small + row * 32, @same + row * 64)
  }
  plan.step @s2 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@same + row * 64)
  }
}

// -----

// Another block may not have read yet what is not its own row: neighbours, rows by
// a table, planes. Steps over heads read all keys.
// CHECK-LABEL: module @negative_same_step
//       CHECK: plan.slot @neighbours {{.*}} offset 0
//  CHECK-NEXT: plan.slot @table {{.*}} offset 64
//  CHECK-NEXT: plan.slot @planes {{.*}} offset 128
//  CHECK-NEXT: plan.slot @result {{.*}} offset 192
//  CHECK-NEXT: plan.slot @keys {{.*}} offset 0
//  CHECK-NEXT: plan.slot @attended {{.*}} offset 64
module @negative_same_step {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  kernel.define @k row "r" operands 1 {k = 1, lda = 1, ldc = 1}
  plan.slot @ids ids
  plan.slot @neighbours arena rows tokens row_bytes 64
  plan.slot @table arena rows tokens row_bytes 64
  plan.slot @planes arena rows tokens row_bytes 64
  plan.slot @result arena rows tokens row_bytes 64
  plan.slot @keys arena rows tokens row_bytes 64
  plan.slot @attended arena rows tokens row_bytes 64
  plan.step @s0 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@neighbours + row * 64, @table + row * 64,
        @planes + row * 64 + plane(0 + panel * 1, tokens))
  }
  plan.step @s1 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@neighbours + row * 64 - 64, @table[by @ids] + row * 64,
        @planes + row * 64 + plane(0 + panel * 1, tokens))
    plan.for_rows @f(@result + row * 64)
  }
  plan.step @s2 over tokens rows 8 by 8 split 0 {
    plan.for_rows @f(@result + row * 64, @keys + row * 64)
  }
  plan.step @s3 over attention_tokens heads 1 rows 8 by 8 split 0 {
    plan.call @k(@keys + key * 64)
    plan.call @k(@attended + row * 64)
  }
}

// -----

// With the edges of tiles kept elsewhere, neighbours are no other rows: @next is
// written over @x. What needs no edges is written over first: @other, then @y.
// CHECK-LABEL: module @edges
//       CHECK: plan.slot @x {{.*}} offset [[#X:]]
//       CHECK: plan.slot @x.edges {{.*}}
//  CHECK-NEXT: plan.slot @next {{.*}} offset [[#X]]
//  CHECK-NEXT: plan.slot @y {{.*}} offset [[#Y:]]
//  CHECK-NEXT: plan.slot @y.edges {{.*}}
//  CHECK-NEXT: plan.slot @other {{.*}} offset [[#O:]]
//  CHECK-NEXT: plan.slot @after {{.*}} offset [[#O]]
//  CHECK-NEXT: plan.slot @later {{.*}} offset [[#Y]]
//       CHECK: plan.for_rows @f(@x + row * 64, @x.edges[edge of 8] + row * 64) edges_of 8
//       CHECK: plan.for_rows @f(@x[edges @x.edges of 8] + row * 64 - 64, @x + row * 64, @x[edges @x.edges of 8] + row * 64 + 64)
module @edges {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @x arena rows tokens row_bytes 64
  plan.slot @x.edges arena rows packed row_bytes 16
  plan.slot @next arena rows tokens row_bytes 64
  plan.slot @y arena rows tokens row_bytes 128
  plan.slot @y.edges arena rows packed row_bytes 32
  plan.slot @other arena rows tokens row_bytes 128
  plan.slot @after arena rows tokens row_bytes 128
  plan.slot @later arena rows tokens row_bytes 128
  plan.step @s0 over tokens rows 16 by 8 split 0 {
    plan.for_rows @f(@x + row * 64, @y + row * 128, @other + row * 128)
    plan.for_rows @f(@x + row * 64, @x.edges[edge of 8] + row * 64) edges_of 8
    plan.for_rows @f(@y + row * 128, @y.edges[edge of 8] + row * 128) edges_of 8
  }
  plan.step @s1 over tokens rows 16 by 8 split 0 {
    plan.for_rows @f(@x[edges @x.edges of 8] + row * 64 - 64, @x + row * 64,
        @x[edges @x.edges of 8] + row * 64 + 64)
    plan.for_rows @f(@y[edges @y.edges of 8] + row * 128 - 128)
    plan.for_rows @f(@next + row * 64, @other + row * 128)
    plan.for_rows @f(@after + row * 128)
    plan.for_rows @f(@later + row * 128)
  }
  plan.step @s2 over tokens rows 16 by 8 split 0 {
    plan.for_rows @f(@next + row * 64, @after + row * 128, @later + row * 128)
  }
}

// -----

// Edges of what nothing is written over are not kept: rows have another size
// (@x), or blocks of the step are cut within tiles (@y).
// CHECK-LABEL: module @negative_edges
//   CHECK-NOT: edges
module @negative_edges {
  func.func private @f(!llvm.ptr, !llvm.ptr)
  plan.slot @x arena rows tokens row_bytes 64
  plan.slot @x.edges arena rows packed row_bytes 16
  plan.slot @y arena rows tokens row_bytes 64
  plan.slot @y.edges arena rows packed row_bytes 8
  plan.slot @wide arena rows tokens row_bytes 128
  plan.slot @same arena rows tokens row_bytes 64
  plan.step @s0 over tokens rows 16 by 8 split 0 {
    plan.for_rows @f(@x + row * 64, @y + row * 64)
    plan.for_rows @f(@x + row * 64, @x.edges[edge of 8] + row * 64) edges_of 8
    plan.for_rows @f(@y + row * 64, @y.edges[edge of 16] + row * 64) edges_of 16
  }
  // CHECK: plan.for_rows @f(@x + row * 64 - 64)
  plan.step @s1 over tokens rows 16 by 8 split 0 {
    plan.for_rows @f(@x[edges @x.edges of 8] + row * 64 - 64)
    plan.for_rows @f(@wide + row * 128)
  }
  // CHECK: plan.for_rows @f(@y + row * 64 - 64)
  plan.step @s2 over tokens rows 16 by 8 split 0 {
    plan.for_rows @f(@y[edges @y.edges of 16] + row * 64 - 64)
    plan.for_rows @f(@same + row * 64)
  }
  plan.step @s3 over tokens rows 16 by 8 split 0 {
    plan.for_rows @f(@wide + row * 128, @same + row * 64)
  }
}
