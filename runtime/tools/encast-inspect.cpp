//===- encast-inspect.cpp - show what an artifact holds -------------------===//
///
/// \file
/// Reads the file with the loader's own checks and never executes it.
//===----------------------------------------------------------------------===//

#include "runtime/src/Artifact.h"
#include "runtime/src/MappedFile.h"
#include "runtime/src/MemoryFormula.h"
#include "runtime/tools/KernelName.h"
#include "runtime/tools/ToolSupport.h"
#include <cinttypes>
#include <cstring>
#include <iterator>
#include <map>
#include <rapidjson/reader.h>

using namespace encast;
using namespace encast::tools;
using runtime::ArtifactView;

namespace {

constexpr const char *kUsage = "encast-inspect MODEL.so [--json] [--verify]";

const char *domainName(uint32_t domain) {
  static const char *const names[] = {
      "tokens",           "selected",           "picked",        "sequences",
      "attention tokens", "attention selected", "attention runs"};
  static_assert(std::size(names) == ENCAST_DOMAIN_ATTENTION_RUNS + 1);
  return names[domain];
}

/// Features as targets spell them, for both formats.
std::vector<std::string> featureNames(uint64_t features) {
  std::vector<std::string> list;
#define APPEND(feature, number, name)                                          \
  if (features & ENCAST_CPU_##feature)                                         \
    list.push_back(name);
  ENCAST_CPU_FEATURES(APPEND)
#undef APPEND
  for (int bit = 0; bit < 64; ++bit)
    if ((features & ~uint64_t(ENCAST_CPU_KNOWN)) >> bit & 1)
      list.push_back(text("feature %d", bit));
  return list;
}

std::string joined(const std::vector<std::string> &list,
                   const char *separator) {
  std::string result;
  for (const std::string &item : list)
    result += (result.empty() ? "" : separator) + item;
  return result;
}

/// An artifact file, its weights file if it has one, and what they hold.
class Artifact {
public:
  explicit Artifact(const std::string &path);
  /// Compares the hash of every blob; fails at the first that differs.
  void verify() const;

  std::string path;
  uint64_t fileBytes = 0;
  runtime::ArtifactFile found;
  ArtifactView view;

private:
  std::string weightsPath() const;

  runtime::Mapping contents, weightsFile;
  const uint8_t *weights = nullptr;
};

std::string Artifact::weightsPath() const {
  return path.substr(0, path.rfind('/') + 1) + view.string(view->weights_file);
}

Artifact::Artifact(const std::string &path) : path(path) {
  encast_error error = ENCAST_ERROR_INIT;
  runtime::OpenFile file;
  check(file.open(path.c_str(), &error), error, path);
  check(contents.map(file, 0, file.size(), &error), error, path);
  check(runtime::validateArtifact(contents.data(), contents.size(), found,
                                  &error),
        error, path);
  view = found.view;
  fileBytes = file.size();
  weights = contents.data() + found.weightsOffset;
  if (!view->weights_file)
    return;
  runtime::OpenFile side;
  std::string sidePath = weightsPath();
  check(side.open(sidePath.c_str(), &error), error, sidePath);
  check(runtime::checkWeightsFile(side, view, &error), error, sidePath);
  check(weightsFile.map(side, 0, side.size(), &error), error, sidePath);
  weights = weightsFile.data();
}

void Artifact::verify() const {
  const auto *blobs = view.rows<encast_abi_blob>(view->blobs);
  for (uint64_t i = 0; i < view->blobs.count; ++i) {
    runtime::Hash128 hash =
        runtime::hashBytes(weights + blobs[i].offset, blobs[i].size);
    if (hash == runtime::Hash128{blobs[i].hash_low, blobs[i].hash_high})
      continue;
    std::string name = "that no variant uses";
    for (uint64_t v = 0; v < view->variants.count; ++v) {
      const encast_abi_table &table = view.variant(v).weights;
      const auto *rows = view.rows<encast_abi_weight>(table);
      for (uint64_t w = 0; w < table.count; ++w)
        if (rows[w].blob == i)
          name = std::string("of weight '") + view.string(rows[w].name) + "'";
    }
    fail((view->weights_file ? weightsPath() : path) +
         text(": altered: blob %" PRIu64 " ", i) + name +
         text(", %" PRIu64 " bytes at %" PRIu64 ", does not match its hash",
              blobs[i].size, blobs[i].offset));
  }
}

//===- the memory formula -------------------------------------------------===//

/// One colour of the arena: whose memory begins there (that of some goes on in
/// the next colours) and how large it is.
struct Colour {
  std::vector<std::string> slots, forms;
};

std::string formText(const encast_abi_form &form) {
  std::vector<std::string> terms;
  if (form.bytes_per_token)
    terms.push_back(text("%" PRId64 "*T", form.bytes_per_token));
  if (form.bytes_per_sequence)
    terms.push_back(text("%" PRId64 "*B", form.bytes_per_sequence));
  if (form.bytes || terms.empty())
    terms.push_back(text("%" PRId64, form.bytes));
  return joined(terms, " + ");
}

std::vector<std::string> outputNames(const ArtifactView &view, uint64_t mask) {
  std::vector<std::string> names;
  for (uint64_t i = 0; i < view->outputs.count; ++i)
    if (mask >> i & 1)
      names.push_back(view.string(view.output(i).name));
  return names;
}

/// Whether `large` is at least `small` for every run.
bool covers(const encast_abi_form &large, const encast_abi_form &small) {
  return large.colour == small.colour && !(small.outputs & ~large.outputs) &&
         large.bytes_per_token >= small.bytes_per_token &&
         large.bytes_per_sequence >= small.bytes_per_sequence &&
         large.bytes >= small.bytes;
}

/// The colours with those forms that can be the largest.
std::vector<Colour> coloursOf(const ArtifactView &view,
                              const encast_abi_variant &variant) {
  std::vector<Colour> colours(variant.colours);
  const auto *slots = view.rows<encast_abi_slot>(variant.slots);
  for (uint64_t i = 0; i < variant.slots.count; ++i)
    if (slots[i].kind == ENCAST_SLOT_ARENA)
      colours[slots[i].index].slots.push_back(view.string(slots[i].name));
  const auto *forms = view.rows<encast_abi_form>(variant.forms);
  for (uint64_t i = 0; i < variant.forms.count; ++i) {
    bool counts = true;
    for (uint64_t j = 0; j < variant.forms.count; ++j)
      counts &= j == i || !covers(forms[j], forms[i]) ||
                (j > i && covers(forms[i], forms[j]));
    if (!counts)
      continue;
    std::string form = formText(forms[i]);
    if (forms[i].outputs != view.allOutputs())
      form += " (if " + joined(outputNames(view, forms[i].outputs), "|") + ")";
    colours[forms[i].colour].forms.push_back(form);
  }
  return colours;
}

/// Arena for one sequence of the model's limit with all outputs on one thread;
/// -1 if it overflows.
int64_t exampleBytes(const ArtifactView &view,
                     const encast_abi_variant &variant) {
  std::vector<int64_t> offsets(variant.colours + 1);
  runtime::ArenaLayout layout;
  return runtime::layOutArena(view, variant, view->max_tokens, 1,
                              view.allOutputs(), 1, offsets.data(), layout)
             ? layout.bytes
             : -1;
}

//===- text ---------------------------------------------------------------===//

/// Parses the compiler's JSON and hands it to `handler`; false if it is none.
template <typename Handler>
bool parseMetadata(const char *metadata, Handler &handler) {
  constexpr unsigned flags = rapidjson::kParseIterativeFlag |
                             rapidjson::kParseValidateEncodingFlag |
                             rapidjson::kParseNumbersAsStringsFlag;
  rapidjson::StringStream stream(metadata);
  rapidjson::Reader reader;
  return !reader.Parse<flags>(stream, handler).IsError();
}

/// The integers among the members of the metadata.
struct MetadataIntegers
    : rapidjson::BaseReaderHandler<rapidjson::UTF8<>, MetadataIntegers> {
  std::map<std::string, std::string> values;

  explicit MetadataIntegers(const char *metadata) {
    parseMetadata(metadata, *this);
  }
  bool Key(const char *text, rapidjson::SizeType size, bool) {
    key.assign(text, size);
    return true;
  }
  bool RawNumber(const char *text, rapidjson::SizeType size, bool) {
    if (depth == 1)
      values[key].assign(text, size);
    return true;
  }
  bool StartObject() { return ++depth; }
  bool EndObject(rapidjson::SizeType) { return depth--; }
  bool StartArray() { return ++depth; }
  bool EndArray(rapidjson::SizeType) { return depth--; }

private:
  std::string key;
  int depth = 0;
};

bool isJson(const char *metadata) {
  rapidjson::BaseReaderHandler<> ignore;
  return parseMetadata(metadata, ignore);
}

/// The metadata, indented.
std::string metadataText(const ArtifactView &view) {
  const char *metadata = view.string(view->metadata);
  std::string lines = metadata;
  if (isJson(metadata)) {
    JsonWriter writer;
    writer.SetIndent(' ', 2);
    writer.SetFormatOptions(rapidjson::kFormatSingleLineArray);
    parseMetadata(metadata, writer);
    lines = writer.text();
  }
  std::string result = "\nmetadata\n";
  for (size_t begin = 0; begin < lines.size();) {
    size_t end = std::min(lines.find('\n', begin), lines.size());
    result += "  " + lines.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return result;
}

/// Bytes of the weights that a variant reads, each blob once: with tables of
/// rotary positions, which are weights.
int64_t weightBytes(const ArtifactView &view,
                    const encast_abi_variant &variant) {
  std::vector<bool> counted(view->blobs.count);
  const auto *blobs = view.rows<encast_abi_blob>(view->blobs);
  const auto *weights = view.rows<encast_abi_weight>(variant.weights);
  int64_t bytes = 0;
  for (uint64_t i = 0; i < variant.weights.count; ++i) {
    if (!counted[weights[i].blob])
      bytes += blobs[weights[i].blob].size;
    counted[weights[i].blob] = true;
  }
  return bytes;
}

/// Bytes of the copies that the option huge_page_weights makes; -1 if they
/// overflow.
int64_t copiedBytes(const ArtifactView &view,
                    const encast_abi_variant &variant) {
  std::vector<int64_t> offsets(view->blobs.count + 1);
  return runtime::layOutCopies(view, variant, offsets.data());
}

/// "bf16x3w (84 calls), f32 (12 calls)"
std::string arithmeticText(const ArtifactView &view,
                           const encast_abi_variant &variant) {
  std::map<std::string, int> counts;
  const auto *calls = view.rows<encast_abi_call>(variant.calls);
  for (uint64_t i = 0; i < variant.calls.count; ++i) {
    const char *name = parseKernelName(view.string(calls[i].kernel)).arithmetic;
    if (*name && (calls[i].flops_per_row || calls[i].flops_per_row_and_key))
      ++counts[name];
  }
  std::vector<std::string> list;
  list.reserve(counts.size());
  for (const auto &[name, count] : counts)
    list.push_back(text("%s (%d calls)", name.c_str(), count));
  return list.empty() ? "no kernel" : joined(list, ", ");
}

std::string variantText(const ArtifactView &view,
                        const encast_abi_variant &variant) {
  std::string result =
      text("\nvariant %s\n  needs %s\n", view.string(variant.name),
           joined(featureNames(variant.cpu_features), ", ").c_str());
  result += "  arena of T tokens in B sequences on N threads, in bytes, each "
            "line rounded up to 64:\n";
  result +=
      text("    control tables: 6 of up to 4*T, %" PRId64 "*T + %" PRId64
           "*B + 4 in all\n",
           runtime::kControlBytesPerToken, runtime::kControlBytesPerSequence);
  for (const Colour &colour : coloursOf(view, variant)) {
    std::string forms = joined(colour.forms, ", ");
    result +=
        text(colour.forms.size() > 1 ? "    max(%s): %s\n" : "    %s: %s\n",
             forms.c_str(),
             colour.slots.empty() ? "more of those above"
                                  : joined(colour.slots, ", ").c_str());
  }
  result +=
      text("    N * %" PRId64 ": row blocks\n    N * %" PRId64 ": workspaces\n",
           variant.block_bytes, variant.workspace_bytes);
  result += text("    for one sequence of %" PRId64
                 " tokens with all outputs on one thread: %" PRId64 "\n",
                 view->max_tokens, exampleBytes(view, variant));
  result +=
      text("  beside the arena, mapped and shared by all processes: %" PRId64
           " bytes of weights\n",
           weightBytes(view, variant));
  result += text("  with huge_page_weights, copied once for each process that "
                 "opens it: %" PRId64 " bytes\n",
                 copiedBytes(view, variant));
  result += "  products are made in " + arithmeticText(view, variant) + "\n";
  result += "  steps, with their rows per block, and their calls\n";
  const auto *steps = view.rows<encast_abi_step>(variant.steps);
  const auto *calls = view.rows<encast_abi_call>(variant.calls);
  for (uint64_t s = 0; s < variant.steps.count; ++s) {
    const encast_abi_step &step = steps[s];
    result += text("    %-44s over %s, %u rows\n", view.string(step.name),
                   domainName(step.domain), step.max_rows);
    for (uint32_t i = 0; i < step.call_count; ++i) {
      const encast_abi_call &call = calls[step.first_call + i];
      result += text("      %-42s %s", view.string(call.name),
                     view.string(call.kernel));
      if (call.window)
        result += text(", window %u", call.window);
      if (call.modes != (ENCAST_MODE_ALL | ENCAST_MODE_SELECTED))
        result +=
            call.modes == ENCAST_MODE_ALL ? ", all rows" : ", selected rows";
      if (call.outputs != view.allOutputs())
        result += ", for " + joined(outputNames(view, call.outputs), "|");
      result += "\n";
    }
  }
  return result;
}

std::string artifactText(const Artifact &artifact) {
  const ArtifactView &view = artifact.view;
  std::string result = artifact.path +
                       "\n  An artifact is code: load only what "
                       "you trust.\n\nmodel\n";
  result += text("  family               %s\n", view.string(view->model));
  result += text("  hidden size          %" PRId64 "\n", view->hidden);
  result += text("  layers               %" PRId64 "\n", view->layers);
  result += text("  vocabulary           %" PRId64 "\n", view->vocabulary);
  result +=
      text("  longest sequence     %" PRId64 " tokens\n", view->max_tokens);
  result += text("  token types          %" PRId64 "\n", view->token_types);
  result += view->pad_id < 0
                ? "  pad id               none\n"
                : text("  pad id               %" PRId64 "\n", view->pad_id);
  result +=
      text("  attended length      %s\n",
           view.takesAttendedLength() ? "callers may give it" : "all ids");
  MetadataIntegers counts(view.string(view->metadata));
  if (counts.values.count("matrices"))
    result += text("  matrices             %s, of which %s are exactly bf16\n",
                   counts.values["matrices"].c_str(),
                   counts.values["bf16_exact_matrices"].c_str());
  result += text("  artifact id          %016" PRIx64 "%016" PRIx64 "\n",
                 view.id().high, view.id().low);
  result += text("  ABI version          %u\n", view->abi_version);

  result += "\noutputs\n";
  for (uint64_t i = 0; i < view->outputs.count; ++i)
    result +=
        text("  %-20s [%s, %" PRId64 "]%s\n", view.string(view.output(i).name),
             view.output(i).per_token ? "T" : "B", view.output(i).columns,
             i == view->default_output ? ", the default" : "");

  result += "\nsizes in bytes\n";
  result += text("  file                 %" PRIu64 "\n", artifact.fileBytes);
  result +=
      text("  code                 %" PRIu64 "\n", artifact.found.codeBytes);
  result +=
      text("  descriptor           %" PRIu64 "\n", view->descriptor_bytes);
  result +=
      text("  weights              %" PRIu64 " in %" PRIu64 " blobs%s%s\n",
           view->weights_bytes, view->blobs.count,
           view->weights_file ? ", in " : "", view.string(view->weights_file));
  for (uint64_t i = 0; i < view->variants.count; ++i)
    result += variantText(view, view.variant(i));
  if (view->metadata)
    result += metadataText(view);
  return result;
}

//===- JSON ---------------------------------------------------------------===//

class JsonText {
public:
  explicit JsonText(const Artifact &artifact)
      : artifact(artifact), view(artifact.view) {}

  std::string make() {
    json.StartObject();
    json.integer("schema", 1);
    json.integer("abi_version", view->abi_version);
    json.string("artifact_id", text("%016" PRIx64 "%016" PRIx64, view.id().high,
                                    view.id().low));
    writeModel();
    writeOutputs();
    writeSizes();
    writeMetadata();
    json.Key("variants");
    json.StartArray();
    for (uint64_t i = 0; i < view->variants.count; ++i)
      writeVariant(view.variant(i));
    json.EndArray();
    json.EndObject();
    return json.text();
  }

private:
  void strings(const char *name, const std::vector<std::string> &values) {
    json.Key(name);
    json.StartArray();
    for (const std::string &value : values)
      json.String(validUtf8(value).c_str());
    json.EndArray();
  }

  void writeModel() {
    json.Key("model");
    json.StartObject();
    json.string("family", view.string(view->model));
    json.integer("hidden", view->hidden);
    json.integer("layers", view->layers);
    json.integer("vocabulary", view->vocabulary);
    json.integer("max_tokens", view->max_tokens);
    json.integer("token_types", view->token_types);
    json.integer("pad_id", view->pad_id);
    json.Key("attended_length");
    json.Bool(view.takesAttendedLength());
    json.EndObject();
  }

  void writeOutputs() {
    json.Key("outputs");
    json.StartArray();
    for (uint64_t i = 0; i < view->outputs.count; ++i) {
      const encast_abi_output &output = view.output(i);
      json.StartObject();
      json.string("name", view.string(output.name));
      json.string("rows", output.per_token ? "T" : "B");
      json.integer("columns", output.columns);
      json.Key("default");
      json.Bool(i == view->default_output);
      json.EndObject();
    }
    json.EndArray();
  }

  void writeSizes() {
    json.Key("sizes");
    json.StartObject();
    json.integer("file", artifact.fileBytes);
    json.integer("code", artifact.found.codeBytes);
    json.integer("descriptor", view->descriptor_bytes);
    json.integer("weights", view->weights_bytes);
    json.integer("blobs", view->blobs.count);
    json.string("weights_file", view.string(view->weights_file));
    json.EndObject();
  }

  /// The compiler's JSON as it is, or as a string if it is none.
  void writeMetadata() {
    const char *metadata = view.string(view->metadata);
    json.Key("metadata");
    if (isJson(metadata))
      parseMetadata(metadata, json);
    else
      json.String(validUtf8(metadata).c_str());
  }

  void writeVariant(const encast_abi_variant &variant) {
    json.StartObject();
    json.string("name", view.string(variant.name));
    strings("needs", featureNames(variant.cpu_features));
    json.integer("rank", variant.rank);
    json.Key("memory");
    json.StartObject();
    json.integer("block_bytes", variant.block_bytes);
    json.integer("workspace_bytes", variant.workspace_bytes);
    json.integer("control_bytes_per_token", runtime::kControlBytesPerToken);
    json.integer("control_bytes_per_sequence",
                 runtime::kControlBytesPerSequence);
    json.integer("longest_sequence_bytes", exampleBytes(view, variant));
    json.integer("weight_bytes", weightBytes(view, variant));
    json.integer("copied_weights_bytes", copiedBytes(view, variant));
    json.Key("colours");
    json.StartArray();
    for (const Colour &colour : coloursOf(view, variant)) {
      json.StartObject();
      strings("slots", colour.slots);
      strings("bytes", colour.forms);
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
    writeSteps(variant);
    json.EndObject();
  }

  void writeSteps(const encast_abi_variant &variant) {
    const auto *steps = view.rows<encast_abi_step>(variant.steps);
    const auto *calls = view.rows<encast_abi_call>(variant.calls);
    json.Key("steps");
    json.StartArray();
    for (uint64_t s = 0; s < variant.steps.count; ++s) {
      const encast_abi_step &step = steps[s];
      json.StartObject();
      json.string("name", view.string(step.name));
      json.string("domain", domainName(step.domain));
      json.integer("layer", step.layer);
      json.integer("max_rows", step.max_rows);
      json.integer("row_tile", step.row_tile);
      json.integer("split_rows", step.split_rows);
      json.integer("heads", step.heads);
      json.Key("calls");
      json.StartArray();
      for (uint32_t i = 0; i < step.call_count; ++i) {
        const encast_abi_call &call = calls[step.first_call + i];
        json.StartObject();
        json.string("name", view.string(call.name));
        json.string("kernel", view.string(call.kernel));
        json.string("arithmetic",
                    parseKernelName(view.string(call.kernel)).arithmetic);
        json.integer("panels", call.panels);
        json.integer("panel_tile", call.panel_tile);
        json.Key("per_head");
        json.Bool(call.per_head);
        strings("outputs", outputNames(view, call.outputs));
        json.integer("flops_per_row", call.flops_per_row);
        json.integer("flops_per_row_and_key", call.flops_per_row_and_key);
        json.integer("window", call.window);
        json.EndObject();
      }
      json.EndArray();
      json.EndObject();
    }
    json.EndArray();
  }

  const Artifact &artifact;
  const ArtifactView &view;
  JsonWriter json;
};

} // namespace

int main(int argc, char **argv) {
  prepareProcess();
  bool asJson = false, verifies = false;
  CommandLine line(kUsage);
  line.flag("json", asJson);
  line.flag("verify", verifies);
  Artifact artifact(line.parse(argc, argv));
  if (verifies)
    artifact.verify();
  printOutput(asJson ? JsonText(artifact).make() : artifactText(artifact));
  if (verifies)
    printSummary(artifact.path + ": code, tables and " +
                 std::to_string(artifact.view->blobs.count) +
                 " blobs of weights match their hashes");
  return 0;
}
