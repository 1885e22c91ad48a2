//===- Integers.td - integers in a range -------------------*- tablegen -*-===//
//
// Integers of all dialects are 64 bits wide, and each has its range: what
// follows can multiply them without overflow.
//
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_INTEGERS
#define ENCAST_DIALECTS_INTEGERS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"

def Encast_Integer
    : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer">;

class Encast_IntegerIn<int min, int max>
    : ConfinedAttr<Encast_Integer, [IntMinValue<min>, IntMaxValue<max>]> {
  let summary = "64-bit integer from " # min # " to " # max;
}

/// Columns, rows, panels: what indices count.
def Encast_Count : Encast_IntegerIn<1, 2147483647>;
def Encast_Index : Encast_IntegerIn<0, 2147483646>;
/// Rows and panels that one call takes at once.
def Encast_Tile : Encast_IntegerIn<1, 65536>;
def Encast_Heads : Encast_IntegerIn<1, 65536>;
def Encast_Layer : Encast_IntegerIn<1, 65536>;
/// At most 1 TB.
def Encast_Bytes : Encast_IntegerIn<0, 1099511627776>;
def Encast_PositiveBytes : Encast_IntegerIn<1, 1099511627776>;
/// Of a row, over all panels and heads.
def Encast_Flops : Encast_IntegerIn<0, 1152921504606846976>;

#endif // ENCAST_DIALECTS_INTEGERS
