//===- Linker.cpp - objects to a shared library ---------------------------===//

#include "codegen/Artifact/Linker.h"
#include "encast_abi.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace encast {
namespace {

/// Bytes that lld can open by name while this object lives.
class MemoryFile {
public:
  MemoryFile() = default;
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile() {
    if (descriptor >= 0)
      close(descriptor);
  }

  bool create(const std::string &name, const uint8_t *bytes, size_t size,
              std::string &error) {
    descriptor = memfd_create("encast", MFD_CLOEXEC);
    bool failed = descriptor < 0;
    while (!failed && size > 0) {
      ssize_t written = write(descriptor, bytes, size);
      failed = written < 0 && errno != EINTR;
      if (written > 0) {
        bytes += written;
        size -= written;
      }
    }
    if (failed)
      error = "cannot hold " + name + " in memory: " + std::strerror(errno);
    path = "/proc/self/fd/" + std::to_string(descriptor);
    return !failed;
  }

  std::string path;

private:
  int descriptor = -1;
};

/// Collects what lld writes. lld maps an output file, and a write to a mapping
/// kills the process when the disk is full; into a pipe it writes from memory.
class OutputPipe {
public:
  explicit OutputPipe(std::vector<uint8_t> &output) : output(output) {}
  OutputPipe(const OutputPipe &) = delete;
  OutputPipe &operator=(const OutputPipe &) = delete;
  ~OutputPipe() { finish(); }

  bool create(std::string &error) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      error = std::string("cannot open a pipe: ") + std::strerror(errno);
      return false;
    }
    writeEnd = ends[1];
    path = "/proc/self/fd/" + std::to_string(writeEnd);
    readEnd = ends[0];
    // Not std::thread, which ends the process where the system refuses one.
    int refusal = pthread_create(&reader, nullptr, readAll, this);
    reading = refusal == 0;
    if (!reading) {
      close(readEnd);
      close(writeEnd);
      error = std::string("cannot start a thread: ") + std::strerror(refusal);
    }
    return reading;
  }

  /// After this the output is complete.
  void finish() {
    if (!reading)
      return;
    close(writeEnd);
    pthread_join(reader, nullptr);
    reading = false;
  }

  std::string path;

private:
  static void *readAll(void *argument) {
    auto &pipe = *static_cast<OutputPipe *>(argument);
    std::vector<uint8_t> chunk(1 << 16), &output = pipe.output;
    for (ssize_t count;
         (count = read(pipe.readEnd, chunk.data(), chunk.size()));)
      if (count > 0)
        output.insert(output.end(), chunk.begin(), chunk.begin() + count);
    close(pipe.readEnd);
    return nullptr;
  }

  std::vector<uint8_t> &output;
  pthread_t reader;
  bool reading = false;
  int readEnd = -1, writeEnd = -1;
};

/// The first message of lld, with what a path stands for instead of the path.
std::string
firstError(StringRef messages,
           const std::vector<std::pair<std::string, std::string>> &names) {
  size_t start = messages.find("error: ");
  if (start == StringRef::npos)
    return "the linker failed without a message";
  std::string line = messages.substr(start + strlen("error: "))
                         .take_until([](char c) { return c == '\n'; })
                         .str();
  for (const auto &[path, name] : names) {
    size_t at = line.find(path), end = at + path.size();
    bool whole = at != std::string::npos &&
                 (end == line.size() || !isdigit((unsigned char)line[end]));
    if (whole)
      line.replace(at, path.size(), name);
  }
  return line;
}

} // namespace

bool linkSharedLibrary(const std::vector<LinkInput> &inputs,
                       std::vector<uint8_t> &library, std::string &error) {
  std::vector<MemoryFile> files(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!files[i].create(inputs[i].name, inputs[i].object->data(),
                         inputs[i].object->size(), error))
      return false;
  const std::string exported =
      "{ global: " ENCAST_QUERY_SYMBOL "; local: *; };\n";
  MemoryFile script;
  if (!script.create("the list of exported symbols",
                     reinterpret_cast<const uint8_t *>(exported.data()),
                     exported.size(), error))
    return false;
  library.clear();
  OutputPipe output(library);
  if (!output.create(error))
    return false;

  std::vector<const char *> arguments = {
      "ld.lld", "-shared", "-m", "elf_x86_64", "--build-id=none",
      "--hash-style=gnu", "--threads=1", "-z", "noexecstack",
      // What is undefined is reported by checkSelfContained().
      "-z", "undefs", "--version-script", script.path.c_str(), "-o",
      output.path.c_str()};
  std::vector<std::pair<std::string, std::string>> names = {
      {output.path, "the library"}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(files[i].path.c_str());
    names.emplace_back(files[i].path, inputs[i].name);
  }

  static std::mutex oneAtATime; // lld has global state.
  std::lock_guard<std::mutex> lock(oneAtATime);
  std::string messages;
  raw_string_ostream stream(messages);
  lld::Result result =
      lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  output.finish();
  if (result.retCode == 0)
    return true;
  error = "cannot link: " + firstError(messages, names);
  return false;
}

bool checkSelfContained(const std::vector<uint8_t> &library,
                        std::string &error) {
  using namespace llvm::object;
  StringRef image(reinterpret_cast<const char *>(library.data()),
                  library.size());
  // lld wrote the image, so a malformed one is our mistake.
  ELFFile<ELF64LE> file = cantFail(ELFFile<ELF64LE>::create(image));
  bool queryExported = false;
  for (const ELF64LE::Shdr &section : cantFail(file.sections())) {
    bool relocates = section.sh_type == ELF::SHT_RELA ||
                     section.sh_type == ELF::SHT_REL ||
                     section.sh_type == ELF::SHT_RELR;
    if (section.sh_type == ELF::SHT_DYNSYM) {
      StringRef names = cantFail(file.getStringTableForSymtab(section));
      for (const ELF64LE::Sym &symbol :
           cantFail(file.symbols(&section)).drop_front()) {
        StringRef name = cantFail(symbol.getName(names));
        if (symbol.st_shndx == ELF::SHN_UNDEF) {
          error = "undefined symbol '" + name.str() + "'";
          return false;
        }
        if (name != ENCAST_QUERY_SYMBOL) {
          error = "exports '" + name.str() + "'";
          return false;
        }
        queryExported = true;
      }
    } else if (relocates && (section.sh_flags & ELF::SHF_ALLOC) &&
               section.sh_size > 0) {
      error = "a step object holds addresses in data, which would need a "
              "relocation when loading";
      return false;
    }
  }
  for (const ELF64LE::Dyn &entry : cantFail(file.dynamicEntries())) {
    bool runsCode =
        entry.d_tag == ELF::DT_INIT || entry.d_tag == ELF::DT_FINI ||
        entry.d_tag == ELF::DT_INIT_ARRAY || entry.d_tag == ELF::DT_FINI_ARRAY;
    if (runsCode || entry.d_tag == ELF::DT_NEEDED) {
      error = runsCode ? "a step object holds code that runs when loading"
                       : "the library needs another one";
      return false;
    }
  }
  if (!queryExported)
    error = "does not export '" ENCAST_QUERY_SYMBOL "'";
  return queryExported;
}

} // namespace encast
