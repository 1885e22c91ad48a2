//===- Kernel.cpp - the kernel dialect ------------------------------------===//
///
/// \file
/// Verifiers of the kernel dialect.
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/Kernel.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace encast::kernel;

#include "dialects/Kernel/KernelDialect.cpp.inc"
#include "dialects/Kernel/KernelEnums.cpp.inc"

LogicalResult PadRowsOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  int64_t group = getGroup(), padded = getPadded();
  if (group < 1 || padded < group || from.getDimSize(0) % group)
    return emitOpError() << "cannot pad groups of " << group << " of "
                         << from.getDimSize(0) << " rows to " << padded;
  SmallVector<int64_t> shape(from.getShape());
  shape[0] = shape[0] / group * padded;
  if (to.getShape() != ArrayRef<int64_t>(shape) ||
      to.getElementType() != from.getElementType())
    return emitOpError() << "expects " << shape[0] << " rows, but results in "
                         << to;
  return success();
}

LogicalResult PackOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getResult().getType());
  int64_t panels = (from.getDimSize(0) + 15) / 16;
  SmallVector<int64_t> shape;
  if (from.getRank() == 1)
    shape = {panels * 16};
  else if (from.getRank() == 2)
    shape = {panels, from.getDimSize(1), 16};
  else
    return emitOpError() << "cannot pack a " << from;
  if (to.getShape() != ArrayRef<int64_t>(shape) || !to.getElementType().isF32())
    return emitOpError() << "packs " << from << " to f32 panels, but results "
                         << "in " << to;
  return success();
}

LogicalResult LinearOp::verify() {
  if (getPanels() < 1 || getPanelTile() < 1 || getRowTile() < 1)
    return emitOpError("expects at least one panel and tiles of at least 1");
  if (encoder::getRows(getInput()) != encoder::getRows(getResult()))
    return emitOpError() << "changes the rows of " << getInput().getType();
  return success();
}

LogicalResult AttentionOp::verify() {
  if (getPlanes().size() != 3)
    return emitOpError() << "expects the first planes of query, key and value, "
                            "but got "
                         << getPlanes().size() << " numbers";
  return success();
}

void KernelDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Kernel/KernelOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Kernel/KernelAttrs.cpp.inc"
      >();
}

#define GET_ATTRDEF_CLASSES
#include "dialects/Kernel/KernelAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Kernel/KernelOps.cpp.inc"
