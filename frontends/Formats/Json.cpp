//===- Json.cpp - bounded, strict reading of untrusted JSON ---------------===//

#include "frontends/Formats/Json.h"
#include "frontends/Formats/MappedFile.h"

#include <charconv>
#include <cstring>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <unordered_set>

namespace encast {
namespace {

/// Builds the tree. An open container is the last element of its parent, which
/// does not grow while it is open, so the pointers on the stack stay valid.
class TreeBuilder
    : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, TreeBuilder> {
public:
  TreeBuilder(const JsonLimits &limits, JsonValue &root)
      : limits(limits), root(root) {}

  std::string error; ///< Why a callback returned false.

  bool Null() { return add() != nullptr; }
  bool Bool(bool boolean) {
    JsonValue *value = add();
    if (!value)
      return false;
    value->kind = JsonValue::Kind::Boolean;
    value->boolean = boolean;
    return true;
  }
  bool RawNumber(const char *text, rapidjson::SizeType length, bool) {
    JsonValue *value = add();
    if (!value)
      return false;
    const char *end = text + length;
    bool isInteger = true;
    for (const char *c = text; c != end; ++c)
      isInteger &= *c == '-' || (*c >= '0' && *c <= '9');
    if (isInteger &&
        std::from_chars(text, end, value->integer).ec == std::errc()) {
      value->kind = JsonValue::Kind::Integer;
      value->real = static_cast<double>(value->integer);
      return true;
    }
    value->kind = JsonValue::Kind::Real;
    if (std::from_chars(text, end, value->real).ec != std::errc())
      return fail("the number " + shorten(text, length) +
                  " does not fit a double");
    return true;
  }
  bool String(const char *text, rapidjson::SizeType length, bool) {
    JsonValue *value = add();
    if (!value || !checkSurrogates(text, length))
      return false;
    value->kind = JsonValue::Kind::String;
    value->string.assign(text, length);
    return true;
  }
  bool Key(const char *text, rapidjson::SizeType length, bool) {
    if (!checkSurrogates(text, length))
      return false;
    Open &object = open.back();
    if (!object.keys.emplace(text, length).second)
      return fail("the key \"" + shorten(text, length) + "\" is given twice");
    object.value->keys.emplace_back(text, length);
    return true;
  }
  bool StartObject() { return start(JsonValue::Kind::Object); }
  bool StartArray() { return start(JsonValue::Kind::Array); }
  bool EndObject(rapidjson::SizeType) { return end(); }
  bool EndArray(rapidjson::SizeType) { return end(); }

private:
  struct Open {
    JsonValue *value;
    std::unordered_set<std::string> keys;
  };

  static std::string shorten(const char *text, size_t length) {
    return length <= 60 ? std::string(text, length)
                        : std::string(text, 60) + "...";
  }
  bool fail(std::string what) {
    error = std::move(what);
    return false;
  }
  /// A lone \uDC00 passes the parser and would become invalid UTF-8.
  bool checkSurrogates(const char *text, size_t length) {
    for (size_t i = 0; i + 1 < length; ++i)
      if (static_cast<unsigned char>(text[i]) == 0xED &&
          static_cast<unsigned char>(text[i + 1]) >= 0xA0)
        return fail("a string holds half of a surrogate pair");
    return true;
  }
  JsonValue *add() {
    if (++count > limits.values) {
      fail("more than " + std::to_string(limits.values) + " values");
      return nullptr;
    }
    if (open.empty())
      return &root;
    std::vector<JsonValue> &elements = open.back().value->elements;
    elements.emplace_back();
    return &elements.back();
  }
  bool start(JsonValue::Kind kind) {
    if (open.size() == limits.depth)
      return fail("nested deeper than " + std::to_string(limits.depth));
    JsonValue *value = add();
    if (!value)
      return false;
    value->kind = kind;
    open.push_back({value, {}});
    return true;
  }
  bool end() {
    open.pop_back();
    return true;
  }

  const JsonLimits &limits;
  JsonValue &root;
  std::vector<Open> open;
  size_t count = 0;
};

std::string position(std::string_view text, size_t offset) {
  size_t line = 1, start = 0;
  for (size_t i = 0; i < offset && i < text.size(); ++i)
    if (text[i] == '\n') {
      ++line;
      start = i + 1;
    }
  return "line " + std::to_string(line) + ", position " +
         std::to_string(offset - start) + ": ";
}

std::string lowerFirst(std::string text) {
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z')
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  if (!text.empty() && text.back() == '.')
    text.pop_back();
  return text;
}

/// 1e-12 and 0.5 rather than the 17 digits of an exact print.
std::string shortest(double value) {
  char text[40];
  char *end = std::to_chars(text, text + sizeof(text), value).ptr;
  return std::string(text, end);
}

} // namespace

const JsonValue *JsonValue::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i] == key)
      return &elements[i];
  return nullptr;
}

