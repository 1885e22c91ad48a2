//===- Plan.cpp - the plan dialect ----------------------------------------===//
///
/// \file
/// Attributes, custom syntax and verifiers of the plan dialect.
//===----------------------------------------------------------------------===//

#include "dialects/Plan/Plan.h"
#include "encast_abi.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using namespace encast::plan;

#include "dialects/Plan/PlanDialect.cpp.inc"
#include "dialects/Plan/PlanEnums.cpp.inc"

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

AtAttr At::attr(MLIRContext *context) const {
  auto name = [&](StringRef symbol) {
    return symbol.empty() ? FlatSymbolRefAttr()
                          : FlatSymbolRefAttr::get(context, symbol);
  };
  return AtAttr::get(context, name(symbol), name(by), sequence, offset,
                     rowBytes, panelBytes, keyBytes, packedBytes, positionBytes,
                     planes, planeFirst, planesPerPanel, planeRows, name(edges),
                     edgeTile);
}

/// Prints `@x[by @ids] + row * 1536 + plane(2 + panel * 4, tokens) + 128`.
static void printAt(AsmPrinter &printer, AtAttr at) {
  printer << at.getSymbol();
  if (at.getBy())
    printer << "[by " << at.getBy() << "]";
  if (at.getSequence())
    printer << "[by sequence]";
  if (at.getEdges())
    printer << "[edges " << at.getEdges() << " of " << at.getEdgeTile() << "]";
  else if (at.getEdgeTile())
    printer << "[edge of " << at.getEdgeTile() << "]";
  auto term = [&](StringRef name, int64_t factor) {
    if (factor)
      printer << " + " << name << " * " << factor;
  };
  term("row", at.getRowBytes());
  term("panel", at.getPanelBytes());
  term("key", at.getKeyBytes());
  term("packed", at.getPackedBytes());
  term("position", at.getPositionBytes());
  if (at.getPlanes())
    printer << " + plane(" << at.getPlaneFirst() << " + panel * "
            << at.getPlanesPerPanel() << ", "
            << stringifyDomain(at.getPlaneRows()) << ")";
  if (at.getOffset())
    printer << (at.getOffset() < 0 ? " - " : " + ") << std::abs(at.getOffset());
}

