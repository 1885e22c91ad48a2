//===- CommandLine.h - options of the tools ---------------------*- C++ -*-===//
///
/// \file
/// A tool names its options and where their values go, then parses:
///
///   CommandLine line(kUsage);
///   line.text("ids", options.ids);
///   line.number("threads", options.threads, 0, 4096);
///   options.path = line.parse(argc, argv);
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_TOOLS_COMMANDLINE_H
#define ENCAST_RUNTIME_TOOLS_COMMANDLINE_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace encast::tools {

/// What encast-run and encast-bench have in common.
struct ModelOptions {
  std::string path;
  std::string output, variant; ///< Empty: the default.
  int64_t threads = 0;
  bool hugePageWeights = false;
};

/// A decimal number in [least, most]; fails naming the option otherwise.
int64_t parseNumber(const char *option, const char *text, int64_t least,
                    int64_t most);

/// Options that all begin with two dashes, and one argument, MODEL.so.
class CommandLine {
public:
  explicit CommandLine(const char *usage) : usage(usage) {}

  // Each takes the name without dashes; `value` outlives parse().
  void text(const char *name, std::string &value);
  void number(const char *name, int64_t &value, int64_t least, int64_t most);
  void flag(const char *name, bool &value);
  /// --output, --variant, --threads and --huge-page-weights.
  void model(ModelOptions &options);

  /// Reads the values and returns the argument. Fails with the usage for
  /// whatever is unknown, lacks its value or is too much; answers --help.
  std::string parse(int argc, char **argv) const;
  /// Fails for a command line that lacks something.
  [[noreturn]] void failFor(const std::string &what) const;

private:
  struct Option {
    const char *name;
    bool takesValue;
    std::function<void(const char *)> take;
  };
  const char *usage;
  std::vector<Option> options;
};

} // namespace encast::tools

#endif // ENCAST_RUNTIME_TOOLS_COMMANDLINE_H