std::string JsonValue::describe() const {
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Boolean:
    return boolean ? "true" : "false";
  case Kind::Integer:
    return std::to_string(integer);
  case Kind::Real: {
    std::string text = shortest(real);
    // 16.0 is no integer, and must not look like one.
    return text.find_first_of(".en") == text.npos ? text + ".0" : text;
  }
  case Kind::String:
    return "\"" +
           (string.size() <= 60 ? string : string.substr(0, 60) + "...") + "\"";
  case Kind::Array:
    return "an array";
  case Kind::Object:
    return "an object";
  }
  return "";
}

bool parseJson(std::string_view text, const JsonLimits &limits,
               JsonValue &value, std::string &error) {
  if (text.size() > limits.bytes) {
    error = "has " + std::to_string(text.size()) + " bytes, the limit is " +
            std::to_string(limits.bytes);
    return false;
  }
  // The parser takes a zero byte for the end of the text.
  size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    error = position(text, zero) + "a zero byte";
    return false;
  }
  constexpr unsigned flags = rapidjson::kParseIterativeFlag |
                             rapidjson::kParseValidateEncodingFlag |
                             rapidjson::kParseNumbersAsStringsFlag;
  value = JsonValue();
  TreeBuilder builder(limits, value);
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  rapidjson::ParseResult result = reader.Parse<flags>(stream, builder);
  if (result)
    return true;
  error = position(text, result.Offset());
  error += builder.error.empty()
               ? lowerFirst(rapidjson::GetParseError_En(result.Code()))
               : builder.error;
  return false;
}

bool readJsonFile(const std::string &path, const JsonLimits &limits,
                  JsonValue &value, std::string &error) {
  MappedFile file;
  if (!file.open(path, error))
    return false;
  if (parseJson(file.text(), limits, value, error))
    return true;
  error = path + ": " + error;
  return false;
}

JsonFields::JsonFields(const JsonValue &object, std::string where)
    : object(object), location(std::move(where)) {
  if (!object.is(JsonValue::Kind::Object))
    firstError =
        location + ": expected an object, but got " + object.describe();
}

bool JsonFields::ok(std::string &error) const {
  if (firstError.empty())
    return true;
  error = firstError;
  return false;
}

void JsonFields::fail(const std::string &field, const std::string &what) {
  if (firstError.empty())
    firstError = location + ": " + field + ": " + what;
}

void JsonFields::adopt(const JsonFields &part) {
  if (firstError.empty())
    firstError = part.firstError;
}

const JsonValue *JsonFields::get(const std::string &field) const {
  const JsonValue *value = object.find(field);
  return value && !value->is(JsonValue::Kind::Null) ? value : nullptr;
}

bool JsonFields::mentions(const std::string &field) const {
  return object.find(field) != nullptr;
}

int64_t JsonFields::integer(const std::string &field, int64_t missing,
                            int64_t minimum, int64_t maximum) {
  const JsonValue *value = object.find(field);
  if (!value)
    return missing;
  if (value->is(JsonValue::Kind::Integer) && value->integer >= minimum &&
      value->integer <= maximum)
    return value->integer;
  fail(field, "expected an integer from " + std::to_string(minimum) + " to " +
                  std::to_string(maximum) + ", but got " + value->describe());
  return missing;
}

double JsonFields::number(const std::string &field, double missing,
                          double above, double below) {
  const JsonValue *value = object.find(field);
  if (!value)
    return missing;
  if ((value->is(JsonValue::Kind::Integer) ||
       value->is(JsonValue::Kind::Real)) &&
      value->real > above && value->real < below)
    return value->real;
  fail(field, "expected a number above " + shortest(above) + " and below " +
                  shortest(below) + ", but got " + value->describe());
  return missing;
}

bool JsonFields::boolean(const std::string &field, bool missing) {
  const JsonValue *value = get(field);
  if (!value)
    return missing;
  if (value->is(JsonValue::Kind::Boolean))
    return value->boolean;
  fail(field, "expected true or false, but got " + value->describe());
  return missing;
}

std::string JsonFields::string(const std::string &field,
                               const std::string &missing) {
  const JsonValue *value = get(field);
  if (!value)
    return missing;
  if (value->is(JsonValue::Kind::String))
    return value->string;
  fail(field, "expected a string, but got " + value->describe());
  return missing;
}

} // namespace encast
