//===- ToolTest.cpp - encast-run, encast-inspect, encast-bench ------------===//

#include "runtime/src/Artifact.h"
#include "runtime/src/Cpu.h"
#include "test/support/TestArtifact.h"
#include <algorithm>
#include <cstring>
#include <dirent.h>
#include <gtest/gtest.h>
#include <rapidjson/reader.h>
#include <set>
#include <sys/wait.h>

using namespace encast::test;

namespace {

struct Finished {
  int status;
  std::string out, errors;
};

std::string text(const Bytes &bytes) {
  return std::string(bytes.begin(), bytes.end());
}

class ToolTest : public testing::Test {
protected:
  TemporaryFolder folder;
  TestArtifact artifact;
  std::string model = artifact.write(folder.path("model.so"));

  std::string file(const std::string &name, const std::string &contents) {
    writeFile(folder.path(name), Bytes(contents.begin(), contents.end()));
    return folder.path(name);
  }
  Finished tool(const std::string &arguments) {
    std::string command = ENCAST_BIN "/" + arguments + " >" +
                          folder.path("stdout") + " 2>" + folder.path("stderr");
    int status = system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status)) << command;
    return {WEXITSTATUS(status), text(readFile(folder.path("stdout"))),
            text(readFile(folder.path("stderr")))};
  }
  Finished run(const std::string &lines, const std::string &options = "") {
    return tool("encast-run " + model + " --ids " + file("ids.jsonl", lines) +
                " --out " + folder.path("out.npy") + " " + options);
  }
  std::set<std::string> filesNow() {
    std::set<std::string> names;
    DIR *directory = opendir(folder.path("").c_str());
    while (dirent *entry = readdir(directory))
      names.insert(entry->d_name);
    closedir(directory);
    return names;
  }
  /// Status 1, nothing on stdout, one line of error with this piece, no file.
  void expectRefused(const Finished &done, const std::string &piece) {
    EXPECT_EQ(done.status, 1) << done.errors;
    EXPECT_EQ(done.out, "");
    EXPECT_EQ(done.errors.rfind("encast: error: ", 0), 0u) << done.errors;
    EXPECT_EQ(std::count(done.errors.begin(), done.errors.end(), '\n'), 1);
    EXPECT_NE(done.errors.find(piece), std::string::npos) << done.errors;
    for (const std::string &name : filesNow())
      EXPECT_EQ(name.find("out.npy"), std::string::npos) << name;
  }
  /// The rows of out.npy.
  std::vector<float> rows(int64_t count, int64_t columns) {
    Bytes bytes = readFile(folder.path("out.npy"));
    EXPECT_EQ(bytes.size() % 64, count * columns * 4 % 64);
    EXPECT_EQ(memcmp(bytes.data(), "\x93NUMPY\x01\x00", 8), 0);
    size_t header = 10 + bytes[8] + 256 * bytes[9];
    std::string expected = "{'descr': '<f4', 'fortran_order': False, 'shape': "
                           "(" +
                           std::to_string(count) + ", " +
                           std::to_string(columns) + "), }";
    EXPECT_EQ(text(bytes).substr(10, expected.size()), expected);
    EXPECT_EQ(bytes.size(), header + count * columns * sizeof(float));
    std::vector<float> values(count * columns);
    if (!values.empty())
      memcpy(values.data(), bytes.data() + header, bytes.size() - header);
    return values;
  }
};

/// Collects the keys of JSON with their places, "sizes.weights".
struct JsonKeys : rapidjson::BaseReaderHandler<rapidjson::UTF8<>, JsonKeys> {
  std::set<std::string> keys;
  std::vector<std::string> path;
  std::string last;
  bool Key(const char *name, rapidjson::SizeType, bool) {
    last = name;
    std::string place;
    for (const std::string &outer : path)
      place += outer.empty() ? "" : outer + ".";
    keys.insert(place + name);
    return true;
  }
  bool enter() {
    path.push_back(last);
    last.clear();
    return true;
  }
  bool leave() {
    path.pop_back();
    return true;
  }
  bool StartObject() { return enter(); }
  bool EndObject(rapidjson::SizeType) { return leave(); }
  bool StartArray() { return enter(); }
  bool EndArray(rapidjson::SizeType) { return leave(); }
};

