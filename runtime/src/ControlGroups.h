//===- ControlGroups.h - what the system gives this process -----*- C++ -*-===//
///
/// \file
/// A process lies in a tree of control groups, and each group on the way to the
/// root may limit it. Version 2 has one tree, version 1 one per controller.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_CONTROLGROUPS_H
#define ENCAST_RUNTIME_SRC_CONTROLGROUPS_H

#include <cstdint>

namespace encast::runtime {

constexpr int64_t kNoLimit = INT64_MAX;

/// A whole small file, cut at the size of the buffer. Paths start at `root`,
/// which is "" but in tests.
struct SmallFile {
  char text[8192];
  bool found = false;

  SmallFile(const char *root, const char *path);
  /// The file `name` of `folder`.
  SmallFile(const char *root, const char *folder, const char *name);
  /// Whether the file begins with a number.
  bool number(int64_t &value) const;
  /// The number behind `key`, which begins a line; 0 if there is none.
  int64_t numberOf(const char *key) const;

private:
  void read(const char *path);
};

/// What one group allows; kNoLimit if it says nothing. `unified`: version 2.
using GroupLimit = int64_t (*)(const char *root, const char *folder,
                               bool unified);

/// The least of what the groups of this process allow, on the way to the root
/// of the tree of `controller` ("cpu", "memory") in both versions; kNoLimit if
/// there are none.
int64_t leastOfGroups(const char *root, const char *controller,
                      GroupLimit limit);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_CONTROLGROUPS_H
