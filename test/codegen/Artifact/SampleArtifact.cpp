//===- SampleArtifact.cpp - a small artifact to write ---------------------===//

#include "test/codegen/Artifact/SampleArtifact.h"
#include "encast_abi.h"
#include "test/codegen/Artifact/TestObjects.h"

namespace encast {
namespace {

std::vector<uint8_t> stepObject(const std::string &prefix) {
  std::string ir = R"(
    declare void @PREFIX_kernel(ptr)
    define void @PREFIX_step(ptr %context, ptr %item) {
      %weightsField = getelementptr inbounds i8, ptr %context, i64 8
      %weights = load ptr, ptr %weightsField
      %weight = load ptr, ptr %weights
      %slots = load ptr, ptr %context
      %slot = load ptr, ptr %slots
      %value = load float, ptr %weight
      store float %value, ptr %slot
      call void @PREFIX_kernel(ptr %slot)
      ret void
    })";
  for (size_t at = ir.find("PREFIX"); at != std::string::npos;
       at = ir.find("PREFIX"))
    ir.replace(at, 6, prefix);
  return compileIR(ir.c_str());
}

WeightRecipe weight(const std::string &name, const std::string &tensor,
                    int64_t rows) {
  RecipeBuilder builder(name);
  builder.tensor(tensor, {rows});
  return builder.recipe;
}

ArtifactVariant variant(const std::string &name, const std::string &prefix,
                        uint8_t value) {
  ArtifactVariant variant = {};
  variant.name = name;
  variant.cpuFeatures = ENCAST_CPU_AVX2;
  variant.rank = value;
  variant.blockBytes = 4096;
  variant.workspaceBytes = 128;
  variant.colours = 1;
  variant.slots = {{"hidden", ENCAST_SLOT_ARENA, 0},
                   {"last_hidden_state", ENCAST_SLOT_OUTPUT, 0}};
  variant.forms = {{0, 3, 16, 8, 64}};
  variant.weights = {weight("shared", "shared", 5),
                     weight("own", prefix + ".own", 33)};
  ArtifactCall call = {"encoder.layer.0.output",
                       prefix + "_kernel",
                       prefix + "_step",
                       ENCAST_MODE_ALL,
                       3,
                       1,
                       3,
                       1000,
                       10,
                       64};
  variant.steps = {
      {"layer.0", ENCAST_DOMAIN_TOKENS, 1, 64, 8, 32, 0, {call, call}},
      {"pool", ENCAST_DOMAIN_SEQUENCES, 0, 16, 1, 0, 0, {call}}};
  variant.kernels = {{prefix + "_kernel", sampleKernel(value)},
                     {prefix + "_other", {0xc3}}};
  variant.object = stepObject(prefix);
  return variant;
}

} // namespace

std::vector<uint8_t> sampleKernel(uint8_t value) {
  return {0xc7, 0x47, 0x04, value, 0, 0, 0, 0xc3};
}

SampleArtifact::SampleArtifact() {
  source.tensors["shared"] = bytesOf<float>({1.5f, 2, 3, 4, 5});
  source.tensors["v3.own"] = bytesOf(std::vector<float>(33, 3.0f));
  source.tensors["v4.own"] = bytesOf(std::vector<float>(33, 4.0f));
  model.family = "bert";
  model.metadata = R"({"target": "test"})";
  model.vocabulary = 30522;
  model.maxTokens = 512;
  model.tokenTypes = 2;
  model.padId = 0;
  model.hidden = 384;
  model.layers = 6;
  model.defaultOutput = 1;
  model.outputs = {{"last_hidden_state", 384, true, false},
                   {"pooler_output", 384, false, true}};
  model.variants = {variant("x86-64-v3", "v3", 42),
                    variant("x86-64-v4", "v4", 43)};
}

} // namespace encast
