//===- TensorBinder.cpp - checkpoint tensors against a config -------------===//

#include "frontends/Models/TensorBinder.h"

#include <algorithm>
#include <cstring>

namespace encast {
namespace {

constexpr size_t kListed = 8;

bool endsWith(const std::string &text, const std::string &suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

/// Buffers that Transformers stores or stored, and that no output depends on.
bool isBuffer(const std::string &name) {
  for (const char *suffix : {"position_ids", "embeddings.token_type_ids",
                             "rotary_emb.inv_freq", "num_batches_tracked"})
    if (endsWith(name, suffix))
      return true;
  return false;
}

/// "f32" for "F32"; empty if weights cannot be of that type.
std::string weightType(std::string_view stored) {
  if (stored == "F32")
    return "f32";
  if (stored == "F16")
    return "f16";
  return stored == "BF16" ? "bf16" : "";
}

std::string expectedText(const std::vector<Dim> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::string(shape[i].field) + " " +
            std::to_string(shape[i].size);
  return text + "]";
}

} // namespace

std::string listText(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kListed; ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > kListed)
    text += " and " + std::to_string(names.size() - kListed) + " more";
  return text;
}

TensorBinder::TensorBinder(const std::vector<CheckpointTensor> &tensors,
                           std::string where)
    : where(std::move(where)) {
  for (const CheckpointTensor &tensor : tensors)
    byName.emplace(tensor.view->name, tensor);
}

void TensorBinder::add(std::vector<std::string> &list,
                       const std::string &text) {
  if (std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(text);
}

const TensorView *TensorBinder::find(const std::string &name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : found->second.view;
}

int64_t TensorBinder::dim(const std::string &name, size_t axis,
                          int64_t missing) const {
  const TensorView *view = find(name);
  return view && axis < view->shape.size() ? view->shape[axis] : missing;
}

TensorRef TensorBinder::take(const std::string &name,
                             const std::vector<Dim> &shape) {
  auto found = byName.find(name);
  if (found == byName.end()) {
    add(missing, name);
    return {};
  }
  const TensorView &view = *found->second.view;
  taken.insert(name);
  usedFiles.insert(found->second.file);
  TensorRef ref;
  ref.type = weightType(view.type);
  if (ref.type.empty()) {
    problem(name + ": expected dtype F32, F16 or BF16, but got " +
            std::string(view.type));
    return {};
  }
  bool same = view.shape.size() == shape.size();
  for (size_t i = 0; same && i < shape.size(); ++i)
    same = view.shape[i] == shape[i].size;
  if (!same) {
    problem(name + ": expected shape " + expectedText(shape) + ", but got " +
            shapeText(view.shape));
    return {};
  }
  ref.file = found->second.file;
  ref.name = name;
  ref.shape = view.shape;
  return ref;
}

LinearSpec TensorBinder::linear(const std::string &name,
                                const std::string &stored, Dim out, Dim in,
                                bool bias) {
  LinearSpec linear;
  linear.name = name;
  linear.weight = take(stored + ".weight", {out, in});
  if (bias)
    linear.bias = take(stored + ".bias", {out});
  return linear;
}

NormSpec TensorBinder::norm(const std::string &name, const std::string &stored,
                            Dim size, double epsilon) {
  NormSpec norm;
  norm.name = name;
  norm.epsilon = epsilon;
  auto either = [&](const char *current, const char *old) {
    std::string newName = stored + current, oldName = stored + old;
    if (has(newName) && has(oldName)) {
      taken.insert({newName, oldName});
      problem("both " + newName + " and its old name " + oldName +
              " are present");
      return TensorRef();
    }
    return take(has(oldName) ? oldName : newName, {size});
  };
  norm.weight = either(".weight", ".gamma");
  norm.bias = either(".bias", ".beta");
  return norm;
}

void TensorBinder::requireEqual(const std::string &first,
                                const std::string &second) {
  const TensorView *a = find(first), *b = find(second);
  taken.insert({first, second});
  if (a->type != b->type || a->shape != b->shape ||
      (a->sizeBytes && std::memcmp(a->data, b->data, a->sizeBytes) != 0))
    problem(first + " and " + second +
            " are tied, but differ (tie_word_embeddings is true)");
}

bool TensorBinder::finish(
    const std::function<bool(const std::string &)> &isKnown, bool allowUnused,
    std::vector<std::string> &notes, std::string &error) const {
  std::vector<std::string> unneeded, unknown;
  for (const auto &[name, tensor] : byName) {
    if (taken.count(name) || isBuffer(name))
      continue;
    (isKnown(name) ? unneeded : unknown).push_back(name);
  }
  std::vector<std::string> all = problems;
  if (!missing.empty())
    all.push_back("missing tensors: " + listText(missing));
  if (!unknown.empty() && !allowUnused)
    all.push_back("tensors that this family does not have (--allow-unused "
                  "ignores them): " +
                  listText(unknown));
  if (!all.empty()) {
    error = where + ": ";
    for (size_t i = 0; i < all.size() && i < kListed; ++i)
      error += (i ? "; " : "") + all[i];
    if (all.size() > kListed)
      error += "; and " + std::to_string(all.size() - kListed) + " more";
    return false;
  }
  if (!unneeded.empty())
    notes.push_back(where + ": tensors that these outputs do not need: " +
                    listText(unneeded));
  if (!unknown.empty())
    notes.push_back(where + ": unused tensors: " + listText(unknown));
  return true;
}

} // namespace encast