static ParseResult parseAt(AsmParser &parser, AtAttr &result) {
  FlatSymbolRefAttr symbol, by, edges;
  bool sequence = false;
  int64_t edgeTile = 0;
  auto parseEdgeTile = [&]() -> ParseResult {
    SMLoc place;
    if (parser.parseKeyword("of") || parser.getCurrentLocation(&place) ||
        parser.parseInteger(edgeTile))
      return failure();
    if (edgeTile < 1)
      return parser.emitError(place, "expected tiles of 1 row or more");
    return success();
  };
  // What stands in brackets: `by @ids`, `by sequence`, `edge of 32`, ...
  auto parseRows = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalKeyword("edge")))
      return parseEdgeTile();
    if (succeeded(parser.parseOptionalKeyword("edges")))
      return failure(parser.parseAttribute(edges) || parseEdgeTile());
    if (parser.parseKeyword("by"))
      return failure();
    sequence = succeeded(parser.parseOptionalKeyword("sequence"));
    return sequence ? success() : parser.parseAttribute(by);
  };
  if (parser.parseAttribute(symbol))
    return failure();
  if (succeeded(parser.parseOptionalLSquare()) &&
      (parseRows() || parser.parseRSquare()))
    return failure();
  int64_t offset = 0, row = 0, panel = 0, key = 0, packed = 0, position = 0;
  int64_t first = 0, perPanel = 0;
  bool planes = false;
  Domain planeRows = Domain::Tokens;
  auto once = [&](bool given) -> ParseResult {
    if (given)
      return parser.emitError(parser.getCurrentLocation(),
                              "address has a term twice");
    return success();
  };
  // Either sign of an offset can be printed.
  auto parseOffset = [&]() -> ParseResult {
    SMLoc place = parser.getCurrentLocation();
    if (once(offset != 0) || parser.parseInteger(offset))
      return failure();
    if (offset == std::numeric_limits<int64_t>::min())
      return parser.emitError(place, "offset is out of range");
    return success();
  };
  auto factor = [&](int64_t &value) -> ParseResult {
    return failure(once(value != 0) || parser.parseStar() ||
                   parser.parseInteger(value));
  };
  const std::pair<StringRef, int64_t *> terms[] = {{"row", &row},
                                                   {"panel", &panel},
                                                   {"key", &key},
                                                   {"packed", &packed},
                                                   {"position", &position}};
  auto parseTerm = [&]() -> ParseResult {
    for (auto [name, value] : terms)
      if (succeeded(parser.parseOptionalKeyword(name)))
        return factor(*value);
    if (failed(parser.parseOptionalKeyword("plane")))
      return parseOffset();
    if (once(planes))
      return failure();
    planes = true;
    StringRef domain;
    SMLoc place;
    if (parser.parseLParen() || parser.parseInteger(first) ||
        parser.parsePlus() || parser.parseKeyword("panel") ||
        factor(perPanel) || parser.parseComma() ||
        parser.getCurrentLocation(&place) || parser.parseKeyword(&domain) ||
        parser.parseRParen())
      return failure();
    std::optional<Domain> known = symbolizeDomain(domain);
    if (!known)
      return parser.emitError(place, "unknown domain '") << domain << "'";
    planeRows = *known;
    return success();
  };
  while (true) {
    if (succeeded(parser.parseOptionalPlus())) {
      if (failed(parseTerm()))
        return failure();
    } else if (succeeded(parser.parseOptionalMinus())) {
      if (failed(parseOffset()))
        return failure();
      offset = -offset;
    } else {
      break;
    }
  }
  result = AtAttr::get(parser.getContext(), symbol, by, sequence, offset, row,
                       panel, key, packed, position, planes, first, perPanel,
                       planeRows, edges, edgeTile);
  return success();
}

void AtAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printAt(printer, *this);
  printer << ">";
}

Attribute AtAttr::parse(AsmParser &parser, Type) {
  AtAttr result;
  if (parser.parseLess() || parseAt(parser, result) || parser.parseGreater())
    return {};
  return result;
}

//===----------------------------------------------------------------------===//
// Operands of calls: `(@x + row * 1536, rows, 64)`
//===----------------------------------------------------------------------===//

static ParseResult parseOperands(OpAsmParser &parser, ArrayAttr &operands) {
  SmallVector<Attribute> list;
  auto parseOne = [&]() -> ParseResult {
    SMLoc place = parser.getCurrentLocation();
    int64_t value;
    OptionalParseResult integer = parser.parseOptionalInteger(value);
    if (integer.has_value()) {
      if (failed(*integer))
        return failure();
      list.push_back(parser.getBuilder().getI64IntegerAttr(value));
      return success();
    }
    if (succeeded(parser.parseOptionalKeyword("ahead"))) {
      FlatSymbolRefAttr symbol;
      if (parser.parseAttribute(symbol))
        return failure();
      list.push_back(AheadAttr::get(parser.getContext(), symbol));
      return success();
    }
    StringRef keyword;
    if (succeeded(parser.parseOptionalKeyword(&keyword))) {
      std::optional<Count> count = symbolizeCount(keyword);
      if (!count)
        return parser.emitError(place, "unknown number '") << keyword << "'";
      list.push_back(CountAttr::get(parser.getContext(), *count));
      return success();
    }
    AtAttr at;
    if (parseAt(parser, at))
      return failure();
    list.push_back(at);
    return success();
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne))
    return failure();
  operands = parser.getBuilder().getArrayAttr(list);
  return success();
}

