//===- TensorBinder.h - checkpoint tensors against a config -----*- C++ -*-===//
///
/// \file
/// Takes tensors by name, checks their type and shape against what the config
/// implies, and at the end reports everything that is missing, wrong or left
/// over in one error.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_MODELS_TENSORBINDER_H
#define ENCAST_FRONTENDS_MODELS_TENSORBINDER_H

#include "frontends/Formats/Checkpoint.h"
#include "frontends/Models/ModelSpec.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace encast {

/// An expected size and the config field that it comes from.
struct Dim {
  int64_t size;
  const char *field;
};

/// Names joined with commas, at most eight, then "and N more".
std::string listText(const std::vector<std::string> &names);

/// The tensors of one checkpoint folder. Problems are collected: a taken tensor
/// that is missing or wrong gives an empty TensorRef, and finish() fails.
class TensorBinder {
public:
  /// `where` is the folder's path, for errors. `tensors` is copied; the views
  /// must outlive this.
  TensorBinder(const std::vector<CheckpointTensor> &tensors, std::string where);

  bool has(const std::string &name) const { return byName.count(name) != 0; }
  /// Null if there is no such tensor.
  const TensorView *find(const std::string &name) const;
  /// Names in order.
  const std::map<std::string, CheckpointTensor> &all() const { return byName; }
  /// A stored tensor's size along `axis`, or `missing` if it has no such axis.
  int64_t dim(const std::string &name, size_t axis, int64_t missing) const;

  /// Takes a tensor of this shape, stored as F32, F16 or BF16.
  TensorRef take(const std::string &name, const std::vector<Dim> &shape);
  /// `<stored>.weight` [out, in] and `<stored>.bias` [out]; `name` names the
  /// layer in IR and errors.
  LinearSpec linear(const std::string &name, const std::string &stored, Dim out,
                    Dim in, bool bias = true);
  /// `<stored>.weight` and `.bias`, in old checkpoints `.gamma` and `.beta`.
  NormSpec norm(const std::string &name, const std::string &stored, Dim size,
                double epsilon);
  /// Two tensors that must hold the same bytes, because the model ties them.
  void requireEqual(const std::string &first, const std::string &second);
  /// A problem found elsewhere.
  void problem(const std::string &text) { add(problems, text); }

  /// Reports. Tensors never taken are a note if `isKnown` says that the family
  /// has a place for them, silent if they are buffers, an error otherwise (a
  /// note with `allowUnused`). False with `error`, which names the folder.
  bool finish(const std::function<bool(const std::string &)> &isKnown,
              bool allowUnused, std::vector<std::string> &notes,
              std::string &error) const;

  /// Files that taken tensors stand in.
  const std::set<std::string> &files() const { return usedFiles; }

private:
  std::string where;
  std::map<std::string, CheckpointTensor> byName;
  std::set<std::string> taken, usedFiles;
  /// Outputs may share a tensor; it is reported once.
  static void add(std::vector<std::string> &list, const std::string &text);

  std::vector<std::string> missing, problems;
};

} // namespace encast

#endif // ENCAST_FRONTENDS_MODELS_TENSORBINDER_H
