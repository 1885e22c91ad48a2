//===- ArtifactWriter.cpp - write a model.so ------------------------------===//
///
/// \file
/// The descriptor holds hashes of the weights, which lie behind the code in the
/// file, so the order is: link with a descriptor of the final size, write the
/// weights one at a time behind it, then put in the final descriptor.
//===----------------------------------------------------------------------===//

#define XXH_INLINE_ALL
#include "codegen/Artifact/ArtifactWriter.h"
#include "codegen/Artifact/Descriptor.h"
#include "codegen/Artifact/ElfImage.h"
#include "codegen/Artifact/Linker.h"
#include "codegen/Artifact/ObjectFile.h"
#include "codegen/Artifact/OutputFile.h"
#include <cassert>
#include <map>
#include <set>
#include <tuple>
#include <xxhash.h>

namespace encast {
namespace {

/// Functions that LLVM makes of loops which fill and copy, for x86-64. String
/// instructions: no loop to tune and no vector register to leave dirty.
std::vector<KernelCode> memoryFunctions() {
  return {{"memset",
           {
               0x49,
               0x89,
               0xf8, // mov %rdi, %r8
               0x89,
               0xf0, // mov %esi, %eax
               0x48,
               0x89,
               0xd1, // mov %rdx, %rcx
               0xf3,
               0xaa, // rep stosb
               0x4c,
               0x89,
               0xc0, // mov %r8, %rax
               0xc3, // ret
           }},
          {"memcpy",
           {
               0x48,
               0x89,
               0xf8, // mov %rdi, %rax
               0x48,
               0x89,
               0xd1, // mov %rdx, %rcx
               0xf3,
               0xa4, // rep movsb
               0xc3, // ret
           }},
          {"memmove",
           {
               0x48, 0x89, 0xf8,             // mov %rdi, %rax
               0x48, 0x89, 0xd1,             // mov %rdx, %rcx
               0x49, 0x89, 0xf8,             // mov %rdi, %r8
               0x49, 0x29, 0xf0,             // sub %rsi, %r8
               0x49, 0x39, 0xd0,             // cmp %rdx, %r8
               0x72, 0x03,                   // jb  backward
               0xf3, 0xa4,                   // rep movsb
               0xc3,                         // ret
               0x48, 0x8d, 0x7c, 0x17, 0xff, // lea -1(%rdi,%rdx), %rdi
               0x48, 0x8d, 0x74, 0x16, 0xff, // lea -1(%rsi,%rdx), %rsi
               0xfd,                         // std
               0xf3, 0xa4,                   // rep movsb
               0xfc,                         // cld
               0xc3,                         // ret
           }}};
}

/// Equal keys, equal bytes: everything of a recipe but its name.
std::string recipeKey(const WeightRecipe &recipe) {
  std::string key;
  auto append = [&](const auto &value) {
    key.append(reinterpret_cast<const char *>(&value), sizeof(value));
  };
  auto appendAll = [&](const auto &values) {
    append(values.size());
    for (const auto &value : values)
      append(value);
  };
  for (const RecipeStep &step : recipe.steps) {
    append(step.kind);
    appendAll(step.operands);
    appendAll(step.file);
    appendAll(step.tensor);
    appendAll(step.shape);
    append(step.type);
    append(step.begin);
    append(step.factor);
    append(step.group);
    append(step.padded);
    append(step.planes);
    append(step.theta);
  }
  return key;
}

class Writer {
public:
  Writer(const ArtifactModel &model, WeightSource &source,
         const std::string &path, const std::string &weightsPath,
         std::string &error)
      : model(model), source(source), path(path), weightsPath(weightsPath),
        error(error) {}

  bool write() {
    if (!checkSymbols() || !createFiles() || !link() || !writeWeights() ||
        !finishArtifact())
      return false;
    if (!weightsPath.empty() && !weightsFile.publishTentatively(error))
      return false;
    if (!artifact.publish(error))
      return false;
    weightsFile.keep();
    return true;
  }

private:
  /// Of each symbol one definition, of each call's function one in its variant.
  bool checkSymbols() {
    std::map<std::string, std::string> owners = {
        {ENCAST_QUERY_SYMBOL, "the artifact"}};
    auto define = [&](const std::string &symbol, const std::string &owner) {
      auto [entry, isNew] = owners.try_emplace(symbol, owner);
      if (!isNew)
        error = path + ": symbol '" + symbol + "' is defined by " +
                entry->second + " and by " + owner;
      return isNew;
    };
    std::set<std::string> undefined;
    for (const ArtifactVariant &variant : model.variants) {
      for (const KernelCode &kernel : variant.kernels)
        if (!define(kernel.symbol,
                    "the kernels of variant '" + variant.name + "'"))
          return false;
      ObjectSymbols symbols;
      std::string reason;
      if (!readObjectSymbols(variant.object, symbols, reason)) {
        error = path + ": step object of variant '" + variant.name + "' is " +
                reason;
        return false;
      }
      for (const std::string &symbol : symbols.defined)
        if (!define(symbol, "the steps of variant '" + variant.name + "'"))
          return false;
      undefined.insert(symbols.undefined.begin(), symbols.undefined.end());
      std::set<std::string> steps(symbols.defined.begin(),
                                  symbols.defined.end());
      for (const ArtifactStep &step : variant.steps)
        for (const ArtifactCall &call : step.calls)
          if (!steps.count(call.function)) {
            error = path + ": call '" + call.name + "' of variant '" +
                    variant.name + "' names function '" + call.function +
                    "', which its step object does not define";
            return false;
          }
    }
    for (KernelCode &function : memoryFunctions())
      if (undefined.count(function.symbol) && !owners.count(function.symbol))
        support.push_back(std::move(function));
    return true;
  }

