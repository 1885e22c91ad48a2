//===- KernelOps.td - the kernel dialect --------------------*- tablegen -*-===//
//
// Which kernel or row program computes each operation of the encoder, on which
// layout. No addresses, no threads.
//
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_KERNEL_KERNELOPS
#define ENCAST_DIALECTS_KERNEL_KERNELOPS

include "dialects/Encoder/EncoderBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::encast::kernel";
  let summary = "which kernel computes what, on which layout";
  let description = [{
    Values keep the types of the encoder dialect. `panel_major` on a linear says
    that its result lies in planes of [rows][16] columns, which attention reads;
    all others are row-major with a padded stride. Kernels are symbols
    (`kernel.define`), row programs are functions of vector code.

    The order of summation of every linear is one chain over k, of attention one
    over the keys (codegen/Kernels/KernelArgs.h), for every target.
  }];
  let dependentDialects = ["::encast::encoder::EncoderDialect"];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def Kernel_Gather : I32EnumAttr<"GatherIndex", "which rows are gathered", [
    I32EnumAttrCase<"Selected", 0, "selected">,
    I32EnumAttrCase<"First", 1, "first">,
    I32EnumAttrCase<"Pick", 2, "pick">]> {
  let cppNamespace = "::encast::kernel";
  let genSpecializedAttr = 0;
}
def Kernel_GatherAttr : EnumAttr<Kernel_Dialect, Kernel_Gather, "index">;

class Kernel_Op<string mnemonic, list<Trait> traits = []>
    : Op<Kernel_Dialect, mnemonic, traits>;

/// An operation on rows that uses symbols: a kernel or row program, weights.
class Kernel_RowsOp<string mnemonic, list<Trait> traits = []>
    : Kernel_Op<mnemonic, !listconcat(traits, [Pure,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>])> {
  let extraClassDefinition = [{
    void $cppClass::getAsmResultNames(::mlir::OpAsmSetValueNameFn setName) {
      ::encast::encoder::setResultName(*this, setName);
    }
  }];
  dag origin = Encoder_Origin.attributes;
}
class Kernel_RecipeOp<string mnemonic>
    : Kernel_Op<mnemonic, [Pure, Encoder_RecipeTrait]>;

