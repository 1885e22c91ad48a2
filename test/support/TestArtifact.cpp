//===- TestArtifact.cpp - make a small valid artifact ---------------------===//

#include "test/support/TestArtifact.h"
#include "runtime/src/Artifact.h"
#include "runtime/src/Elf.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <ftw.h>
#include <map>
#include <unistd.h>

namespace encast::test {
namespace {

[[noreturn]] void stop(const std::string &what, const std::string &path) {
  perror((what + " " + path).c_str());
  abort();
}

uint64_t roundedUp(uint64_t size, uint64_t unit) {
  return (size + unit - 1) / unit * unit;
}

template <typename Value> void append(Bytes &bytes, const Value &value) {
  auto *begin = reinterpret_cast<const uint8_t *>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof(value));
}

/// Puts rows behind each other and strings into a pool.
class DescriptorBuilder {
public:
  encast_abi_descriptor header = {};

  DescriptorBuilder() : bytes(sizeof(header)) {}

  template <typename Row> encast_abi_table table(const std::vector<Row> &rows) {
    encast_abi_table table = {bytes.size(), rows.size()};
    for (const Row &row : rows)
      append(bytes, row);
    return table;
  }
  /// Strings stand behind kStrings, each once.
  uint64_t string(const std::string &text) {
    auto [place, isNew] = offsets.try_emplace(text, kStrings + strings.size());
    if (isNew)
      strings.insert(strings.end(), text.c_str(),
                     text.c_str() + text.size() + 1);
    return place->second;
  }
  Bytes finish() {
    if (bytes.size() > kStrings ||
        kStrings + strings.size() > TEST_DESCRIPTOR_BYTES)
      stop("descriptor too large for", "TEST_DESCRIPTOR_BYTES");
    header.descriptor_bytes = kStrings + strings.size();
    memcpy(bytes.data(), &header, sizeof(header));
    bytes.resize(kStrings);
    bytes.insert(bytes.end(), strings.begin(), strings.end());
    bytes.resize(TEST_DESCRIPTOR_BYTES);
    return bytes;
  }

private:
  static constexpr uint64_t kStrings = TEST_DESCRIPTOR_BYTES / 3 * 2;
  Bytes bytes, strings;
  std::map<std::string, uint64_t> offsets;
};

runtime::ElfFile parsed(const Bytes &file) {
  runtime::ElfFile elf;
  encast_error error = ENCAST_ERROR_INIT;
  if (elf.parse(file.data(), file.size(), &error)) {
    fprintf(stderr, "test artifact: %s\n", error.message);
    abort();
  }
  return elf;
}

/// The value of a symbol in .symtab.
uint64_t symbolAddress(const Bytes &library, const std::string &name) {
  runtime::ElfFile elf = parsed(library);
  const Elf64_Shdr &table = *elf.findSection(".symtab");
  auto *names =
      reinterpret_cast<const char *>(elf.contents(elf.section(table.sh_link)));
  auto *symbols = reinterpret_cast<const Elf64_Sym *>(elf.contents(table));
  for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i)
    if (name == names + symbols[i].st_name)
      return symbols[i].st_value;
  stop("no symbol", name);
}

/// An artifact around its weights section.
struct Frame {
  Bytes head; ///< Up to the weights, padded to a page.
  Bytes tail; ///< Names and section table.
};

/// Adds a section for `weightsBytes` bytes to a linked library.
Frame addWeightsSection(Bytes library, uint64_t weightsBytes) {
  Elf64_Ehdr header;
  memcpy(&header, library.data(), sizeof(header));
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  memcpy(sections.data(), library.data() + header.e_shoff,
         header.e_shnum * sizeof(Elf64_Shdr));
  Elf64_Shdr &names = sections[header.e_shstrndx];
  Bytes nameBytes(library.begin() + names.sh_offset,
                  library.begin() + names.sh_offset + names.sh_size);
  Elf64_Shdr weights = {};
  weights.sh_name = nameBytes.size();
  for (const char *c = ENCAST_WEIGHTS_SECTION; *c; ++c)
    nameBytes.push_back(*c);
  nameBytes.push_back(0);

  Frame frame;
  frame.head = std::move(library);
  frame.head.resize(roundedUp(header.e_shoff, 4096));
  weights.sh_type = SHT_PROGBITS;
  weights.sh_offset = frame.head.size();
  weights.sh_size = weightsBytes;
  weights.sh_addralign = 4096;
  names.sh_offset = weights.sh_offset + weights.sh_size;
  names.sh_size = nameBytes.size();
  frame.tail = nameBytes;
  frame.tail.resize(roundedUp(names.sh_offset + nameBytes.size(), 8) -
                    names.sh_offset);
  header.e_shoff = names.sh_offset + frame.tail.size();
  sections.push_back(weights);
  ++header.e_shnum;
  for (const Elf64_Shdr &section : sections)
    append(frame.tail, section);
  memcpy(frame.head.data(), &header, sizeof(header));
  return frame;
}

