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

#include <optional>
#include <string>
#include <vector>

namespace encast {

enum class Task {
#define ENCAST_TASK(id, name, suffix) id,
#include "frontends/Models/Tasks.def"
};

/// The task's name in --task.
const char *taskName(Task task);

/// How two rows of outputs give a score, for the metadata: callers compute it.
struct ScoreRule {
  std::string formula = {}; ///< Empty: the model has no scores.
  std::optional<double> logitScale = std::nullopt;
  double bias = 0;
};

struct ImportContext {
  const ImportOptions &options;
  JsonFields &config;    ///< config.json of the transformer.
  TensorBinder &tensors; ///< Its checkpoint.
  /// What the modules behind the transformer give; absent without modules.
  std::optional<OutputSpec::Kind> chain; ///< SentenceEmbedding, TokenEmbeddings
  ModelSpec &spec;                       ///< To be filled.
  std::vector<std::string> &notes;
  std::string &error;
  Task task = Task::FeatureExtraction;
  bool taskIsExplicit = false; ///< From --task, not from `architectures`.
  int64_t labels = 0; ///< Rows of a classifier that id2label names, else 0.
  ScoreRule score = {};
};

/// A row of Tasks.def.
struct TaskRow {
  Task task;
  std::string name, suffix;
};

/// The rows of these tasks, and of those that every family has.
std::vector<TaskRow> taskRows(const std::vector<Task> &tasks);

/// Sets the task from --task or else from `architectures`, whose class names
/// are `classPrefix` and the suffix of one of the family's `tasks` (those that
/// every family has need not be given). False with an error that lists the
/// valid values.
bool chooseTask(ImportContext &context, const std::string &classPrefix,
                const std::vector<Task> &tasks);

/// True if the task has the head whose tensors' names start with `stored`. In a
/// folder made for embeddings the class name may be a left-over of training:
/// there a head is taken if the checkpoint has it.
bool takesHead(const ImportContext &context, Task task,
               const std::string &stored);

/// A size in config.json; where it is absent, the default is taken with a note.
int64_t readSize(ImportContext &context, const char *field, int64_t missing,
                 int64_t maximum);

/// The base of the rotary embedding in layers of `layerType`, such as
/// "full_attention": from rope_scaling, or from rope_parameters, which may hold
/// an object for each type of layer, else from `field`, else `missing`. Any
/// rule but the default one is recorded as an error of config, and so are both
/// objects together.
double readRopeTheta(JsonFields &config, const std::string &layerType,
                     const char *field, double missing);

/// layer_types, an array with one of `valid` for each layer; empty if absent.
std::vector<std::string> readLayerTypes(JsonFields &config, int64_t layers,
                                        const std::vector<std::string> &valid);

/// What stands before the names of the base model, which start with one of
/// `starts`: of `prefixes` the one that the checkpoint has, the first if it has
/// none. False if it has two.
bool findPrefix(ImportContext &context,
                const std::vector<std::string> &prefixes,
                const std::vector<std::string> &starts, std::string &prefix);

/// False if the checkpoint has fewer layers than `layers` behind `start`, as in
/// "encoder.layer.", or more and --allow-unused was not given.
bool checkLayerCount(ImportContext &context, const std::string &start,
                     int64_t layers);

/// An output without its tensors.
OutputSpec makeOutput(const std::string &name, OutputSpec::Kind kind,
                      const std::string &classifier = "", int64_t column = 0);

/// The linear `output.classifier.name`. Rows decide the number of labels, which
/// the metadata names; choices and the ends of answers have a fixed number.
LinearSpec bindClassifier(ImportContext &context, const OutputSpec &output,
                          Dim hidden);

/// last_hidden_state, and what the modules behind the transformer give.
std::vector<OutputSpec> offerBase(const ImportContext &context);

/// Keeps of the outputs in `offered` those asked with --outputs (all without
/// it), orders them, and sets the default. False if a name is unknown (the
/// error lists the valid ones) or given twice.
bool selectOutputs(ImportContext &context,
                   const std::vector<OutputSpec> &offered);

/// Of the heads that attention kernels work with.
constexpr int64_t kMaxHeadSize = 256;
/// Records an error of "num_attention_heads" if `hidden` columns make heads
/// that are larger.
void checkHeadSize(JsonFields &config, int64_t hidden, int64_t heads);

/// Reads an activation's name in Transformers, such as "gelu_new", from a
/// config field; the result is a name of Activations.def, such as "gelu_tanh".
/// An unknown one is recorded as an error of `config` that lists the valid
/// ones.
std::string readActivation(JsonFields &config, const std::string &field,
                           const std::string &missing);

// The import functions.
#define ENCAST_FAMILY(type, function, classes, padId)                          \
  bool function(ImportContext &context);
#include "frontends/Models/Families.def"

} // namespace encast

#endif // ENCAST_FRONTENDS_MODELS_IMPORTCONTEXT_H
