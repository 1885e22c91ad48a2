//===- Passes.td - from Plan IR to LLVM IR -----------------*- tablegen -*-===//
//
// Passes of codegen/LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_LLVM_PASSES
#define ENCAST_CODEGEN_LLVM_PASSES

include "mlir/Pass/PassBase.td"

def PlanToLLVMPass : Pass<"plan-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turn the calls of steps and row programs into LLVM functions";
  let description = [{
    Each plan.call, plan.for_rows and plan.for_panels of a step becomes a
    function of type encast_abi_function and a plan.invoke of it; row programs
    (func.func) become internal functions with bare pointers. Kernels become
    external functions `prefix` + name. All other ops stay. So

    ```mlir
    plan.step @layer.0.norm over tokens rows 96 by 1 split 0 {
      plan.for_rows @layer_norm_384(@sum + row * 1536, @gain, @hidden + row * 1536)
    }
    ```

    becomes

    ```mlir
    plan.step @layer.0.norm over tokens rows 96 by 1 split 0 {
      plan.invoke @v0.layer.0.norm.0 kernel "layer_norm_384"
    }
    llvm.func internal @layer_norm_384(%x: !llvm.ptr, ...) { ... }
    llvm.func hidden @v0.layer.0.norm.0(%context: !llvm.ptr, %item: !llvm.ptr) {
      ... // a loop over the rows of the item
    }
    ```
  }];
  let options = [
    Option<"prefix", "prefix", "std::string", "\"v0.\"",
           "Begins the names of functions and kernels, which must differ "
           "between the variants of an artifact">
  ];
}

#endif // ENCAST_CODEGEN_LLVM_PASSES
