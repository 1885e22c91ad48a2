//===- ValidateTest.cpp - which bytes are an artifact ---------------------===//

#include "runtime/src/Artifact.h"
#include "runtime/src/Elf.h"
#include "test/support/TestArtifact.h"
#include <cstring>
#include <elf.h>
#include <functional>
#include <gtest/gtest.h>

using namespace encast;
using namespace encast::test;

namespace {

struct Verdict {
  encast_status status;
  std::string message;
};

Verdict validate(const Bytes &bytes) {
  runtime::ArtifactFile found;
  encast_error error = ENCAST_ERROR_INIT;
  encast_status status =
      runtime::validateArtifact(bytes.data(), bytes.size(), found, &error);
  EXPECT_EQ(status, error.code);
  return {status, error.message};
}

/// A change of a valid artifact and a piece of the message that refuses it.
struct Rejection {
  const char *name;
  const char *message;
  std::function<void(Bytes &)> change;
  encast_status status = ENCAST_BAD_ARTIFACT;
};

void PrintTo(const Rejection &rejection, std::ostream *stream) {
  *stream << rejection.name;
}

std::string nameOf(const testing::TestParamInfo<Rejection> &info) {
  return info.param.name;
}

Elf64_Ehdr &elfHeader(Bytes &bytes) {
  return *reinterpret_cast<Elf64_Ehdr *>(bytes.data());
}

Elf64_Phdr &segment(Bytes &bytes, uint32_t type, uint32_t flags = 0) {
  auto *segments =
      reinterpret_cast<Elf64_Phdr *>(bytes.data() + elfHeader(bytes).e_phoff);
  for (int i = 0; i < elfHeader(bytes).e_phnum; ++i)
    if (segments[i].p_type == type && (segments[i].p_flags & flags) == flags)
      return segments[i];
  ADD_FAILURE() << "no segment of type " << type;
  return segments[0];
}

Elf64_Shdr &section(Bytes &bytes, const char *name) {
  runtime::ElfFile elf;
  EXPECT_EQ(elf.parse(bytes.data(), bytes.size(), nullptr), ENCAST_OK);
  const Elf64_Shdr *found = elf.findSection(name);
  EXPECT_NE(found, nullptr) << name;
  return const_cast<Elf64_Shdr &>(*found);
}

encast_abi_variant &variant(Bytes &bytes) {
  return *rowsOf<encast_abi_variant>(bytes, descriptorOf(bytes).variants);
}
template <typename Row> Row &row(Bytes &bytes, const encast_abi_table &table) {
  return *rowsOf<Row>(bytes, table);
}

#define SLOT(b) row<encast_abi_slot>(b, variant(b).slots)
#define FORM(b) row<encast_abi_form>(b, variant(b).forms)
#define WEIGHT(b) row<encast_abi_weight>(b, variant(b).weights)
#define STEP(b) row<encast_abi_step>(b, variant(b).steps)
#define CALL(b) row<encast_abi_call>(b, variant(b).calls)
#define OUTPUT(b) row<encast_abi_output>(b, descriptorOf(b).outputs)
#define BLOB(b) row<encast_abi_blob>(b, descriptorOf(b).blobs)

} // namespace

TEST(Validate, accepts_an_artifact_with_its_weights_inside) {
  Bytes bytes = TestArtifact().build();
  runtime::ArtifactFile found;
  encast_error error = ENCAST_ERROR_INIT;
  ASSERT_EQ(
      runtime::validateArtifact(bytes.data(), bytes.size(), found, &error),
      ENCAST_OK)
      << error.message;
  EXPECT_EQ(found.view->outputs.count, 3u);
  EXPECT_STREQ(found.view.string(found.view.output(1).name), "first");
  EXPECT_EQ(found.weightsOffset % 4096, 0u);
  EXPECT_GT(found.codeBytes, 0u);
}

TEST(Validate, accepts_an_artifact_with_its_weights_beside_it) {
  TestArtifact artifact;
  artifact.weightsFile = "model.weights";
  EXPECT_EQ(validate(artifact.build()).status, ENCAST_OK);
}

