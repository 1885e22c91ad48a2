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

bool startsWith(const std::string &text, const std::string &prefix);
bool endsWith(const std::string &text, const std::string &suffix);

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
  /// Highest number behind `start` in the names, as in "layers.7.", plus one.
  int64_t countNumbered(const std::string &start) const;

  /// Takes a tensor of this shape, stored as F32, F16 or BF16. Of matrices all
  /// values are looked at, up to the first that is not one of bf16.
  TensorRef take(const std::string &name, const std::vector<Dim> &shape);
  /// Takes a tensor with one element, of shape [] or [1]; 0 if it is wrong.
  double takeScalar(const std::string &name);
  /// `<stored>.weight` [out, in] and `<stored>.bias` [out]; `name` names the
  /// layer in IR and errors.
  LinearSpec linear(const std::string &name, const std::string &stored, Dim out,
                    Dim in, bool bias = true);
  /// `count` rows from `first` of such a linear, whose checkpoint keeps several
  /// on top of each other.
  LinearSpec linearRows(const std::string &name, const std::string &stored,
                        Dim out, Dim in, bool bias, int64_t first,
                        int64_t count);
  /// `<stored>.weight` and `.bias`, in old checkpoints `.gamma` and `.beta`.
  NormSpec norm(const std::string &name, const std::string &stored, Dim size,
                double epsilon, bool bias = true);
  /// `<stored>.weight` of a root-mean-square norm.
  NormSpec rmsNorm(const std::string &name, const std::string &stored, Dim size,
                   double epsilon);
  /// The word table and a masked LM's decoder [vocabulary, hidden], of which a
  /// checkpoint may store either if they are tied: the name of the table.
  std::string tableName(const std::string &words, const std::string &decoder,
                        bool tied) const;
  /// The decoder's weight: `words`, which a decoder that is stored too must
  /// equal, or its own if not tied.
  TensorRef decoder(const TensorRef &words, const std::string &decoder,
                    bool tied, Dim vocabulary, Dim hidden);
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
  std::map<std::string, bool> exactlyBf16; ///< Of the matrices taken.
  /// Outputs may share a tensor; it is reported once.
  static void add(std::vector<std::string> &list, const std::string &text);

  std::vector<std::string> missing, problems;
};

} // namespace encast

#endif // ENCAST_FRONTENDS_MODELS_TENSORBINDER_H
