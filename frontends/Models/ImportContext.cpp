//===- ImportContext.cpp - what a model family works with -----------------===//

#include "frontends/Models/ImportContext.h"

#include <algorithm>

namespace encast {
namespace {

struct TaskRow {
  Task task;
  std::string name, suffix;
};

const std::vector<TaskRow> &taskRows() {
  static const std::vector<TaskRow> rows = {
#define ENCAST_TASK(id, name, suffix) {Task::id, name, suffix},
#include "frontends/Models/Tasks.def"
  };
  return rows;
}

struct ActivationRow {
  const char *name, *activation;
};

// gelu_fast writes sqrt(2 / pi) as 0.7978845608: the same float.
constexpr ActivationRow kActivations[] = {
    {"gelu", "gelu"},
    {"gelu_python", "gelu"},
    {"gelu_new", "gelu_tanh"},
    {"gelu_pytorch_tanh", "gelu_tanh"},
    {"gelu_python_tanh", "gelu_tanh"},
    {"gelu_accurate", "gelu_tanh"},
    {"gelu_fast", "gelu_tanh"},
    {"quick_gelu", "quick_gelu"},
    {"relu", "relu"},
    {"silu", "silu"},
    {"swish", "silu"},
    {"tanh", "tanh"},
    {"sigmoid", "sigmoid"},
    {"linear", "none"},
};

} // namespace

const char *taskName(Task task) {
  for (const TaskRow &row : taskRows())
    if (row.task == task)
      return row.name.c_str();
  return "";
}

bool chooseTask(ImportContext &context, const std::string &classPrefix) {
  JsonFields &config = context.config;
  const std::string &asked = context.options.task;
  if (!asked.empty()) {
    std::vector<std::string> names;
    for (const TaskRow &row : taskRows()) {
      if (row.name == asked) {
        context.task = row.task;
        context.taskIsExplicit = true;
        if (row.task == Task::SentenceSimilarity && !context.hasSentenceChain) {
          context.error = config.where() +
                          ": --task=sentence-similarity needs a modules.json "
                          "that pools, and the folder has none";
          return false;
        }
        return true;
      }
      names.push_back(row.name);
    }
    context.error = "--task: unknown task '" + asked + "', expected one of ";
    for (size_t i = 0; i < names.size(); ++i)
      context.error += (i ? ", " : "") + names[i];
    return false;
  }

  context.task = context.hasSentenceChain ? Task::SentenceSimilarity
                                          : Task::FeatureExtraction;
  const JsonValue *architectures = config.get("architectures");
  if (!architectures || (architectures->is(JsonValue::Kind::Array) &&
                         architectures->elements.empty())) {
    if (!context.hasSentenceChain)
      context.notes.push_back(config.where() +
                              ": has no architectures, so no head is taken; "
                              "--task selects one");
    return true;
  }
  if (!architectures->is(JsonValue::Kind::Array) ||
      !architectures->elements[0].is(JsonValue::Kind::String)) {
    config.fail("architectures", "expected an array of strings");
    return config.ok(context.error);
  }
  const std::string &name = architectures->elements[0].string;
  std::vector<std::string> names;
  for (const TaskRow &row : taskRows()) {
    if (row.suffix.empty())
      continue;
    names.push_back(classPrefix + row.suffix);
    if (name != names.back())
      continue;
    if (row.task != Task::FeatureExtraction)
      context.task = row.task;
    return true;
  }
  // sentence-transformers loads the bare model whatever the class.
  if (context.hasSentenceChain)
    return true;
  std::string valid;
  for (size_t i = 0; i < names.size(); ++i)
    valid += (i ? ", " : "") + names[i];
  config.fail("architectures", "expected one of " + valid + ", but got \"" +
                                   name + "\" (--task overrides it)");
  return config.ok(context.error);
}

bool selectOutputs(ImportContext &context,
                   const std::vector<OutputSpec> &offered) {
  static const char *const order[] = {
      "last_hidden_state", "pooler_output", "sentence_embedding", "logits",
      "nsp_logits",        "token_logits",  "start_logits",       "end_logits"};
  static const char *const defaults[] = {"sentence_embedding", "logits",
                                         "token_logits", "last_hidden_state"};
  const std::vector<std::string> &asked = context.options.outputs;
  std::vector<OutputSpec> &outputs = context.spec.outputs;
  outputs.clear();
  std::string valid;
  for (const char *name : order)
    for (const OutputSpec &output : offered) {
      if (output.name != name)
        continue;
      valid += (valid.empty() ? "" : ", ") + output.name;
      if (asked.empty() ||
          std::find(asked.begin(), asked.end(), output.name) != asked.end())
        outputs.push_back(output);
    }
  for (size_t i = 0; i < asked.size(); ++i) {
    bool known = std::any_of(
        outputs.begin(), outputs.end(),
        [&](const OutputSpec &output) { return output.name == asked[i]; });
    bool twice = std::count(asked.begin(), asked.end(), asked[i]) > 1;
    if (known && !twice)
      continue;
    context.error = known ? "--outputs: '" + asked[i] + "' is given twice"
                          : "--outputs: unknown output '" + asked[i] +
                                "', expected some of " + valid;
    return false;
  }
  context.spec.defaultOutput = 0;
  for (const char *name : defaults)
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].name == name) {
        context.spec.defaultOutput = static_cast<int64_t>(i);
        return true;
      }
  return true;
}

std::string readActivation(JsonFields &config, const std::string &field,
                           const std::string &missing) {
  std::string name = config.string(field, missing);
  std::string valid;
  for (const ActivationRow &row : kActivations) {
    if (name == row.name)
      return row.activation;
    valid += (valid.empty() ? "" : ", ") + std::string(row.name);
  }
  config.fail(field, "expected one of " + valid + ", but got \"" + name + "\"");
  return "";
}

} // namespace encast