std::set<std::string> jsonKeys(const std::string &json) {
  JsonKeys handler;
  rapidjson::StringStream stream(json.c_str());
  rapidjson::Reader reader;
  EXPECT_FALSE(reader.Parse(stream, handler).IsError()) << json;
  return handler.keys;
}

/// All keys that the committed JSON Schema describes are there.
void expectKeys(const std::string &json, const char *schema) {
  std::set<std::string> found = jsonKeys(json);
  std::set<std::string> described =
      jsonKeys(text(readFile(std::string(ENCAST_SCHEMAS "/") + schema)));
  size_t count = 0;
  const std::string prefix = "properties.", element = "items.";
  for (const std::string &place : described) {
    // "properties.steps.items.properties.name" stands for "steps.name"; what
    // does not end in a name below "properties" is no key.
    std::vector<std::string> names;
    std::string rest = place;
    while (!rest.empty()) {
      if (rest.compare(0, element.size(), element) == 0)
        rest.erase(0, element.size());
      if (rest.compare(0, prefix.size(), prefix) != 0)
        break;
      rest.erase(0, prefix.size());
      size_t end = std::min(rest.find('.'), rest.size());
      names.push_back(rest.substr(0, end));
      rest.erase(0, end + 1);
    }
    if (!rest.empty() || names.empty())
      continue;
    std::string key = names[0];
    for (size_t i = 1; i < names.size(); ++i)
      key += "." + names[i];
    EXPECT_EQ(found.count(key), 1u) << key << " in\n" << json;
    ++count;
  }
  EXPECT_GT(count, 5u);
}

} // namespace

//===- encast-run ---------------------------------------------------------===//

TEST_F(ToolTest, run_writes_rows_in_the_order_of_the_lines) {
  Finished done = run("[20, 21]\n[30]\r\n{\"ids\": [40, 41, 42]}");
  ASSERT_EQ(done.status, 0) << done.errors;
  EXPECT_EQ(done.out, "");
  EXPECT_NE(done.errors.find("first [3, 38] (the default)"), std::string::npos)
      << done.errors;
  std::vector<float> values = rows(3, TEST_COLUMNS);
  EXPECT_EQ(values[0], 20);
  EXPECT_EQ(values[TEST_COLUMNS], 30);
  EXPECT_EQ(values[2 * TEST_COLUMNS], 40);
}

TEST_F(ToolTest, run_takes_the_output_that_is_asked_for) {
  Finished done = run("[20, 21]\n[30]\n", "--output tokens --threads 2");
  ASSERT_EQ(done.status, 0) << done.errors;
  std::vector<float> values = rows(3, TEST_COLUMNS);
  EXPECT_EQ(values[TEST_COLUMNS], 21);
  EXPECT_EQ(values[2 * TEST_COLUMNS], 30);
}

TEST_F(ToolTest, run_lists_the_outputs_that_there_are) {
  expectRefused(
      run("[20]\n", "--output logits"),
      "no output is named 'logits'; the model has tokens, first, all");
}

TEST_F(ToolTest, run_of_no_line_writes_no_row) {
  ASSERT_EQ(run("").status, 0);
  rows(0, TEST_COLUMNS);
}

TEST_F(ToolTest, run_reads_standard_input) {
  std::string ids = file("ids.jsonl", "[20]\n");
  Finished done = tool("encast-run " + model + " --ids - --out " +
                       folder.path("out.npy") + " <" + ids);
  EXPECT_EQ(done.status, 0) << done.errors;
  EXPECT_EQ(rows(1, TEST_COLUMNS)[0], 20);
}

TEST_F(ToolTest, run_passes_token_types) {
  ASSERT_EQ(run("[20]\n{\"ids\": [21], \"token_type_ids\": [1]}\n").status, 0);
  std::vector<float> values = rows(2, TEST_COLUMNS);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[TEST_COLUMNS + 1], 1);
}

TEST_F(ToolTest, run_passes_the_attended_length) {
  artifact.requiredFeatures = ENCAST_FEATURE_ATTENDED_LENGTH;
  artifact.write(model);
  // Each line in a batch of its own, or both in one.
  for (const char *cap : {"", "--threads 1 --memory-cap 4096"}) {
    Finished done =
        run("[20, 0]\n{\"ids\": [21, 0, 0], \"attended_length\": 1}\n", cap);
    ASSERT_EQ(done.status, 0) << done.errors;
    std::vector<float> values = rows(2, TEST_COLUMNS);
    EXPECT_EQ(values[8 + 2], 2); // keys
    EXPECT_EQ(values[TEST_COLUMNS + 8 + 2], 1);
    // What is not attended may be anything.
    EXPECT_NE(done.errors.find("line 1 ends with"), std::string::npos);
    EXPECT_EQ(done.errors.find("line 2"), std::string::npos) << done.errors;
  }
}

