//===- SentenceChain.h - the modules behind the transformer -----*- C++ -*-===//
///
/// \file
/// Reads a sentence-transformers chain: modules.json and the folders that it
/// names. Source: github.com/huggingface/sentence-transformers,
/// sentence_transformer/modules and base/modules.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_MODELS_SENTENCECHAIN_H
#define ENCAST_FRONTENDS_MODELS_SENTENCECHAIN_H

#include "frontends/Models/TensorBinder.h"

#include <string>
#include <vector>

namespace encast {

/// modules.json without what the modules' own folders say.
struct SentenceChain {
  struct Module {
    SentenceModule::Kind kind;
    std::string path; ///< Relative to the model's folder.
  };
  std::string transformer; ///< Relative folder of the model; often empty.
  /// Behind it: a Pooling first, or modules that work on every token.
  std::vector<Module> modules;
  bool pools() const {
    return !modules.empty() && modules[0].kind == SentenceModule::Kind::Pooling;
  }
};

/// Reads `folder`/modules.json; without that file the chain is empty. A chain
/// of PyLate on every token ends with a Normalize, which its folder leaves out.
/// False with `error` if the file is malformed or has a module that is not
/// supported, such as one on tokens before a Pooling.
bool readSentenceChain(const std::string &folder, SentenceChain &chain,
                       std::vector<std::string> &notes, std::string &error);

/// Reads the modules' configs and tensors. `hidden` is the size of the token
/// vectors, `files` receives the files that tensors stand in.
bool bindSentenceChain(const std::string &folder, const SentenceChain &chain,
                       int64_t hidden, bool allowUnused,
                       CheckpointReader &reader,
                       std::vector<SentenceModule> &modules,
                       std::set<std::string> &files,
                       std::vector<std::string> &notes, std::string &error);

} // namespace encast

#endif // ENCAST_FRONTENDS_MODELS_SENTENCECHAIN_H
