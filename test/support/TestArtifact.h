//===- TestArtifact.h - make a small valid artifact -------------*- C++ -*-===//
///
/// \file
/// Builds artifact files for tests of the runtime, without the compiler: the
/// code is TestModel.c, linked when the tests are built; tables, weights and
/// artifact id are written here. A test changes a field before build(), or the
/// finished bytes and then calls seal().
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_SUPPORT_TESTARTIFACT_H
#define ENCAST_TEST_SUPPORT_TESTARTIFACT_H

#include "encast_abi.h"
#include "test/support/TestModel.h"
#include <cstdint>
#include <string>
#include <vector>

namespace encast::test {

using Bytes = std::vector<uint8_t>;

struct TestCall {
  std::string name, function; ///< Function: a symbol of TestModel.c.
  uint32_t modes, panels, panelTile;
  uint64_t outputs;
  uint32_t window = 0;     ///< Of attention.
  std::string kernel = ""; ///< Empty: called as the function.
  bool perHead = false;
};

struct TestStep {
  std::string name;
  uint32_t domain, layer, heads;
  std::vector<TestCall> calls;
};

struct TestVariant {
  std::string name = "x86-64-v1";
  uint64_t cpuFeatures = 0, rank = 1;
};

struct TestArtifact {
  std::string family = "test", metadata = "{\"licence\": \"none\"}";
  uint32_t abiVersion = ENCAST_ABI_VERSION;
  uint64_t requiredFeatures = 0;
  int64_t maxTokens = TEST_MAX_TOKENS;
  std::vector<TestVariant> variants = {TestVariant()};
  /// How steps over rows and attention are cut.
  uint32_t maxRows = 16, rowTile = 4, splitRows = 16, queryRows = 8;
  int64_t flopsPerRow = 100, flopsPerRowAndKey = 10; ///< Of attention.
  /// Blobs of weight 0 (floats) and weight 1 (number of those).
  std::vector<float> weights = {1, 2, 3};
  /// If not 0, the floats of weight 0: all but the last lie in a hole.
  int64_t sparseFloats = 0;
  uint32_t weightFlags[2] = {0, 0};
  /// If not empty, the weights go to a file of this name.
  std::string weightsFile;

  TestArtifact();

  /// The artifact up to its weights section.
  Bytes build() const;
  /// Writes the artifact (and its weights file) and returns the path.
  std::string write(const std::string &path) const;

  std::vector<TestStep> steps;

private:
  Bytes descriptor(uint64_t address, const Bytes &library) const;
  Bytes weightBytes() const;
  /// What lies beside `artifact`.
  Bytes weightsFileOf(const Bytes &artifact) const;
  int64_t floatCount() const;
};

/// Writes a whole file; aborts the test on failure.
void writeFile(const std::string &path, const Bytes &bytes);
Bytes readFile(const std::string &path);

/// A folder of its own for one test, removed at the end of the scope.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }

private:
  std::string folder;
};

/// The descriptor in an artifact's bytes, to be changed in place.
encast_abi_descriptor &descriptorOf(Bytes &artifact);
template <typename Row>
Row *rowsOf(Bytes &artifact, const encast_abi_table &table) {
  auto *base = reinterpret_cast<char *>(&descriptorOf(artifact));
  return reinterpret_cast<Row *>(base + table.offset);
}
/// Computes the artifact id again after a change.
void seal(Bytes &artifact);

} // namespace encast::test

#endif // ENCAST_TEST_SUPPORT_TESTARTIFACT_H