void writeAll(int file, const std::string &path, const Bytes &bytes) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    if (count <= 0)
      stop("cannot write", path);
    done += count;
  }
}

} // namespace

TestArtifact::TestArtifact() {
  constexpr uint32_t all = ENCAST_MODE_ALL, selected = ENCAST_MODE_SELECTED;
  constexpr uint64_t any = 7;
  steps = {
      {"embeddings",
       ENCAST_DOMAIN_TOKENS,
       0,
       0,
       {{"embeddings.sum", "test_embed", all | selected, 0, 0, any}}},
      {"layer.0",
       ENCAST_DOMAIN_TOKENS,
       1,
       0,
       {{"layer.0.up", "test_to_block", all | selected, TEST_PANELS, 2, any},
        {"layer.0.down", "test_from_block", all | selected, 0, 0, any}}},
      {"layer.0.attention",
       ENCAST_DOMAIN_ATTENTION_TOKENS,
       1,
       TEST_HEADS,
       {{"layer.0.attention", "test_attention", all | selected, 0, 0, any}}},
      {"layer.1.tail.all",
       ENCAST_DOMAIN_TOKENS,
       2,
       0,
       {{"layer.1.copy", "test_tail_all", all, 0, 0, any}}},
      {"layer.1.tail.selected",
       ENCAST_DOMAIN_SELECTED,
       2,
       0,
       {{"layer.1.gather", "test_tail_selected", selected, 0, 0, any}}},
      {"layer.1.count",
       ENCAST_DOMAIN_SELECTED,
       2,
       0,
       {{"layer.1.count", "test_tail_count", all | selected, 0, 0, any}}},
      {"layer.1.attention",
       ENCAST_DOMAIN_ATTENTION_SELECTED,
       2,
       TEST_HEADS,
       {{"layer.1.attention", "test_tail_attention", all | selected, 0, 0,
         any}}},
      {"tokens",
       ENCAST_DOMAIN_PICKED,
       0,
       0,
       {{"tokens", "test_pick", all | selected, 0, 0, 1}}},
      {"first",
       ENCAST_DOMAIN_SEQUENCES,
       0,
       0,
       {{"first", "test_first", all | selected, 0, 0, 2}}},
      {"all",
       ENCAST_DOMAIN_SEQUENCES,
       0,
       0,
       {{"all", "test_first_all", all, 0, 0, 4}}},
  };
}

int64_t TestArtifact::floatCount() const {
  return sparseFloats ? sparseFloats : weights.size();
}

/// The whole weights section; not for sparse ones.
Bytes TestArtifact::weightBytes() const {
  Bytes bytes;
  for (float weight : weights)
    append(bytes, weight);
  bytes.resize(roundedUp(bytes.size(), ENCAST_ALIGNMENT));
  append(bytes, floatCount());
  return bytes;
}

