//===- Log.h - messages to the caller ---------------------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_LOG_H
#define ENCAST_RUNTIME_SRC_LOG_H

#include "encast.h"

namespace encast::runtime {

/// Where messages go: the caller's callback, else standard error from the level
/// that ENCAST_LOG names, else nowhere.
class Log {
public:
  Log() = default;
  Log(encast_log_function function, void *data)
      : function(function), data(data) {}

  __attribute__((format(printf, 3, 4))) void
  write(encast_log_level level, const char *format, ...) const;

private:
  encast_log_function function = nullptr;
  void *data = nullptr;
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_LOG_H
