//===- ArtifactWriterTest.cpp ---------------------------------------------===//
///
/// \file
/// Writes artifacts and reads them back with LLVM's ELF reader and with the
/// dynamic loader. Run with `--write PATH`, the program only writes the sample.
//===----------------------------------------------------------------------===//

#include "codegen/Artifact/ArtifactWriter.h"
#include "codegen/Artifact/OutputFile.h"
#include "encast_abi.h"
#include "test/codegen/Artifact/ArtifactReader.h"
#include "test/codegen/Artifact/SampleArtifact.h"
#include "test/codegen/Artifact/TestObjects.h"
#include "llvm/BinaryFormat/ELF.h"
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace encast;

namespace {

/// Each test has a folder of its own.
class ArtifactWriter : public testing::Test {
protected:
  void SetUp() override {
    char name[] = "/tmp/encast-artifact-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = std::string(name) + "/";
  }
  void TearDown() override {
    for (const std::string &name : files())
      if (remove((folder + name).c_str()) != 0)
        ADD_FAILURE() << "cannot remove " << name;
    rmdir(folder.c_str());
  }

  /// Names in the folder, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    DIR *opened = opendir(folder.c_str());
    while (dirent *entry = readdir(opened))
      if (std::string(entry->d_name) != "." &&
          std::string(entry->d_name) != "..")
        names.push_back(entry->d_name);
    closedir(opened);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string contents(const std::string &name) const {
    std::string text;
    if (FILE *file = fopen((folder + name).c_str(), "rb")) {
      char buffer[4096];
      for (size_t count; (count = fread(buffer, 1, sizeof(buffer), file));)
        text.append(buffer, count);
      fclose(file);
    }
    return text;
  }

  void put(const std::string &name, const std::string &text) const {
    FILE *file = fopen((folder + name).c_str(), "wb");
    ASSERT_NE(file, nullptr);
    fwrite(text.data(), 1, text.size(), file);
    fclose(file);
  }

  /// Writes the sample to "model.so".
  void write(const std::string &weightsPath = "") {
    std::string error;
    ASSERT_TRUE(sample.write(folder + "model.so", error, weightsPath)) << error;
  }

  /// The error of writing "model.so"; checks that nothing is left.
  std::string writeError(const std::string &weightsPath = "") {
    std::vector<std::string> before = files();
    std::string error;
    EXPECT_FALSE(sample.write(folder + "model.so", error, weightsPath));
    EXPECT_EQ(files(), before);
    return withoutFolder(error);
  }

  /// The error of writing "model.so" in a process that `prepare` changes.
  template <typename Prepare>
  std::string errorInChild(Prepare prepare, const std::string &weightsPath) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
      std::string error = "cannot prepare";
      bool written =
          prepare() && sample.write(folder + "model.so", error, weightsPath);
      bool told =
          ::write(ends[1], error.data(), error.size()) == ssize_t(error.size());
      _exit(written || !told);
    }
    close(ends[1]);
    std::string error(4096, '\0');
    error.resize(std::max<ssize_t>(0, ::read(ends[0], &error[0], 4096)));
    close(ends[0]);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    return withoutFolder(error);
  }

  std::string withoutFolder(std::string text) const {
    for (size_t at; (at = text.find(folder)) != std::string::npos;)
      text.erase(at, folder.size());
    return text;
  }

  /// Another weight for the first variant.
  void addWeight(const std::string &name, std::vector<uint8_t> bytes) {
    RecipeBuilder builder(name);
    builder.tensor(name, {int64_t(bytes.size() / 4)});
    sample.source.tensors[name] = std::move(bytes);
    sample.model.variants[0].weights.push_back(builder.recipe);
  }

  std::string folder;
  SampleArtifact sample;
};

TEST_F(ArtifactWriter, SampleIsAValidSelfContainedLibrary) {
  write();
  ArtifactReader reader;
  EXPECT_EQ(reader.open(folder + "model.so"), "");
  EXPECT_EQ(files(), std::vector<std::string>{"model.so"});
}

TEST_F(ArtifactWriter, KernelsAreLocalFunctionsOfExactSizeAndBytes) {
  sample.model.variants[0].kernels.push_back(
      {"v3_large", std::vector<uint8_t>(70001, 0x90)});
  write();
  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  for (const ArtifactVariant &variant : sample.model.variants)
    for (const KernelCode &kernel : variant.kernels) {
      const ElfSymbol *symbol = reader.symbol(kernel.symbol);
      ASSERT_NE(symbol, nullptr) << kernel.symbol;
      EXPECT_EQ(symbol->type, llvm::ELF::STT_FUNC);
      EXPECT_EQ(symbol->binding, llvm::ELF::STB_LOCAL);
      EXPECT_EQ(symbol->address % 64, 0u);
      EXPECT_EQ(reader.contents(*symbol), kernel.bytes);
    }
  EXPECT_EQ(reader.symbol("v4_step")->type, llvm::ELF::STT_FUNC);
}

