//===- ImportFolder.h - what importing a folder gives -----------*- C++ -*-===//
///
/// \file
/// Writes the folder of a tiny model and imports it, for the tests of families.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_FRONTENDS_MODELS_IMPORTFOLDER_H
#define ENCAST_TEST_FRONTENDS_MODELS_IMPORTFOLDER_H

#include "frontends/Models/ModelSpec.h"
#include "test/support/ModelFolder.h"

#include <gtest/gtest.h>

namespace encast::test {

/// The result of importing a folder.
struct Import {
  bool ok = false;
  ModelSpec spec;
  std::vector<std::string> notes;
  std::string error, folder;

  std::vector<std::string> outputs() const {
    std::vector<std::string> names;
    for (const OutputSpec &output : spec.outputs)
      names.push_back(output.name);
    return names;
  }
  std::string defaultOutput() const {
    return spec.outputs[static_cast<size_t>(spec.defaultOutput)].name;
  }
  bool errorHas(const std::string &text) const {
    return !ok && error.find(text) != std::string::npos;
  }
  bool noteHas(const std::string &text) const {
    for (const std::string &note : notes)
      if (note.find(text) != std::string::npos)
        return true;
    return false;
  }
};

inline Import import(const ModelFolder &model,
                     const ImportOptions &options = {}) {
  TemporaryFolder folder;
  model.write(folder);
  Import result;
  result.folder = folder.path();
  result.ok = importHuggingFace(folder.path(), options, result.spec,
                                result.notes, result.error);
  EXPECT_EQ(result.ok, result.error.empty()) << result.error;
  EXPECT_EQ(result.error.find('\n'), std::string::npos) << result.error;
  return result;
}

inline ImportOptions task(const std::string &name) {
  ImportOptions options;
  options.task = name;
  return options;
}

inline ImportOptions outputs(const std::vector<std::string> &names) {
  ImportOptions options;
  options.outputs = names;
  return options;
}

using Names = std::vector<std::string>;

} // namespace encast::test

#endif // ENCAST_TEST_FRONTENDS_MODELS_IMPORTFOLDER_H
