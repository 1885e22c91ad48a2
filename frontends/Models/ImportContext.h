//===- ImportContext.h - what a model family works with ---------*- C++ -*-===//
///
/// \file
/// Handed to the import function of a family, with helpers for what all
/// families share: the task, the choice of outputs, activation names.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_MODELS_IMPORTCONTEXT_H
#define ENCAST_FRONTENDS_MODELS_IMPORTCONTEXT_H

#include "frontends/Formats/Json.h"
#include "frontends/Models/ModelSpec.h"
#include "frontends/Models/TensorBinder.h"

#include <string>
#include <vector>

namespace encast {

enum class Task {
#define ENCAST_TASK(id, name, suffix) id,
#include "frontends/Models/Tasks.def"
};

/// The task's name in --task.
const char *taskName(Task task);

struct ImportContext {
  const ImportOptions &options;
  JsonFields &config;    ///< config.json of the transformer.
  TensorBinder &tensors; ///< Its checkpoint.
  bool hasSentenceChain; ///< The folder pools: sentence_embedding is offered.
  ModelSpec &spec;       ///< To be filled.
  Task task = Task::FeatureExtraction;
  bool taskIsExplicit = false; ///< From --task, not from `architectures`.
  int64_t labels = 0; ///< Rows of a classifier that id2label names, else 0.
  std::vector<std::string> &notes;
  std::string &error;
};

/// Sets the task from --task or else from `architectures`, whose class names
/// start with `classPrefix`. False with an error that lists the valid values.
bool chooseTask(ImportContext &context, const std::string &classPrefix);

/// Keeps of the outputs in `offered` those asked with --outputs (all without
/// it), orders them, and sets the default. False if a name is unknown (the
/// error lists the valid ones) or given twice.
bool selectOutputs(ImportContext &context,
                   const std::vector<OutputSpec> &offered);

/// Reads an activation's name in Transformers, such as "gelu_new", from a
/// config field; the result is a name of Activations.def, such as "gelu_tanh".
/// An unknown one is recorded as an error of `config` that lists the valid
/// ones.
std::string readActivation(JsonFields &config, const std::string &field,
                           const std::string &missing);

// The import functions.
#define ENCAST_FAMILY(type, function) bool function(ImportContext &context);
#include "frontends/Models/Families.def"

} // namespace encast

#endif // ENCAST_FRONTENDS_MODELS_IMPORTCONTEXT_H