TEST_F(ToolTest, run_refuses_an_attended_length_where_all_ids_are_attended) {
  expectRefused(run("{\"ids\": [21, 0], \"attended_length\": 1}\n"),
                "line 1: attended_length is 1, but this model attends to all");
}

TEST_F(ToolTest, run_packs_lines_under_the_memory_cap) {
  std::string lines;
  for (int i = 0; i < 20; ++i)
    lines += "[" + std::to_string(20 + i) + ", 50, 51]\n";
  ASSERT_EQ(run(lines, "--output tokens").status, 0);
  std::vector<float> whole = rows(60, TEST_COLUMNS);
  Finished done = run(lines, "--output tokens --memory-cap 8192 --threads 1 "
                             "--stats " +
                                 folder.path("stats.json"));
  ASSERT_EQ(done.status, 0) << done.errors;
  std::vector<float> parts = rows(60, TEST_COLUMNS);
  // The key of attention, a row of the batch, depends on the batch.
  for (size_t i = 0; i < whole.size(); i += TEST_COLUMNS)
    EXPECT_EQ(parts[i], whole[i]);
  std::string stats = text(readFile(folder.path("stats.json")));
  EXPECT_EQ(stats.find("\"batches\": 1,"), std::string::npos) << stats;
  EXPECT_NE(stats.find("\"sequences\": 20,"), std::string::npos) << stats;
  EXPECT_NE(stats.find("\"tokens\": 60,"), std::string::npos) << stats;
  expectKeys(stats, "stats.schema.json");
}

TEST_F(ToolTest, run_counts_copied_weights_under_the_memory_cap) {
  std::string stats = " --stats " + folder.path("stats.json");
  ASSERT_EQ(run("[20, 21]\n", "--huge-page-weights" + stats).status, 0);
  std::vector<float> copied = rows(1, TEST_COLUMNS);
  std::string text = ::text(readFile(folder.path("stats.json")));
  EXPECT_NE(text.find("\"copied_weights_bytes\": 2097152,"), std::string::npos)
      << text;
  ASSERT_EQ(run("[20, 21]\n").status, 0);
  EXPECT_EQ(rows(1, TEST_COLUMNS), copied);
  std::string out = folder.path("out.npy");
  ASSERT_EQ(remove(out.c_str()), 0);
  expectRefused(run("[20]\n", "--huge-page-weights --memory-cap 2097153 "
                              "--threads 1"),
                "4096 bytes of memory beside 2097152 of copied weights, but "
                "the cap allows 2097153");
  EXPECT_EQ(run("[20]\n", "--huge-page-weights --memory-cap 2101248 "
                          "--threads 1")
                .status,
            0);
}

TEST_F(ToolTest, run_refuses_a_line_over_the_memory_cap) {
  std::string line = "[1";
  for (int i = 0; i < 200; ++i)
    line += ", 1";
  expectRefused(run("[1]\n" + line + "]\n", "--memory-cap 8192 --threads 1"),
                "ids.jsonl: line 2: its 201 tokens need");
  expectRefused(run("[1]\n", "--memory-cap 100"), "but the cap allows 100");
}

TEST_F(ToolTest, run_refuses_a_line_of_more_tokens_than_a_batch_takes) {
  artifact.maxTokens = 70000;
  artifact.write(model);
  std::string line = "[1";
  for (int i = 1; i < 65536; ++i)
    line += ",1";
  expectRefused(run("[1]\n" + line + ",1]\n"),
                "ids.jsonl: line 2: has 65537 tokens, but without "
                "--memory-cap at most 65536 are run");
  EXPECT_EQ(run(line + ",1]\n", "--memory-cap 2000000000").status, 0);
  EXPECT_EQ(run(line + "]\n").status, 0);
}

