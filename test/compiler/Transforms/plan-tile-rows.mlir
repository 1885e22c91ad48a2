// RUN: encast-opt %s --plan-tile-rows --split-input-file --verify-diagnostics | FileCheck %s

// Half of haswell's L2 of 256 KiB holds 128 KiB, less 24 KiB of a panel, in 125
// rows of 848 bytes; blocks are cut at multiples of the kernel's 6 rows.
// CHECK-LABEL: module attributes {kernel.target = "haswell"}
//       CHECK: plan.step @middle over tokens rows 120 by 6 split 64 {
//
// Where no rows are kept in a block, more than 192 rows gain nothing.
//       CHECK: plan.step @small over tokens rows 192 by 6 split 64 {
//
// Where few rows fit, 96 keep the kernel from waiting for weights.
//       CHECK: plan.step @large over tokens rows 96 by 6 split 64 {
module attributes {kernel.target = "haswell"} {
  kernel.define @k row "linear_f32_6x16_avx2" operands 10
      {k = 384, lda = 384, ldc = 16}
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  plan.slot @x arena rows tokens row_bytes 1536
  plan.slot @a block row_bytes 512
  plan.slot @b block row_bytes 336
  plan.slot @c block row_bytes 64
  plan.slot @d block row_bytes 6144
  plan.step @middle over tokens rows 6 by 6 split 0 {
    plan.call @k(@x + row * 1536, @w + panel * 24576, @a + row * 512, 0, 0, rows,
        panels, 64, 0, 0) panels 8
    plan.for_rows @copy(@a + row * 512, @b + row * 336)
  }
  plan.step @small over tokens rows 6 by 6 split 0 {
    plan.for_rows @copy(@x + row * 1536, @c + row * 64)
  }
  plan.step @large over tokens rows 6 by 6 split 0 {
    plan.for_rows @copy(@x + row * 1536, @d + row * 6144)
  }
  encoder.weight @w : tensor<8x384x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<8x384x16xf32>
    encoder.yield %0 : tensor<8x384x16xf32>
  }
}

// -----

// The same step has more rows in an L2 of 2 MiB, where a call takes 3 panels
// and 8 rows at once, but no more than 192.
// CHECK-LABEL: module attributes {kernel.target = "sapphirerapids"}
//       CHECK: plan.step @middle over tokens rows 192 by 8 split 64 {
//
// 1 MiB less 72 KiB of three panels in 158 rows of 6144 bytes.
//       CHECK: plan.step @large over tokens rows 152 by 8 split 64 {
module attributes {kernel.target = "sapphirerapids"} {
  kernel.define @k row "linear_f32_8x48_avx512" operands 10
      {k = 384, lda = 384, ldc = 16}
  func.func private @copy(!llvm.ptr, !llvm.ptr)
  plan.slot @x arena rows tokens row_bytes 1536
  plan.slot @a block row_bytes 512
  plan.slot @b block row_bytes 336
  plan.slot @d block row_bytes 6144
  plan.step @middle over tokens rows 8 by 8 split 0 {
    plan.call @k(@x + row * 1536, @w + panel * 24576, @a + row * 512, 0, 0, rows,
        panels, 64, 0, 0) panels 8 by 3
    plan.for_rows @copy(@a + row * 512, @b + row * 336)
  }
  plan.step @large over tokens rows 8 by 8 split 0 {
    plan.call @k(@x + row * 1536, @w + panel * 24576, @d + row * 6144, 0, 0, rows,
        panels, 64, 0, 0) panels 8 by 3
  }
  encoder.weight @w : tensor<8x384x16xf32> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<8x384x16xf32>
    encoder.yield %0 : tensor<8x384x16xf32>
  }
}

// -----