TEST_F(ArtifactWriter, DescriptorHoldsTheModel) {
  write();
  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  const encast_abi_descriptor &d = *reader.descriptor;
  EXPECT_EQ(d.required_features, 0u);
  EXPECT_EQ(d.vocabulary, 30522);
  EXPECT_EQ(d.max_tokens, 512);
  EXPECT_EQ(d.token_types, 2);
  EXPECT_EQ(d.pad_id, 0);
  EXPECT_EQ(d.hidden, 384);
  EXPECT_EQ(d.layers, 6);
  EXPECT_STREQ(reader.string(d.model), "bert");
  EXPECT_STREQ(reader.string(d.metadata), R"({"target": "test"})");
  EXPECT_EQ(d.default_output, 1u);
  EXPECT_EQ(d.weights_file, 0u);

  auto outputs = reader.table<encast_abi_output>(d.outputs);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_STREQ(reader.string(outputs[0].name), "last_hidden_state");
  EXPECT_EQ(outputs[0].columns, 384);
  EXPECT_EQ(outputs[0].per_token, 1u);
  EXPECT_EQ(outputs[0].all_rows, 0u);
  EXPECT_EQ(outputs[1].per_token, 0u);
  EXPECT_EQ(outputs[1].all_rows, 1u);

  auto variants = reader.table<encast_abi_variant>(d.variants);
  ASSERT_EQ(variants.size(), 2u);
  const encast_abi_variant &v = variants[1];
  EXPECT_STREQ(reader.string(v.name), "x86-64-v4");
  EXPECT_EQ(v.cpu_features, unsigned(ENCAST_CPU_AVX2));
  EXPECT_EQ(v.rank, 43u);
  EXPECT_EQ(v.block_bytes, 4096);
  EXPECT_EQ(v.workspace_bytes, 128);
  EXPECT_EQ(v.colours, 1u);

  auto slots = reader.table<encast_abi_slot>(v.slots);
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_STREQ(reader.string(slots[1].name), "last_hidden_state");
  // Equal strings are stored once.
  EXPECT_EQ(slots[1].name, outputs[0].name);
  EXPECT_EQ(slots[1].kind, unsigned(ENCAST_SLOT_OUTPUT));
  EXPECT_EQ(slots[1].index, 0u);

  auto forms = reader.table<encast_abi_form>(v.forms);
  ASSERT_EQ(forms.size(), 1u);
  EXPECT_EQ(forms[0].colour, 0u);
  EXPECT_EQ(forms[0].outputs, 3u);
  EXPECT_EQ(forms[0].bytes_per_token, 16);
  EXPECT_EQ(forms[0].bytes_per_sequence, 8);
  EXPECT_EQ(forms[0].bytes, 64);

  auto steps = reader.table<encast_abi_step>(v.steps);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_STREQ(reader.string(steps[0].name), "layer.0");
  EXPECT_EQ(steps[0].domain, unsigned(ENCAST_DOMAIN_TOKENS));
  EXPECT_EQ(steps[0].layer, 1u);
  EXPECT_EQ(steps[0].max_rows, 64u);
  EXPECT_EQ(steps[0].row_tile, 8u);
  EXPECT_EQ(steps[0].split_rows, 32u);
  EXPECT_EQ(steps[0].heads, 0u);
  EXPECT_EQ(steps[0].first_call, 0u);
  EXPECT_EQ(steps[0].call_count, 2u);
  EXPECT_EQ(steps[1].first_call, 2u);
  EXPECT_EQ(steps[1].call_count, 1u);

  auto calls = reader.table<encast_abi_call>(v.calls);
  ASSERT_EQ(calls.size(), 3u);
  for (const encast_abi_call &call : calls) {
    EXPECT_STREQ(reader.string(call.name), "encoder.layer.0.output");
    EXPECT_STREQ(reader.string(call.kernel), "v4_kernel");
    EXPECT_EQ(reader.descriptorAddress + call.function,
              reader.symbol("v4_step")->address);
    EXPECT_EQ(call.modes, unsigned(ENCAST_MODE_ALL));
    EXPECT_EQ(call.panels, 3u);
    EXPECT_EQ(call.panel_tile, 1u);
    EXPECT_EQ(call.outputs, 3u);
    EXPECT_EQ(call.flops_per_row, 1000);
    EXPECT_EQ(call.flops_per_row_and_key, 10);
    EXPECT_EQ(call.window, 64u);
  }
}

TEST_F(ArtifactWriter, DescriptorSaysThatCallersMayGiveAnAttendedLength) {
  sample.model.attendedLength = true;
  write();
  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  EXPECT_EQ(reader.descriptor->required_features,
            unsigned(ENCAST_FEATURE_ATTENDED_LENGTH));
}

