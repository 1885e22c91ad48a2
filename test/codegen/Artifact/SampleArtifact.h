//===- SampleArtifact.h - a small artifact to write -------------*- C++ -*-===//
#ifndef ENCAST_TEST_CODEGEN_ARTIFACT_SAMPLEARTIFACT_H
#define ENCAST_TEST_CODEGEN_ARTIFACT_SAMPLEARTIFACT_H

#include "codegen/Artifact/ArtifactWriter.h"
#include "test/codegen/Artifact/TestSource.h"

namespace encast {

/// Two variants, "x86-64-v3" and "x86-64-v4", that share a weight. The one step
/// of each copies the first value of weight 0 to slot 0 and then calls a kernel
/// that writes 42 (or 43) behind it.
struct SampleArtifact {
  ArtifactModel model;
  TestSource source;

  SampleArtifact();
  bool write(const std::string &path, std::string &error,
             const std::string &weightsPath = "") {
    return writeArtifact(model, source, path, weightsPath, error);
  }
};

/// movl $value, 4(%rdi); ret
std::vector<uint8_t> sampleKernel(uint8_t value);

} // namespace encast

#endif // ENCAST_TEST_CODEGEN_ARTIFACT_SAMPLEARTIFACT_H