static void printOperands(OpAsmPrinter &printer, Operation *,
                          ArrayAttr operands) {
  printer << "(";
  llvm::interleaveComma(operands, printer, [&](Attribute operand) {
    if (auto at = dyn_cast<AtAttr>(operand))
      printAt(printer, at);
    else if (auto ahead = dyn_cast<AheadAttr>(operand))
      printer << "ahead " << ahead.getSymbol();
    else if (auto count = dyn_cast<CountAttr>(operand))
      printer << stringifyCount(count.getValue());
    else if (auto value = dyn_cast<IntegerAttr>(operand))
      printer << value.getInt();
    else
      printer.printAttribute(operand);
  });
  printer << ")";
}

static bool isAttention(Domain domain) {
  return domain == Domain::AttentionTokens ||
         domain == Domain::AttentionSelected || domain == Domain::AttentionRuns;
}

static bool isLocal(SlotOp slot) {
  return slot.getKind() == SlotKind::Block ||
         slot.getKind() == SlotKind::Workspace;
}

/// How many panels of the slot an operand walks over.
static int64_t panelsOf(Operation *op, SlotOp slot) {
  if (auto loop = dyn_cast<ForPanelsOp>(op->getParentOp()))
    return slot.getKind() == SlotKind::Workspace ? loop.getPanelTile()
                                                 : loop.getPanels();
  auto step = op->getParentOfType<StepOp>();
  if (step && step.getHeads())
    return *step.getHeads();
  auto call = dyn_cast<CallOp>(op);
  return call ? std::max<int64_t>(call.getPanels(), 1) : 1;
}

/// Whether memory for rows of one domain has a row for each row of another.
static bool hasRowsOf(Domain slot, Domain rows) {
  if (rows == Domain::AttentionTokens)
    rows = Domain::Tokens;
  if (rows == Domain::AttentionSelected || rows == Domain::AttentionRuns)
    rows = Domain::Selected;
  // Selected rows may be all tokens.
  return slot == rows || (slot == Domain::Selected && rows == Domain::Tokens);
}

/// Memory for the first and last rows of tiles is a share of each packed row:
/// as many of these as make whole tiles are there.
static LogicalResult verifyEdges(Operation *op, AtAttr at, SlotOp slot,
                                 SymbolTableCollection &symbols) {
  int64_t tile = at.getEdgeTile(), bytes = at.getRowBytes();
  FlatSymbolRefAttr name = at.getEdges() ? at.getEdges() : at.getSymbol();
  At expected{
      .symbol = at.getSymbol().getValue(), .rowBytes = bytes, .edgeTile = tile};
  if (at.getEdges()) {
    expected.edges = name.getValue();
    expected.offset = at.getOffset();
  }
  bool isNeighbour = bytes && std::abs(expected.offset) % bytes == 0;
  if (!isa<ForRowsOp>(op) || !isNeighbour ||
      expected.attr(at.getContext()) != at)
    return op->emitOpError()
           << "takes edges of tiles from " << name << " by more than a row";
  auto kept = symbols.lookupNearestSymbolFrom<SlotOp>(op, name);
  bool arena = slot && slot.getKind() == SlotKind::Arena && kept &&
               kept.getKind() == SlotKind::Arena;
  if (!arena || kept.getRows() != Domain::Packed ||
      tile > ENCAST_PACKED_ROWS(1, 1) ||
      static_cast<int64_t>(*kept.getRowBytes()) * tile < 2 * bytes)
    return op->emitOpError()
           << "takes edges of tiles of " << tile << " rows from " << name
           << ", which has no place for them";
  return success();
}