TEST_F(ArtifactWriter, EqualWeightsOfVariantsAreStoredOnce) {
  addWeight("copy of shared", sample.source.tensors["shared"]);
  // The same bytes as "v3.own" from another recipe.
  RecipeBuilder scaled("half of six");
  sample.source.tensors["six"] = bytesOf(std::vector<float>(33, 6.0f));
  scaled.scale(scaled.tensor("six", {33}), 0.5, {33});
  sample.model.variants[1].weights.push_back(scaled.recipe);
  write();
  // Of the two equal recipes one was read.
  EXPECT_EQ(sample.source.reads, 5);

  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  auto blobs = reader.table<encast_abi_blob>(reader.descriptor->blobs);
  ASSERT_EQ(blobs.size(), 3u);
  auto variants = reader.table<encast_abi_variant>(reader.descriptor->variants);
  const std::vector<std::vector<uint32_t>> expected = {{0, 1, 0}, {0, 2, 1}};
  for (size_t v = 0; v < 2; ++v) {
    auto weights = reader.table<encast_abi_weight>(variants[v].weights);
    ASSERT_EQ(weights.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const WeightRecipe &recipe = sample.model.variants[v].weights[i];
      EXPECT_EQ(reader.string(weights[i].name), recipe.name);
      EXPECT_EQ(weights[i].blob, expected[v][i]);
      const encast_abi_blob &blob = blobs[weights[i].blob];
      std::vector<uint8_t> bytes;
      std::string error;
      ASSERT_TRUE(evaluateRecipe(recipe, sample.source, bytes, error));
      EXPECT_EQ(std::vector<uint8_t>(reader.weights + blob.offset,
                                     reader.weights + blob.offset + blob.size),
                bytes);
    }
  }
}

TEST_F(ArtifactWriter, WeightsThatArePackedForKernelsAreMarked) {
  sample.source.tensors["matrix"] = bytesOf(std::vector<float>(33, 6.0f));
  RecipeBuilder tiles("tiles"), panels("panels");
  tiles.packTiles(tiles.tensor("matrix", {3, 11}), 1, {1, 1, 1024});
  panels.add(RecipeStep::Kind::PackPanels, {panels.tensor("matrix", {3, 11})},
             {1, 11, 16});
  auto &recipes = sample.model.variants[0].weights;
  size_t before = recipes.size();
  recipes.push_back(tiles.recipe);
  recipes.push_back(panels.recipe);
  write();
  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  auto variants = reader.table<encast_abi_variant>(reader.descriptor->variants);
  auto weights = reader.table<encast_abi_weight>(variants[0].weights);
  ASSERT_EQ(weights.size(), before + 2);
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(weights[i].flags,
              i < before ? 0u : unsigned(ENCAST_WEIGHT_STREAMED));
}

