//===- TestSource.h - checkpoint tensors made in memory ---------*- C++ -*-===//
///
/// \file
/// A WeightSource over bytes that a test sets, and a short way to write
/// recipes.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_CODEGEN_ARTIFACT_TESTSOURCE_H
#define ENCAST_TEST_CODEGEN_ARTIFACT_TESTSOURCE_H

#include "codegen/Artifact/WeightRecipe.h"
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace encast {

template <typename T> std::vector<uint8_t> bytesOf(const std::vector<T> &from) {
  std::vector<uint8_t> bytes(from.size() * sizeof(T));
  std::memcpy(bytes.data(), from.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> valuesOf(const std::vector<uint8_t> &from) {
  std::vector<T> values(from.size() / sizeof(T));
  std::memcpy(values.data(), from.data(), from.size());
  return values;
}

/// Tensors by name, all in the file "model.safetensors".
class TestSource : public WeightSource {
public:
  std::map<std::string, std::vector<uint8_t>> tensors;
  int reads = 0;

  bool read(const std::string &file, const std::string &tensor,
            const std::vector<int64_t> &, ElementType, const uint8_t *&bytes,
            std::string &error) override {
    ++reads;
    auto found = tensors.find(tensor);
    if (found == tensors.end()) {
      error = file + ": no tensor '" + tensor + "'";
      return false;
    }
    bytes = found->second.data();
    return true;
  }
};

/// Each function appends a step and returns its index.
struct RecipeBuilder {
  WeightRecipe recipe;

  explicit RecipeBuilder(std::string name) { recipe.name = std::move(name); }

  int tensor(const std::string &name, std::vector<int64_t> shape,
             ElementType type = ElementType::F32) {
    int index = add(RecipeStep::Kind::Tensor, {}, std::move(shape), type);
    recipe.steps.back().file = "model.safetensors";
    recipe.steps.back().tensor = name;
    return index;
  }
  int add(RecipeStep::Kind kind, std::vector<int> operands,
          std::vector<int64_t> shape, ElementType type = ElementType::F32) {
    RecipeStep step;
    step.kind = kind;
    step.operands = std::move(operands);
    step.shape = std::move(shape);
    step.type = type;
    recipe.steps.push_back(std::move(step));
    return int(recipe.steps.size()) - 1;
  }
  int slice(int operand, int64_t begin, std::vector<int64_t> shape,
            ElementType type = ElementType::F32) {
    int index = add(RecipeStep::Kind::Slice, {operand}, std::move(shape), type);
    recipe.steps.back().begin = begin;
    return index;
  }
  int scale(int operand, double factor, std::vector<int64_t> shape,
            ElementType type = ElementType::F32) {
    int index = add(RecipeStep::Kind::Scale, {operand}, std::move(shape), type);
    recipe.steps.back().factor = factor;
    return index;
  }
  int padRows(int operand, int64_t group, int64_t padded,
              std::vector<int64_t> shape, ElementType type = ElementType::F32) {
    int index =
        add(RecipeStep::Kind::PadRows, {operand}, std::move(shape), type);
    recipe.steps.back().group = group;
    recipe.steps.back().padded = padded;
    return index;
  }
  int sliceColumns(int operand, int64_t begin, std::vector<int64_t> shape,
                   ElementType type = ElementType::F32) {
    int index =
        add(RecipeStep::Kind::SliceColumns, {operand}, std::move(shape), type);
    recipe.steps.back().begin = begin;
    return index;
  }
  int interleave(int first, int second, int64_t group,
                 std::vector<int64_t> shape) {
    int index =
        add(RecipeStep::Kind::Interleave, {first, second}, std::move(shape));
    recipe.steps.back().group = group;
    return index;
  }
  int packTiles(int operand, int64_t planes, std::vector<int64_t> shape,
                ElementType type = ElementType::BF16) {
    int index =
        add(RecipeStep::Kind::PackTiles, {operand}, std::move(shape), type);
    recipe.steps.back().planes = planes;
    return index;
  }
  int ropeTable(double theta, std::vector<int64_t> shape) {
    int index = add(RecipeStep::Kind::RopeTable, {}, std::move(shape));
    recipe.steps.back().theta = theta;
    return index;
  }
};

} // namespace encast

#endif // ENCAST_TEST_CODEGEN_ARTIFACT_TESTSOURCE_H
