//===- Descriptor.h - the tables of an artifact as bytes --------*- C++ -*-===//
///
/// \file
/// Lays out encast_abi_descriptor and all it refers to as one block of bytes.
/// Functions are left zero for the linker to fill in.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_ARTIFACT_DESCRIPTOR_H
#define ENCAST_CODEGEN_ARTIFACT_DESCRIPTOR_H

#include "codegen/Artifact/ArtifactWriter.h"
#include "encast_abi.h"

namespace encast {

/// The weights as the descriptor names them.
struct DescriptorWeights {
  std::vector<encast_abi_blob> blobs;
  /// Room that the table of blobs takes, in blobs, at least blobs.size().
  size_t capacity = 0;
  /// Index of the blob of each weight, for each variant.
  std::vector<std::vector<uint32_t>> blobOf;
  uint64_t bytes = 0;   ///< Size of the weights section.
  std::string fileName; ///< Of the side file; empty if there is none.
};

/// A field that becomes the distance of a function from the descriptor.
struct FunctionField {
  uint64_t offset; ///< In the descriptor; the field has eight bytes.
  std::string symbol;
};

struct Descriptor {
  std::vector<uint8_t> bytes;
  std::vector<FunctionField> functions; ///< By ascending offset.
};

/// The size and the offsets depend on the model, the capacity and the side
/// file's name alone, so that a descriptor can be linked before the weights are
/// known and replaced afterwards. The artifact id is left zero.
Descriptor buildDescriptor(const ArtifactModel &model,
                           const DescriptorWeights &weights);

} // namespace encast

#endif // ENCAST_CODEGEN_ARTIFACT_DESCRIPTOR_H
