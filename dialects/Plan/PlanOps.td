//===- PlanOps.td - the plan dialect -----------------------*- tablegen -*-===//
//
// Steps over items, memory for their rows, calls. Knows no operator of a model:
// a new one never touches this file.
//
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_PLAN_PLANOPS
#define ENCAST_DIALECTS_PLAN_PLANOPS

include "dialects/Integers.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::encast::plan";
  let summary = "steps over items, slots of the arena, calls";
  let description = [{
    A module of the plan stage is a list of slots (where rows live) and a list of
    steps. All threads meet at a barrier between two steps. A step walks over a
    domain in items; its body is a list of calls, each with the addresses that it
    passes written as affine expressions of the item:

    ```mlir
    plan.slot @hidden arena rows tokens row_bytes 1536 offset 0
    plan.step @layer.0.ffn over tokens rows 96 by 8 split 64 layer 1 {
      plan.call @linear_k384_gelu(@hidden + row * 1536, @w + panel * 24576, ...)
      plan.for_rows @layer_norm_384(@sum + row * 1536, @gain, @shift, ...)
    }
    ```

    The numbers of enums are those of runtime/include/encast_abi.h.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

def Plan_Domain : I32EnumAttr<"Domain", "what a step walks over", [
    I32EnumAttrCase<"Tokens", 0, "tokens">,
    I32EnumAttrCase<"Selected", 1, "selected">,
    I32EnumAttrCase<"Picked", 2, "picked">,
    I32EnumAttrCase<"Sequences", 3, "sequences">,
    I32EnumAttrCase<"AttentionTokens", 4, "attention_tokens">,
    I32EnumAttrCase<"AttentionSelected", 5, "attention_selected">,
    I32EnumAttrCase<"AttentionRuns", 6, "attention_runs">,
    I32EnumAttrCase<"Packed", 100, "packed">]> {
  let cppNamespace = "::encast::plan";
  let genSpecializedAttr = 0;
  let description = [{
    As in encast_abi.h. `packed`: the packed rows of all tokens, of slots only; no
    step walks over them.
  }];
}
def Plan_DomainAttr : EnumAttr<Plan_Dialect, Plan_Domain, "domain">;

def Plan_SlotKind : I32EnumAttr<"SlotKind", "what the address of a slot is", [
    I32EnumAttrCase<"Arena", 0, "arena">,
    I32EnumAttrCase<"Output", 1, "output">,
    I32EnumAttrCase<"Ids", 2, "ids">,
    I32EnumAttrCase<"Types", 3, "types">,
    I32EnumAttrCase<"Positions", 4, "positions">,
    I32EnumAttrCase<"Selected", 5, "selected">,
    I32EnumAttrCase<"First", 6, "first">,
    I32EnumAttrCase<"Pick", 7, "pick">,
    I32EnumAttrCase<"Block", 100, "block">,
    I32EnumAttrCase<"Workspace", 101, "workspace">]> {
  let cppNamespace = "::encast::plan";
  let genSpecializedAttr = 0;
}
def Plan_SlotKindAttr : EnumAttr<Plan_Dialect, Plan_SlotKind, "slot_kind">;

def Plan_Count : I32EnumAttr<"Count", "a number of the item", [
    I32EnumAttrCase<"Rows", 0, "rows">,
    I32EnumAttrCase<"Panels", 1, "panels">,
    I32EnumAttrCase<"Keys", 2, "keys">,
    I32EnumAttrCase<"SequenceTokens", 3, "sequence_tokens">,
    I32EnumAttrCase<"TokenPlaneBytes", 4, "token_plane_bytes">,
    I32EnumAttrCase<"SelectedPlaneBytes", 5, "selected_plane_bytes">,
    I32EnumAttrCase<"PanelColumns", 6, "panel_columns">,
    I32EnumAttrCase<"GroupColumns", 7, "group_columns">,
    I32EnumAttrCase<"Position", 8, "position">,
    I32EnumAttrCase<"RowsToNextHead", 9, "rows_to_next_head">]> {
  let cppNamespace = "::encast::plan";
  let genSpecializedAttr = 0;
  let description = [{
    rows, panels, keys, position: fields of encast_abi_item. sequence_tokens: tokens of
    sequence `row` (plan.for_rows over sequences). *_plane_bytes: 64 times T or
    the number of SELECTED rows. panel_columns: how many of the 16 columns of
    panel `panel` exist, `columns` of the enclosing plan.for_panels counted (of a
    plan.for_each_panel `by` more: of these panels); group_columns: the same for
    all panels of its current group. rows_to_next_head: of a call `per_head`, rows
    from those of a head in a slot of packed rows to those of the next head, for
    which the thread makes the next call; 0 for the last one.
  }];
}
def Plan_CountAttr : EnumAttr<Plan_Dialect, Plan_Count, "count">;

def Plan_AtAttr : AttrDef<Plan_Dialect, "At"> {
  let mnemonic = "at";
  let summary = "an address, affine in the item";
  let description = [{
    The base address of `symbol` (a plan.slot or an encoder.weight) plus

        offset + index * rowBytes + panel * panelBytes + key * keyBytes
        + packed * packedBytes + position * positionBytes
        + (planeFirst + panel * planesPerPanel) * planeRows * 64

    `index` is the row; with `by` the int32 at that row of index slot `by`; with
    `sequence` the first token of sequence `row`. A row of a block slot counts
    from the first row of the row block. With `edgeTile` and no `edges` it is the
    place of the row among the first and last rows of all tiles of `edgeTile`
    rows: row / edgeTile * 2, and one more if it is not the first. `key`, `packed`
    and `position` are fields of encast_abi_item. `planeRows` is T, the number of
    SELECTED or of packed rows (a panel-major slot: planes of [rows][16] floats).
    The offset of a row of the arena may be negative or reach behind it: a
    neighbour, which the callee reads only if there is one. With `edges`, a
    neighbour of another tile is taken from that slot, where its place is as
    above, so that a block of rows reads nothing of `symbol` but its own rows.

    Printed `@x[by @ids] + row * 1536 + panel * 64 + plane(2 + panel * 4, tokens)
    + 128`, terms that are zero left out; `@x[edges @x.edges of 32]` and
    `@x.edges[edge of 32]`.
  }];
  let parameters = (ins
    "::mlir::FlatSymbolRefAttr":$symbol,
    "::mlir::FlatSymbolRefAttr":$by,
    "bool":$sequence,
    "int64_t":$offset,
    "int64_t":$rowBytes,
    "int64_t":$panelBytes,
    "int64_t":$keyBytes,
    "int64_t":$packedBytes,
    "int64_t":$positionBytes,
    "bool":$planes,
    "int64_t":$planeFirst,
    "int64_t":$planesPerPanel,
    "::encast::plan::Domain":$planeRows,
    "::mlir::FlatSymbolRefAttr":$edges,
    "int64_t":$edgeTile);
  let hasCustomAssemblyFormat = 1;
}

def Plan_AheadAttr : AttrDef<Plan_Dialect, "Ahead"> {
  let mnemonic = "ahead";
  let summary = "where the weights of a later call begin";
  let description = [{
    The address of `symbol`, an encoder.weight, if the item has all panels of the
    call; else null, since another thread may go on. A hint: the callee may fetch
    what lies there. Printed `ahead @x`.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$symbol);
  let assemblyFormat = "`<` $symbol `>`";
}

def Plan_SlotOp : Plan_Op<"slot", [Symbol]> {
  let summary = "names memory for the rows of a value";
  let description = [{
    - `arena`: rows of the session's arena, `rows` domain, `row_bytes` each,
      behind those of the slots that `offset` bytes of a row are for; counted if
      the run asks for any of `outputs` (a bit mask; of all if not given). Slots
      that never live at the same time may have the same bytes.
    - `output`: the caller's memory of output `index`, rows back to back.
    - `ids`, `types`, `positions`, `selected`, `first`, `pick`: int32 tables that
      the runtime fills (encast_abi.h).
    - `block`: `row_bytes` for each row of the row block, at `offset` in it.
    - `workspace`: at `offset` of the thread's own workspace; `row_bytes` for each
      row of the item if `rows` is given, else in all. Its rows count from the
      item's first row, its panels from the first of the group.

    Example:
    ```mlir
    plan.slot @layer.0.qkv arena rows tokens row_bytes 4608 offset 1536 outputs 7
    plan.slot @layer.0.up block row_bytes 6144 offset 147456
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_SlotKindAttr:$kind,
                       OptionalAttr<Plan_DomainAttr>:$rows,
                       OptionalAttr<Encast_PositiveBytes>:$row_bytes,
                       OptionalAttr<Encast_Bytes>:$offset,
                       OptionalAttr<Encast_IntegerIn<0, 63>>:$index,
                       DefaultValuedAttr<Encast_Integer, "-1">:$outputs);
  let assemblyFormat = [{
    $sym_name `` $kind (`rows` `` $rows^)? (`row_bytes` $row_bytes^)?
    (`offset` $offset^)? (`index` $index^)?
    (`outputs` $outputs^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_StepOp : Plan_Op<"step", [NoTerminator, NoRegionArguments, Symbol]> {
  let summary = "walks over a domain and runs calls on each item";
  let description = [{
    Row blocks hold at most `rows` rows, cut at multiples of `by`. If all rows
    fit one block and are at most `split`, threads share the block and split each
    call by panels. Steps run in their order, with a barrier between two.
    `heads` is given for attention domains only, `layer` counts from 1.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_DomainAttr:$domain,
                       Encast_Tile:$max_rows, Encast_Tile:$row_tile,
                       Encast_Index:$split_rows,
                       OptionalAttr<Encast_Heads>:$heads,
                       OptionalAttr<Encast_Layer>:$layer);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `over` `` $domain (`heads` $heads^)? `rows` $max_rows `by` $row_tile
    `split` $split_rows (`layer` $layer^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

class Plan_CallBase<string mnemonic, list<Trait> traits = []>
    : Plan_Op<mnemonic, traits> {
  // What the profile and the walker need of every call.
  dag common = (ins OptionalAttr<StrAttr>:$name,
                    DefaultValuedAttr<Encast_IntegerIn<1, 3>, "3">:$modes,
                    DefaultValuedAttr<Encast_Integer, "-1">:$outputs,
                    DefaultValuedAttr<Encast_Index, "0">:$panels,
                    DefaultValuedAttr<Encast_Tile, "1">:$panel_tile,
                    DefaultValuedAttr<Encast_Flops, "0">:$flops_per_row,
                    DefaultValuedAttr<Encast_Flops, "0">:$flops_per_row_and_key,
                    DefaultValuedAttr<Encast_Index, "0">:$window,
                    UnitAttr:$per_head);
  string commonFormat = [{
    (`name` $name^)? (`panels` $panels^)? (`per_head` $per_head^)?
    (`by` $panel_tile^)? (`modes` $modes^)? (`outputs` $outputs^)?
    (`flops_per_row` $flops_per_row^)?
    (`flops_per_row_and_key` $flops_per_row_and_key^)? (`window` $window^)?
  }];
  let hasVerifier = 1;
}

def Plan_CallOp : Plan_CallBase<"call", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "calls a kernel once for the item";
  let description = [{
    The operands are the fields of the kernel's argument struct, in order, as
    many as the callee's attribute `operands` says, if it has one. An operand is
    an address (`#plan.at`, `#plan.ahead`), a number of the item (`#plan.count`)
    or an integer. `panels` (0: none) is how many panels the call has in all; they
    can be split at multiples of `panel_tile`. Runs in `modes` (1 all rows, 2
    selected rows) and if any of `outputs` is asked (bit mask, -1 any). Of the
    keys that `flops_per_row_and_key` is multiplied by, those at most `window`
    from the query count (0: all). With `per_head` the panels are heads, and the
    call, of a step over tokens, is made for each head and each sequence of which
    the item has rows: `panel`, `row`, `rows`, `key`, `keys`, `packed` and
    `position` are those of an item of attention.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$callee, ArrayAttr:$args),
                       common);
  let assemblyFormat =
      "$callee `` custom<Operands>($args)" # commonFormat # "attr-dict";
}

def Plan_ForRowsOp : Plan_CallBase<"for_rows", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "calls a row program for each row of the item";
  let description = [{
    The operands are the arguments of the program, a func.func with a pointer for
    each address (the row's) and an index for each number. With `edges_of` (0:
    none) the rows are the first and the last of each tile of so many, no others.
    With `ahead` each row fetches one more kilobyte of weights that a later call
    reads: a hint, which may reach behind them.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$callee, ArrayAttr:$args,
                            OptionalAttr<FlatSymbolRefAttr>:$ahead),
                       common,
                       (ins DefaultValuedAttr<Encast_Index, "0">:$edges_of));
  let assemblyFormat =
      "$callee `` custom<Operands>($args) (`edges_of` $edges_of^)?" # commonFormat
      # "(`ahead` $ahead^)? attr-dict";
}

def Plan_ForPanelsOp : Plan_CallBase<"for_panels", [NoTerminator,
    NoRegionArguments]> {
  let summary = "runs its body for each group of panels of the item";
  let description = [{
    Walks over the item's panels in groups of `panel_tile`; in the body `panel`
    and `panels` are the group's. `columns` is how many columns there are in all
    (`panels` is columns / 16, rounded up, or one more, which makes pairs of
    panels). The body holds plan.for_each_panel,
    plan.call and plan.for_rows without panels of their own.
  }];
  let arguments = !con((ins Encast_Count:$columns), common);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat =
      "`columns` $columns" # commonFormat # "attr-dict-with-keyword $body";
}

def Plan_ForEachPanelOp : Plan_Op<"for_each_panel", [HasParent<"ForPanelsOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "calls a program for each panel of the group";
  let description = [{
    Like plan.for_rows, but once per panel, or per `panel_tile` of them; the row
    is 0. Inside of plan.for_panels only. `#plan.at` addresses of workspace slots
    count panels from the first of the group.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, ArrayAttr:$args,
                       DefaultValuedAttr<Encast_Tile, "1">:$panel_tile);
  let assemblyFormat =
      "$callee `` custom<Operands>($args) (`by` $panel_tile^)? attr-dict";
}

def Plan_InvokeOp : Plan_CallBase<"invoke"> {
  let summary = "calls a compiled function of the llvm stage";
  let description = [{
    What plan.call, plan.for_rows and plan.for_panels become: `function` is an
    llvm.func with the signature of encast_abi_function, `kernel` names what it
    runs, for the profile.
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$function, StrAttr:$kernel), common);
  let assemblyFormat =
      "$function `kernel` $kernel" # commonFormat # "attr-dict";
}

def Plan_MemoryOp : Plan_Op<"memory"> {
  let summary = "bytes of a thread's block and workspace";
  let arguments = (ins Encast_Bytes:$block_bytes, Encast_Bytes:$workspace_bytes);
  let assemblyFormat = "`block` $block_bytes `workspace` $workspace_bytes attr-dict";
}

#endif // ENCAST_DIALECTS_PLAN_PLANOPS
