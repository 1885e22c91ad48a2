//===- ToolSupport.cpp - what the tools have in common --------------------===//

#include "runtime/tools/ToolSupport.h"
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

namespace encast::tools {

/// Names of files that are not finished; removed when the program fails.
static std::vector<std::string> &unfinishedFiles() {
  static std::vector<std::string> files;
  return files;
}

/// The path that gives an open file a name.
static std::string descriptorPath(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

void printLine(const char *severity, const std::string &message) {
  printSummary(severity + (": " + message));
}

void printSummary(const std::string &message) {
  std::string line;
  for (unsigned char c : message) {
    constexpr const char *digits = "0123456789abcdef";
    if (c < ' ' || c == 0x7f)
      line += {'\\', 'x', digits[c >> 4], digits[c & 15]};
    else
      line += c;
  }
  clearProgress();
  fprintf(stderr, "encast: %s\n", line.c_str());
}

static bool progressIsShown = false;

void showProgress(const char *format, ...) {
  static const bool isTerminal = isatty(STDERR_FILENO);
  if (!isTerminal)
    return;
  clearProgress();
  va_list arguments;
  va_start(arguments, format);
  fputs("encast: ", stderr);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  progressIsShown = true;
}

void clearProgress() {
  if (progressIsShown)
    fputs("\r\033[K", stderr);
  progressIsShown = false;
}

void fail(const std::string &message) {
  for (const std::string &file : unfinishedFiles())
    unlink(file.c_str());
  printLine("error", message);
  exit(1);
}

static void failForMemory() {
  // Without allocating anything.
  for (const std::string &file : unfinishedFiles())
    unlink(file.c_str());
  fputs("encast: error: out of memory\n", stderr); // has no buffer
  _exit(1);
}

void prepareProcess() {
  int stream;
  do
    stream = open("/dev/null", O_PATH); // neither read nor written
  while (stream >= 0 && stream <= STDERR_FILENO);
  close(stream);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  std::set_new_handler(failForMemory);
}

void check(encast_status status, const encast_error &error,
           const std::string &where) {
  if (status != ENCAST_OK)
    fail(where + ": " + error.message);
}

void printLog(void *, encast_log_level level, const char *message) {
  if (level <= ENCAST_LOG_WARNING)
    printLine(level == ENCAST_LOG_WARNING ? "warning" : "error", message);
}

std::string text(const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string result(vsnprintf(nullptr, 0, format, arguments), ' ');
  vsnprintf(result.data(), result.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return result;
}

std::string validUtf8(const std::string &value) {
  rapidjson::StringStream source(value.c_str());
  rapidjson::StringBuffer unused;
  while (source.Peek())
    if (!rapidjson::UTF8<>::Validate(source, unused)) {
      std::string ascii = value;
      for (char &c : ascii)
        if (static_cast<unsigned char>(c) >= 0x80)
          c = '?';
      return ascii;
    }
  return value;
}

void printOutput(const std::string &text) {
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      fflush(stdout))
    fail(std::string("standard output: ") + strerror(errno));
}

void OutputFile::failTo(const char *what) const {
  fail(path + ": cannot " + what + " the file: " + strerror(errno));
}

template <typename Make> void OutputFile::makeTemporary(Make make) {
  for (int number = 0;; ++number) {
    // Not made from the path: a longer name might not fit.
    temporary = folder + ".encast-" + std::to_string(getpid()) + "-" +
                std::to_string(number) + ".tmp";
    if (make(temporary.c_str()))
      break;
    if (errno != EEXIST)
      failTo("create");
  }
  unfinishedFiles().push_back(temporary);
}

bool isSameFile(const std::string &one, const std::string &other) {
  auto place = [](const std::string &file) {
    std::error_code unknown; // then the name itself counts
    auto path = std::filesystem::weakly_canonical(
        std::filesystem::absolute(file, unknown), unknown);
    return unknown ? std::filesystem::path(file) : path;
  };
  std::error_code missing;
  return !one.empty() && !other.empty() &&
         (place(one) == place(other) ||
          std::filesystem::equivalent(one, other, missing));
}

/// Where a link leads, so that the link stays; the path of anything else.
static std::string throughLinks(const std::string &path) {
  std::error_code none;
  if (!std::filesystem::is_symlink(path, none))
    return path;
  auto place = std::filesystem::canonical(path, none);
  return none ? path : place.string();
}

/// Whether this process has mapped the file, as it does the model's.
static bool isMapped(const std::string &path) {
  std::error_code missing;
  std::string place = std::filesystem::canonical(path, missing).string();
  std::ifstream maps("/proc/self/maps");
  // "address permissions offset device inode      path"
  for (std::string line; !missing && std::getline(maps, line);)
    if (size_t slash = line.find('/');
        slash != line.npos && line.compare(slash, line.npos, place) == 0)
      return true;
  return false;
}

OutputFile::OutputFile(const std::string &given)
    : path(throughLinks(given)), folder(path, 0, path.rfind('/') + 1) {
  // The rename would replace a device or a pipe.
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    fail(path + ": exists and is not a regular file");
  if (isMapped(path))
    fail(path + ": belongs to the model; expected another name");
  int descriptor = open(folder.empty() ? "." : folder.c_str(),
                        O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor >= 0 && access(descriptorPath(descriptor).c_str(), F_OK)) {
    close(descriptor); // No /proc to name it by.
    descriptor = -1;
  }
  if (descriptor < 0)
    makeTemporary([&](const char *name) {
      descriptor = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      return descriptor >= 0;
    });
  file = fdopen(descriptor, "wb");
  if (!file)
    failTo("create");
}

OutputFile::~OutputFile() {
  if (file)
    fclose(file);
}

void OutputFile::write(const void *bytes, size_t size) {
  if (fwrite(bytes, 1, size, file) != size)
    failTo("write");
}

void OutputFile::finish() {
  if (fflush(file))
    failTo("write");
  if (temporary.empty()) {
    std::string unnamed = descriptorPath(fileno(file));
    makeTemporary([&](const char *name) {
      return !linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name,
                     AT_SYMLINK_FOLLOW);
    });
  }
  int failed = fclose(file);
  file = nullptr;
  if (failed)
    failTo("write");
}

void OutputFile::commit() {
  if (rename(temporary.c_str(), path.c_str()))
    failTo("write");
}

Model openModel(const ModelOptions &given) {
  encast_model_options options = {};
  options.size = sizeof(options);
  options.variant = given.variant.empty() ? nullptr : given.variant.c_str();
  options.huge_page_weights = given.hugePageWeights;
  // Without a callback the library prints what ENCAST_LOG asks for, which is
  // nothing if it names no level.
  const char *level = getenv("ENCAST_LOG");
  bool isLevel = false;
  for (const char *known : {"error", "warning", "info"})
    isLevel |= level && !strcmp(level, known);
  options.log = isLevel ? nullptr : printLog;
  encast_model *model = nullptr;
  encast_error error = ENCAST_ERROR_INIT;
  if (encast_model_open(given.path.c_str(), &options, &model, &error) !=
      ENCAST_OK)
    fail(error.message); // starts with the path
  return Model(model);
}

encast_model_info_t modelInfo(encast_model *model) {
  encast_model_info_t info = {};
  info.size = sizeof(info);
  encast_model_info(model, &info, nullptr);
  return info;
}

encast_output_info outputInfo(encast_model *model, int64_t index) {
  encast_output_info info = {};
  info.size = sizeof(info);
  encast_model_output(model, index, &info, nullptr);
  return info;
}

int64_t findOutput(encast_model *model, const ModelOptions &options) {
  encast_model_info_t info = modelInfo(model);
  const std::string &name = options.output;
  if (name.empty())
    return info.default_output;
  std::string known;
  for (int64_t i = 0; i < info.output_count; ++i) {
    encast_output_info output = outputInfo(model, i);
    if (name == output.name)
      return i;
    known += (i ? ", " : "") + std::string(output.name);
  }
  fail(options.path + ": no output is named '" + name + "'; the model has " +
       known);
}

Session createSession(encast_model *model, const ModelOptions &given,
                      int64_t memoryCap, encast_progress_function progress,
                      void *progressData) {
  encast_session_options options = ENCAST_SESSION_OPTIONS_INIT;
  options.threads = static_cast<int>(given.threads);
  options.memory_cap = memoryCap;
  options.progress = progress;
  options.progress_data = progressData;
  encast_session *session = nullptr;
  encast_error error = ENCAST_ERROR_INIT;
  check(encast_session_create(model, &options, &session, &error), error,
        given.path);
  return Session(session);
}

std::vector<encast_step_stats> stepStats(encast_session *session) {
  std::vector<encast_step_stats> steps;
  encast_step_stats step = {};
  step.size = sizeof(step);
  while (encast_session_step(session, steps.size(), &step, nullptr) ==
         ENCAST_OK)
    steps.push_back(step);
  return steps;
}

void beginStepRow(JsonWriter &json, const encast_step_stats &step,
                  int64_t nanoseconds, int64_t flops) {
  json.StartObject();
  json.string("step", step.step);
  json.string("name", step.name);
  json.string("kernel", step.kernel);
  json.integer("layer", step.layer);
  json.integer("nanoseconds", nanoseconds);
  json.integer("flops", flops);
}

encast_session_stats_t sessionStats(encast_session *session) {
  encast_session_stats_t stats = {};
  stats.size = sizeof(stats);
  encast_session_stats(session, &stats, nullptr);
  return stats;
}

} // namespace encast::tools
