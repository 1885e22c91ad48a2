//===- ToolSupport.h - what the tools have in common ------------*- C++ -*-===//
///
/// \file
/// Tools end with status 0 or 1, and with one line on standard error if it is
/// 1: `encast: error: WHERE: what is wrong, the limit, the value`. Files are
/// written under a temporary name and renamed when all is well.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_TOOLS_TOOLSUPPORT_H
#define ENCAST_RUNTIME_TOOLS_TOOLSUPPORT_H

#include "encast.h"
#include "runtime/tools/CommandLine.h"
#include <cstdint>
#include <cstdio>
#include <memory>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <string>
#include <vector>

namespace encast::tools {

/// To be called first: makes signals and lack of memory errors, and keeps the
/// places of closed standard streams from the files that will be opened.
void prepareProcess();

/// Prints `encast: SEVERITY: MESSAGE` on standard error. Names of files and
/// outputs may hold any character: those that would move the cursor are printed
/// as \xNN.
void printLine(const char *severity, const std::string &message);
/// The same without a severity: what was done.
void printSummary(const std::string &message);
/// Shows `encast: ` and what printf would print on a terminal, until something
/// else is printed; does nothing where standard error is no terminal.
__attribute__((format(printf, 1, 2))) void showProgress(const char *format,
                                                        ...);
/// Takes what showProgress shows off the terminal.
void clearProgress();

/// Prints `encast: error: MESSAGE`, removes unfinished files and ends the
/// program with status 1.
[[noreturn]] void fail(const std::string &message);

/// Ends the program if `status` is an error.
void check(encast_status status, const encast_error &error,
           const std::string &where);

/// The log callback: prints errors and warnings.
void printLog(void *data, encast_log_level level, const char *message);

/// Prints `text` on standard output, and fails if it does not get there.
void printOutput(const std::string &text);

/// What printf would print.
__attribute__((format(printf, 1, 2))) std::string text(const char *format, ...);

/// The value, or with ? for all that is not ASCII if it is not UTF-8: names of
/// files and strings of foreign artifacts may be anything, JSON may not.
std::string validUtf8(const std::string &value);

/// JSON text, built member by member.
class JsonWriter : public rapidjson::PrettyWriter<rapidjson::StringBuffer> {
public:
  JsonWriter() : PrettyWriter(buffer) {}
  void string(const char *name, const std::string &value) {
    Key(name);
    String(validUtf8(value).c_str());
  }
  void integer(const char *name, int64_t value) {
    Key(name);
    Int64(value);
  }
  void number(const char *name, double value) {
    Key(name);
    Double(value);
  }
  /// A number that a parser hands over as it is written.
  bool RawNumber(const char *text, rapidjson::SizeType size, bool) {
    return RawValue(text, size, rapidjson::kNumberType);
  }
  std::string text() const {
    return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
  }

private:
  rapidjson::StringBuffer buffer;
};

/// Whether two paths mean one file, or would if there were one.
bool isSameFile(const std::string &one, const std::string &other);

/// A file that appears under its name only after commit().
class OutputFile {
public:
  /// Opens a file without a name in the folder of `path`, or of what it leads
  /// to if it is a link: a process that is killed leaves nothing. Where the
  /// file system has no such files, it is a temporary one. Fails for a path
  /// that exists and is no regular file.
  explicit OutputFile(const std::string &path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  void write(const void *bytes, size_t size);
  void write(const std::string &text) { write(text.data(), text.size()); }
  /// Writes what is left and gives it a temporary name.
  void finish();
  /// Gives the file its name, behind finish().
  void commit();

private:
  [[noreturn]] void failTo(const char *what) const;
  /// Makes a name in the folder that nothing has yet.
  template <typename Make> void makeTemporary(Make make);

  std::string path, folder;
  std::string temporary; ///< Path until committed; empty: none.
  FILE *file = nullptr;
};

struct CloseModel {
  void operator()(encast_model *model) const {
    encast_model_close(model, nullptr);
  }
};
struct DestroySession {
  void operator()(encast_session *session) const {
    encast_session_destroy(session, nullptr);
  }
};
using Model = std::unique_ptr<encast_model, CloseModel>;
using Session = std::unique_ptr<encast_session, DestroySession>;

/// Opens a model. Fails with the library's message.
Model openModel(const ModelOptions &options);
encast_model_info_t modelInfo(encast_model *model);
encast_output_info outputInfo(encast_model *model, int64_t index);
/// The index of the output that is asked for; fails with the list of names.
int64_t findOutput(encast_model *model, const ModelOptions &options);
/// A session that calls `progress`, which may be null, behind each layer.
Session createSession(encast_model *model, const ModelOptions &options,
                      int64_t memoryCap,
                      encast_progress_function progress = nullptr,
                      void *progressData = nullptr);
/// All rows of encast_session_step.
std::vector<encast_step_stats> stepStats(encast_session *session);
/// Begins the object of a row of `steps` in JSON results: what it is, its flops
/// and its time. The caller ends it.
void beginStepRow(JsonWriter &json, const encast_step_stats &step,
                  int64_t nanoseconds, int64_t flops);
encast_session_stats_t sessionStats(encast_session *session);

} // namespace encast::tools

#endif // ENCAST_RUNTIME_TOOLS_TOOLSUPPORT_H