TEST_F(ToolTest, run_refuses_a_line_whose_rows_do_not_fit_the_memory) {
  Bytes bytes = artifact.build();
  encast_abi_table outputs = descriptorOf(bytes).outputs;
  rowsOf<encast_abi_output>(bytes, outputs)->columns = INT32_MAX;
  seal(bytes);
  writeFile(model, bytes);
  std::string line = "[1";
  for (int i = 1; i < 300; ++i)
    line += ", 1";
  expectRefused(run("[1]\n" + line + "]\n", "--output tokens"),
                "ids.jsonl: line 2: output 'tokens' takes 2576980376400 bytes "
                "of memory, but only ");
}

TEST_F(ToolTest, run_names_the_line_of_bad_ids) {
  expectRefused(run("[1]\n[2, 100]\n"),
                "ids.jsonl: line 2, position 1: id 100 is outside");
  expectRefused(run("[1]\n\n"), "ids.jsonl: line 2: blank");
}

TEST_F(ToolTest, run_names_the_lines_of_values_that_are_not_finite) {
  expectRefused(run("[20]\n{\"ids\": [13], \"token_type_ids\": [1]}\n"),
                "ids.jsonl: lines 1 to 2: output 'first' is not finite at row "
                "1, column 5");
}

TEST_F(ToolTest, run_warns_of_trailing_pads) {
  Finished done = run("[20, 0, 0]\n[0, 20]\n[0]\n");
  EXPECT_EQ(done.status, 0);
  EXPECT_NE(done.errors.find("encast: warning: " + folder.path("ids.jsonl") +
                             ": line 1 ends with 2 pad ids (id 0)"),
            std::string::npos)
      << done.errors;
  EXPECT_EQ(done.errors.find("line 2"), std::string::npos) << done.errors;
  EXPECT_NE(done.errors.find("line 3 ends with 1 pad"), std::string::npos);
}

TEST_F(ToolTest, weights_beside_a_model_are_not_written_over) {
  artifact.weightsFile = "model.weights";
  artifact.write(model);
  std::string weights = folder.path("model.weights");
  Bytes before = readFile(weights);
  const char *why = "model.weights: belongs to the model";
  expectRefused(run("[1]\n", "--stats " + weights), why);
  expectRefused(
      tool("encast-bench " + model + " --lengths=1 --json " + weights), why);
  EXPECT_EQ(readFile(weights), before);
  EXPECT_EQ(run("[20]\n").status, 0);
}

TEST_F(ToolTest, run_checks_its_options) {
  expectRefused(run("[1]\n", "--threads two"), "--threads: expected a number");
  expectRefused(run("[1]\n", "--threads -1"), "'-1'");
  expectRefused(run("[1]\n", "--memory-cap 1x"), "'1x'");
  expectRefused(run("[1]\n", "--variant znver9"), "variant 'znver9' is not");
  expectRefused(run("[1]\n", "--output ''"), "--output: expected a value");
  expectRefused(run("[1]\n", "--variant ''"), "--variant: expected a value");
  expectRefused(run("[1]\n", "--stats " + folder.path("./out.npy")),
                "--out and --stats name the same file");
  expectRefused(run("[1]\n", "--speed"), "'--speed'");
  expectRefused(run("[1]\n", "another.so"), "expected one MODEL.so");
  expectRefused(tool("encast-run"), "expected one MODEL.so");
  expectRefused(tool("encast-run " + model), "--ids and --out are needed");
  expectRefused(tool("encast-run /nowhere.so --ids - --out x"),
                "/nowhere.so: cannot open");
  expectRefused(tool("encast-run " + model + " --ids /nowhere --out " +
                     folder.path("out.npy")),
                "/nowhere: cannot open");
  expectRefused(tool("encast-run " + model +
                     " --ids /dev/null --out "
                     "/nowhere/out.npy"),
                "/nowhere/out.npy: cannot create");
  EXPECT_NE(tool("encast-run --help").out.find("usage:"), std::string::npos);
}

TEST_F(ToolTest, run_keeps_an_old_file_when_it_fails) {
  file("out.npy", "old");
  EXPECT_EQ(run("[100]\n").status, 1);
  EXPECT_EQ(text(readFile(folder.path("out.npy"))), "old");
}

//===- encast-inspect -----------------------------------------------------===//

