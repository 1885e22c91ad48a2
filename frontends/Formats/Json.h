//===- Json.h - bounded, strict reading of untrusted JSON -------*- C++ -*-===//
///
/// \file
/// A JSON text as a tree of values, read with RapidJSON's iterative parser.
/// Stricter than the format where leniency hides mistakes: bytes, depth and
/// number of values are bounded, duplicate keys, NaN, Infinity, numbers out of
/// range, invalid UTF-8 and text behind the value are refused, and an integer
/// is exact or an error.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_FORMATS_JSON_H
#define ENCAST_FRONTENDS_FORMATS_JSON_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace encast {

/// One JSON value; which fields mean something depends on `kind`.
struct JsonValue {
  enum class Kind { Null, Boolean, Integer, Real, String, Array, Object };
  Kind kind = Kind::Null;
  bool boolean = false;
  int64_t integer = 0; ///< Integer: written without fraction and exponent, and
                       ///< within 64 bits; others are Real.
  double real = 0;     ///< Real; of an Integer the nearest double.
  std::string string;
  std::vector<std::string> keys;   ///< Object: key i belongs to elements[i].
  std::vector<JsonValue> elements; ///< Array, Object: in the order of the text.

  bool is(Kind other) const { return kind == other; }
  /// The member `key` of an object, null if there is none.
  const JsonValue *find(std::string_view key) const;
  /// What an error message prints: the value itself, or "an array".
  std::string describe() const;
};

/// Limits that keep a hostile text from costing more than it is worth.
struct JsonLimits {
  size_t bytes = size_t(16) << 20;
  size_t depth = 32;
  size_t values = 1 << 20;
};

/// Parses `text`. False with `error`: "line L, position P: what is wrong"
/// (lines count from 1, positions from 0), without the file's name.
bool parseJson(std::string_view text, const JsonLimits &limits,
               JsonValue &value, std::string &error);

/// Maps and parses the file `path`; `error` names it.
bool readJsonFile(const std::string &path, const JsonLimits &limits,
                  JsonValue &value, std::string &error);

/// Reads the members of one object of a configuration file. Every getter
/// returns the member's value, or `missing` if the object lacks it (or, for
/// optional getters, holds null). The first member that is wrong is kept as an
/// error that names file, field, what was expected and what was given; after
/// it, results mean nothing, so all fields are read first and ok() asked once.
class JsonFields {
public:
  /// `object` must outlive this; `where` is the path of its file, followed by
  /// the path of the object inside if it is not the root.
  JsonFields(const JsonValue &object, std::string where);

  /// False with the first error of a getter or of fail().
  bool ok(std::string &error) const;
  /// Records an error about `field`, unless there is one already.
  void fail(const std::string &field, const std::string &what);
  /// Takes over the error of fields inside of this object.
  void adopt(const JsonFields &part);

  /// The member, or null if it is absent or null.
  const JsonValue *get(const std::string &field) const;
  bool has(const std::string &field) const { return get(field) != nullptr; }
  /// Of all members.
  const std::vector<std::string> &names() const { return object.keys; }
  /// True if the member is there, even as null.
  bool mentions(const std::string &field) const;

  /// An integer of minimum to maximum; null is an error.
  int64_t integer(const std::string &field, int64_t missing, int64_t minimum,
                  int64_t maximum);
  /// A number above `above` and below `below`; null is an error.
  double number(const std::string &field, double missing, double above,
                double below);
  bool boolean(const std::string &field, bool missing);
  std::string string(const std::string &field, const std::string &missing);

  const std::string &where() const { return location; }

private:
  const JsonValue &object;
  std::string location, firstError;
};

} // namespace encast

#endif // ENCAST_FRONTENDS_FORMATS_JSON_H
