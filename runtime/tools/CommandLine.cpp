//===- CommandLine.cpp - options of the tools -----------------------------===//

#include "runtime/tools/CommandLine.h"
#include "runtime/tools/ToolSupport.h"
#include <cerrno>
#include <cstdlib>
#include <getopt.h>

namespace encast::tools {

int64_t parseNumber(const char *option, const char *text, int64_t least,
                    int64_t most) {
  errno = 0;
  char *end;
  long long value = strtoll(text, &end, 10);
  bool isNumber = *text >= '0' && *text <= '9' && !*end && !errno;
  if (!isNumber || value < least || value > most)
    fail(std::string(option) + ": expected a number from " +
         std::to_string(least) + " to " + std::to_string(most) + ", but got '" +
         text + "'");
  return value;
}

void CommandLine::text(const char *name, std::string &value) {
  options.push_back({name, true, [=, &value](const char *given) {
                       if (!*given)
                         fail(std::string("--") + name +
                              ": expected a value, but got ''");
                       value = given;
                     }});
}

void CommandLine::number(const char *name, int64_t &value, int64_t least,
                         int64_t most) {
  options.push_back({name, true, [=, &value](const char *given) {
                       std::string dashed = std::string("--") + name;
                       value = parseNumber(dashed.c_str(), given, least, most);
                     }});
}

void CommandLine::flag(const char *name, bool &value) {
  options.push_back({name, false, [&](const char *) { value = true; }});
}

void CommandLine::model(ModelOptions &model) {
  text("output", model.output);
  text("variant", model.variant);
  number("threads", model.threads, 0, 4096);
  flag("huge-page-weights", model.hugePageWeights);
}

void CommandLine::failFor(const std::string &what) const {
  fail("command line: " + what + "; usage: " + usage);
}

std::string CommandLine::parse(int argc, char **argv) const {
  constexpr int isOption = 1, isHelp = 'h';
  std::vector<option> table;
  table.reserve(options.size() + 2);
  for (const Option &own : options)
    table.push_back({own.name, own.takesValue ? required_argument : no_argument,
                     nullptr, isOption});
  table.push_back({"help", no_argument, nullptr, isHelp});
  table.push_back({});
  opterr = 0;
  unsetenv("POSIXLY_CORRECT"); // options may stand behind MODEL
  int index = 0;
  for (int kind;
       (kind = getopt_long(argc, argv, "h", table.data(), &index)) != -1;) {
    if (kind == isHelp) {
      printOutput(std::string("usage: ") + usage +
                  "\nAn artifact is code: load only what you trust.\n");
      exit(0);
    }
    if (kind != isOption) {
      // Of several letters behind a dash the next one is not known yet.
      bool isLetter = optopt && optopt != isOption && optopt != isHelp;
      failFor("option '" +
              (isLetter ? std::string("-") + char(optopt)
                        : std::string(argv[optind - 1])) +
              "' is unknown or lacks its value");
    }
    options[index].take(optarg);
  }
  if (argc - optind != 1)
    failFor("expected one MODEL.so, but got " + std::to_string(argc - optind));
  return argv[optind];
}

} // namespace encast::tools
