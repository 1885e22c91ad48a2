//===- ImportContext.cpp - what a model family works with -----------------===//

#include "frontends/Models/ImportContext.h"

#include <algorithm>

namespace encast {
namespace {

const std::vector<TaskRow> &allTasks() {
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
  for (const TaskRow &row : allTasks())
    if (row.task == task)
      return row.name.c_str();
  return "";
}

std::vector<TaskRow> taskRows(const std::vector<Task> &tasks) {
  std::vector<TaskRow> rows;
  for (const TaskRow &row : allTasks())
    if (row.task == Task::FeatureExtraction ||
        row.task == Task::SentenceSimilarity ||
        std::find(tasks.begin(), tasks.end(), row.task) != tasks.end())
      rows.push_back(row);
  return rows;
}

bool chooseTask(ImportContext &context, const std::string &classPrefix,
                const std::vector<Task> &tasks) {
  JsonFields &config = context.config;
  const std::string &asked = context.options.task;
  std::vector<TaskRow> rows = taskRows(tasks);
  std::string valid;
  auto addValid = [&](const std::string &name) {
    valid += (valid.empty() ? "" : ", ") + name;
  };
  if (!asked.empty()) {
    for (const TaskRow &row : rows) {
      if (row.name == asked) {
        context.task = row.task;
        context.taskIsExplicit = true;
        if (row.task == Task::SentenceSimilarity &&
            context.chain != OutputSpec::Kind::SentenceEmbedding) {
          context.error = config.where() +
                          ": --task=sentence-similarity needs a modules.json "
                          "that pools, and the folder has none";
          return false;
        }
        return true;
      }
      addValid(row.name);
    }
    context.error =
        "--task: unknown task '" + asked + "', expected one of " + valid;
    return false;
  }

  context.task = context.chain == OutputSpec::Kind::SentenceEmbedding
                     ? Task::SentenceSimilarity
                     : Task::FeatureExtraction;
  const JsonValue *architectures = config.get("architectures");
  if (!architectures || (architectures->is(JsonValue::Kind::Array) &&
                         architectures->elements.empty())) {
    if (!context.chain)
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
  for (const TaskRow &row : rows) {
    if (row.suffix.empty())
      continue;
    addValid(classPrefix + row.suffix);
    if (name != classPrefix + row.suffix)
      continue;
    if (row.task != Task::FeatureExtraction)
      context.task = row.task;
    return true;
  }
  // sentence-transformers loads the bare model whatever the class.
  if (context.chain)
    return true;
  config.fail("architectures", "expected one of " + valid + ", but got \"" +
                                   name + "\" (--task overrides it)");
  return config.ok(context.error);
}

bool takesHead(const ImportContext &context, Task task,
               const std::string &stored) {
  return context.task == task && (!context.chain || context.taskIsExplicit ||
                                  context.tensors.has(stored + ".weight"));
}

int64_t readSize(ImportContext &context, const char *field, int64_t missing,
                 int64_t maximum) {
  JsonFields &config = context.config;
  if (!config.mentions(field))
    context.notes.push_back(config.where() + ": has no " + field +
                            ", the default " + std::to_string(missing) +
                            " is taken");
  return config.integer(field, missing, 1, maximum);
}

double readRopeTheta(JsonFields &config, const std::string &layerType,
                     const char *field, double missing) {
  constexpr double kMaxTheta = 1e30;
  auto requireWhole = [](JsonFields &fields) {
    if (fields.number("partial_rotary_factor", 1.0, 0.0, 2.0) != 1.0)
      fields.fail("partial_rotary_factor",
                  "rotating only a part of a head is not supported");
  };
  auto requireDefault = [&](JsonFields &rope) {
    for (const char *name : {"rope_type", "type"}) {
      std::string type = rope.string(name, "default");
      if (type != "default")
        rope.fail(name, "expected \"default\", but got \"" + type + "\"");
    }
    requireWhole(rope);
  };
  // Theta of an object with the rules of RoPE, or 0 if it has none.
  auto readRules = [&](const JsonValue &rules, const std::string &where) {
    JsonFields rope(rules, where);
    requireDefault(rope);
    double theta = rope.number("rope_theta", 0.0, 0.0, kMaxTheta);
    config.adopt(rope);
    return rope.has("rope_theta") ? theta : 0.0;
  };
  requireWhole(config);
  if (const JsonValue *scaling = config.get("rope_scaling")) {
    double theta = readRules(*scaling, config.where() + ": rope_scaling");
    // Families differ in what holds where both are given.
    if (!scaling->keys.empty() && config.has("rope_parameters"))
      config.fail("rope_scaling",
                  "stands beside rope_parameters, expected one of them");
    if (theta > 0)
      return theta;
  }
  if (const JsonValue *parameters = config.get("rope_parameters")) {
    std::string where = config.where() + ": rope_parameters";
    bool perType = parameters->find("full_attention") ||
                   parameters->find("sliding_attention");
    if (perType) {
      parameters = JsonFields(*parameters, where).get(layerType);
      where += ": " + layerType;
    }
    double theta = parameters ? readRules(*parameters, where) : 0.0;
    if (theta > 0)
      return theta;
  }
  return config.has(field) ? config.number(field, missing, 0.0, kMaxTheta)
                           : missing;
}

std::vector<std::string> readLayerTypes(JsonFields &config, int64_t layers,
                                        const std::vector<std::string> &valid) {
  const char *field = "layer_types";
  std::vector<std::string> types;
  const JsonValue *given = config.get(field);
  if (!given)
    return types;
  std::string expected;
  for (const std::string &type : valid)
    expected.append(expected.empty() ? "\"" : " or \"").append(type) += '"';
  if (!given->is(JsonValue::Kind::Array) ||
      given->elements.size() != static_cast<size_t>(layers))
    config.fail(field,
                "expected an array of " + std::to_string(layers) +
                    " (num_hidden_layers) strings, but got " +
                    (given->is(JsonValue::Kind::Array)
                         ? "one of " + std::to_string(given->elements.size())
                         : given->describe()));
  for (size_t i = 0; i < given->elements.size(); ++i) {
    const JsonValue &element = given->elements[i];
    bool known =
        element.is(JsonValue::Kind::String) &&
        std::find(valid.begin(), valid.end(), element.string) != valid.end();
    if (!known)
      config.fail(field, std::to_string(i) + ": expected " + expected +
                             ", but got " + element.describe());
    types.push_back(element.string);
  }
  return types;
}

bool findPrefix(ImportContext &context,
                const std::vector<std::string> &prefixes,
                const std::vector<std::string> &starts, std::string &prefix) {
  std::vector<std::string> found; // A name of each prefix.
  prefix = prefixes.front();
  for (const std::string &candidate : prefixes) {
    auto isOfBase = [&](const auto &entry) {
      return std::any_of(starts.begin(), starts.end(),
                         [&](const std::string &start) {
                           return startsWith(entry.first, candidate + start);
                         });
    };
    const auto &all = context.tensors.all();
    auto base = std::find_if(all.begin(), all.end(), isOfBase);
    if (base == all.end())
      continue;
    found.push_back(base->first);
    prefix = candidate;
  }
  if (found.size() < 2)
    return true;
  context.error = context.config.where() + ": the checkpoint has both " +
                  found[0] + " and " + found[1] +
                  ", so it is not clear which model is meant";
  return false;
}

bool checkLayerCount(ImportContext &context, const std::string &start,
                     int64_t layers) {
  int64_t stored = context.tensors.countNumbered(start);
  if (stored < layers || (stored > layers && !context.options.allowUnused))
    context.config.fail("num_hidden_layers",
                        "is " + std::to_string(layers) +
                            ", but the checkpoint has tensors of " +
                            std::to_string(stored) + " layers");
  return context.config.ok(context.error);
}

OutputSpec makeOutput(const std::string &name, OutputSpec::Kind kind,
                      const std::string &classifier, int64_t column) {
  OutputSpec output;
  output.name = name;
  output.kind = kind;
  output.classifier.name = classifier;
  output.column = column;
  return output;
}

LinearSpec bindClassifier(ImportContext &context, const OutputSpec &output,
                          Dim hidden) {
  TensorBinder &tensors = context.tensors;
  const std::string &name = output.classifier.name;
  Dim rows{tensors.dim(name + ".weight", 0, 1), "labels"};
  if (context.task == Task::MultipleChoice)
    rows = {1, "choice"};
  else if (output.kind == OutputSpec::Kind::TokenColumn)
    rows = {2, "classes"};
  else
    context.labels = rows.size;
  if (rows.size < 1)
    tensors.problem(name + ".weight: has no rows");
  return tensors.linear(name, name, rows, hidden);
}

std::vector<OutputSpec> offerBase(const ImportContext &context) {
  using Kind = OutputSpec::Kind;
  std::vector<OutputSpec> offered = {
      makeOutput("last_hidden_state", Kind::LastHiddenState)};
  if (context.chain)
    offered.push_back(makeOutput(*context.chain == Kind::SentenceEmbedding
                                     ? "sentence_embedding"
                                     : "token_embeddings",
                                 *context.chain));
  return offered;
}

bool selectOutputs(ImportContext &context,
                   const std::vector<OutputSpec> &offered) {
  static const char *const order[] = {
      "last_hidden_state", "pooler_output",   "sentence_embedding",
      "token_embeddings",  "logits",          "nsp_logits",
      "token_logits",      "start_logits",    "end_logits",
      "token_projections", "rule_projections"};
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

void checkHeadSize(JsonFields &config, int64_t hidden, int64_t heads) {
  if (hidden / heads > kMaxHeadSize)
    config.fail("num_attention_heads",
                "expected heads of at most " + std::to_string(kMaxHeadSize) +
                    " columns, but hidden_size " + std::to_string(hidden) +
                    " is given and " + std::to_string(heads) + " heads");
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
