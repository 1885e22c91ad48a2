//===- FuzzConfig.cpp - any bytes as the small files of a model folder ----===//
///
/// \file
/// The input is the texts of kFiles, separated by zero bytes; the checkpoint
/// is that of a tiny model of the family that config.json names.
//===----------------------------------------------------------------------===//

#include "frontends/Models/ModelSpec.h"
#include "test/support/ModelFolder.h"

#include <cstdlib>

using namespace encast;

namespace {

constexpr const char *kFiles[] = {"config.json",
                                  "modules.json",
                                  "1_Pooling/config.json",
                                  "sentence_bert_config.json",
                                  "config_sentence_transformers.json",
                                  "README.md"};

/// A folder with the checkpoint of the family that `config` names.
const test::TemporaryFolder &folderFor(const std::string &config) {
  static const test::TemporaryFolder bert, modernBert, lfm2;
  static const bool written = [] {
    test::BertFolder model("bert.");
    model.addMaskedLM();
    model.addLinear("classifier", 3, test::BertFolder::hidden);
    model.write(bert);
    test::ModernBertFolder modern("model.");
    modern.addHead();
    modern.add("decoder.bias", test::ModernBertFolder::vocabulary);
    modern.addLinear("classifier", 2, test::ModernBertFolder::hidden);
    modern.write(modernBert);
    test::Lfm2Folder lfm("lfm2.");
    lfm.addLinear("classifier", 3, test::Lfm2Folder::hidden);
    lfm.write(lfm2);
    return true;
  }();
  (void)written;
  auto names = [&](const char *type) {
    return config.find(type) != std::string::npos;
  };
  return names("\"modernbert\"") ? modernBert : names("\"lfm2\"") ? lfm2 : bert;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  std::string text(reinterpret_cast<const char *>(bytes), size);
  const test::TemporaryFolder &folder =
      folderFor(text.substr(0, text.find('\0')));
  size_t begin = 0;
  for (const char *file : kFiles) {
    size_t end = std::min(text.find('\0', begin), text.size());
    // An absent modules.json is another way than an empty one.
    if (begin == end && std::string(file) != "config.json")
      std::remove(folder.path(file).c_str());
    else
      folder.write(file, text.substr(begin, end - begin));
    begin = std::min(end + 1, text.size());
  }
  ModelSpec spec;
  std::vector<std::string> notes;
  std::string error;
  if (importHuggingFace(folder.path(), {}, spec, notes, error) != error.empty())
    std::abort();
  return 0;
}
