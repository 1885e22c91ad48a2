//===- SafeTensors.cpp - checked reading of safetensors files -------------===//

#include "frontends/Formats/SafeTensors.h"
#include "frontends/Formats/Json.h"

#include <algorithm>
#include <tuple>

namespace encast {
namespace {

struct StoredType {
  std::string_view name;
  unsigned bits;
};

constexpr StoredType kStoredTypes[] = {
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"F8_E4M3", 8},
    {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    {"I16", 16},    {"U16", 16},    {"F16", 16},        {"BF16", 16},
    {"I32", 32},    {"U32", 32},    {"F32", 32},        {"I64", 64},
    {"U64", 64},    {"F64", 64},    {"C64", 64},        {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}};

/// A tensor as the header claims it.
struct Claim {
  TensorView view;
  uint64_t begin = 0, end = 0;
};

bool isCount(const JsonValue &value) {
  return value.is(JsonValue::Kind::Integer) && value.integer >= 0;
}

/// Reads and checks what stands behind one name. `error` lacks the name.
bool readClaim(const JsonValue &entry, uint64_t dataBytes, Claim &claim,
               std::string &error) {
  using Kind = JsonValue::Kind;
  if (!entry.is(Kind::Object)) {
    error = "expected an object, but got " + entry.describe();
    return false;
  }
  for (const std::string &key : entry.keys)
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      error = "unknown key \"" + key + "\"";
      return false;
    }
  const JsonValue *type = entry.find("dtype");
  const JsonValue *shape = entry.find("shape");
  const JsonValue *offsets = entry.find("data_offsets");
  if (!type || !shape || !offsets) {
    error = std::string(!type    ? "dtype"
                        : !shape ? "shape"
                                 : "data_offsets") +
            " is missing";
    return false;
  }
  const StoredType *stored = nullptr;
  for (const StoredType &candidate : kStoredTypes)
    if (type->is(Kind::String) && type->string == candidate.name)
      stored = &candidate;
  if (!stored) {
    error = "unknown dtype " + type->describe();
    return false;
  }
  claim.view.type = stored->name;

  if (!shape->is(Kind::Array)) {
    error = "shape: expected an array, but got " + shape->describe();
    return false;
  }
  uint64_t bits = stored->bits;
  for (const JsonValue &dim : shape->elements) {
    if (!isCount(dim)) {
      error =
          "shape: expected non-negative integers, but got " + dim.describe();
      return false;
    }
    claim.view.shape.push_back(dim.integer);
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(dim.integer),
                               &bits)) {
      error = "the size of its shape overflows 64 bits";
      return false;
    }
  }
  if (bits % 8 != 0) {
    error = "its " + std::to_string(bits) + " bits are not whole bytes";
    return false;
  }
  claim.view.sizeBytes = bits / 8;

  if (!offsets->is(Kind::Array) || offsets->elements.size() != 2 ||
      !isCount(offsets->elements[0]) || !isCount(offsets->elements[1])) {
    error = "data_offsets: expected two non-negative integers";
    return false;
  }
  claim.begin = static_cast<uint64_t>(offsets->elements[0].integer);
  claim.end = static_cast<uint64_t>(offsets->elements[1].integer);
  std::string range = "data_offsets [" + std::to_string(claim.begin) + ", " +
                      std::to_string(claim.end) + "]";
  if (claim.begin > claim.end) {
    error = range + " end before they begin";
    return false;
  }
  if (claim.end > dataBytes) {
    error = range + " exceed the " + std::to_string(dataBytes) +
            " bytes of data in the file";
    return false;
  }
  if (claim.end - claim.begin != claim.view.sizeBytes) {
    error = range + " hold " + std::to_string(claim.end - claim.begin) +
            " bytes, but " + std::string(claim.view.type) + " " +
            shapeText(claim.view.shape) + " needs " +
            std::to_string(claim.view.sizeBytes);
    return false;
  }
  return true;
}

