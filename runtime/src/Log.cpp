//===- Log.cpp - messages to the caller -----------------------------------===//

#include "runtime/src/Log.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace encast::runtime {

static const char *const kLevelNames[] = {"error", "warning", "info"};

/// The last level that ENCAST_LOG asks for; -1: none.
static int environmentLevel() {
  const char *wanted = getenv("ENCAST_LOG");
  for (int level = ENCAST_LOG_INFO; wanted && level >= 0; --level)
    if (!strcmp(wanted, kLevelNames[level]))
      return level;
  return -1;
}

void Log::write(encast_log_level level, const char *format, ...) const {
  if (!function && level > environmentLevel())
    return;
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  if (function)
    function(data, level, message);
  else
    fprintf(stderr, "encast: %s: %s\n", kLevelNames[level], message);
}

} // namespace encast::runtime
