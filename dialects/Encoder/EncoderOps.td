//===- EncoderOps.td - the encoder dialect ------------------*- tablegen -*-===//
//
// What a transformer encoder computes, on tensors of rows. No target, no memory,
// no threads.
//
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_ENCODER_ENCODEROPS
#define ENCAST_DIALECTS_ENCODER_ENCODEROPS

include "dialects/Encoder/EncoderBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Encoder_Dialect : Dialect {
  let name = "encoder";
  let cppNamespace = "::encast::encoder";
  let summary = "what a transformer encoder computes";
  let description = [{
    A batch is ragged: the tokens of all sequences back to back. A value is a
    tensor `[rows, columns]`; its encoding says which rows, none means all token
    rows:

    ```
    tensor<?x384xf32>                               all T tokens of the batch
    tensor<?x384xf32, #encoder.rows<selected>>      tokens that outputs ask for
    tensor<?x384xf32, #encoder.rows<demanded>>      either of both, per run
    tensor<?x384xf32, #encoder.rows<picked>>        rows of per-token outputs
    tensor<?x384xf32, #encoder.rows<sequences>>     one row per sequence
    ```

    Integers of tokens, `tensor<?xi32>`, may be of selected rows as well.

    Weights are symbols with recipes (`encoder.weight`), never numbers. `name` and
    `layer` say where in the model an operation comes from; they survive printing
    and reach diagnostics and the profile.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

//===----------------------------------------------------------------------===//
// Attributes and types
//===----------------------------------------------------------------------===//

def Encoder_Rows : I32EnumAttr<"Rows", "which rows a value has", [
    I32EnumAttrCase<"Tokens", 0, "tokens">,
    I32EnumAttrCase<"Selected", 1, "selected">,
    I32EnumAttrCase<"Demanded", 2, "demanded">,
    I32EnumAttrCase<"Picked", 3, "picked">,
    I32EnumAttrCase<"Sequences", 4, "sequences">]> {
  let cppNamespace = "::encast::encoder";
  let genSpecializedAttr = 0;
}
def Encoder_RowsAttr : EnumAttr<Encoder_Dialect, Encoder_Rows, "rows"> {
  let assemblyFormat = "`<` $value `>`";
}

def Encoder_Activation : I32EnumAttr<"ActivationKind", "an elementwise function", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"Gelu", 1, "gelu">,
    I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">,
    I32EnumAttrCase<"Relu", 3, "relu">,
    I32EnumAttrCase<"Silu", 4, "silu">,
    I32EnumAttrCase<"QuickGelu", 5, "quick_gelu">,
    I32EnumAttrCase<"Tanh", 6, "tanh">,
    I32EnumAttrCase<"Sigmoid", 7, "sigmoid">]> {
  let cppNamespace = "::encast::encoder";
  let genSpecializedAttr = 0;
}
def Encoder_ActivationAttr
    : EnumAttr<Encoder_Dialect, Encoder_Activation, "activation">;

def Encoder_Pooling : I32EnumAttr<"Pooling", "how tokens become one row", [
    I32EnumAttrCase<"Max", 0, "max">,
    I32EnumAttrCase<"Mean", 1, "mean">,
    I32EnumAttrCase<"MeanSqrtLength", 2, "mean_sqrt_length">,
    I32EnumAttrCase<"WeightedMean", 3, "weighted_mean">,
    I32EnumAttrCase<"Last", 4, "last">]> {
  let cppNamespace = "::encast::encoder";
  let genSpecializedAttr = 0;
}
def Encoder_PoolingAttr : EnumAttr<Encoder_Dialect, Encoder_Pooling, "pooling">;

def Encoder_Index : I32EnumAttr<"IndexInput", "an integer per token", [
    I32EnumAttrCase<"Ids", 0, "ids">,
    I32EnumAttrCase<"TokenTypes", 1, "token_types">,
    I32EnumAttrCase<"Positions", 2, "positions">]> {
  let cppNamespace = "::encast::encoder";
  let genSpecializedAttr = 0;
}
def Encoder_IndexAttr : EnumAttr<Encoder_Dialect, Encoder_Index, "index">;

def Encoder_Precision : I32EnumAttr<"Precision", "how exact a product is", [
    I32EnumAttrCase<"F32", 0, "f32">,
    I32EnumAttrCase<"Bf16x3", 1, "bf16x3">,
    I32EnumAttrCase<"Bf16", 2, "bf16">]> {
  let cppNamespace = "::encast::encoder";
  let genSpecializedAttr = 0;
  let description = [{
    f32: as a chain of f32 multiply-adds, or better. bf16x3: operands are sums of
    two bf16 terms, relative error about 5e-6. bf16: operands are rounded to bf16,
    without tiles the weights alone. Sums, norms, softmax statistics and everything elementwise stay f32.
  }];
}
def Encoder_PrecisionAttr : EnumAttr<Encoder_Dialect, Encoder_Precision, "precision">;

class Encoder_Op<string mnemonic, list<Trait> traits = []>
    : Op<Encoder_Dialect, mnemonic, traits>;

/// An operation of the model on rows. Its result prints with the layer's name.
class Encoder_RowsOp<string mnemonic, list<Trait> traits = []>
    : Encoder_Op<mnemonic, !listconcat(traits, [Pure,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>])> {
  let extraClassDefinition = [{
    void $cppClass::getAsmResultNames(::mlir::OpAsmSetValueNameFn setName) {
      ::encast::encoder::setResultName(*this, setName);
    }
  }];
  dag origin = Encoder_Origin.attributes;
}

def Encoder_RowsOrIndexTensor
    : AnyTypeOf<[Encoder_RowsTensor, Encoder_IndexTensor], "",
                "::mlir::RankedTensorType">;

class Encoder_RecipeOp<string mnemonic, list<Trait> traits = []>
    : Encoder_Op<mnemonic, !listconcat(traits, [Pure, Encoder_RecipeTrait])>;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

def Encoder_SourceOp : Encoder_Op<"source"> {
  let summary = "a file that weights come from";
  let description = [{
    `path` is relative to the model's folder. Finishing a compilation from IR
    finds it under --weights-root; another SHA-256 is an error.

    Example: `encoder.source "model.safetensors" sha256 "53aa5117..."`
  }];
  let arguments = (ins StrAttr:$path, StrAttr:$sha256);
  let assemblyFormat = "$path `sha256` $sha256 attr-dict";
}

def Encoder_WeightOp : Encoder_Op<"weight", [Symbol, NoRegionArguments,
    SingleBlock, IsolatedFromAbove]> {
  let summary = "a weight and the recipe that makes it from the checkpoint";
  let description = [{
    The region computes the weight once, when the artifact is written; scales in
    f64 with one rounding.

    Example:
    ```mlir
    encoder.weight @query : tensor<384x384xf32> {
      %0 = encoder.tensor "encoder.layer.0.attention.self.query.weight"
          in "model.safetensors" : tensor<384x384xf32>
      encoder.yield %0 : tensor<384x384xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<Encoder_WeightTensor>:$type);
  let regions = (region SizedRegion<1>:$recipe);
  let assemblyFormat = "$sym_name `:` $type attr-dict-with-keyword $recipe";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The value that the recipe yields, its last one.
    ::mlir::Value getYielded();
  }];
}

def Encoder_YieldOp : Encoder_Op<"yield", [Terminator, HasParent<"WeightOp">]> {
  let summary = "ends a recipe";
  let arguments = (ins Encoder_WeightTensor:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def Encoder_TensorOp : Encoder_RecipeOp<"tensor"> {
  let summary = "a tensor of the checkpoint, as stored";
  let arguments = (ins StrAttr:$tensor, StrAttr:$file);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = "$tensor `in` $file attr-dict `:` type($result)";
}

def Encoder_ConcatOp : Encoder_RecipeOp<"concat"> {
  let summary = "weights one after the other along dimension 0";
  let arguments = (ins Variadic<Encoder_WeightTensor>:$parts);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = "$parts attr-dict `:` type($parts) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_SliceOp : Encoder_RecipeOp<"slice"> {
  let summary = "rows of a weight, starting at `begin`";
  let arguments = (ins Encoder_WeightTensor:$input, Encast_Index:$begin);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat =
      "$input `from` $begin attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_SliceColumnsOp : Encoder_RecipeOp<"slice_columns"> {
  let summary = "columns of a matrix, starting at `begin`";
  let arguments = (ins Encoder_WeightTensor:$input, Encast_Index:$begin);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat =
      "$input `from` $begin attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_ScaleOp : Encoder_RecipeOp<"scale", [
    AllTypesMatch<["input", "result"]>]> {
  let summary = "a weight times a constant";
  let description = [{
    The optimizer only makes powers of two, which keep every value exact.
  }];
  let arguments = (ins Encoder_WeightTensor:$input, F64Attr:$factor);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = "$input `by` $factor attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Encoder_CastOp : Encoder_RecipeOp<"cast"> {
  let summary = "a weight in another element type";
  let arguments = (ins Encoder_WeightTensor:$input);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_RopeTableOp : Encoder_RecipeOp<"rope_table"> {
  let summary = "cosines and sines of rotary position embedding";
  let description = [{
    [positions, headSize] in f32: row p holds cos(p * f_k) for k = 0 ..
    headSize / 2 - 1, then sin(p * f_k), with f_k = 1 / theta^(2k / headSize). As
    Transformers computes it: the power, its inverse and the product are rounded
    to f32 each.

    Example: `%0 = encoder.rope_table theta 1.0e+06 : tensor<128000x64xf32>`
  }];
  let arguments = (ins F64Attr:$theta);
  let results = (outs Encoder_WeightTensor:$result);
  let assemblyFormat = "`theta` $theta attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// From tokens to rows
//===----------------------------------------------------------------------===//

def Encoder_InputOp : Encoder_Op<"input", [Pure,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "an integer per token that the caller gives";
  let description = [{
    `ids`; `token_types` (zeros if not given); `positions` in the sequence, from
    0. Example: `%ids = encoder.input ids : tensor<?xi32>`
  }];
  let arguments = (ins Encoder_IndexAttr:$index);
  let results = (outs Encoder_IndexTensor:$result);
  let assemblyFormat = "`` $index attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Encoder_EmbeddingOp : Encoder_RowsOp<"embedding", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the sum of one row of each table";
  let description = [{
    `result[t] = tables[0][indices[0][t]] + tables[1][indices[1][t]] + ...`, in f32
    and from left to right. Tables are row-major, in the checkpoint's type.

    Example:
    ```mlir
    %0 = encoder.embedding %ids, %types, %positions in [@words, @types, @places]
        : tensor<?x384xf32>
    ```
  }];
  let arguments = !con((ins Variadic<Encoder_IndexTensor>:$indices,
                            ArrayAttr:$tables), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $indices `in` $tables attr-dict `:` type($indices) `->` type($result)
  }];
}

//===----------------------------------------------------------------------===//
// Row by row
//===----------------------------------------------------------------------===//

def Encoder_LinearOp : Encoder_RowsOp<"linear", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a matrix product with its epilogue";
  let description = [{
        result = activation(input * transpose(weight) + bias) + residual

    or, with a gate (Shazeer, "GLU Variants Improve Transformer", 2020),

        result = activation(input * transpose(gate) + gate_bias)
                 * (input * transpose(weight) + bias) + residual

    `weight` and `gate` are [out, in] as checkpoints store them, and have a bias
    both or neither. In f32 a sum over `in` is one chain of fused multiply-adds in
    its order. An element type bf16 of `weight` says that each of its values is
    one of bf16: then fewer products, or half the bytes, are as exact.

    Example:
    ```mlir
    %up = encoder.linear %x, @up.weight bias @up.bias activation gelu
        : tensor<?x384xf32> -> tensor<?x1536xf32>
    %act = encoder.linear %x, @w3 gate @w1 activation silu precision bf16
        : tensor<?x1024xf32> -> tensor<?x2560xf32>
    ```
  }];
  let arguments = !con((ins Encoder_RowsTensor:$input,
                            FlatSymbolRefAttr:$weight,
                            OptionalAttr<FlatSymbolRefAttr>:$bias,
                            OptionalAttr<FlatSymbolRefAttr>:$gate,
                            OptionalAttr<FlatSymbolRefAttr>:$gate_bias,
                            DefaultValuedAttr<Encoder_ActivationAttr,
                              "ActivationKind::None">:$activation,
                            Optional<Encoder_RowsTensor>:$residual,
                            DefaultValuedAttr<Encoder_PrecisionAttr,
                              "Precision::F32">:$precision), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? (`gate` $gate^)?
    (`gate_bias` $gate_bias^)? (`activation` `` $activation^)?
    (`residual` $residual^ `:` type($residual))? (`precision` `` $precision^)?
    attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Encoder_LayerNormOp : Encoder_RowsOp<"layer_norm", [
    AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "normalizes each row, then scales and shifts it";
  let description = [{
        result = (input - mean) / sqrt(variance + epsilon) * weight + bias

    `variance` divides by the number of columns. Source: Ba, Kiros and Hinton,
    "Layer Normalization" (2016), section 3.

    Example:
    ```mlir
    %norm = encoder.layer_norm %x, @gain bias @shift epsilon 1.0e-12
        : tensor<?x384xf32>
    ```
  }];
  let arguments = !con((ins Encoder_RowsTensor:$input,
                            FlatSymbolRefAttr:$weight,
                            OptionalAttr<FlatSymbolRefAttr>:$bias,
                            F64Attr:$epsilon), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? `epsilon` $epsilon attr-dict
    `:` type($input)
  }];
  let hasVerifier = 1;
}

def Encoder_RmsNormOp : Encoder_RowsOp<"rms_norm", [
    AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "divides each row, or head, by its root mean square, and scales it";
  let description = [{
        result = input / sqrt(mean(input^2) + epsilon) * weight

    With `heads` the columns are that many heads of equal size, each normalized on
    its own, and `weight` is of one head's size. Source: Zhang and Sennrich, "Root
    Mean Square Layer Normalization" (2019), section 4.

    Example:
    ```mlir
    %n = encoder.rms_norm %x, @gain epsilon 1.0e-5 : tensor<?x1024xf32>
    %q = encoder.rms_norm %0, @q_gain heads 16 epsilon 1.0e-5 : tensor<?x1024xf32>
    ```
  }];
  let arguments = !con((ins Encoder_RowsTensor:$input,
                            FlatSymbolRefAttr:$weight,
                            OptionalAttr<Encast_Heads>:$heads,
                            F64Attr:$epsilon), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`heads` $heads^)? `epsilon` $epsilon attr-dict
    `:` type($input)
  }];
  let hasVerifier = 1;
}

def Encoder_RopeOp : Encoder_RowsOp<"rope", [
    AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "rotates each head by its token's position";
  let description = [{
    With c, s the halves of row `positions[t]` of `table` (encoder.rope_table), and
    a, b the halves of a head: result = (a c - b s, b c + a s). Source: Su et al.,
    "RoFormer" (2021), section 3.2.2, with the pairs (k, k + headSize / 2).

    Positions are of the rows of `input`, and the table has a row for each.

    Example:
    ```mlir
    %r = encoder.rope %q, %positions in @rope heads 16
        : tensor<?x1024xf32>, tensor<?xi32>
    ```
  }];
  let arguments = !con((ins Encoder_RowsTensor:$input,
                            Encoder_IndexTensor:$positions,
                            FlatSymbolRefAttr:$table,
                            Encast_Heads:$heads), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $input `,` $positions `in` $table `heads` $heads attr-dict
    `:` type($input) `,` type($positions)
  }];
  let hasVerifier = 1;
}

def Encoder_ActivationOp : Encoder_RowsOp<"activation", [
    AllTypesMatch<["input", "result"]>]> {
  let summary = "an elementwise function";
  let description = "Example: `%1 = encoder.activation gelu %0 : tensor<?x64xf32>`";
  let arguments = !con((ins Encoder_ActivationAttr:$kind,
                            Encoder_RowsTensor:$input), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = "`` $kind $input attr-dict `:` type($input)";
}

def Encoder_AddOp : Encoder_RowsOp<"add", [Commutative,
    AllTypesMatch<["lhs", "rhs", "result"]>]> {
  let summary = "the sum of two values";
  let arguments = !con((ins Encoder_RowsTensor:$lhs, Encoder_RowsTensor:$rhs),
                       origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Encoder_MultiplyOp : Encoder_RowsOp<"multiply", [Commutative,
    AllTypesMatch<["lhs", "rhs", "result"]>]> {
  let summary = "the elementwise product of two values";
  let arguments = !con((ins Encoder_RowsTensor:$lhs, Encoder_RowsTensor:$rhs),
                       origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Encoder_NormalizeOp : Encoder_RowsOp<"normalize", [
    AllTypesMatch<["input", "result"]>]> {
  let summary = "divides each row by its Euclidean norm, at least 1e-12";
  let arguments = !con((ins Encoder_RowsTensor:$input), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Encoder_ColumnsOp : Encoder_RowsOp<"columns"> {
  let summary = "columns of each row, starting at `begin`";
  let description = [{
    Example: `%k = encoder.columns %qkv from 384
        : tensor<?x1152xf32> -> tensor<?x384xf32>`
  }];
  let arguments = !con((ins Encoder_RowsTensor:$input, Encast_Index:$begin),
                       origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat =
      "$input `from` $begin attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_ConcatColumnsOp : Encoder_RowsOp<"concat_columns"> {
  let summary = "the columns of several values side by side";
  let arguments = !con((ins Variadic<Encoder_RowsTensor>:$parts), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = "$parts attr-dict `:` type($parts) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Between rows
//===----------------------------------------------------------------------===//

def Encoder_AttentionOp : Encoder_RowsOp<"attention", [
    AllTypesMatch<["query", "result"]>, AllTypesMatch<["key", "value"]>]> {
  let summary = "scaled dot-product attention within each sequence";
  let description = [{
    For each head h of `head_size` columns and each query row i:

        result_h[i] = softmax over keys j of i's sequence (query_h[i] . key_h[j]
                      * scale) . value_h[j]

    Query rows may be all tokens or selected ones; keys and values are all tokens.
    With fewer `key_heads` than heads, query head h reads head h * key_heads /
    heads of keys and values (Ainslie et al., "GQA", 2023). With a `window`, key j
    counts only if |i - j| <= window, i and j positions in the sequence.
    Source: Vaswani et al., "Attention Is All You Need" (2017), section 3.2.

    Example:
    ```mlir
    %context = encoder.attention %q, %k, %v heads 16 key_heads 8 scale 0.125
        : tensor<?x1024xf32>, tensor<?x512xf32>
    ```
  }];
  let arguments = !con((ins Encoder_RowsTensor:$query, Encoder_RowsTensor:$key,
                            Encoder_RowsTensor:$value, Encast_Heads:$heads,
                            OptionalAttr<Encast_Heads>:$key_heads,
                            F64Attr:$scale, OptionalAttr<Encast_Index>:$window,
                            DefaultValuedAttr<Encoder_PrecisionAttr,
                              "Precision::F32">:$precision), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value `heads` $heads (`key_heads` $key_heads^)?
    `scale` $scale (`window` $window^)? (`precision` `` $precision^)? attr-dict
    `:` type($query) `,` type($key)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getHeadSize() {
      return getQuery().getType().getDimSize(1) / getHeads();
    }
    /// Heads of keys and values.
    int64_t getHeadsOfKeys() { return getKeyHeads().value_or(getHeads()); }
  }];
}

def Encoder_ShortConvOp : Encoder_RowsOp<"short_conv", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a sum over neighbouring tokens, for each channel";
  let description = [{
        result[t] = w[0] input[t - 1] + w[1] input[t] + w[2] input[t + 1] + bias

    within each sequence; what lies outside of it is zero. `weight` is [channels,
    1, 3], as checkpoints store depthwise convolutions. The result may be of
    selected rows; the input is of all tokens.

    Example:
    ```mlir
    %y = encoder.short_conv %g, @conv.weight
        : tensor<?x1024xf32> -> tensor<?x1024xf32>
    ```
  }];
  let arguments = !con((ins Encoder_RowsTensor:$input,
                            FlatSymbolRefAttr:$weight,
                            OptionalAttr<FlatSymbolRefAttr>:$bias), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` $bias^)? attr-dict
    `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Encoder_SelectRowsOp : Encoder_RowsOp<"select_rows"> {
  let summary = "the token rows that this run's outputs ask for";
  let description = [{
    The first token of each sequence, if a per-sequence output asks for it, and
    the rows that the caller gives for per-token outputs. Integers of tokens, such
    as positions, are selected likewise.
  }];
  let arguments = !con((ins Encoder_RowsOrIndexTensor:$input), origin);
  let results = (outs Encoder_RowsOrIndexTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_EitherOp : Encoder_RowsOp<"either"> {
  let summary = "all rows or only selected ones, as the run's outputs demand";
  let description = [{
    A run computes one of both: `selected` if each output that it asks for can do
    with selected rows, else `all`.
  }];
  let arguments = !con((ins Encoder_RowsTensor:$all,
                            Encoder_RowsTensor:$selected), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = [{
    `all` $all `selected` $selected attr-dict `:` type($all) `,` type($selected)
    `->` type($result)
  }];
  let hasVerifier = 1;
}

def Encoder_FirstOp : Encoder_RowsOp<"first"> {
  let summary = "the row of each sequence's first token";
  let arguments = !con((ins Encoder_RowsTensor:$input), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_PickOp : Encoder_RowsOp<"pick"> {
  let summary = "the rows of per-token outputs: those given, or all";
  let arguments = !con((ins Encoder_RowsTensor:$input), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_PoolOp : Encoder_RowsOp<"pool"> {
  let summary = "one row from all tokens of each sequence";
  let description = [{
    With x the n rows of a sequence: `max`; `mean` = sum(x) / n;
    `mean_sqrt_length` = sum(x) / sqrt(n); `weighted_mean` = sum(i * x[i]) / sum(i)
    with i from 1; `last` = x[n - 1].
  }];
  let arguments = !con((ins Encoder_PoolingAttr:$mode,
                            Encoder_RowsTensor:$input), origin);
  let results = (outs Encoder_RowsTensor:$result);
  let assemblyFormat = "`` $mode $input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Encoder_OutputOp : Encoder_Op<"output", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a result that callers can ask for by name";
  let description = [{
    A row per sequence, or per picked token; at most 64, each with its own name.
    `all_rows` is set by the pass that finds demands: the output needs the last
    layer for all rows, even if a run gives rows.

    Example: `encoder.output "pooler_output" %7
        : tensor<?x384xf32, #encoder.rows<sequences>>`
  }];
  let arguments = (ins StrAttr:$name, Encoder_RowsTensor:$value,
                       UnitAttr:$all_rows);
  let assemblyFormat =
      "$name $value (`all_rows` $all_rows^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

#endif // ENCAST_DIALECTS_ENCODER_ENCODEROPS