/// Parses the header, an object that 8 bytes of its size begin; the data are
/// the `dataBytes` behind it.
bool readHeader(const uint8_t *bytes, size_t size, JsonValue &header,
                uint64_t &dataBytes, std::string &error) {
  if (size < 8) {
    error = "is truncated: has " + std::to_string(size) +
            " bytes, the header's size alone needs 8";
    return false;
  }
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | bytes[i];
  if (headerBytes > SafeTensors::kMaxHeaderBytes) {
    error = "claims a header of " + std::to_string(headerBytes) +
            " bytes, the limit is " +
            std::to_string(SafeTensors::kMaxHeaderBytes);
    return false;
  }
  if (headerBytes > size - 8) {
    error = "is truncated: claims a header of " + std::to_string(headerBytes) +
            " bytes, but only " + std::to_string(size - 8) + " are left";
    return false;
  }
  dataBytes = size - 8 - headerBytes;

  std::string_view text(reinterpret_cast<const char *>(bytes + 8), headerBytes);
  while (!text.empty() && text.back() == ' ')
    text.remove_suffix(1);
  if (text.empty() || text.front() != '{' || text.back() != '}') {
    error = "the header is not a JSON object padded with spaces";
    return false;
  }
  // An entry is an object of arrays: root, entry, shape.
  JsonLimits limits;
  limits.bytes = SafeTensors::kMaxHeaderBytes;
  limits.depth = 3;
  limits.values = 4 << 20;
  if (!parseJson(text, limits, header, error)) {
    error = "header: " + error;
    return false;
  }
  return true;
}

/// Appends the members of an object of strings.
bool readStrings(const JsonValue &entry,
                 std::vector<std::pair<std::string, std::string>> &strings,
                 std::string &error) {
  if (!entry.is(JsonValue::Kind::Object)) {
    error = "expected an object, but got " + entry.describe();
    return false;
  }
  for (size_t i = 0; i < entry.keys.size(); ++i) {
    if (!entry.elements[i].is(JsonValue::Kind::String)) {
      error = entry.keys[i] + ": expected a string, but got " +
              entry.elements[i].describe();
      return false;
    }
    strings.emplace_back(entry.keys[i], entry.elements[i].string);
  }
  return true;
}

/// Sorts the claims, which must cover the data without overlap or gap.
bool checkCover(std::vector<Claim> &claims, uint64_t dataBytes,
                std::string &error) {
  std::sort(claims.begin(), claims.end(), [](const Claim &a, const Claim &b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t covered = 0;
  for (const Claim &claim : claims) {
    if (claim.begin != covered) {
      error = "tensor '" + claim.view.name + "': data_offsets begin at " +
              std::to_string(claim.begin) +
              (claim.begin < covered ? ", which overlaps the tensor that ends "
                                       "at "
                                     : ", which leaves a gap behind the "
                                       "tensor that ends at ") +
              std::to_string(covered);
      return false;
    }
    covered = claim.end;
  }
  if (covered != dataBytes) {
    error = std::to_string(dataBytes - covered) +
            " bytes behind the last tensor belong to none";
    return false;
  }
  return true;
}

} // namespace

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool SafeTensors::open(const std::string &path, std::string &error) {
  MappedFile file;
  if (!file.open(path, error))
    return false;
  if (!parse(file.bytes(), file.size(), error)) {
    error = path + ": " + error;
    return false;
  }
  mapped = std::move(file);
  return true;
}

bool SafeTensors::parse(const uint8_t *bytes, size_t size, std::string &error) {
  views.clear();
  strings.clear();
  JsonValue header;
  uint64_t dataBytes = 0;
  if (!readHeader(bytes, size, header, dataBytes, error))
    return false;
  const uint8_t *data = bytes + size - dataBytes;
  std::vector<Claim> claims;
  for (size_t i = 0; i < header.keys.size(); ++i) {
    const std::string &name = header.keys[i];
    const JsonValue &entry = header.elements[i];
    if (name == "__metadata__") {
      if (!readStrings(entry, strings, error)) {
        error.insert(0, "__metadata__: ");
        return false;
      }
      continue;
    }
    Claim claim;
    claim.view.name = name;
    if (!readClaim(entry, dataBytes, claim, error)) {
      error.insert(0, "tensor '" + name + "': ");
      return false;
    }
    claim.view.data = data + claim.begin;
    claims.push_back(std::move(claim));
  }
  if (!checkCover(claims, dataBytes, error))
    return false;

  for (Claim &claim : claims)
    views.push_back(std::move(claim.view));
  std::sort(
      views.begin(), views.end(),
      [](const TensorView &a, const TensorView &b) { return a.name < b.name; });
  return true;
}

const TensorView *SafeTensors::find(std::string_view name) const {
  auto found =
      std::lower_bound(views.begin(), views.end(), name,
                       [](const TensorView &view, std::string_view wanted) {
                         return view.name < wanted;
                       });
  return found != views.end() && found->name == name ? &*found : nullptr;
}

} // namespace encast
