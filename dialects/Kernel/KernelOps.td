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
    Values keep the types of the encoder dialect, or are bf16 planes, e.g.
    `tensor<?x3x1024xbf16>`: rows of three planes whose sum is the value, for
    kernels that multiply tiles. `panel_major` says that a result lies in planes
    of [rows][16] columns, which f32 attention reads; all others are row-major
    with a padded stride. Kernels are symbols
    (`kernel.define`), row programs are functions of vector code.

    The order of summation of every f32 linear is one chain over k, of attention
    one over the keys, for every target (codegen/Kernels/KernelArgs.h).
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

def Kernel_RowsTensor : Type<CPred<"::encast::kernel::isRowsType($_self)">,
    "rows (as of the encoder, or bf16 planes tensor<?xPxNxbf16>, 1 <= P <= 3)",
    "::mlir::RankedTensorType">;

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
    (codegen/Kernels/KernelArgs.h), the shape holds the fields of LinearShape or
    AttentionShape (codegen/Kernels/Kernels.h) that are not at their default.

    Example:
    ```mlir
    kernel.define @linear_f32_8x48_avx512.k384 row "linear_f32_8x48_avx512"
        operands 10 {k = 384, lda = 384, ldc = 1552, bias, activation = "gelu"}
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
    f32; missing columns are zero. Of a matrix in bf16 the result may be in bf16,
    [ceil(N / 16), ceil(K / 2), 32]: two k of each column side by side, for
    kernels with `bf16_weights`.
  }];
  let arguments = (ins Encoder_WeightTensor:$input);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Kernel_PackGatedOp : Kernel_RecipeOp<"pack_gated"> {
  let summary = "a weight and its gate in panels of 8 and 8 columns";
  let description = [{
    Like kernel.pack, with the columns of both interleaved: `group` columns of the
    gate, then the same columns of `input`, and so on; `group` is 8 for f32
    kernels, 16 for bf16 ones (of biases). [N, K] becomes [panels, K, 16], [N]
    becomes [panels * 16], in f32, with panels * 16 = 2 * group * ceil(N /
    group); missing columns are zero. A matrix in bf16 may stay that, as in
    kernel.pack.
  }];
  let arguments = (ins Encoder_WeightTensor:$input, Encoder_WeightTensor:$gate,
                       Encast_Tile:$group);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = [{
    $input `gate` $gate `:` type($gate) `by` $group attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Kernel_PackTilesOp : Kernel_RecipeOp<"pack_tiles"> {
  let summary = "a weight in the order of tiles";
  let description = [{
    [N, K] becomes [pairs, ceil(K / 32), planes * 1024] in bf16, the layout of
    LinearShape (codegen/Kernels/Kernels.h): pairs = ceil(N / 32), with a gate
    ceil(N / 16), whose first tile is the gate's. Plane 0 is the weight rounded to
    bf16, plane 1 what is left, rounded, and so on. One plane in f32 is the weight
    itself, which the kernel splits.
  }];
  let arguments = (ins Encoder_WeightTensor:$input,
                       Optional<Encoder_WeightTensor>:$gate,
                       Encast_Tile:$planes);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = [{
    $input (`gate` $gate^ `:` type($gate))? `planes` $planes attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Kernel_TransposeOp : Kernel_RecipeOp<"transpose"> {
  let summary = "a weight [N, K] or [N, 1, K] as [K, N] in f32";
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
  let results = (outs Kernel_RowsTensor:$result);
  let assemblyFormat = [{
    $program `(` $indices `)` `in` $tables attr-dict
    `:` type($indices) `->` type($result)
  }];
}

def Kernel_LinearOp : Kernel_RowsOp<"linear", [AttrSizedOperandSegments]> {
  let summary = "one kernel call: activation(x W^T + bias) + residual";
  let description = [{
    `weight` and `bias` are packed, with a gate if the kernel is `gated`. The
    result has as many columns as the panels hold; the type says how many of them
    count. With `accumulate` the sums start from that value, whose memory becomes
    that of the result; nothing else reads it.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel,
                            Kernel_RowsTensor:$input,
                            FlatSymbolRefAttr:$weight,
                            OptionalAttr<FlatSymbolRefAttr>:$bias,
                            Optional<Kernel_RowsTensor>:$residual,
                            Optional<Kernel_RowsTensor>:$accumulate,
                            Encast_Count:$panels, Encast_Tile:$panel_tile,
                            Encast_Tile:$row_tile,
                            OptionalAttr<Encast_PositiveBytes>:$workspace_bytes,
                            UnitAttr:$panel_major), origin);
  let results = (outs Kernel_RowsTensor:$result);
  let assemblyFormat = [{
    $kernel `(` $input `,` $weight (`bias` $bias^)?
    (`residual` $residual^ `:` type($residual))?
    (`accumulate` $accumulate^ `:` type($accumulate))? `)`
    `panels` $panels `by` $panel_tile `rows` `by` $row_tile
    (`workspace` $workspace_bytes^)? (`panel_major` $panel_major^)? attr-dict
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
    (for tiles each pair of them) into the workspace first.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel,
                            Kernel_RowsTensor:$input,
                            FlatSymbolRefAttr:$weight,
                            OptionalAttr<FlatSymbolRefAttr>:$bias,
                            OptionalAttr<FlatSymbolRefAttr>:$transpose,
                            FlatSymbolRefAttr:$store, StrAttr:$output,
                            Encast_Count:$columns, Encast_Tile:$panel_tile,
                            Encast_Tile:$row_tile,
                            OptionalAttr<Encast_PositiveBytes>:$workspace_bytes),
                       Encoder_Origin.attributes);
  let assemblyFormat = [{
    $kernel `(` $input `,` $weight (`bias` $bias^)?
    (`transpose` $transpose^)? `)` `to` $output `by` $store
    `columns` $columns `panels` `by` $panel_tile `rows` `by` $row_tile
    (`workspace` $workspace_bytes^)? attr-dict `:` type($input)
  }];
}

def Kernel_AttentionOp : Kernel_RowsOp<"attention"> {
  let summary = "f32 attention over panel-major values";
  let description = [{
    `planes` are the first planes of head 0 in query, key and value; a head takes
    `planes_per_head`. `key_heads` heads of keys and values are shared by equally
    many heads of queries each; one call computes those of one.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel,
                            Kernel_RowsTensor:$query, Kernel_RowsTensor:$key,
                            Kernel_RowsTensor:$value, DenseI64ArrayAttr:$planes,
                            Encast_Heads:$heads, Encast_Heads:$key_heads,
                            Encast_Tile:$planes_per_head,
                            Encast_Tile:$row_tile, Encast_Tile:$max_rows,
                            Encast_PositiveBytes:$workspace_bytes), origin);
  let results = (outs Kernel_RowsTensor:$result);
  let assemblyFormat = [{
    $kernel `(` $query `,` $key `,` $value `)` `planes` $planes `heads` $heads
    `by` $key_heads `of` $planes_per_head `rows` $max_rows `by` $row_tile
    `workspace` $workspace_bytes attr-dict
    `:` type($query) `,` type($key) `,` type($value) `->` type($result)
  }];
}

def Kernel_AttentionPackOp : Kernel_RowsOp<"attention_pack", [
    AllTypesMatch<["key", "value", "packed_key", "packed_value"]>]> {
  let summary = "packs keys and values for tile attention";
  let description = [{
    Both results lie in packed rows (ENCAST_PACKED_ROW of encast_abi.h), head by
    head, `row_bytes` for a row of a head; only kernel.tile_attention reads them.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel, Kernel_RowsTensor:$key,
                            Kernel_RowsTensor:$value, Encast_Heads:$key_heads,
                            Encast_Tile:$row_bytes),
                       origin);
  let results = (outs Kernel_RowsTensor:$packed_key,
                      Kernel_RowsTensor:$packed_value);
  let assemblyFormat = [{
    $kernel `(` $key `,` $value `)` `heads` $key_heads `row_bytes` $row_bytes
    attr-dict `:` type($key)
  }];
}

def Kernel_TileAttentionOp : Kernel_RowsOp<"tile_attention", [
    AllTypesMatch<["packed_key", "packed_value"]>]> {
  let summary = "attention by tiles of bf16 over packed keys and values";
  let description = [{
    `key_heads` heads of keys and values are shared by equally many heads of
    queries each; one call computes those of one. Heads of the query are padded
    to multiples of 32 columns; its rows carry the scale of the scores.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel,
                            Kernel_RowsTensor:$query,
                            Kernel_RowsTensor:$packed_key,
                            Kernel_RowsTensor:$packed_value,
                            Encast_Heads:$heads, Encast_Heads:$key_heads,
                            Encast_Tile:$row_bytes, Encast_Tile:$row_tile,
                            Encast_Tile:$max_rows,
                            Encast_PositiveBytes:$workspace_bytes), origin);
  let results = (outs Kernel_RowsTensor:$result);
  let assemblyFormat = [{
    $kernel `(` $query `,` $packed_key `,` $packed_value `)` `heads` $heads `by`
    $key_heads `row_bytes` $row_bytes `rows` $max_rows `by` $row_tile
    `workspace` $workspace_bytes attr-dict
    `:` type($query) `,` type($packed_key) `->` type($result)
  }];
}

def Kernel_HeadsOp : Kernel_RowsOp<"heads"> {
  let summary = "a row program that normalizes, rotates or lays out heads";
  let description = [{
    Reads columns of the input from `column` on. `weights`: the gain of the norm
    and the table of rotary embedding, as far as the program has them; the latter
    needs `positions`. The result is row-major, panel-major in so many panels, or
    bf16 planes.

    Example:
    ```mlir
    %q = kernel.heads @"heads_16x64_norm_1e-05_rope_panels"(%0 at %positions) column 0
        weights [@q_gain, @rope] panel_major 64
        : tensor<?x2048xf32> -> tensor<?x1024xf32>
    ```
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$program,
                            Kernel_RowsTensor:$input,
                            Optional<Encoder_IndexTensor>:$positions,
                            Encast_Index:$column, ArrayAttr:$weights,
                            OptionalAttr<Encast_Count>:$panels), origin);
  let results = (outs Kernel_RowsTensor:$result);
  let assemblyFormat = [{
    $program `(` $input (`at` $positions^ `:` type($positions))? `)` `column`
    $column `weights` $weights (`panel_major` $panels^)? attr-dict
    `:` type($input) `->` type($result)
  }];
}

def Kernel_ShortConvOp : Kernel_RowsOp<"short_conv"> {
  let summary = "a row program over a token and its neighbours";
  let description = [{
    `input` has all tokens, `scale` (multiplies the sums) the rows of the result;
    `positions` tell where sequences begin and end. `weights`: the taps, [3,
    channels], and the bias if there is one.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$program,
                            Kernel_RowsTensor:$input,
                            Encoder_IndexTensor:$positions, ArrayAttr:$weights,
                            Optional<Kernel_RowsTensor>:$scale), origin);
  let results = (outs Kernel_RowsTensor:$result);
  let assemblyFormat = [{
    $program `(` $input `at` $positions `:` type($positions) `)`
    `weights` $weights (`scale` $scale^ `:` type($scale))? attr-dict
    `:` type($input) `->` type($result)
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
                            Variadic<Kernel_RowsTensor>:$inputs,
                            OptionalAttr<ArrayAttr>:$weights,
                            OptionalAttr<DenseI64ArrayAttr>:$columns), origin);
  let results = (outs Kernel_RowsTensor:$result);
  let assemblyFormat = [{
    $program `(` $inputs `)` (`weights` $weights^)? (`columns` $columns^)?
    attr-dict `:` functional-type($inputs, $result)
  }];
}

def Kernel_GatherOp : Kernel_RowsOp<"gather"> {
  let summary = "rows of a value, by an index that the runtime fills";
  let arguments = !con((ins FlatSymbolRefAttr:$program,
                            Kernel_RowsTensor:$input, Kernel_GatherAttr:$index),
                       origin);
  let results = (outs Kernel_RowsTensor:$result);
  let assemblyFormat = [{
    $program `(` $input `)` `by` `` $index attr-dict
    `:` type($input) `->` type($result)
  }];
}

def Kernel_PoolOp : Kernel_RowsOp<"pool"> {
  let summary = "a program over all rows of each sequence";
  let arguments = !con((ins FlatSymbolRefAttr:$program,
                            Kernel_RowsTensor:$input), origin);
  let results = (outs Kernel_RowsTensor:$result);
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
  let arguments = (ins FlatSymbolRefAttr:$program, Kernel_RowsTensor:$value,
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
