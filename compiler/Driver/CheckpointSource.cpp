//===- CheckpointSource.cpp - weights from safetensors files --------------===//

#include "compiler/Driver/CheckpointSource.h"
#include "compiler/Driver/Diagnostics.h"

using namespace encast;

static std::string_view storedName(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return "F32";
  case ElementType::F16:
    return "F16";
  case ElementType::BF16:
    return "BF16";
  }
  return "";
}

bool CheckpointSource::read(const std::string &file, const std::string &tensor,
                            const std::vector<int64_t> &shape, ElementType type,
                            const uint8_t *&bytes, std::string &error) {
  showProgress("packing " + tensor);
  const TensorView *view = nullptr;
  if (!reader.tensor(file, tensor, view, error))
    return false;
  if (view->shape != shape || view->type != storedName(type)) {
    error = path(file) + ": tensor '" + tensor + "' is " +
            std::string(view->type) + shapeText(view->shape) + ", expected " +
            std::string(storedName(type)) + shapeText(shape);
    return false;
  }
  bytes = view->data;
  return true;
}