/// An address stays in the rows of its slot.
static LogicalResult verifyBounds(Operation *op, AtAttr at, SlotOp slot) {
  std::optional<int64_t> bytes = slot.getRowBytes();
  if (!bytes)
    return success();
  for (int64_t stride : {at.getRowBytes(), at.getKeyBytes(),
                         at.getPackedBytes(), at.getPositionBytes()})
    if (stride > *bytes)
      return op->emitOpError()
             << "walks over rows of " << stride << " bytes, but those of "
             << at.getSymbol() << " have " << *bytes;
  constexpr int64_t kPlaneBytes = 64; // Of a row.
  bool planes = at.getPlanes();
  int64_t first = planes ? at.getPlaneFirst() * kPlaneBytes : 0;
  int64_t stride =
      planes ? at.getPlanesPerPanel() * kPlaneBytes : at.getPanelBytes();
  int64_t panels = panelsOf(op, slot);
  // The row before or behind is as good as the row itself.
  int64_t offset = at.getOffset();
  if (slot.getKind() == SlotKind::Arena && isa<ForRowsOp>(op) &&
      std::abs(offset) == at.getRowBytes())
    offset = 0;
  if (offset < 0)
    return op->emitOpError()
           << "has a term of " << offset << " in the address of "
           << at.getSymbol() << ", expected 0 or more";
  bool tooMany = stride && panels - 1 > *bytes / stride;
  int64_t reached = first + offset + (planes ? kPlaneBytes : 1);
  if (tooMany || reached + (panels - 1) * stride > *bytes)
    return op->emitOpError()
           << "reaches beyond the " << *bytes << " bytes of a row of "
           << at.getSymbol() << " in " << panels << " panels";
  auto step = op->getParentOfType<StepOp>();
  if (!slot.getRows() || isLocal(slot) || !step)
    return success();
  auto expectRows = [&](Domain rows) -> LogicalResult {
    if (hasRowsOf(*slot.getRows(), rows))
      return success();
    return op->emitOpError() << "takes rows of " << stringifyDomain(rows)
                             << " from " << at.getSymbol() << ", which has "
                             << stringifyDomain(*slot.getRows());
  };
  bool ownRow = at.getRowBytes() && !at.getBy() && !at.getSequence() &&
                !isa<ForEachPanelOp>(op);
  if ((ownRow && failed(expectRows(step.getDomain()))) ||
      (at.getKeyBytes() && failed(expectRows(Domain::Tokens))) ||
      ((at.getPackedBytes() || at.getPositionBytes()) &&
       failed(expectRows(Domain::Packed))) ||
      (planes && failed(expectRows(at.getPlaneRows()))))
    return failure();
  return success();
}

/// What Plan_AtAttr promises to those who compute an address.
static LogicalResult verifyAddress(Operation *op, AtAttr at,
                                   SymbolTableCollection &symbols) {
  Operation *symbol = symbols.lookupNearestSymbolFrom(op, at.getSymbol());
  if (!symbol)
    return op->emitOpError()
           << "reads " << at.getSymbol() << ", which is not defined";
  constexpr int64_t kMostBytes = int64_t(1) << 40;
  for (int64_t factor :
       {std::abs(at.getOffset()), at.getRowBytes(), at.getPanelBytes(),
        at.getKeyBytes(), at.getPackedBytes(), at.getPositionBytes(),
        at.getPlaneFirst(), at.getPlanesPerPanel()})
    if (factor < 0 || factor > kMostBytes)
      return op->emitOpError()
             << "has a term of " << factor << " in the address of "
             << at.getSymbol() << ", expected 0 to " << kMostBytes;
  auto slot = dyn_cast<SlotOp>(symbol);
  if (slot && isLocal(slot) && (at.getBy() || at.getSequence()))
    return op->emitOpError() << "takes rows of " << at.getSymbol()
                             << " by a table, but they are local";
  if (at.getPlanes() && at.getPlaneRows() != Domain::Tokens &&
      at.getPlaneRows() != Domain::Selected &&
      at.getPlaneRows() != Domain::Packed)
    return op->emitOpError()
           << "has planes of " << stringifyDomain(at.getPlaneRows())
           << ", expected tokens, selected or packed";
  if (at.getOffset() < 0 && (!slot || !slot.getRowBytes()))
    return op->emitOpError()
           << "has a term of " << at.getOffset() << " in the address of "
           << at.getSymbol() << ", expected 0 or more";
  if (at.getEdgeTile() && !at.getEdges())
    return verifyEdges(op, at, slot, symbols);
  if (slot && failed(verifyBounds(op, at, slot)))
    return failure();
  if (at.getEdges())
    return verifyEdges(op, at, slot, symbols);
  if (!at.getBy())
    return success();
  auto table = symbols.lookupNearestSymbolFrom<SlotOp>(op, at.getBy());
  if (!table || isLocal(table) || table.getKind() == SlotKind::Arena ||
      table.getKind() == SlotKind::Output)
    return op->emitOpError()
           << "takes rows by " << at.getBy() << ", which is no index slot";
  return success();
}

