//===- IdsReader.cpp - read lines of token ids ----------------------------===//

#include "runtime/tools/IdsReader.h"
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

namespace encast::tools {
namespace {

/// Takes the events of one line. Returning false ends the parse with `error`.
class LineHandler {
public:
  LineHandler(const IdsLimits &limits, IdsFile &file)
      : limits(limits), file(file), firstToken(file.ids.size()) {}

  std::string error;

  // Events of RapidJSON; numbers come as their text.
  bool RawNumber(const char *text, rapidjson::SizeType size, bool) {
    return number(std::string_view(text, size));
  }
  bool StartArray() {
    if (state == State::Start)
      current = &ids;
    else if (state != State::Value || current == &attendedLength)
      return unexpected("an array");
    inObject = state == State::Value;
    current->given = true;
    state = State::Elements;
    return true;
  }
  bool EndArray(rapidjson::SizeType) {
    state = inObject ? State::Key : State::End;
    return true;
  }
  bool StartObject() {
    if (state != State::Start)
      return unexpected("an object");
    state = State::Key;
    return true;
  }
  bool Key(const char *text, rapidjson::SizeType size, bool) {
    std::string_view name(text, size);
    current = nullptr;
    for (Field *field : {&ids, &types, &attendedLength})
      if (name == field->name)
        current = field;
    if (!current)
      return refuse("key '" + std::string(name.substr(0, 64)) +
                    (name.size() > 64 ? "..." : "") +
                    "' is unknown; keys are ids, token_type_ids, "
                    "attended_length");
    if (current->given)
      return refuse("key '" + std::string(name) + "' is given twice");
    state = State::Value;
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    state = State::End;
    return true;
  }
  bool Null() { return unexpected("null"); }
  bool Bool(bool) { return unexpected("a truth value"); }
  bool String(const char *, rapidjson::SizeType, bool) {
    return unexpected("a string");
  }
  bool Int(int) { return unexpected("a number"); }
  bool Uint(unsigned) { return unexpected("a number"); }
  bool Int64(int64_t) { return unexpected("a number"); }
  bool Uint64(uint64_t) { return unexpected("a number"); }
  bool Double(double) { return unexpected("a number"); }

  /// Checks the line as a whole and adds it to the file.
  bool finish() {
    if (!ids.given)
      return refuse("no ids, expected an array of ids or an object with ids");
    int64_t tokens = file.ids.size() - firstToken;
    if (!tokens)
      return refuse("the sequence is empty, expected at least one id");
    if (tokens > limits.maxTokens)
      return refuse(std::to_string(tokens) +
                    " tokens, but the model's limit is " +
                    std::to_string(limits.maxTokens));
    int64_t typeCount = file.types.size() - firstToken;
    if (types.given && typeCount != tokens)
      return refuse("token_type_ids has " + std::to_string(typeCount) +
                    " elements, but ids has " + std::to_string(tokens));
    if (!attendedLength.given)
      attendedTokens = tokens;
    if (attendedTokens != tokens && !limits.attendedLength)
      return refuse("attended_length is " + std::to_string(attendedTokens) +
                    ", but this model attends to all " +
                    std::to_string(tokens) + " ids");
    if (attendedTokens < 1 || attendedTokens > tokens)
      return refuse("attended_length is " + std::to_string(attendedTokens) +
                    ", expected 1 to " + std::to_string(tokens) +
                    ", the number of ids");
    file.types.resize(file.ids.size());
    file.attended.push_back(attendedTokens);
    file.givesTypes |= types.given;
    file.givesAttended |= attendedLength.given;
    file.offsets.push_back(file.ids.size());
    return true;
  }

private:
  struct Field {
    const char *name;
    bool given = false;
  };
  enum class State { Start, Key, Value, Elements, End };

  bool refuse(const std::string &why) {
    error = ": " + why;
    return false;
  }
  bool unexpected(const char *what) {
    return refuse(std::string(what) + " stands where " +
                  (state == State::Start        ? "an array or an object"
                   : state == State::Elements   ? "an integer"
                   : current == &attendedLength ? "an integer"
                                                : "an array of integers") +
                  " is expected");
  }

  /// Plain integers only: digits, no sign, fraction or exponent.
  bool number(std::string_view text) {
    if (state != State::Elements &&
        !(state == State::Value && current == &attendedLength))
      return unexpected("a number");
    std::vector<int64_t> &values = current == &types ? file.types : file.ids;
    std::string where;
    if (state == State::Elements)
      where = ", position " + std::to_string(values.size() - firstToken);
    int64_t value = 0;
    for (char c : text)
      if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, c - '0', &value)) {
        error = where + ": " + std::string(text) +
                " is not an integer from 0 to 9223372036854775807";
        return false;
      }
    if (current == &attendedLength) {
      attendedLength.given = true;
      attendedTokens = value;
      state = State::Key;
      return true;
    }
    if (current == &ids && value >= limits.vocabulary) {
      error = where + ": id " + std::to_string(value) +
              " is outside of the vocabulary, 0 to " +
              std::to_string(limits.vocabulary - 1);
      return false;
    }
    if (current == &types && value >= limits.tokenTypes) {
      error = limits.tokenTypes
                  ? where + ": token type " + std::to_string(value) +
                        " is outside of 0 to " +
                        std::to_string(limits.tokenTypes - 1)
                  : ": token_type_ids is given, but the model has no token "
                    "types";
      return false;
    }
    values.push_back(value);
    return true;
  }

  const IdsLimits &limits;
  IdsFile &file;
  const size_t firstToken; ///< Of this line in the file.
  Field ids{"ids"}, types{"token_type_ids"}, attendedLength{"attended_length"};
  Field *current = nullptr;
  bool inObject = false;
  State state = State::Start;
  int64_t attendedTokens = 0;
};

bool readLine(std::string_view text, const IdsLimits &limits, IdsFile &file,
              std::string &error) {
  if (text.find_first_not_of(" \t") == std::string_view::npos) {
    error = ": blank, expected an array of ids or an object with ids";
    return false;
  }
  // RapidJSON takes a NUL character for the end.
  size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    error = ": byte " + std::to_string(nul) + ": not JSON: a NUL character";
    return false;
  }
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  LineHandler handler(limits, file);
  constexpr unsigned flags = rapidjson::kParseIterativeFlag |
                             rapidjson::kParseNumbersAsStringsFlag |
                             rapidjson::kParseValidateEncodingFlag;
  rapidjson::ParseResult result = reader.Parse<flags>(stream, handler);
  if (!result && result.Code() != rapidjson::kParseErrorTermination) {
    error = ": byte " + std::to_string(result.Offset()) +
            ": not JSON: " + rapidjson::GetParseError_En(result.Code());
    return false;
  }
  if (!result || !handler.finish()) {
    error = handler.error;
    return false;
  }
  return true;
}

} // namespace

bool readIds(std::string_view text, const IdsLimits &limits, IdsFile &file,
             std::string &error) {
  for (int64_t number = 1; !text.empty(); ++number) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    if (!readLine(line, limits, file, error)) {
      error.insert(0, "line " + std::to_string(number));
      return false;
    }
  }
  return true;
}

} // namespace encast::tools