TEST_F(ToolTest, inspect_shows_the_artifact) {
  artifact.variants = {{"x86-64-v3", ENCAST_CPU_AVX2, 1},
                       {"future", uint64_t(1) << 40, 2}};
  artifact.metadata =
      "{\"sources\": {\"model.safetensors\": \"abc\", \"matrices\": 1},"
      " \"matrices\": 37, \"bf16_exact_matrices\": 30}";
  artifact.requiredFeatures = ENCAST_FEATURE_ATTENDED_LENGTH;
  artifact.steps[1].calls[0].kernel = "linear_bf16x3w_32x32_amx.k1024";
  artifact.steps[6].domain = ENCAST_DOMAIN_ATTENTION_RUNS;
  artifact.steps[6].calls[0].kernel = "attention_f32_48_avx512.d64";
  artifact.steps[6].calls[0].window = 64;
  artifact.write(model);
  Finished done = tool("encast-inspect " + model);
  ASSERT_EQ(done.status, 0) << done.errors;
  for (const char *piece :
       {"load only what you trust",
        "family               test",
        "[T, 38]",
        "[B, 38], the default",
        "variant x86-64-v3\n  needs avx2",
        "needs feature 40",
        "max(32*T, 1000): hidden",
        "max(60*T, 120*T (if tokens)): attention",
        "92*T + 92*B: tail",
        "layer.0.up",
        "linear_bf16x3w_32x32_amx.k1024",
        "model.safetensors",
        "abc",
        "37, of which 30 are exactly bf16",
        "callers may give it",
        "products are made in bf16x3w (1 calls), f32 (1 calls)",
        "shared by all processes: 20 bytes of weights",
        "with huge_page_weights, copied once for each process that opens it: "
        "2097152 bytes",
        "attention runs",
        "attention_f32_48_avx512.d64, window 64"})
    EXPECT_NE(done.out.find(piece), std::string::npos) << piece << " in\n"
                                                       << done.out;
}

TEST_F(ToolTest, inspect_writes_json_with_the_keys_of_its_schema) {
  Finished done = tool("encast-inspect --json " + model);
  ASSERT_EQ(done.status, 0) << done.errors;
  expectKeys(done.out, "inspect.schema.json");
  EXPECT_EQ(jsonKeys(done.out).count("metadata.licence"), 1u);
}

TEST_F(ToolTest, inspect_writes_numbers_of_the_metadata_as_numbers) {
  artifact.metadata = "{\"length\": 32, \"error\": 6.25e-07, \"bits\": [1, 2]}";
  artifact.write(model);
  for (const char *form : {"", "--json "})
    for (const char *piece : {"\"length\": 32", "\"error\": 6.25e-07"}) {
      Finished done = tool(std::string("encast-inspect ") + form + model);
      EXPECT_NE(done.out.find(piece), std::string::npos) << done.out;
    }
}

TEST_F(ToolTest, inspect_writes_json_whatever_the_strings_are) {
  artifact.metadata = "not JSON \"\xff\"";
  artifact.family = "\xc3(";
  artifact.write(model);
  Finished done = tool("encast-inspect --json " + model);
  ASSERT_EQ(done.status, 0) << done.errors;
  jsonKeys(done.out);
}

TEST_F(ToolTest, inspect_verifies_the_weights) {
  Finished done = tool("encast-inspect --verify " + model);
  EXPECT_EQ(done.status, 0);
  EXPECT_NE(done.errors.find("2 blobs of weights match"), std::string::npos);
  Bytes bytes = artifact.build();
  encast::runtime::ArtifactFile found;
  ASSERT_EQ(encast::runtime::validateArtifact(bytes.data(), bytes.size(), found,
                                              nullptr),
            ENCAST_OK);
  bytes[found.weightsOffset] ^= 1;
  writeFile(model, bytes);
  EXPECT_EQ(tool("encast-inspect " + model).status, 0);
  expectRefused(tool("encast-inspect --verify " + model),
                "blob 0 of weight 'floats', 12 bytes at 0, does not match");
}

TEST_F(ToolTest, inspect_names_the_weights_file_that_is_wrong) {
  artifact.weightsFile = "model.weights";
  artifact.write(model);
  EXPECT_EQ(tool("encast-inspect --verify " + model).status, 0);
  Bytes weights = readFile(folder.path("model.weights"));
  weights[0] ^= 1;
  writeFile(folder.path("model.weights"), weights);
  expectRefused(tool("encast-inspect --verify " + model),
                "model.weights: altered: blob 0");
  weights.pop_back();
  writeFile(folder.path("model.weights"), weights);
  expectRefused(tool("encast-inspect " + model), "135 bytes, expected 136");
  remove(folder.path("model.weights").c_str());
  expectRefused(tool("encast-inspect " + model), "model.weights: cannot open");
}

