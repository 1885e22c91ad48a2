//===- ControlGroups.cpp - what the system gives this process -------------===//

#include "runtime/src/ControlGroups.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace encast::runtime {

void SmallFile::read(const char *path) {
  text[0] = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return;
  size_t length = 0;
  ssize_t count;
  while (length < sizeof(text) - 1 &&
         (count = ::read(file, text + length, sizeof(text) - 1 - length)) > 0)
    length += count;
  close(file);
  text[length] = 0;
  found = true;
}

SmallFile::SmallFile(const char *root, const char *path)
    : SmallFile(root, path, "") {}

SmallFile::SmallFile(const char *root, const char *folder, const char *name) {
  text[0] = 0;
  char path[1024];
  int length = snprintf(path, sizeof(path), "%s%s%s%s", root, folder,
                        *name ? "/" : "", name);
  if (length < static_cast<int>(sizeof(path)))
    read(path);
}

bool SmallFile::number(int64_t &value) const {
  long long parsed;
  if (sscanf(text, "%lld", &parsed) != 1)
    return false;
  value = parsed;
  return true;
}

int64_t SmallFile::numberOf(const char *key) const {
  size_t length = strlen(key);
  long long value = 0;
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (!strncmp(line, key, length))
      sscanf(line + length, "%lld", &value);
  }
  return value;
}

namespace {

/// What is asked of the tree of one controller in one version.
struct Question {
  const char *root, *controller;
  bool unified;
  GroupLimit limit;
};

/// The least limit from the group `path` below `mount` up to `mount` itself.
int64_t leastOnTheWay(const Question &question, const char *mount,
                      const char *path) {
  char folder[1024];
  if (snprintf(folder, sizeof(folder), "%s%s", mount, path) >=
      static_cast<int>(sizeof(folder)))
    return kNoLimit;
  int64_t least = kNoLimit;
  for (;;) {
    least = std::min(least,
                     question.limit(question.root, folder, question.unified));
    char *slash = strrchr(folder, '/');
    if (!slash || slash < folder + strlen(mount))
      return least;
    *slash = 0;
  }
}

bool listHas(const char *list, const char *item) {
  size_t length = strlen(item);
  for (const char *at = list; (at = strstr(at, item)); at += length) {
    bool begins = at == list || at[-1] == ',';
    bool ends = !at[length] || at[length] == ',';
    if (begins && ends)
      return true;
  }
  return false;
}

/// Finds the group of this process: version 2 has the line "0::/path", version
/// 1 "4:cpu,cpuacct:/path".
bool findGroup(const Question &question, char *cgroups, char *path,
               size_t room) {
  for (char *rest = cgroups, *line; (line = strsep(&rest, "\n"));) {
    char *fields = line;
    strsep(&fields, ":");
    char *controllers = fields ? strsep(&fields, ":") : nullptr;
    if (!fields)
      continue;
    if (question.unified ? !*controllers
                         : listHas(controllers, question.controller)) {
      snprintf(path, room, "%s", strcmp(fields, "/") ? fields : "");
      return true;
    }
  }
  return false;
}

/// A line of mountinfo: "36 35 0:31 ROOT MOUNT OPTIONS... - TYPE SOURCE
/// OPTIONS"
int64_t leastOfMount(const Question &question, const char *line,
                     const char *path) {
  char mountRoot[512], mount[512], type[64], options[512];
  if (sscanf(line, "%*s %*s %*s %511s %511s", mountRoot, mount) != 2)
    return kNoLimit;
  const char *tail = strstr(line, " - ");
  if (!tail || sscanf(tail, " - %63s %*s %511s", type, options) != 2)
    return kNoLimit;
  if (question.unified ? strcmp(type, "cgroup2") != 0
                       : strcmp(type, "cgroup") != 0 ||
                             !listHas(options, question.controller))
    return kNoLimit;
  // In a container the mount may show a part of the tree only, and the path may
  // be that of the host.
  size_t prefix = strcmp(mountRoot, "/") ? strlen(mountRoot) : 0;
  bool isBelow = !prefix || !strncmp(path, mountRoot, prefix);
  return leastOnTheWay(question, mount, isBelow ? path + prefix : "");
}

int64_t leastOfTree(const Question &question) {
  SmallFile cgroups(question.root, "/proc/self/cgroup");
  char path[512];
  if (!findGroup(question, cgroups.text, path, sizeof(path)))
    return kNoLimit;
  char file[1024];
  snprintf(file, sizeof(file), "%s/proc/self/mountinfo", question.root);
  FILE *mounts = fopen(file, "re");
  if (!mounts)
    return kNoLimit;
  int64_t least = kNoLimit;
  char line[4096];
  while (fgets(line, sizeof(line), mounts))
    least = std::min(least, leastOfMount(question, line, path));
  fclose(mounts);
  return least;
}

} // namespace

int64_t leastOfGroups(const char *root, const char *controller,
                      GroupLimit limit) {
  return std::min(leastOfTree({root, controller, true, limit}),
                  leastOfTree({root, controller, false, limit}));
}

} // namespace encast::runtime
