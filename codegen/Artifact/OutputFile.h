//===- OutputFile.h - a file that appears whole or not at all ---*- C++ -*-===//
///
/// \file
/// A file without a name, which gets that of its target when it is complete: a
/// process that is killed leaves nothing. Where the file system has no such
/// files, a temporary one beside the target.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ARTIFACT_OUTPUTFILE_H
#define ENCAST_CODEGEN_ARTIFACT_OUTPUTFILE_H

#include <cstdint>
#include <string>
#include <vector>

namespace encast {

/// create(), write(), publish(); the destructor removes what was not published.
/// Functions that return false set `error` to a line that names the
/// target.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile();

  /// Creates the file in the folder of `path`. Refuses a target that exists and
  /// is not a regular file: the rename would replace a device.
  bool create(const std::string &path, std::string &error);

  /// Whether the targets are two names in one folder.
  bool isBeside(const OutputFile &other) const;
  /// Of the target, without its folder.
  const std::string &name() const { return target; }

  /// Writes at an offset; gaps hold zeros. Goes to the file system in whole
  /// huge pages where offsets rise; those of zeros behind the end become holes.
  bool write(uint64_t offset, const uint8_t *bytes, uint64_t size,
             std::string &error);
  /// Cuts or extends with zeros.
  bool resize(uint64_t size, std::string &error);

  /// Renames the file to the target.
  bool publish(std::string &error);
  /// The same, but unless keep() follows, the destructor brings back what was
  /// there. Needs hard links to keep a previous file by.
  bool publishTentatively(std::string &error);
  void keep();

private:
  bool fail(const std::string &what, std::string &error) const;
  bool openUnnamed();
  bool nameFile(std::string &error);
  /// Writes the window.
  bool flush(std::string &error);

  std::string path;      ///< As given, for errors.
  std::string target;    ///< In `folder`.
  std::string temporary; ///< Name in `folder` until published; empty: none.
  std::string previous;  ///< Link to what was replaced; empty: none.
  int folder = -1, file = -1;
  uint64_t end = 0;            ///< Of what the file holds.
  std::vector<uint8_t> window; ///< Written next, inside one huge page.
  uint64_t windowBegin = 0;
  bool tentative = false; ///< Published, may be undone.
};

} // namespace encast

#endif // ENCAST_CODEGEN_ARTIFACT_OUTPUTFILE_H
