//===- TensorBinder.cpp - checkpoint tensors against a config -------------===//

#include "frontends/Models/TensorBinder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace encast {
namespace {

constexpr size_t kListed = 8;

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

/// True if no word of `Word` has one of the bits of `mask`. Blocks of a page
/// leave the inner loop to vectors, and end the search where it is decided.
template <typename Word>
bool allClear(const uint8_t *bytes, uint64_t sizeBytes, Word mask) {
  constexpr uint64_t kBlockBytes = 4096;
  for (uint64_t begin = 0; begin < sizeBytes; begin += kBlockBytes) {
    uint64_t end = std::min(begin + kBlockBytes, sizeBytes);
    Word seen = 0;
    for (uint64_t i = begin; i < end; i += sizeof(Word)) {
      Word word;
      std::memcpy(&word, bytes + i, sizeof(Word));
      seen |= word;
    }
    if (seen & mask)
      return false;
  }
  return true;
}

/// True if every value is one of bf16, which has 8 bits of precision. Of f16,
/// some subnormal numbers that would be are not counted as such.
bool hasOnlyBf16(const TensorView &view) {
  if (view.type == "F32")
    return allClear<uint32_t>(view.data, view.sizeBytes, 0xffff);
  if (view.type == "F16")
    return allClear<uint16_t>(view.data, view.sizeBytes, 7);
  return view.type == "BF16";
}

/// The value of an F32, F16 or BF16 number.
double readNumber(std::string_view type, const uint8_t *bytes) {
  uint32_t bits = 0;
  if (type == "F32") {
    std::memcpy(&bits, bytes, 4);
  } else {
    uint16_t half;
    std::memcpy(&half, bytes, 2);
    if (type == "F16") {
      int exponent = half >> 10 & 31, fraction = half & 1023;
      double value = std::ldexp(exponent ? 1024 + fraction : fraction,
                                (exponent ? exponent : 1) - 25);
      if (exponent == 31)
        value = fraction ? NAN : HUGE_VAL;
      return half >> 15 ? -value : value;
    }
    bits = static_cast<uint32_t>(half) << 16;
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

std::string expectedText(const std::vector<Dim> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::string(shape[i].field) + " " +
            std::to_string(shape[i].size);
  return text + "]";
}

} // namespace

bool startsWith(const std::string &text, const std::string &prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool endsWith(const std::string &text, const std::string &suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

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

int64_t TensorBinder::countNumbered(const std::string &start) const {
  int64_t count = 0;
  for (auto at = byName.lower_bound(start);
       at != byName.end() && startsWith(at->first, start); ++at) {
    std::string digits = at->first.substr(
        start.size(), at->first.find('.', start.size()) - start.size());
    if (!digits.empty() && digits.size() <= 9 &&
        digits.find_first_not_of("0123456789") == std::string::npos)
      count = std::max<int64_t>(count, std::stol(digits) + 1);
  }
  return count;
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
  if (shape.size() == 2) {
    auto [known, isNew] = exactlyBf16.emplace(name, false);
    if (isNew)
      known->second = hasOnlyBf16(view);
    ref.exactlyBf16 = known->second;
  }
  return ref;
}

double TensorBinder::takeScalar(const std::string &name) {
  const TensorView *view = find(name);
  std::vector<Dim> shape;
  if (view && view->shape.size() == 1)
    shape.push_back({1, "elements"});
  if (!take(name, shape).present())
    return 0;
  double value = readNumber(view->type, view->data);
  if (!std::isfinite(value))
    problem(name + ": expected a finite number, but got " +
            std::to_string(value));
  return value;
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

LinearSpec TensorBinder::linearRows(const std::string &name,
                                    const std::string &stored, Dim out, Dim in,
                                    bool bias, int64_t first, int64_t count) {
  LinearSpec rows = linear(name, stored, out, in, bias);
  for (TensorRef *ref : {&rows.weight, &rows.bias}) {
    ref->firstRow = first;
    ref->rows = count;
  }
  return rows;
}

NormSpec TensorBinder::norm(const std::string &name, const std::string &stored,
                            Dim size, double epsilon, bool bias) {
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
  if (bias)
    norm.bias = either(".bias", ".beta");
  return norm;
}

NormSpec TensorBinder::rmsNorm(const std::string &name,
                               const std::string &stored, Dim size,
                               double epsilon) {
  NormSpec norm;
  norm.name = name;
  norm.weight = take(stored + ".weight", {size});
  norm.epsilon = epsilon;
  norm.kind = NormSpec::Kind::RootMeanSquare;
  return norm;
}

std::string TensorBinder::tableName(const std::string &words,
                                    const std::string &decoder,
                                    bool tied) const {
  return tied && !has(words) && has(decoder) ? decoder : words;
}

TensorRef TensorBinder::decoder(const TensorRef &words,
                                const std::string &decoder, bool tied,
                                Dim vocabulary, Dim hidden) {
  if (!tied)
    return take(decoder, {vocabulary, hidden});
  if (has(decoder) && words.present() && words.name != decoder)
    requireEqual(words.name, decoder);
  return words;
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
