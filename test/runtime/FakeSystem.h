//===- FakeSystem.h - files that stand for /proc and /sys -------*- C++ -*-===//

#ifndef ENCAST_TEST_RUNTIME_FAKESYSTEM_H
#define ENCAST_TEST_RUNTIME_FAKESYSTEM_H

#include "test/support/TestArtifact.h"
#include <string>
#include <sys/stat.h>

namespace encast::test {

/// A tree of small files, below `root`.
class FakeSystem {
public:
  void file(const std::string &path, const std::string &text) {
    for (size_t slash = 1; (slash = path.find('/', slash)) != path.npos;
         ++slash)
      mkdir(folder.path(path.substr(1, slash - 1)).c_str(), 0755);
    writeFile(folder.path(path.substr(1)), Bytes(text.begin(), text.end()));
  }
  std::string root() const {
    std::string path = folder.path("");
    path.pop_back();
    return path;
  }

private:
  TemporaryFolder folder;
};

constexpr const char *kUnifiedMount =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

} // namespace encast::test

#endif // ENCAST_TEST_RUNTIME_FAKESYSTEM_H