Bytes TestArtifact::descriptor(uint64_t address, const Bytes &library) const {
  DescriptorBuilder builder;
  encast_abi_descriptor &header = builder.header;
  header.magic = ENCAST_ABI_MAGIC;
  header.byte_order = ENCAST_ABI_BYTE_ORDER;
  header.abi_version = abiVersion;
  header.required_features = requiredFeatures;
  header.header_bytes = sizeof(header);
  header.vocabulary = TEST_VOCABULARY;
  header.max_tokens = maxTokens;
  header.token_types = TEST_TYPES;
  header.pad_id = 0;
  header.hidden = TEST_HIDDEN;
  header.layers = 2;
  header.model = builder.string(family);
  header.metadata = builder.string(metadata);
  header.default_output = 1;
  if (!weightsFile.empty())
    header.weights_file = builder.string(weightsFile);

  header.outputs = builder.table<encast_abi_output>({
      {builder.string("tokens"), TEST_COLUMNS, 1, 0},
      {builder.string("first"), TEST_COLUMNS, 0, 0},
      {builder.string("all"), TEST_COLUMNS, 0, 1},
  });
  uint64_t floatBytes = floatCount() * sizeof(float);
  uint64_t second = roundedUp(floatBytes, ENCAST_ALIGNMENT);
  std::vector<encast_abi_blob> blobs = {{0, floatBytes, 0, 0},
                                        {second, 8, 0, 0}};
  header.weights_bytes = second + 8;
  if (!sparseFloats) {
    Bytes bytes = weightBytes();
    for (encast_abi_blob &blob : blobs) {
      runtime::Hash128 hash =
          runtime::hashBytes(bytes.data() + blob.offset, blob.size);
      blob.hash_low = hash.low;
      blob.hash_high = hash.high;
    }
  }
  header.blobs = builder.table(blobs);

  constexpr int64_t hidden = TEST_HIDDEN * sizeof(float),
                    attention = TEST_ATTENTION * sizeof(float),
                    tail = hidden + attention;
  std::vector<encast_abi_variant> variantRows;
  for (const TestVariant &source : variants) {
    encast_abi_variant variant = {};
    variant.name = builder.string(source.name);
    variant.cpu_features = source.cpuFeatures;
    variant.rank = source.rank;
    variant.block_bytes = maxRows * TEST_PANELS * sizeof(float);
    variant.workspace_bytes = 4;
    variant.colours = 4;
    variant.slots = builder.table<encast_abi_slot>({
        {builder.string("hidden"), ENCAST_SLOT_ARENA, 0},
        {builder.string("attention"), ENCAST_SLOT_ARENA, 1},
        {builder.string("tail"), ENCAST_SLOT_ARENA, 2},
        {builder.string("tail_attention"), ENCAST_SLOT_ARENA, 3},
        {builder.string("tokens"), ENCAST_SLOT_OUTPUT, 0},
        {builder.string("first"), ENCAST_SLOT_OUTPUT, 1},
        {builder.string("all"), ENCAST_SLOT_OUTPUT, 2},
        {builder.string("ids"), ENCAST_SLOT_IDS, 0},
        {builder.string("types"), ENCAST_SLOT_TYPES, 0},
        {builder.string("positions"), ENCAST_SLOT_POSITIONS, 0},
        {builder.string("selected"), ENCAST_SLOT_SELECTED, 0},
        {builder.string("first_rows"), ENCAST_SLOT_FIRST, 0},
        {builder.string("pick"), ENCAST_SLOT_PICK, 0},
    });
    variant.forms = builder.table<encast_abi_form>({
        {0, 0, 7, hidden, 0, 0},
        {0, 0, 7, 0, 0, 1000},
        {1, 0, 7, attention, 0, 0},
        {2, 0, 7, tail, tail, 0},
        {3, 0, 7, attention, attention, 0},
        {1, 0, 1, 2 * attention, 0, 0}, // more if "tokens" is asked
    });
    variant.weights = builder.table<encast_abi_weight>(
        {{builder.string("floats"), 0, weightFlags[0]},
         {builder.string("count"), 1, weightFlags[1]}});

    std::vector<encast_abi_step> stepRows;
    std::vector<encast_abi_call> callRows;
    for (const TestStep &source : steps) {
      encast_abi_step step = {};
      step.name = builder.string(source.name);
      step.domain = source.domain;
      step.layer = source.layer;
      step.heads = source.heads;
      step.max_rows = source.heads ? queryRows : maxRows;
      step.row_tile = std::min(rowTile, step.max_rows);
      step.split_rows = splitRows;
      step.first_call = callRows.size();
      step.call_count = source.calls.size();
      stepRows.push_back(step);
      for (const TestCall &call : source.calls)
        callRows.push_back(
            {builder.string(call.name),
             builder.string(call.kernel.empty() ? call.function : call.kernel),
             static_cast<int64_t>(symbolAddress(library, call.function) -
                                  address),
             static_cast<uint16_t>(call.modes), call.perHead, call.panels,
             call.panelTile, call.window, call.outputs, flopsPerRow,
             source.heads || call.perHead ? flopsPerRowAndKey : 0});
    }
    variant.steps = builder.table(stepRows);
    variant.calls = builder.table(callRows);
    variantRows.push_back(variant);
  }
  header.variants = builder.table(variantRows);
  return builder.finish();
}

static Bytes linkedLibrary() { return readFile(ENCAST_TEST_MODEL); }

static void place(Bytes &library, const Bytes &descriptor) {
  runtime::ElfFile elf = parsed(library);
  const Elf64_Shdr &section = *elf.findSection(ENCAST_DESCRIPTOR_SECTION);
  memcpy(library.data() + section.sh_offset, descriptor.data(),
         descriptor.size());
}