/// What a call fetches for later ones are weights.
static LogicalResult verifyAhead(Operation *op, FlatSymbolRefAttr symbol,
                                 SymbolTableCollection &symbols) {
  Operation *found = symbols.lookupNearestSymbolFrom(op, symbol);
  if (found && !isa<SlotOp>(found))
    return success();
  return op->emitOpError() << "reads ahead " << symbol
                           << ", which is no weight";
}

/// Every operand is an address, a number of the item or an integer.
static LogicalResult verifyOperands(Operation *op, FlatSymbolRefAttr callee,
                                    ArrayAttr operands,
                                    SymbolTableCollection &symbols) {
  Operation *called = symbols.lookupNearestSymbolFrom(op, callee);
  if (!called)
    return op->emitOpError() << "calls " << callee << ", which is not defined";
  auto expected = called->getAttrOfType<IntegerAttr>("operands");
  if (expected && expected.getInt() != static_cast<int64_t>(operands.size()))
    return op->emitOpError() << "passes " << operands.size() << " operands to "
                             << callee << ", which takes " << expected.getInt();
  for (Attribute operand : operands) {
    if (auto at = dyn_cast<AtAttr>(operand)) {
      if (failed(verifyAddress(op, at, symbols)))
        return failure();
    } else if (auto ahead = dyn_cast<AheadAttr>(operand)) {
      if (failed(verifyAhead(op, ahead.getSymbol(), symbols)))
        return failure();
      if (!isa<CallOp>(op) || isa<ForPanelsOp>(op->getParentOp()))
        return op->emitOpError()
               << "reads ahead, which only a 'plan.call' does for its item";
    } else if (auto count = dyn_cast<CountAttr>(operand)) {
      if ((count.getValue() == Count::PanelColumns ||
           count.getValue() == Count::GroupColumns) &&
          !isa_and_nonnull<ForPanelsOp>(op->getParentOp()))
        return op->emitOpError()
               << "passes " << stringifyCount(count.getValue())
               << " outside of 'plan.for_panels'";
      auto call = dyn_cast<CallOp>(op);
      if (count.getValue() == Count::RowsToNextHead &&
          !(call && call.getPerHead()))
        return op->emitOpError()
               << "passes " << stringifyCount(count.getValue())
               << ", but does not run per head";
    } else {
      auto value = dyn_cast<IntegerAttr>(operand);
      if (!value || !value.getType().isSignlessInteger(64))
        return op->emitOpError()
               << "has an operand that is neither an address nor a number: "
               << operand;
    }
  }
  return success();
}