TEST_F(ToolTest, inspect_refuses_what_the_loader_refuses) {
  Bytes bytes = artifact.build();
  bytes.resize(bytes.size() - 100);
  writeFile(model, bytes);
  expectRefused(tool("encast-inspect " + model),
                model + ": truncated or altered");
  expectRefused(tool("encast-inspect"), "expected one MODEL.so");
  expectRefused(tool("encast-inspect --fast " + model), "'--fast'");
}

//===- encast-bench -------------------------------------------------------===//

TEST_F(ToolTest, bench_times_each_length) {
  Finished done =
      tool("encast-bench " + model +
           " --lengths=3,200 --batch 2 --threads 1 --steps --json " +
           folder.path("bench.json"));
  ASSERT_EQ(done.status, 0) << done.errors;
  EXPECT_NE(done.out.find("steps at length 200"), std::string::npos);
  EXPECT_NE(done.out.find("layer.0.up: test_to_block"), std::string::npos);
  EXPECT_NE(done.out.find("limit ms  of limit"), std::string::npos);
  expectKeys(text(readFile(folder.path("bench.json"))), "bench.schema.json");
}

TEST_F(ToolTest, bench_counts_no_other_memory_as_weights) {
  std::string json = folder.path("bench.json");
  ASSERT_EQ(
      tool("encast-bench " + model + " --lengths=3 --threads 1 --json " + json)
          .status,
      0);
  std::string found = text(readFile(json)),
              key = "\"resident_weights_bytes\": ";
  size_t at = found.find(key);
  ASSERT_NE(at, std::string::npos);
  long bytes = atol(found.c_str() + at + key.size());
  EXPECT_GT(bytes, 0);
  // All segments and the weights, in whole pages.
  EXPECT_LE(bytes, long(readFile(model).size()) + (12 << 12));
}

TEST_F(ToolTest, bench_copies_weights_if_asked) {
  std::string json = folder.path("bench.json");
  ASSERT_EQ(tool("encast-bench " + model +
                 " --lengths=3 --threads 1 --huge-page-weights --json " + json)
                .status,
            0);
  EXPECT_NE(text(readFile(json)).find("\"copied_weights_bytes\": 2097152,"),
            std::string::npos);
}

TEST_F(ToolTest, bench_compares_tile_kernels_with_the_peak_of_tiles) {
  artifact.steps[1].calls[0].kernel = "linear_bf16x3_32x32_amx.k8";
  artifact.write(model);
  Finished done =
      tool("encast-bench " + model + " --lengths=30 --threads 1 --steps");
  ASSERT_EQ(done.status, 0) << done.errors;
  EXPECT_NE(done.out.find("linear_bf16x3_32x32_amx.k8"), std::string::npos);
  bool hasTiles = encast::runtime::cpuFeatures() & ENCAST_CPU_AMX_BF16 &&
                  !encast::runtime::requestTileState();
  EXPECT_EQ(done.out.find(" amx-bf16 ") != std::string::npos, hasTiles)
      << done.out;
}

TEST_F(ToolTest, run_shows_progress_on_a_terminal) {
  if (system("script --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "script is not installed";
  std::string ids = file("ids.jsonl", "[20, 21]\n[30]\n");
  std::string log = folder.path("terminal");
  std::string command = "script -q -e -c '" ENCAST_BIN "/encast-run " + model +
                        " --ids " + ids + " --out " + folder.path("out.npy") +
                        "' " + log + " >/dev/null 2>&1 </dev/null";
  ASSERT_EQ(system(command.c_str()), 0);
  EXPECT_NE(text(readFile(log)).find("0 of 2 lines, 30 %"), std::string::npos)
      << text(readFile(log));
}

TEST_F(ToolTest, bench_checks_its_options) {
  expectRefused(tool("encast-bench " + model + " --lengths=301"),
                "301 tokens, but the model's limit is 300");
  expectRefused(tool("encast-bench " + model + " --lengths=1,,2"),
                "--lengths: expected a number");
  expectRefused(tool("encast-bench " + model + " --lengths=0"), "got '0'");
  expectRefused(tool("encast-bench " + model), "--lengths is needed");
}