Bytes TestArtifact::build() const {
  Bytes library = linkedLibrary();
  uint64_t address =
      parsed(library).findSection(ENCAST_DESCRIPTOR_SECTION)->sh_addr;
  place(library, descriptor(address, library));
  Bytes artifact;
  if (weightsFile.empty()) {
    Bytes weightSection = weightBytes();
    Frame frame = addWeightsSection(library, weightSection.size());
    artifact = frame.head;
    artifact.insert(artifact.end(), weightSection.begin(), weightSection.end());
    artifact.insert(artifact.end(), frame.tail.begin(), frame.tail.end());
  } else {
    artifact = library;
  }
  seal(artifact);
  return artifact;
}

Bytes TestArtifact::weightsFileOf(const Bytes &artifact) const {
  Bytes bytes = weightBytes();
  if (abiVersion < 4)
    return bytes;
  const uint8_t *descriptor =
      artifact.data() +
      parsed(artifact).findSection(ENCAST_DESCRIPTOR_SECTION)->sh_offset;
  const encast_abi_table &blobs =
      reinterpret_cast<const encast_abi_descriptor *>(descriptor)->blobs;
  const uint8_t *table = descriptor + blobs.offset;
  bytes.insert(bytes.end(), table,
               table + blobs.count * sizeof(encast_abi_blob));
  return bytes;
}

std::string TestArtifact::write(const std::string &path) const {
  if (!sparseFloats) {
    Bytes artifact = build();
    writeFile(path, artifact);
    if (!weightsFile.empty())
      writeFile(path.substr(0, path.rfind('/') + 1) + weightsFile,
                weightsFileOf(artifact));
    return path;
  }
  Bytes library = linkedLibrary();
  uint64_t address =
      parsed(library).findSection(ENCAST_DESCRIPTOR_SECTION)->sh_addr;
  place(library, descriptor(address, library));
  seal(library);
  uint64_t floatBytes = sparseFloats * sizeof(float);
  uint64_t second = roundedUp(floatBytes, ENCAST_ALIGNMENT);
  Frame frame = addWeightsSection(library, second + 8);
  int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file < 0)
    stop("cannot open", path);
  writeAll(file, path, frame.head);
  Bytes last;
  append(last, weights.back());
  lseek(file, frame.head.size() + floatBytes - sizeof(float), SEEK_SET);
  writeAll(file, path, last);
  last.clear();
  append(last, floatCount());
  last.insert(last.end(), frame.tail.begin(), frame.tail.end());
  lseek(file, frame.head.size() + second, SEEK_SET);
  writeAll(file, path, last);
  close(file);
  return path;
}

void writeFile(const std::string &path, const Bytes &bytes) {
  int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file < 0)
    stop("cannot open", path);
  writeAll(file, path, bytes);
  close(file);
}

Bytes readFile(const std::string &path) {
  FILE *file = fopen(path.c_str(), "rb");
  if (!file)
    stop("cannot open", path);
  Bytes bytes;
  uint8_t buffer[65536];
  for (size_t count; (count = fread(buffer, 1, sizeof(buffer), file));)
    bytes.insert(bytes.end(), buffer, buffer + count);
  fclose(file);
  return bytes;
}

TemporaryFolder::TemporaryFolder() {
  const char *base = getenv("TMPDIR");
  folder = std::string(base ? base : "/tmp") + "/encast-test-XXXXXX";
  if (!mkdtemp(folder.data()))
    stop("cannot make", folder);
}

TemporaryFolder::~TemporaryFolder() {
  nftw(
      folder.c_str(),
      [](const char *path, const struct stat *, int, FTW *) {
        return remove(path);
      },
      16, FTW_DEPTH | FTW_PHYS);
}

encast_abi_descriptor &descriptorOf(Bytes &artifact) {
  const Elf64_Shdr &section =
      *parsed(artifact).findSection(ENCAST_DESCRIPTOR_SECTION);
  return *reinterpret_cast<encast_abi_descriptor *>(artifact.data() +
                                                    section.sh_offset);
}

void seal(Bytes &artifact) {
  runtime::Hash128 id = runtime::computeArtifactId(parsed(artifact));
  encast_abi_descriptor &header = descriptorOf(artifact);
  header.artifact_id[0] = id.low;
  header.artifact_id[1] = id.high;
}

} // namespace encast::test