/// Inside of plan.for_panels nothing is split and everything runs.
template <typename Op> static LogicalResult verifyCall(Op op) {
  if (!op.getOutputs())
    return op.emitOpError("runs for no output");
  if (op.getPanels() && isa<ForPanelsOp>(op->getParentOp()))
    return op.emitOpError("has panels of its own inside of 'plan.for_panels'");
  if (!op.getPerHead())
    return success();
  if (!isa<CallOp, InvokeOp>(op.getOperation()))
    return op.emitOpError("runs per head, which only kernels do");
  if (!op.getPanels())
    return op.emitOpError("runs per head, but has no panels");
  auto step = dyn_cast<StepOp>(op->getParentOp());
  if (step && step.getDomain() != Domain::Tokens)
    return op.emitOpError("runs per head in a step over ")
           << stringifyDomain(step.getDomain()) << ", expected tokens";
  return success();
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult SlotOp::verify() {
  SlotKind kind = getKind();
  bool arena = kind == SlotKind::Arena, output = kind == SlotKind::Output;
  bool workspace = kind == SlotKind::Workspace;
  struct Field {
    StringRef name;
    bool given, needed, allowed;
  };
  const Field fields[] = {
      {"rows", getRows().has_value(), arena, arena || workspace},
      {"row_bytes", getRowBytes().has_value(), arena || isLocal(*this),
       arena || isLocal(*this)},
      {"offset", getOffset().has_value(), false, arena || isLocal(*this)},
      {"index", getIndex().has_value(), output, output},
      {"outputs", getOutputs() != -1, false, arena}};
  for (const Field &field : fields)
    if (field.given ? !field.allowed : field.needed)
      return emitOpError() << "of kind " << stringifySlotKind(kind)
                           << (field.given ? " cannot have " : " needs ")
                           << field.name;
  if (!getOutputs())
    return emitOpError("is needed for no output");
  if (getRows() && isAttention(*getRows()))
    return emitOpError() << "has rows " << stringifyDomain(*getRows())
                         << ", expected tokens, selected, picked, sequences or "
                            "packed";
  return success();
}

LogicalResult StepOp::verify() {
  if (getDomain() == Domain::Packed)
    return emitOpError("walks over packed rows, which only slots have");
  if (isAttention(getDomain()) != getHeads().has_value())
    return emitOpError(getHeads() ? "has heads, but is not over attention"
                                  : "over attention needs heads");
  if (getRowTile() > getMaxRows())
    return emitOpError() << "cuts blocks of " << getMaxRows()
                         << " rows at multiples of " << getRowTile();
  for (Operation &op : getBody().front())
    if (!isa<CallOp, ForRowsOp, ForPanelsOp, InvokeOp>(op))
      return emitOpError() << "holds '" << op.getName()
                           << "', expected calls only";
  return success();
}

LogicalResult CallOp::verify() { return verifyCall(*this); }
LogicalResult ForRowsOp::verify() { return verifyCall(*this); }
LogicalResult InvokeOp::verify() { return verifyCall(*this); }

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOperands(*this, getCalleeAttr(), getArgs(), symbols);
}
LogicalResult ForRowsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getAheadAttr() && failed(verifyAhead(*this, getAheadAttr(), symbols)))
    return failure();
  return verifyOperands(*this, getCalleeAttr(), getArgs(), symbols);
}
LogicalResult ForEachPanelOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t group = cast<ForPanelsOp>((*this)->getParentOp()).getPanelTile();
  if (group % int64_t(getPanelTile()))
    return emitOpError() << "takes " << getPanelTile()
                         << " panels at once, but groups have " << group;
  return verifyOperands(*this, getCalleeAttr(), getArgs(), symbols);
}

LogicalResult ForPanelsOp::verify() {
  if (failed(verifyCall(*this)))
    return failure();
  int64_t panels = getPanels(), fewest = (int64_t(getColumns()) + 15) / 16;
  if (panels != fewest && panels != fewest + fewest % 2)
    return emitOpError() << "of " << getColumns() << " columns has " << fewest
                         << " panels, but got " << panels;
  for (Operation &op : getBody().front())
    if (!isa<CallOp, ForRowsOp, ForEachPanelOp>(op))
      return emitOpError() << "holds '" << op.getName()
                           << "', expected calls only";
  return success();
}

void PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Plan/PlanOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Plan/PlanAttrs.cpp.inc"
      >();
}

#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.cpp.inc"
