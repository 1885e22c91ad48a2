//===- KernelNameTest.cpp - what the name of a kernel says ----------------===//

#include "runtime/tools/KernelName.h"
#include <gtest/gtest.h>

using namespace encast::tools;

static void expect(const char *kernel, const char *arithmetic, int products,
                   Multiplier multiplier) {
  KernelName name = parseKernelName(kernel);
  EXPECT_STREQ(name.arithmetic, arithmetic) << kernel;
  EXPECT_EQ(name.products, products) << kernel;
  EXPECT_EQ(name.multiplier, multiplier) << kernel;
}

TEST(KernelName, says_arithmetic_and_instructions) {
  expect("linear_f32_6x16_avx2", "f32", 1, Multiplier::Avx2);
  expect("linear_f32_8x48_avx512.k384.a384.c1552.bias.gelu", "f32", 1,
         Multiplier::Avx512);
  expect("linear_bf16_32x32_amx.k384", "bf16", 1, Multiplier::AmxBf16);
  expect("linear_bf16_12x32_avx512bf16.k384", "bf16", 1,
         Multiplier::Avx512Bf16);
  expect("linear_bf16x3_32x32_amx.k384", "bf16x3", 3, Multiplier::AmxBf16);
  expect("linear_bf16x3w_32x32_amx.k384", "bf16x3w", 3, Multiplier::AmxBf16);
  expect("linear_bf16x6_32x32_amx.k384", "bf16x6", 6, Multiplier::AmxBf16);
  expect("attention_f32_48_avx512.d32.o384.s1.76776692e-01", "f32", 1,
         Multiplier::Avx512);
  expect("attention_bf16x3_32_amx.d64", "bf16x3", 3, Multiplier::AmxBf16);
}

TEST(KernelName, of_row_programs_says_nothing) {
  for (const char *kernel : {"", "layer_norm_384_1e-12", "embed_384_f32_f32",
                             "linear", "pool_mean_384_avx512"})
    EXPECT_STREQ(parseKernelName(kernel).arithmetic, "") << kernel;
}