TEST(Validate, refuses_every_truncation) {
  Bytes bytes = TestArtifact().build();
  while (!bytes.empty()) {
    bytes.pop_back();
    // A copy of exact size, so that a sanitizer sees each byte read behind it.
    Bytes exact(bytes.begin(), bytes.end());
    ASSERT_NE(validate(exact).status, ENCAST_OK) << bytes.size() << " bytes";
  }
}

TEST(Validate, refuses_bytes_behind_the_section_table) {
  Bytes bytes = TestArtifact().build();
  bytes.push_back(0);
  EXPECT_EQ(validate(bytes).status, ENCAST_BAD_ARTIFACT);
}

TEST(Validate, refuses_a_flipped_bit_in_any_loaded_byte) {
  Bytes bytes = TestArtifact().build();
  runtime::ElfFile elf;
  ASSERT_EQ(elf.parse(bytes.data(), bytes.size(), nullptr), ENCAST_OK);
  for (uint64_t i = 1; i < elf.sectionCount(); ++i) {
    Elf64_Shdr loaded = elf.section(i);
    if (!(loaded.sh_flags & SHF_ALLOC) || loaded.sh_type == SHT_NOBITS)
      continue;
    for (uint64_t j = 0; j < loaded.sh_size; ++j) {
      bytes[loaded.sh_offset + j] ^= 1 << j % 8;
      ASSERT_NE(validate(bytes).status, ENCAST_OK)
          << elf.sectionName(i) << " byte " << j;
      bytes[loaded.sh_offset + j] ^= 1 << j % 8;
    }
  }
  EXPECT_EQ(validate(bytes).status, ENCAST_OK);
}

TEST(Validate, survives_every_flipped_bit_of_the_headers) {
  Bytes bytes = TestArtifact().build();
  Elf64_Ehdr header = elfHeader(bytes);
  auto flip = [&](uint64_t begin, uint64_t size) {
    for (uint64_t bit = 8 * begin; bit < 8 * (begin + size); ++bit) {
      bytes[bit / 8] ^= 1 << bit % 8;
      validate(bytes);
      bytes[bit / 8] ^= 1 << bit % 8;
    }
  };
  flip(0, sizeof(header));
  flip(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr));
  flip(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
  EXPECT_EQ(validate(bytes).status, ENCAST_OK);
}

TEST(Validate, survives_every_changed_byte_of_a_sealed_descriptor) {
  Bytes bytes = TestArtifact().build();
  encast_abi_descriptor header = descriptorOf(bytes);
  auto *begin = reinterpret_cast<uint8_t *>(&descriptorOf(bytes));
  for (uint64_t i = 0; i < header.descriptor_bytes; ++i)
    for (int value : {0x00, 0x7f, 0xff}) {
      uint8_t before = begin[i];
      begin[i] = value;
      seal(bytes);
      validate(bytes);
      begin[i] = before;
    }
  descriptorOf(bytes) = header;
  EXPECT_EQ(validate(bytes).status, ENCAST_OK);
}

class RefusedFile : public testing::TestWithParam<Rejection> {};

// Headers are not part of the artifact id: no seal.
TEST_P(RefusedFile, says_why) {
  Bytes bytes = TestArtifact().build();
  GetParam().change(bytes);
  Verdict verdict = validate(bytes);
  EXPECT_EQ(verdict.status, GetParam().status);
  EXPECT_NE(verdict.message.find(GetParam().message), std::string::npos)
      << verdict.message;
}

