//===- Passes.td - lowerings from one dialect to the next ---*- tablegen -*-===//

#ifndef ENCAST_COMPILER_CONVERSION_PASSES
#define ENCAST_COMPILER_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

def EncoderToKernelPass : Pass<"encoder-to-kernel", "::mlir::ModuleOp"> {
  let summary = "choose kernels, row programs and layouts for a target";
  let description = [{
    Every linear and attention becomes a call of the best row of Kernels.def for
    the target, every other operation a row program; weights of linears get
    recipes that pack them.

    ```mlir
    %1 = encoder.linear %0, @w bias @b activation gelu : ...
    // becomes
    kernel.define @linear_f32_8x48_avx512.k384... row "linear_f32_8x48_avx512"
        operands 10 {...}
    %1 = kernel.linear @linear_f32_8x48_avx512.k384...(%0, @w.packed bias @b.packed)
        panels 96 by 3 rows by 8 : ...
    ```
    The target's name stays in the module (`kernel.target`).
  }];
  let options = [Option<"target", "target", "std::string", "\"x86-64-v3\"",
                        "name of Targets.def with +feature or -feature">];
}

def KernelToPlanPass : Pass<"kernel-to-plan", "::mlir::ModuleOp"> {
  let summary = "group kernels into steps and give values slots";
  let description = [{
    Consecutive operations over the same rows become one step, whose calls run on
    a block of rows while it is in cache; attention is a step of its own. A value
    that only its own step reads gets a block slot, others a slot of the arena.

    ```mlir
    %2 = kernel.linear @k(%1, @w) ... : ...
    %3 = kernel.rows @layer_norm_384(%2) weights [@g, @s] : ...
    // becomes
    plan.slot @sum block row_bytes 1536
    plan.slot @norm arena rows tokens row_bytes 1536
    plan.step @layer.1 over tokens rows 8 by 8 split 0 layer 1 {
      plan.call @k(@x + row * 1536, @w + panel * 24576, @sum + row * 1536 + panel * 64, ...)
      plan.for_rows @layer_norm_384(@sum + row * 1536, @g, @s, @norm + row * 1536)
    }
    ```
  }];
}

#endif // ENCAST_COMPILER_CONVERSION_PASSES