TEST_F(ArtifactWriter, LoaderRunsTheStepsOfEachVariant) {
  write();
  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  void *library = dlopen((folder + "model.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto query =
      reinterpret_cast<encast_abi_query>(dlsym(library, ENCAST_QUERY_SYMBOL));
  ASSERT_NE(query, nullptr);
  EXPECT_EQ(query(0), nullptr);
  const encast_abi_descriptor *descriptor = query(ENCAST_ABI_VERSION);
  ASSERT_NE(descriptor, nullptr);
  EXPECT_EQ(query(UINT32_MAX), descriptor);
  EXPECT_EQ(
      std::memcmp(descriptor, reader.descriptor, descriptor->descriptor_bytes),
      0);

  const char *base = reinterpret_cast<const char *>(descriptor);
  for (const encast_abi_variant &variant :
       reader.table<encast_abi_variant>(descriptor->variants)) {
    auto call = reader.table<encast_abi_call>(variant.calls)[2];
    struct {
      float value;
      int32_t mark;
    } row = {};
    void *slots[] = {&row};
    const float weight = 1.5f;
    const void *weights[] = {&weight};
    encast_abi_context context = {};
    context.slots = slots;
    context.weights = weights;
    encast_abi_item item = {};
    reinterpret_cast<encast_abi_function>(
        reinterpret_cast<uintptr_t>(base + call.function))(&context, &item);
    EXPECT_EQ(row.value, 1.5f);
    EXPECT_EQ(row.mark, int32_t(variant.rank));
  }
  dlclose(library);
}

TEST_F(ArtifactWriter, MemoryFunctionsThatLLVMCallsAreProvided) {
  sample.model.variants[0].object = compileIR(R"(
    declare void @v3_kernel(ptr)
    declare ptr @memset(ptr, i32, i64)
    declare ptr @memcpy(ptr, ptr, i64)
    declare ptr @memmove(ptr, ptr, i64)
    define void @v3_step(ptr %context, ptr %item) {
      %slots = load ptr, ptr %context
      %slot = load ptr, ptr %slots
      %forward = getelementptr i8, ptr %slot, i64 3
      %far = getelementptr i8, ptr %slot, i64 40
      %end = getelementptr i8, ptr %slot, i64 60
      %a = call ptr @memmove(ptr %forward, ptr %slot, i64 20)
      %b = call ptr @memmove(ptr %far, ptr %a, i64 10)
      %c = getelementptr i8, ptr %b, i64 2
      %d = call ptr @memmove(ptr %b, ptr %c, i64 8)
      %e = call ptr @memcpy(ptr %end, ptr %slot, i64 5)
      %f = getelementptr i8, ptr %e, i64 5
      %g = call ptr @memset(ptr %f, i32 7, i64 3)
      %h = getelementptr i8, ptr %g, i64 3
      %i = call ptr @memset(ptr %h, i32 9, i64 0)
      ret void
    })");
  write();
  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  void *library = dlopen((folder + "model.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto query =
      reinterpret_cast<encast_abi_query>(dlsym(library, ENCAST_QUERY_SYMBOL));
  const encast_abi_descriptor *descriptor = query(ENCAST_ABI_VERSION);
  auto variant = reader.table<encast_abi_variant>(descriptor->variants)[0];
  auto call = reader.table<encast_abi_call>(variant.calls)[0];

  std::vector<uint8_t> got(80), expected(80);
  for (size_t i = 0; i < got.size(); ++i)
    got[i] = expected[i] = uint8_t(i + 1);
  std::memmove(&expected[3], &expected[0], 20);
  std::memmove(&expected[40], &expected[3], 10);
  std::memmove(&expected[40], &expected[42], 8);
  std::memcpy(&expected[60], &expected[0], 5);
  std::memset(&expected[65], 7, 3);
  void *slots[] = {got.data()};
  encast_abi_context context = {};
  context.slots = slots;
  encast_abi_item item = {};
  reinterpret_cast<encast_abi_function>(reinterpret_cast<uintptr_t>(
      reinterpret_cast<const char *>(descriptor) + call.function))(&context,
                                                                   &item);
  EXPECT_EQ(got, expected);
  dlclose(library);
}

TEST_F(ArtifactWriter, ObjectsThatDefineTheirOwnMemoryFunctionsKeepThem) {
  sample.model.variants[0].object = compileIR(R"(
    define hidden ptr @memset(ptr %to, i32 %value, i64 %size) { ret ptr %to }
    define void @v3_step(ptr %context, ptr %item) {
      %r = call ptr @memset(ptr %context, i32 0, i64 8)
      ret void
    })");
  write();
  ArtifactReader reader;
  EXPECT_EQ(reader.open(folder + "model.so"), "");
}

//===----------------------------------------------------------------------===//
// Reproducible bytes, the artifact id, other tools
//===----------------------------------------------------------------------===//

TEST_F(ArtifactWriter, WritesTheSameBytesInEveryProcess) {
  write();
  std::string first = contents("model.so"), error;
  ASSERT_TRUE(sample.write(folder + "again.so", error)) << error;
  EXPECT_TRUE(first == contents("again.so"));
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "ArtifactTests", "--write",
          (folder + "other.so").c_str(), nullptr);
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(first == contents("other.so"));
}

TEST_F(ArtifactWriter, ThreadsWriteAtTheSameTime) {
  write();
  const std::string expected = contents("model.so");
  std::vector<SampleArtifact> samples(4, sample);
  std::vector<std::string> errors(samples.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < samples.size(); ++i)
    threads.emplace_back([&, i] {
      samples[i].write(folder + std::to_string(i) + ".so", errors[i]);
    });
  for (size_t i = 0; i < samples.size(); ++i) {
    threads[i].join();
    EXPECT_EQ(errors[i], "");
    EXPECT_TRUE(contents(std::to_string(i) + ".so") == expected);
  }
}

TEST_F(ArtifactWriter, IdChangesWithCodeTablesAndWeights) {
  auto idOf = [&](const SampleArtifact &from) {
    SampleArtifact copy = from;
    std::string error;
    EXPECT_TRUE(copy.write(folder + "model.so", error)) << error;
    ArtifactReader reader;
    EXPECT_EQ(reader.open(folder + "model.so"), "");
    return std::make_pair(reader.descriptor->artifact_id[0],
                          reader.descriptor->artifact_id[1]);
  };
  auto original = idOf(sample);
  SampleArtifact code = sample, tables = sample, weights = sample;
  code.model.variants[1].kernels[1].bytes = {0x90, 0xc3};
  tables.model.variants[0].steps[0].maxRows = 63;
  weights.source.tensors["v4.own"].back() ^= 1;
  EXPECT_NE(idOf(code), original);
  EXPECT_NE(idOf(tables), original);
  EXPECT_NE(idOf(weights), original);
  EXPECT_EQ(idOf(sample), original);
}

/// Runs a tool on "model.so", or says that it is not there.
bool runTool(const std::string &tool, const std::string &arguments) {
  return std::system((tool + " " + arguments).c_str()) == 0;
}

TEST_F(ArtifactWriter, StripKeepsWeightsAndId) {
  if (access(ENCAST_STRIP, X_OK) != 0)
    GTEST_SKIP() << "no strip";
  write();
  ASSERT_TRUE(runTool(ENCAST_STRIP, folder + "model.so"));
  ArtifactReader reader;
  EXPECT_EQ(reader.open(folder + "model.so"), "");
  EXPECT_NE(reader.weights, nullptr);
  EXPECT_TRUE(reader.symbols.empty());
}

TEST_F(ArtifactWriter, StripUnneededOfLLVMKeepsWeightsAndId) {
  if (access(ENCAST_LLVM_STRIP, X_OK) != 0)
    GTEST_SKIP() << "no llvm-strip";
  write();
  ASSERT_TRUE(
      runTool(ENCAST_LLVM_STRIP, "--strip-unneeded " + folder + "model.so"));
  ArtifactReader reader;
  EXPECT_EQ(reader.open(folder + "model.so"), "");
  EXPECT_NE(reader.weights, nullptr);
}

//===----------------------------------------------------------------------===//
// Weights: in a side file, none, many
//===----------------------------------------------------------------------===//

TEST_F(ArtifactWriter, SideFileHoldsTheWeights) {
  write(folder + "model.weights");
  EXPECT_EQ(files(), (std::vector<std::string>{"model.so", "model.weights"}));
  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  EXPECT_STREQ(reader.string(reader.descriptor->weights_file), "model.weights");
  EXPECT_EQ(reader.section(ENCAST_WEIGHTS_SECTION), nullptr);

  std::string beside = contents("model.weights");
  SampleArtifact inside;
  std::string error;
  ASSERT_TRUE(inside.write(folder + "inside.so", error)) << error;
  ArtifactReader insideReader;
  ASSERT_EQ(insideReader.open(folder + "inside.so"), "");
  EXPECT_TRUE(beside.substr(0, reader.descriptor->weights_bytes) ==
              std::string(reinterpret_cast<const char *>(insideReader.weights),
                          insideReader.descriptor->weights_bytes));
}

TEST_F(ArtifactWriter, ModelWithoutWeightsHasAnEmptySection) {
  for (ArtifactVariant &variant : sample.model.variants)
    variant.weights.clear();
  write();
  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so"), "");
  EXPECT_EQ(reader.section(ENCAST_WEIGHTS_SECTION)->size, 0u);
}

TEST_F(ArtifactWriter, BlobsThatEndInZerosKeepTheirSize) {
  std::vector<float> values(1 << 20, 0.0f);
  values[1 << 19] = 1.0f;
  addWeight("zeros inside", bytesOf(values));
  addWeight("all zero", std::vector<uint8_t>((1 << 22) + 4));
  for (std::string weightsPath : {std::string(), folder + "weights"}) {
    write(weightsPath);
    ArtifactReader reader;
    EXPECT_EQ(reader.open(folder + "model.so"), "");
    EXPECT_NE(reader.weights, nullptr);
  }
}

TEST_F(ArtifactWriter, WeightsGoPastFourGigabytes) {
  // Tensors of zeros but for the first value, which tells them apart.
  const int64_t count = 9, floats = (int64_t(512) << 20) / 4;
  class SparseSource : public WeightSource {
  public:
    float *values = nullptr;
    bool read(const std::string &, const std::string &tensor,
              const std::vector<int64_t> &, ElementType, const uint8_t *&bytes,
              std::string &) override {
      values[0] = std::stof(tensor);
      bytes = reinterpret_cast<uint8_t *>(values);
      return true;
    }
  } source;
  void *mapped = mmap(nullptr, floats * 4, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  source.values = static_cast<float *>(mapped);
  ArtifactModel model = sample.model;
  model.variants.resize(1);
  model.variants[0].weights.clear();
  for (int64_t i = 0; i < count; ++i) {
    RecipeBuilder builder("weight");
    builder.tensor(std::to_string(i + 1), {floats});
    model.variants[0].weights.push_back(builder.recipe);
  }
  std::string error;
  ASSERT_TRUE(writeArtifact(model, source, folder + "model.so", "", error))
      << error;
  munmap(mapped, floats * 4);

  ArtifactReader reader;
  ASSERT_EQ(reader.open(folder + "model.so", /*hashBlobs=*/false), "");
  EXPECT_EQ(reader.descriptor->weights_bytes, uint64_t(count * floats * 4));
  auto blobs = reader.table<encast_abi_blob>(reader.descriptor->blobs);
  ASSERT_EQ(blobs.size(), size_t(count));
  EXPECT_EQ(reader.checkBlob(blobs[count - 1]), "");
  for (int64_t i = 0; i < count; ++i) {
    float first;
    std::memcpy(&first, reader.weights + blobs[i].offset, 4);
    EXPECT_EQ(first, float(i + 1));
  }
  struct stat status;
  ASSERT_EQ(stat((folder + "model.so").c_str(), &status), 0);
  EXPECT_GT(status.st_size, int64_t(1) << 32);
  EXPECT_LT(status.st_blocks * 512, int64_t(64) << 20) << "not sparse";
}

//===----------------------------------------------------------------------===//
// Names of files
//===----------------------------------------------------------------------===//

TEST_F(ArtifactWriter, AnyFileNameWorks) {
  for (const std::string &name :
       {std::string("100%.so"), std::string("a b'\"$.so"),
        std::string("no-suffix"), std::string(251, 'x') + ".so"}) {
    std::string error;
    EXPECT_TRUE(sample.write(folder + name, error)) << error;
    ArtifactReader reader;
    EXPECT_EQ(reader.open(folder + name), "");
  }
}

TEST_F(ArtifactWriter, PathMayBeRelative) {
  char before[4096];
  ASSERT_NE(getcwd(before, sizeof(before)), nullptr);
  ASSERT_EQ(chdir(folder.c_str()), 0);
  std::string error;
  EXPECT_TRUE(sample.write("model.so", error, "./model.weights")) << error;
  ASSERT_EQ(chdir(before), 0);
  ArtifactReader reader;
  EXPECT_EQ(reader.open(folder + "model.so"), "");
}

TEST_F(ArtifactWriter, ReplacesOlderFiles) {
  put("model.so", "old");
  put("weights", "old");
  write(folder + "weights");
  ArtifactReader reader;
  EXPECT_EQ(reader.open(folder + "model.so"), "");
  EXPECT_EQ(files(), (std::vector<std::string>{"model.so", "weights"}));
}

TEST_F(ArtifactWriter, FilesFollowTheUmask) {
  mode_t before = umask(027);
  write(folder + "weights");
  umask(before);
  for (const char *name : {"model.so", "weights"}) {
    struct stat status;
    ASSERT_EQ(stat((folder + name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0666, 0640u) << name;
  }
}

//===----------------------------------------------------------------------===//
// Refusals
//===----------------------------------------------------------------------===//

TEST_F(ArtifactWriter, FolderThatIsMissingIsNamed) {
  std::string error;
  EXPECT_FALSE(sample.write(folder + "missing/model.so", error));
  EXPECT_EQ(withoutFolder(error), "missing/model.so: cannot open its folder: "
                                  "No such file or directory");
}

TEST_F(ArtifactWriter, PathsThatNameNoRegularFileAreRefused) {
  std::string error;
  EXPECT_FALSE(sample.write(folder, error));
  EXPECT_EQ(error, folder + ": expects the name of a file");
  EXPECT_FALSE(sample.write("", error));
  EXPECT_EQ(error, ": expects the name of a file");
  // A rename onto a device would replace it.
  EXPECT_FALSE(sample.write("/dev/null", error));
  EXPECT_EQ(error, "/dev/null: exists and is not a regular file");
  ASSERT_EQ(mkdir((folder + "model.so").c_str(), 0777), 0);
  EXPECT_EQ(writeError(), "model.so: exists and is not a regular file");
}

TEST_F(ArtifactWriter, FolderWithoutPermissionIsNamed) {
  ASSERT_EQ(chmod(folder.c_str(), 0500), 0);
  std::string error =
      errorInChild([] { return geteuid() != 0 || seteuid(65534) == 0; }, "");
  chmod(folder.c_str(), 0700);
  EXPECT_EQ(error, "model.so: cannot create a file in its folder: Permission "
                   "denied");
}

// The linker's output is read by one.
TEST_F(ArtifactWriter, ThreadThatTheSystemRefusesIsReported) {
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  std::string error = errorInChild(
      [] {
        rlimit none = {0, 0};
        return setrlimit(RLIMIT_NPROC, &none) == 0 &&
               (geteuid() != 0 || setuid(65534) == 0);
      },
      "");
  EXPECT_EQ(error, "model.so: cannot start a thread: Resource temporarily "
                   "unavailable");
  EXPECT_TRUE(files().empty());
}

TEST_F(ArtifactWriter, WeightsFileElsewhereIsRefused) {
  EXPECT_EQ(writeError("/tmp/model.weights"),
            "/tmp/model.weights: expects another file in the folder of "
            "model.so");
  EXPECT_EQ(writeError(folder + "model.so"),
            "model.so: expects another file in the folder of model.so");
}

TEST_F(ArtifactWriter, FullDiskIsReported) {
  // A disk of one page, seen by one process.
  std::string error = errorInChild(
      [&] {
        return (unshare(CLONE_NEWNS) == 0 ||
                unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
               mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ==
                   0 &&
               mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=4k") == 0;
      },
      "");
  if (error == "cannot prepare")
    GTEST_SKIP() << "no mount namespace";
  EXPECT_EQ(error, "model.so: cannot write: No space left on device");
}

TEST_F(ArtifactWriter, FileLimitIsReportedAndNothingIsLeft) {
  addWeight("large", bytesOf(std::vector<float>(1 << 20, 1.0f)));
  for (std::string weights : {"", "weights"}) {
    std::string error = errorInChild(
        [] {
          signal(SIGXFSZ, SIG_IGN);
          rlimit limit = {1 << 20, 1 << 20};
          return setrlimit(RLIMIT_FSIZE, &limit) == 0;
        },
        weights.empty() ? "" : folder + weights);
    EXPECT_EQ(error, (weights.empty() ? "model.so" : weights) +
                         ": cannot write: File too large");
    EXPECT_TRUE(files().empty());
  }
}

TEST_F(ArtifactWriter, ProcessThatIsKilledLeavesNothing) {
  int unnamed = open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  if (unnamed < 0)
    GTEST_SKIP() << "the file system of /tmp has no files without names";
  close(unnamed);
  pid_t child = fork();
  if (!child) {
    OutputFile file;
    std::string error;
    if (file.create(folder + "model.so", error) &&
        file.write(0, reinterpret_cast<const uint8_t *>("half"), 4, error))
      raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(files().empty());
}

// Writes that rise, leave gaps, overlap or go back, across huge pages.
TEST_F(ArtifactWriter, FilesHoldWhatWasWrittenInAnyOrder) {
  constexpr uint64_t size = 9 << 20;
  std::mt19937_64 random(7);
  std::vector<uint8_t> expected(size);
  OutputFile file;
  std::string error;
  ASSERT_TRUE(file.create(folder + "file", error)) << error;
  uint64_t next = 0;
  for (int i = 0; i < 300; ++i) {
    if (random() % 4 == 0)
      next = random() % size;
    uint64_t begin = std::min(next + random() % 3 * 100, size - 1);
    std::vector<uint8_t> bytes(
        1 + random() % std::min<uint64_t>(size - begin, 3 << 20),
        uint8_t(random() % 3));
    ASSERT_TRUE(file.write(begin, bytes.data(), bytes.size(), error)) << error;
    std::copy(bytes.begin(), bytes.end(), expected.begin() + begin);
    next = (begin + bytes.size()) % size;
  }
  ASSERT_TRUE(file.resize(size, error)) << error;
  const std::string last = "last";
  ASSERT_TRUE(file.write(
      size - 4, reinterpret_cast<const uint8_t *>(last.data()), 4, error));
  std::copy(last.begin(), last.end(), expected.end() - 4);
  ASSERT_TRUE(file.publish(error)) << error;
  EXPECT_TRUE(contents("file") ==
              std::string(expected.begin(), expected.end()));
}

TEST_F(ArtifactWriter, FailureKeepsTheFilesThatWereThere) {
  put("model.so", "old code");
  put("weights", "old weights");
  sample.source.tensors["v4.own"] = bytesOf(std::vector<float>(33, NAN));
  EXPECT_EQ(writeError(folder + "weights"),
            "model.safetensors: tensor 'v4.own' has nan at index 0, used by "
            "weight 'own'");
  EXPECT_EQ(contents("model.so"), "old code");
  EXPECT_EQ(contents("weights"), "old weights");
}

TEST_F(ArtifactWriter, WeightsComeBackIfTheArtifactCannotBeRenamed) {
  // A folder appears at the target while the weights are read.
  class Intruder : public TestSource {
  public:
    std::string path;
    bool read(const std::string &file, const std::string &tensor,
              const std::vector<int64_t> &shape, ElementType type,
              const uint8_t *&bytes, std::string &error) override {
      mkdir(path.c_str(), 0777);
      return TestSource::read(file, tensor, shape, type, bytes, error);
    }
  } intruder;
  intruder.tensors = sample.source.tensors;
  intruder.path = folder + "model.so";
  for (bool hadWeights : {false, true}) {
    if (hadWeights)
      put("weights", "old weights");
    std::string error;
    EXPECT_FALSE(writeArtifact(sample.model, intruder, folder + "model.so",
                               folder + "weights", error));
    EXPECT_EQ(withoutFolder(error),
              "model.so: cannot replace it: Is a directory");
    ASSERT_EQ(rmdir((folder + "model.so").c_str()), 0);
    EXPECT_EQ(contents("weights"), hadWeights ? "old weights" : "");
    EXPECT_EQ(files().size(), hadWeights);
  }
}

TEST_F(ArtifactWriter, MissingTensorIsTheSourcesError) {
  sample.source.tensors.erase("shared");
  EXPECT_EQ(writeError(), "model.safetensors: no tensor 'shared'");
}

TEST_F(ArtifactWriter, SymbolDefinedTwiceNamesBothPlaces) {
  SampleArtifact original = sample;
  sample.model.variants[1].kernels[1].symbol = "v3_kernel";
  EXPECT_EQ(writeError(),
            "model.so: symbol 'v3_kernel' is defined by the kernels of variant "
            "'x86-64-v3' and by the kernels of variant 'x86-64-v4'");
  sample = original;
  sample.model.variants[1].object = sample.model.variants[0].object;
  EXPECT_EQ(writeError(),
            "model.so: symbol 'v3_step' is defined by the steps of variant "
            "'x86-64-v3' and by the steps of variant 'x86-64-v4'");
  sample = original;
  sample.model.variants[0].kernels[1].symbol = "v3_step";
  EXPECT_EQ(writeError(),
            "model.so: symbol 'v3_step' is defined by the kernels of variant "
            "'x86-64-v3' and by the steps of variant 'x86-64-v3'");
  sample = original;
  sample.model.variants[0].kernels[1].symbol = ENCAST_QUERY_SYMBOL;
  EXPECT_EQ(writeError(),
            "model.so: symbol 'encast_artifact_query' is defined by the "
            "artifact and by the kernels of variant 'x86-64-v3'");
}

TEST_F(ArtifactWriter, CallOfAFunctionThatIsNotThereIsNamed) {
  // Also if it is there as a kernel: kernels have other arguments.
  for (std::string function : {"nowhere", "v3_kernel", "v4_step"}) {
    sample.model.variants[0].steps[0].calls[0].function = function;
    EXPECT_EQ(writeError(),
              "model.so: call 'encoder.layer.0.output' of variant 'x86-64-v3' "
              "names function '" +
                  function + "', which its step object does not define");
  }
}

struct BadObject {
  const char *what;
  const char *ir;
  const char *triple;
  bool positionIndependent;
  const char *error;
};
void PrintTo(const BadObject &object, std::ostream *os) { *os << object.what; }

class ArtifactOfBadObject : public ArtifactWriter,
                            public testing::WithParamInterface<BadObject> {};

TEST_P(ArtifactOfBadObject, IsRefused) {
  sample.model.variants[0].object = compileIR(GetParam().ir, GetParam().triple,
                                              GetParam().positionIndependent);
  EXPECT_EQ(writeError(), std::string("model.so: ") + GetParam().error);
}

const char *const kX86 = "x86_64-unknown-linux-gnu";
const BadObject kBadObjects[] = {
    {"CallsOutside",
     "declare float @expf(float)\n"
     "define void @v3_step(ptr %c, ptr %i) {\n"
     "  %e = call float @expf(float 0.0)\n"
     "  store float %e, ptr %c\n"
     "  ret void\n"
     "}",
     kX86, true, "undefined symbol 'expf'"},
    {"CallsHiddenFunctionOutside",
     "declare hidden void @v3_missing()\n"
     "define void @v3_step(ptr %c, ptr %i) {\n"
     "  call void @v3_missing()\n"
     "  ret void\n"
     "}",
     kX86, true, "cannot link: undefined hidden symbol: v3_missing"},
    {"CallsWeakFunctionOutside",
     "declare extern_weak void @v3_missing()\n"
     "define void @v3_step(ptr %c, ptr %i) {\n"
     "  call void @v3_missing()\n"
     "  ret void\n"
     "}",
     kX86, true, "undefined symbol 'v3_missing'"},
    {"HoldsAddressesInData",
     "@v3_table = global [1 x ptr] [ptr @v3_step]\n"
     "define void @v3_step(ptr %c, ptr %i) { ret void }",
     kX86, true,
     "a step object holds addresses in data, which would need a relocation "
     "when loading"},
    {"RunsCodeWhenLoading",
     "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }]"
     " [{ i32, ptr, ptr } { i32 65535, ptr @v3_init, ptr null }]\n"
     "define internal void @v3_init() { ret void }\n"
     "define void @v3_step(ptr %c, ptr %i) { ret void }",
     kX86, true,
     "a step object holds addresses in data, which would need a relocation "
     "when loading"},
    {"IsNotPositionIndependent",
     "@v3_data = internal global i32 1\n"
     "define void @v3_step(ptr %c, ptr %i) {\n"
     "  store ptr @v3_data, ptr %c\n"
     "  ret void\n"
     "}",
     kX86, false,
     "cannot link: relocation R_X86_64_32S cannot be used against local "
     "symbol; "
     "recompile with -fPIC"},
    {"IsForAnotherMachine", "define void @v3_step(ptr %c, ptr %i) { ret void }",
     "aarch64-unknown-linux-gnu", true,
     "step object of variant 'x86-64-v3' is not an ELF64 relocatable for "
     "x86-64"},
};
INSTANTIATE_TEST_SUITE_P(Objects, ArtifactOfBadObject,
                         testing::ValuesIn(kBadObjects),
                         [](const testing::TestParamInfo<BadObject> &info) {
                           return info.param.what;
                         });

TEST_F(ArtifactWriter, BytesThatAreNoObjectAreRefused) {
  sample.model.variants[0].object.clear();
  EXPECT_EQ(writeError().substr(0, 79),
            "model.so: step object of variant 'x86-64-v3' is not a readable "
            "ELF64 object: in"); // "invalid buffer: the size (0) is ..."
  sample.model.variants[0].object.assign(100, 'x');
  EXPECT_EQ(writeError(),
            "model.so: step object of variant 'x86-64-v3' is not an ELF64 "
            "relocatable for x86-64");
}

TEST_F(ArtifactWriter, EveryTruncationOfAnObjectIsRefused) {
  const std::vector<uint8_t> whole = sample.model.variants[0].object;
  for (size_t size = 0; size < whole.size(); size += 7) {
    sample.model.variants[0].object.assign(whole.begin(), whole.begin() + size);
    EXPECT_NE(writeError(), "") << size;
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc == 3 && std::string(argv[1]) == "--write") {
    std::string error;
    SampleArtifact sample;
    bool written = sample.write(argv[2], error);
    fputs(error.c_str(), stderr);
    return !written;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