// Attention is cut in tiles of queries, as many as its kernel takes at once.
// CHECK-LABEL: module attributes {kernel.target = "x86-64-v3"}
//       CHECK: plan.step @negative_attention over attention_tokens heads 2 rows 24 by 24 split 0 {
module attributes {kernel.target = "x86-64-v3"} {
  kernel.define @k row "attention_f32_24_avx2" operands 10
      {head_size = 16, ldo = 32, scale = 0.25 : f32}
  plan.slot @qkv arena rows tokens row_bytes 384
  plan.slot @out arena rows tokens row_bytes 128
  plan.slot @ws workspace row_bytes 1024
  plan.step @negative_attention over attention_tokens heads 2 rows 24 by 24
      split 0 {
    plan.call @k(@qkv + row * 64 + plane(0 + panel * 1, tokens),
        @qkv + key * 64 + plane(2 + panel * 1, tokens),
        @qkv + key * 64 + plane(4 + panel * 1, tokens),
        @out + row * 128 + panel * 64, rows, keys, token_plane_bytes,
        token_plane_bytes, @ws, position)
  }
}

// -----

// Tiles want more rows than multiply-adds do, of one plane more than of several,
// and threads share the weights of a block that is not longer.
// CHECK-LABEL: module attributes {kernel.target = "sapphirerapids"}
//       CHECK: plan.step @one over tokens rows 256 by 32 split 256 {
//       CHECK: plan.step @three over tokens rows 128 by 32 split 128 {
//       CHECK: plan.step @groups over tokens rows 256 by 32 split 256 {
//
// Panels that are packed for each block want longer ones.
//       CHECK: plan.step @packs over tokens rows 512 by 32 split 512 {
module attributes {kernel.target = "sapphirerapids"} {
  kernel.define @k1 row "linear_bf16_32x32_amx" operands 10
      {k = 64, lda = 96, ldc = 64}
  kernel.define @k3 row "linear_bf16x3w_32x32_amx" operands 10
      {k = 64, lda = 224, ldc = 64}
  plan.slot @x arena rows tokens row_bytes 192
  plan.slot @x3 arena rows tokens row_bytes 448
  plan.slot @y block row_bytes 256
  plan.slot @z block row_bytes 256
  plan.slot @group workspace rows tokens row_bytes 256
  plan.slot @panels workspace row_bytes 8192
  plan.step @one over tokens rows 32 by 32 split 0 {
    plan.call @k1(@x + row * 192, @w + panel * 2048, @y + row * 256 + panel * 64,
        0, 0, rows, panels, 64, 0, 0) panels 4 by 2
  }
  plan.step @three over tokens rows 32 by 32 split 0 {
    plan.call @k1(@x + row * 192, @w + panel * 2048, @z + row * 256 + panel * 64,
        0, 0, rows, panels, 64, 0, 0) panels 4 by 2
    plan.call @k3(@x3 + row * 448, @w + panel * 2048, @z + row * 256 + panel * 64,
        0, 0, rows, panels, 64, 0, 0) panels 4 by 2
  }
  plan.step @groups over tokens rows 32 by 32 split 0 {
    plan.for_panels columns 64 panels 4 by 4 {
      plan.call @k1(@x + row * 192, @w + panel * 2048, @group + row * 256, 0, 0,
          rows, panels, 64, 0, 0)
    }
  }
  plan.step @packs over tokens rows 32 by 32 split 0 {
    plan.for_panels columns 64 panels 4 by 4 {
      plan.for_each_panel @program(@words + panel * 2048, panel_columns,
          @panels + panel * 2048) by 2
      plan.call @k1(@x + row * 192, @panels + panel * 2048, @group + row * 256,
          0, 0, rows, panels, 64, 0, 0)
    }
  }
  func.func private @program(!llvm.ptr, index, !llvm.ptr)
  encoder.weight @words : tensor<64x64xbf16> {
    %0 = encoder.tensor "words" in "model.safetensors" : tensor<64x64xbf16>
    encoder.yield %0 : tensor<64x64xbf16>
  }
  encoder.weight @w : tensor<2x2x1024xbf16> {
    %0 = encoder.tensor "w" in "model.safetensors" : tensor<64x64xbf16>
    %1 = kernel.pack_tiles %0 planes 1 : tensor<64x64xbf16> -> tensor<2x2x1024xbf16>
    encoder.yield %1 : tensor<2x2x1024xbf16>
  }
}

// -----

// Without a target there are no caches to choose for.
// expected-error@below {{module has no target}}
module {
}

// -----

// expected-error@below {{unknown target 'z80'}}
module attributes {kernel.target = "z80"} {
}