static const Rejection fileRejections[] = {
    {"empty_file", "0 bytes", [](Bytes &b) { b.clear(); }},
    {"text_file", "the magic number is", [](Bytes &b) { b.assign(100, 'a'); }},
    {"elf_of_32_bits", "EI_CLASS is 0x1",
     [](Bytes &b) { elfHeader(b).e_ident[EI_CLASS] = ELFCLASS32; }},
    {"big_endian", "EI_DATA is 0x2",
     [](Bytes &b) { elfHeader(b).e_ident[EI_DATA] = ELFDATA2MSB; }},
    {"executable", "e_type is 0x2",
     [](Bytes &b) { elfHeader(b).e_type = ET_EXEC; }},
    {"other_architecture", "e_machine is 0xb7",
     [](Bytes &b) { elfHeader(b).e_machine = EM_AARCH64; }},
    {"size_of_segment_headers", "e_phentsize is 0x20",
     [](Bytes &b) { elfHeader(b).e_phentsize = 32; }},
    {"size_of_section_headers", "e_shentsize is 0x28",
     [](Bytes &b) { elfHeader(b).e_shentsize = 40; }},
    {"section_table_not_at_end", "the section table ends at byte",
     [](Bytes &b) { elfHeader(b).e_shnum -= 1; }},
    {"section_table_behind_the_file", "the section table ends at byte",
     [](Bytes &b) { elfHeader(b).e_shoff = ~uint64_t(0) & ~7; }},
    {"segment_table_behind_the_file", "segment table 0 takes",
     [](Bytes &b) { elfHeader(b).e_phoff = b.size() & ~7; }},
    {"too_many_sections", "e_shnum is 0x800",
     [](Bytes &b) {
       elfHeader(b).e_shnum = 2048;
       b.resize((b.size() + 7) & ~7);
       elfHeader(b).e_shoff = b.size();
       b.resize(b.size() + 2048 * sizeof(Elf64_Shdr));
     }},
    {"no_section_names", "type of section e_shstrndx",
     [](Bytes &b) { elfHeader(b).e_shstrndx = 0; }},
    {"section_behind_the_file", "takes",
     [](Bytes &b) { section(b, ENCAST_WEIGHTS_SECTION).sh_size = b.size(); }},
    {"section_wraps_around", "takes",
     [](Bytes &b) {
       section(b, ENCAST_WEIGHTS_SECTION).sh_offset = ~uint64_t(0) - 63;
     }},
    {"section_name_outside", "has a name outside of the name table",
     [](Bytes &b) { section(b, ".text").sh_name = 0x7fffffff; }},
    {"section_names_without_end", "does not end with NUL",
     [](Bytes &b) { section(b, ".shstrtab").sh_size -= 1; }},
    {"loaded_section_outside_of_segments", "is not part of a loaded segment",
     [](Bytes &b) { section(b, ".text").sh_addr += 1 << 30; }},
    {"loaded_section_elsewhere_in_memory", "differently in memory and file",
     [](Bytes &b) { section(b, ".text").sh_offset -= 16; }},
    {"code_that_may_not_run", "lacks rights",
     [](Bytes &b) { segment(b, PT_LOAD, PF_X).p_flags &= ~PF_X; }},
    {"segment_that_cannot_be_read", "cannot be read",
     [](Bytes &b) { segment(b, PT_LOAD, PF_X).p_flags &= ~PF_R; }},
    {"segment_behind_the_file", "takes",
     [](Bytes &b) {
       segment(b, PT_LOAD, PF_X).p_filesz = b.size();
       segment(b, PT_LOAD, PF_X).p_memsz = b.size();
     }},
    {"segment_smaller_in_memory", "larger in the file than in memory",
     [](Bytes &b) { segment(b, PT_LOAD, PF_X).p_memsz = 1; }},
    {"segment_wraps_around", "wraps around",
     [](Bytes &b) { segment(b, PT_LOAD, PF_X).p_memsz = ~uint64_t(0); }},
    {"segment_alignment", "no power of two",
     [](Bytes &b) { segment(b, PT_LOAD, PF_X).p_align = 4097; }},
    {"segment_between_pages", "differently in pages and file",
     [](Bytes &b) { segment(b, PT_LOAD, PF_X).p_vaddr += 8; }},
    {"segments_overlap", "overlaps the segment before",
     [](Bytes &b) {
       Elf64_Phdr &load = segment(b, PT_LOAD, PF_X);
       load.p_vaddr = load.p_offset % 4096;
     }},
    {"segment_of_thread_local_memory", "of a type that artifacts do not have",
     [](Bytes &b) { segment(b, PT_GNU_STACK).p_type = PT_TLS; }},
    {"segment_with_an_interpreter", "of a type that artifacts do not have",
     [](Bytes &b) { segment(b, PT_GNU_STACK).p_type = PT_INTERP; }},
    {"two_dynamic_segments", "number of PT_DYNAMIC segments is 0x2",
     [](Bytes &b) { segment(b, PT_GNU_STACK).p_type = PT_DYNAMIC; }},
    {"no_dynamic_segment", "number of PT_DYNAMIC segments is 0x0",
     [](Bytes &b) { segment(b, PT_DYNAMIC).p_type = PT_NULL; }},
    {"dynamic_segment_elsewhere", "is not part of a loaded segment",
     [](Bytes &b) { segment(b, PT_DYNAMIC).p_vaddr += 1 << 30; }},
    {"dynamic_segment_without_end", "has no end mark",
     [](Bytes &b) { segment(b, PT_DYNAMIC).p_filesz = sizeof(Elf64_Dyn); }},
    {"protected_code", "memory that is not writable",
     [](Bytes &b) {
       Elf64_Phdr code = segment(b, PT_LOAD, PF_X);
       Elf64_Phdr &relro = segment(b, PT_GNU_RELRO);
       relro = code;
       relro.p_type = PT_GNU_RELRO;
     }},
    {"needs_a_library", "needs another library",
     [](Bytes &b) {
       Elf64_Phdr dynamic = segment(b, PT_DYNAMIC);
       reinterpret_cast<Elf64_Dyn *>(b.data() + dynamic.p_offset)->d_tag =
           DT_NEEDED;
     }},
    {"no_descriptor", "is no Encast artifact",
     [](Bytes &b) { section(b, ENCAST_DESCRIPTOR_SECTION).sh_name = 0; }},
    {"descriptor_not_loaded", "with the descriptor is not loaded",
     [](Bytes &b) { section(b, ENCAST_DESCRIPTOR_SECTION).sh_flags = 0; }},
    {"descriptor_too_small", "smaller than its header",
     [](Bytes &b) { section(b, ENCAST_DESCRIPTOR_SECTION).sh_size = 8; }},
    {"weights_stripped", "the weights were stripped",
     [](Bytes &b) { section(b, ENCAST_WEIGHTS_SECTION).sh_name = 0; }},
    {"weights_without_contents", "with the weights has no contents",
     [](Bytes &b) { section(b, ENCAST_WEIGHTS_SECTION).sh_type = SHT_NOBITS; }},
    {"weights_not_aligned", "with the weights is not aligned",
     [](Bytes &b) { section(b, ENCAST_WEIGHTS_SECTION).sh_offset += 8; }},
    {"weights_too_short", "take 71 bytes, expected 72",
     [](Bytes &b) { section(b, ENCAST_WEIGHTS_SECTION).sh_size -= 1; }},
    {"weights_on_code", "with the weights overlaps another one",
     [](Bytes &b) {
       section(b, ENCAST_WEIGHTS_SECTION).sh_offset =
           section(b, ".text").sh_offset / 4096 * 4096;
     }},
    {"altered_code", "do not match its artifact id",
     [](Bytes &b) { b[section(b, ".text").sh_offset] ^= 1; }},
};
INSTANTIATE_TEST_SUITE_P(Validate, RefusedFile,
                         testing::ValuesIn(fileRejections), nameOf);