def Kernel_DefineOp : Kernel_Op<"define", [Symbol]> {
  let summary = "a kernel: a row of Kernels.def and the shape it bakes in";
  let description = [{
    `operands` is the number of fields of the kernel's argument struct
    (codegen/Kernels/KernelArgs.h). A linear has `k`, `lda`, `ldc`, `ldr` (with a
    residual), `bias` and `activation`; an attention `head_size`, `ldo`, `scale`.

    Example:
    ```mlir
    kernel.define @linear_f32_8x48_avx512.k384 row "linear_f32_8x48_avx512"
        operands 8 {k = 384, lda = 384, ldc = 1552, bias, activation = "gelu"}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$row,
                       Encast_Tile:$operands, DictionaryAttr:$shape);
  let assemblyFormat =
      "$sym_name `row` $row `operands` $operands $shape attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// A number of the shape, 0 if it has none of that name.
    int64_t getNumber(::llvm::StringRef name) {
      auto number = getShape().getAs<::mlir::IntegerAttr>(name);
      return number ? number.getInt() : 0;
    }
  }];
}

def Kernel_PadRowsOp : Kernel_RecipeOp<"pad_rows"> {
  let summary = "pads each group of rows of a weight with zero rows";
  let description = "Heads whose size is no multiple of 16 fill whole panels.";
  let arguments = (ins Encoder_WeightTensor:$input, Encast_Count:$group,
                       Encast_Count:$padded);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = [{
    $input `groups` $group `to` $padded attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Kernel_PackOp : Kernel_RecipeOp<"pack"> {
  let summary = "a weight in panels of 16 columns";
  let description = [{
    [N, K] becomes [ceil(N / 16), K, 16], [N] becomes [ceil(N / 16) * 16], in
    f32; missing columns are zero.
  }];
  let arguments = (ins Encoder_WeightTensor:$input);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Kernel_EmbedOp : Kernel_RowsOp<"embed"> {
  let summary = "a row program over one row of each table";
  let arguments = !con((ins FlatSymbolRefAttr:$program,
                            Variadic<Encoder_IndexTensor>:$indices,
                            ArrayAttr:$tables), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $program `(` $indices `)` `in` $tables attr-dict
    `:` type($indices) `->` type($result)
  }];
}

def Kernel_LinearOp : Kernel_RowsOp<"linear"> {
  let summary = "one kernel call: activation(x W^T + bias) + residual";
  let description = [{
    `weight` and `bias` are packed. The result has as many columns as the panels
    hold; the type says how many of them count.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel,
                            Encoder_RowsTensor:$input,
                            FlatSymbolRefAttr:$weight,
                            OptionalAttr<FlatSymbolRefAttr>:$bias,
                            Optional<Encoder_RowsTensor>:$residual,
                            Encast_Count:$panels, Encast_Tile:$panel_tile,
                            Encast_Tile:$row_tile,
                            UnitAttr:$panel_major), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $kernel `(` $input `,` $weight (`bias` $bias^)?
    (`residual` $residual^ `:` type($residual))? `)`
    `panels` $panels `by` $panel_tile `rows` `by` $row_tile
    (`panel_major` $panel_major^)? attr-dict
    `:` type($input) `->` type($result)
  }];
}

def Kernel_LinearStoreOp : Kernel_Op<"linear_store", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a linear whose result goes to an output, group by group";
  let description = [{
    A group of `panel_tile` panels is computed into the thread's workspace and its
    columns that exist are copied to the caller's memory by `store`, so that wide
    results (a vocabulary) are never in memory as a whole. With `transpose` the
    weight is row-major, shared with an embedding, and a program packs each panel
    into the workspace first.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel,
                            Encoder_RowsTensor:$input,
                            FlatSymbolRefAttr:$weight,
                            OptionalAttr<FlatSymbolRefAttr>:$bias,
                            OptionalAttr<FlatSymbolRefAttr>:$transpose,
                            FlatSymbolRefAttr:$store, StrAttr:$output,
                            Encast_Count:$columns, Encast_Tile:$panel_tile,
                            Encast_Tile:$row_tile), Encoder_Origin.attributes);
  let assemblyFormat = [{
    $kernel `(` $input `,` $weight (`bias` $bias^)?
    (`transpose` $transpose^)? `)` `to` $output `by` $store
    `columns` $columns `panels` `by` $panel_tile `rows` `by` $row_tile attr-dict
    `:` type($input)
  }];
}

def Kernel_AttentionOp : Kernel_RowsOp<"attention", [
    AllTypesMatch<["key", "value"]>]> {
  let summary = "attention over panel-major values";
  let description = [{
    `planes` are the first planes of head 0 in query, key and value; a head takes
    `planes_per_head`.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel,
                            Encoder_RowsTensor:$query, Encoder_RowsTensor:$key,
                            Encoder_RowsTensor:$value, DenseI64ArrayAttr:$planes,
                            Encast_Heads:$heads, Encast_Tile:$planes_per_head,
                            Encast_Tile:$row_tile,
                            Encast_PositiveBytes:$workspace_bytes), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $kernel `(` $query `,` $key `,` $value `)` `planes` $planes `heads` $heads
    `of` $planes_per_head `rows` `by` $row_tile `workspace` $workspace_bytes
    attr-dict `:` type($query) `,` type($key) `->` type($result)
  }];
}

def Kernel_RowsProgramOp : Kernel_RowsOp<"rows"> {
  let summary = "a row program for each row";
  let description = [{
    `program` is a function of one row of each operand (from column `columns[i]`),
    the weights, and the row of the result.

    Example:
    ```mlir
    %y = kernel.rows @layer_norm_384_1e-12(%x) weights [@gain, @shift]
        : (tensor<?x384xf32>) -> tensor<?x384xf32>
    ```
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$program,
                            Variadic<Encoder_RowsTensor>:$inputs,
                            OptionalAttr<ArrayAttr>:$weights,
                            OptionalAttr<DenseI64ArrayAttr>:$columns), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $program `(` $inputs `)` (`weights` $weights^)? (`columns` $columns^)?
    attr-dict `:` functional-type($inputs, $result)
  }];
}

def Kernel_GatherOp : Kernel_RowsOp<"gather"> {
  let summary = "rows of a value, by an index that the runtime fills";
  let arguments = !con((ins FlatSymbolRefAttr:$program,
                            Encoder_RowsTensor:$input, Kernel_GatherAttr:$index),
                       origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $program `(` $input `)` `by` `` $index attr-dict
    `:` type($input) `->` type($result)
  }];
}

def Kernel_PoolOp : Kernel_RowsOp<"pool"> {
  let summary = "a program over all rows of each sequence";
  let arguments = !con((ins FlatSymbolRefAttr:$program,
                            Encoder_RowsTensor:$input), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat =
      "$program `(` $input `)` attr-dict `:` type($input) `->` type($result)";
}

def Kernel_StoreOp : Kernel_Op<"store", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "writes an output";
  let description = [{
    Copies columns from `column` of each row, or of the picked rows if `pick` is
    set, to the caller's memory.
  }];
  let arguments = (ins FlatSymbolRefAttr:$program, Encoder_RowsTensor:$value,
                       StrAttr:$output, Encast_Index:$column,
                       Encast_Count:$columns,
                       UnitAttr:$pick);
  let assemblyFormat = [{
    $program `(` $value `)` `to` $output `columns` $column `,` $columns
    (`pick` $pick^)? attr-dict `:` type($value)
  }];
}

def Kernel_OutputOp : Kernel_Op<"output", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "declares an output of the model, in the order of the model";
  let description = [{
    A row per sequence, or `per_token`; `all_rows` as in encoder.output. In the
    function each output is stored once.
  }];
  let arguments = (ins StrAttr:$name, Encast_Count:$columns,
                       UnitAttr:$per_token, UnitAttr:$all_rows);
  let assemblyFormat = [{
    $name `columns` $columns (`per_token` $per_token^)? (`all_rows` $all_rows^)?
    attr-dict
  }];
}

#endif // ENCAST_DIALECTS_KERNEL_KERNELOPS
