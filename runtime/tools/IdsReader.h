//===- IdsReader.h - read lines of token ids --------------------*- C++ -*-===//
///
/// \file
/// One JSON value per line: an array of ids, or an object with `ids` and
/// optionally `token_type_ids` and `attended_length`. Input is not trusted.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_TOOLS_IDSREADER_H
#define ENCAST_RUNTIME_TOOLS_IDSREADER_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace encast::tools {

struct IdsLimits {
  int64_t vocabulary; ///< ids are in [0, vocabulary).
  int64_t tokenTypes; ///< token types are in [0, tokenTypes); 0: none.
  int64_t maxTokens;  ///< Of a line.
  /// Whether attended_length may be less than the number of ids.
  bool attendedLength = false;
};

/// The sequences of all lines, back to back.
struct IdsFile {
  std::vector<int64_t> ids, types; ///< [T]; types are 0 where none are given.
  std::vector<int64_t> offsets = {0}; ///< [lines + 1]
  std::vector<int64_t> attended;      ///< [lines]; all ids where none is given.
  bool givesTypes = false;            ///< Any line does.
  bool givesAttended = false;         ///< Any line does.
};

/// Reads all lines of `text`. False with `error`, "line 3, position 7: ...",
/// lines counted from 1 and positions, which are indices of the array, from 0.
bool readIds(std::string_view text, const IdsLimits &limits, IdsFile &file,
             std::string &error);

} // namespace encast::tools

#endif // ENCAST_RUNTIME_TOOLS_IDSREADER_H