class RefusedDescriptor : public testing::TestWithParam<Rejection> {};

TEST_P(RefusedDescriptor, says_why) {
  Bytes bytes = TestArtifact().build();
  GetParam().change(bytes);
  seal(bytes);
  Verdict verdict = validate(bytes);
  EXPECT_EQ(verdict.status, GetParam().status);
  EXPECT_NE(verdict.message.find(GetParam().message), std::string::npos)
      << verdict.message;
}

static const Rejection descriptorRejections[] = {
    {"magic", "magic number is 0x7",
     [](Bytes &b) { descriptorOf(b).magic = 7; }},
    {"byte_order", "byte order is 0x4030201",
     [](Bytes &b) { descriptorOf(b).byte_order = 0x04030201; }},
    {"newer_version", "artifact of ABI version 5, this runtime reads 1 to 4",
     [](Bytes &b) { descriptorOf(b).abi_version = ENCAST_ABI_VERSION + 1; },
     ENCAST_ABI_MISMATCH},
    {"version_0", "artifact of ABI version 0",
     [](Bytes &b) { descriptorOf(b).abi_version = 0; }, ENCAST_ABI_MISMATCH},
    {"unknown_feature", "features of a newer runtime (bits 0x8)",
     [](Bytes &b) { descriptorOf(b).required_features = 8; },
     ENCAST_ABI_MISMATCH},
    {"header_bytes", "header: header_bytes is 8",
     [](Bytes &b) { descriptorOf(b).header_bytes = 8; }},
    {"descriptor_bytes", "descriptor_bytes is 12289",
     [](Bytes &b) {
       descriptorOf(b).descriptor_bytes = TEST_DESCRIPTOR_BYTES + 1;
     }},
    {"vocabulary", "vocabulary is 0",
     [](Bytes &b) { descriptorOf(b).vocabulary = 0; }},
    {"max_tokens", "max_tokens is 4294967296",
     [](Bytes &b) { descriptorOf(b).max_tokens = int64_t(1) << 32; }},
    {"token_types", "token_types is",
     [](Bytes &b) { descriptorOf(b).token_types = -1; }},
    {"pad_id", "pad_id is 100, expected 0 to 99",
     [](Bytes &b) { descriptorOf(b).pad_id = 100; }},
    {"hidden", "hidden is 0", [](Bytes &b) { descriptorOf(b).hidden = 0; }},
    {"layers", "layers is", [](Bytes &b) { descriptorOf(b).layers = -1; }},
    {"family", "family is no string",
     [](Bytes &b) { descriptorOf(b).model = TEST_DESCRIPTOR_BYTES; }},
    {"string_without_end", "metadata is no string",
     [](Bytes &b) {
       auto *base = reinterpret_cast<char *>(&descriptorOf(b));
       uint64_t bytes = descriptorOf(b).descriptor_bytes;
       base[bytes - 1] = 'x';
       descriptorOf(b).metadata = bytes - 1;
     }},
    {"string_in_the_header", "family is no string (byte 8)",
     [](Bytes &b) { descriptorOf(b).model = 8; }},
    {"weights_bytes", "weights_bytes is",
     [](Bytes &b) { descriptorOf(b).weights_bytes = ~uint64_t(0); }},
    {"weights_file_in_another_folder", "'a/b' is not a plain name",
     [](Bytes &b) {
       auto *base = reinterpret_cast<char *>(&descriptorOf(b));
       strcpy(base + descriptorOf(b).metadata, "a/b");
       descriptorOf(b).weights_file = descriptorOf(b).metadata;
     }},
    {"weights_file_is_a_folder", "'..' is not a plain name",
     [](Bytes &b) {
       auto *base = reinterpret_cast<char *>(&descriptorOf(b));
       strcpy(base + descriptorOf(b).metadata, "..");
       descriptorOf(b).weights_file = descriptorOf(b).metadata;
     }},
    {"no_output", "number of outputs is 0",
     [](Bytes &b) { descriptorOf(b).outputs.count = 0; }},
    {"too_many_outputs", "number of outputs is 65",
     [](Bytes &b) { descriptorOf(b).outputs.count = 65; }},
    {"table_outside", "table 'outputs' of 1000000 rows",
     [](Bytes &b) { descriptorOf(b).outputs.count = 1000000; }},
    {"table_overflows", "table 'blobs' of",
     [](Bytes &b) { descriptorOf(b).blobs.count = ~uint64_t(0); }},
    {"table_not_aligned", "table 'variants' of",
     [](Bytes &b) { descriptorOf(b).variants.offset += 4; }},
    {"table_behind_the_end", "table 'variants' of",
     [](Bytes &b) { descriptorOf(b).variants.offset = ~uint64_t(7); }},
    {"default_output", "default_output is 3",
     [](Bytes &b) { descriptorOf(b).default_output = 3; }},
    {"output_name", "output 0: name is no string",
     [](Bytes &b) { OUTPUT(b).name = 0; }},
    {"output_columns", "output 0: columns is 0",
     [](Bytes &b) { OUTPUT(b).columns = 0; }},
    {"output_per_token", "output 0: per_token is 2",
     [](Bytes &b) { OUTPUT(b).per_token = 2; }},
    {"output_all_rows", "output 0: all_rows is 2",
     [](Bytes &b) { OUTPUT(b).all_rows = 2; }},
    {"outputs_of_one_name", "two outputs are named 'tokens'",
     [](Bytes &b) { (&OUTPUT(b))[1].name = OUTPUT(b).name; }},
    {"blob_alignment", "blob 0: alignment of offset is 8",
     [](Bytes &b) { BLOB(b).offset = 8; }},
    {"blob_behind_the_weights", "blob 0: offset is 128",
     [](Bytes &b) { BLOB(b).offset = 128; }},
    {"blob_too_large", "blob 0: size is 73, expected 0 to 72",
     [](Bytes &b) { BLOB(b).size = 73; }},
    {"no_variant", "number of variants is 0",
     [](Bytes &b) { descriptorOf(b).variants.count = 0; }},
    {"variant_name", "variant 0: name is no string",
     [](Bytes &b) { variant(b).name = 0; }},
    {"block_bytes", "variant 0: block_bytes is",
     [](Bytes &b) { variant(b).block_bytes = -1; }},
    {"workspace_bytes", "variant 0: workspace_bytes is",
     [](Bytes &b) { variant(b).workspace_bytes = -1; }},
    {"colours", "variant 0: colours is 7, expected 0 to 6",
     [](Bytes &b) { variant(b).colours = 7; }},
    {"slots_outside", "table 'slots'",
     [](Bytes &b) { variant(b).slots.count = 1 << 20; }},
    {"slot_name", "slot 0: name is no string",
     [](Bytes &b) { SLOT(b).name = 0; }},
    {"slot_kind", "slot 0: kind is 8, expected 0 to 7",
     [](Bytes &b) { SLOT(b).kind = 8; }},
    {"slot_colour", "slot 0: index is 4, expected 0 to 3",
     [](Bytes &b) { SLOT(b).index = 4; }},
    {"slot_output", "slot 4: index is 3, expected 0 to 2",
     [](Bytes &b) { (&SLOT(b))[4].index = 3; }},
    {"form_colour", "form 0: colour is 4",
     [](Bytes &b) { FORM(b).colour = 4; }},
    {"form_outputs", "form 0: outputs is 8, expected 1 to 7",
     [](Bytes &b) { FORM(b).outputs = 8; }},
    {"form_of_no_output", "form 0: outputs is 0",
     [](Bytes &b) { FORM(b).outputs = 0; }},
    {"form_per_token", "form 0: bytes_per_token is",
     [](Bytes &b) { FORM(b).bytes_per_token = -1; }},
    {"form_per_sequence", "form 0: bytes_per_sequence is",
     [](Bytes &b) { FORM(b).bytes_per_sequence = -1; }},
    {"form_bytes", "form 0: bytes is", [](Bytes &b) { FORM(b).bytes = -1; }},
    {"weight_name", "weight 0: name is no string",
     [](Bytes &b) { WEIGHT(b).name = 0; }},
    {"weight_blob", "weight 0: blob is 2, expected 0 to 1",
     [](Bytes &b) { WEIGHT(b).blob = 2; }},
    {"step_name", "step 0: name is no string",
     [](Bytes &b) { STEP(b).name = 0; }},
    {"step_domain", "step 0: domain is 7, expected 0 to 6",
     [](Bytes &b) { STEP(b).domain = 7; }},
    {"runs_without_heads", "step 0: heads is 0, expected 1 to",
     [](Bytes &b) { STEP(b).domain = ENCAST_DOMAIN_ATTENTION_RUNS; }},
    {"step_layer", "step 0: layer is 3, expected 0 to 2",
     [](Bytes &b) { STEP(b).layer = 3; }},
    {"step_max_rows", "step 0: max_rows is 0",
     [](Bytes &b) { STEP(b).max_rows = 0; }},
    {"step_row_tile", "step 0: row_tile is 0",
     [](Bytes &b) { STEP(b).row_tile = 0; }},
    {"step_row_tile_too_large", "step 0: row_tile is 17, expected 1 to 16",
     [](Bytes &b) { STEP(b).row_tile = 17; }},
    {"step_with_heads", "step 0: heads is 1, expected 0 to 0",
     [](Bytes &b) { STEP(b).heads = 1; }},
    {"attention_without_heads", "step 2: heads is 0, expected 1 to",
     [](Bytes &b) { (&STEP(b))[2].heads = 0; }},
    {"step_first_call", "step 1: first_call is 0, expected 1 to 1",
     [](Bytes &b) { (&STEP(b))[1].first_call = 0; }},
    {"step_call_count", "step 0: call_count is 100",
     [](Bytes &b) { STEP(b).call_count = 100; }},
    {"calls_without_step", "steps: number of calls is 10",
     [](Bytes &b) { variant(b).steps.count -= 1; }},
    {"call_name", "call 0: name is no string",
     [](Bytes &b) { CALL(b).name = 0; }},
    {"call_kernel", "call 0: kernel is no string",
     [](Bytes &b) { CALL(b).kernel = 0; }},
    {"call_function_in_data", "call 0: function at distance 0",
     [](Bytes &b) { CALL(b).function = 0; }},
    {"call_function_far_away", "call 0: function at distance",
     [](Bytes &b) { CALL(b).function = INT64_MIN; }},
    {"call_modes", "call 0: modes is 4", [](Bytes &b) { CALL(b).modes = 4; }},
    {"call_of_no_mode", "call 0: modes is 0",
     [](Bytes &b) { CALL(b).modes = 0; }},
    {"call_panels", "call 0: panels is 4294967295",
     [](Bytes &b) { CALL(b).panels = ~uint32_t(0); }},
    {"call_panel_tile", "call 1: panel_tile is 0",
     [](Bytes &b) { (&CALL(b))[1].panel_tile = 0; }},
    {"call_per_head", "call 0: per_head is 2, expected 0 to 1",
     [](Bytes &b) { CALL(b).per_head = 2; }},
    {"call_per_head_of_none", "call 0: panels is 0, expected 1 to",
     [](Bytes &b) { CALL(b).per_head = 1; }},
    {"call_per_head_of_other_rows", "call 3: per_head is 1, expected 0 to 0",
     [](Bytes &b) { (&CALL(b))[3].per_head = 1; }},
    {"call_window", "call 0: window is 2147483648, expected 0 to 2147483647",
     [](Bytes &b) { CALL(b).window = 1u << 31; }},
    {"call_outputs", "call 0: outputs is 8",
     [](Bytes &b) { CALL(b).outputs = 8; }},
    {"call_flops", "call 0: flops_per_row is",
     [](Bytes &b) { CALL(b).flops_per_row = -1; }},
    {"call_flops_per_key", "call 0: flops_per_row_and_key is",
     [](Bytes &b) { CALL(b).flops_per_row_and_key = -1; }},
};
INSTANTIATE_TEST_SUITE_P(Validate, RefusedDescriptor,
                         testing::ValuesIn(descriptorRejections), nameOf);

TEST(Validate, works_without_an_error_to_fill) {
  Bytes bytes = TestArtifact().build();
  bytes.pop_back();
  runtime::ArtifactFile found;
  EXPECT_EQ(
      runtime::validateArtifact(bytes.data(), bytes.size(), found, nullptr),
      ENCAST_BAD_ARTIFACT);
}