  bool createFiles() {
    if (!artifact.create(path, error))
      return false;
    if (weightsPath.empty())
      return true;
    if (!weightsFile.create(weightsPath, error))
      return false;
    if (!weightsFile.isBeside(artifact)) {
      error = weightsPath + ": expects another file in the folder of " + path;
      return false;
    }
    weights.fileName = weightsFile.name();
    return true;
  }

  /// Links with room for a blob per different recipe.
  bool link() {
    for (const ArtifactVariant &variant : model.variants) {
      weights.blobOf.emplace_back(variant.weights.size());
      for (const WeightRecipe &recipe : variant.weights)
        recipeBlobs.try_emplace(recipeKey(recipe), 0);
    }
    weights.capacity = recipeBlobs.size();

    std::vector<KernelCode> kernels = std::move(support);
    for (const ArtifactVariant &variant : model.variants)
      kernels.insert(kernels.end(), variant.kernels.begin(),
                     variant.kernels.end());
    std::vector<uint8_t> kernelObject = emitKernelObject(kernels);
    std::vector<uint8_t> descriptorObject =
        emitDescriptorObject(buildDescriptor(model, weights));
    std::vector<LinkInput> inputs = {{"the descriptor", &descriptorObject},
                                     {"the kernels", &kernelObject}};
    for (const ArtifactVariant &variant : model.variants)
      inputs.push_back(
          {"the steps of variant '" + variant.name + "'", &variant.object});
    std::vector<uint8_t> library;
    std::string reason;
    if (!linkSharedLibrary(inputs, library, reason) ||
        !checkSelfContained(library, reason)) {
      error = path + ": " + reason;
      return false;
    }
    image = ElfImage(std::move(library));
    return true;
  }

  bool writeWeights() {
    OutputFile &file = weightsPath.empty() ? artifact : weightsFile;
    if (weightsPath.empty()) // The section table goes behind the weights.
      weightsOffset = alignedTo(image.sizeWithoutTable(), kWeightsAlignment);
    recipeBlobs.clear();
    // By content: size and hash.
    std::map<std::tuple<uint64_t, uint64_t, uint64_t>, uint32_t> contentBlobs;
    std::vector<uint8_t> bytes;
    for (size_t v = 0; v < model.variants.size(); ++v) {
      const std::vector<WeightRecipe> &recipes = model.variants[v].weights;
      for (size_t i = 0; i < recipes.size(); ++i) {
        uint32_t next = uint32_t(weights.blobs.size());
        auto [recipe, isNew] =
            recipeBlobs.try_emplace(recipeKey(recipes[i]), next);
        if (isNew) {
          if (!evaluateRecipe(recipes[i], source, bytes, error))
            return false;
          XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
          auto [content, isNewContent] = contentBlobs.try_emplace(
              {bytes.size(), hash.low64, hash.high64}, next);
          recipe->second = content->second;
          if (isNewContent) {
            uint64_t offset = alignedTo(weights.bytes, ENCAST_ALIGNMENT);
            weights.blobs.push_back(
                {offset, bytes.size(), hash.low64, hash.high64});
            weights.bytes = offset + bytes.size();
            if (!file.write(weightsOffset + offset, bytes.data(), bytes.size(),
                            error))
              return false;
          }
        }
        weights.blobOf[v][i] = recipe->second;
      }
    }
    if (weightsPath.empty())
      return file.resize(weightsOffset + weights.bytes, error);
    return file.write(weights.bytes,
                      reinterpret_cast<const uint8_t *>(weights.blobs.data()),
                      weights.blobs.size() * sizeof(encast_abi_blob), error);
  }

  bool finishArtifact() {
    image.setDescriptor(buildDescriptor(model, weights));
    std::vector<uint8_t> tail;
    uint64_t tailOffset = weightsOffset + weights.bytes;
    if (weightsPath.empty())
      tail = image.addWeightsSection(weightsOffset, weights.bytes, tailOffset);
    return artifact.write(0, image.bytes().data(), image.bytes().size(),
                          error) &&
           artifact.write(tailOffset, tail.data(), tail.size(), error);
  }

  const ArtifactModel &model;
  WeightSource &source;
  const std::string &path, &weightsPath;
  std::string &error;

  OutputFile artifact, weightsFile;
  std::vector<KernelCode> support; ///< Memory functions that are needed.
  std::map<std::string, uint32_t> recipeBlobs; ///< By recipeKey().
  DescriptorWeights weights;
  ElfImage image;
  uint64_t weightsOffset = 0; ///< In their file.
};

} // namespace

bool writeArtifact(const ArtifactModel &model, WeightSource &source,
                   const std::string &path, const std::string &weightsPath,
                   std::string &error) {
  assert(!model.variants.empty() && model.outputs.size() <= 64 &&
         model.defaultOutput < model.outputs.size());
  return Writer(model, source, path, weightsPath, error).write();
}

} // namespace encast
