//===- TargetCpu.cpp - the CPU that code is generated for -----------------===//

#include "codegen/Target/TargetCpu.h"
#include "codegen/Target/HostCpu.h"

#include "encast_abi.h"

#include <cmath>

using namespace encast;

static constexpr std::string_view featureName(uint32_t bit) {
#define NAME(feature, number, name)                                            \
  if (bit == ENCAST_CPU_##feature)                                             \
    return name;
  ENCAST_CPU_FEATURES(NAME)
#undef NAME
  return "";
}

namespace {
struct Feature {
  uint32_t bit;
  std::string_view name;
  uint32_t requirements;
};
const Feature kFeatures[] = {
#define ENCAST_FEATURE(bit, requires) {bit, featureName(bit), requires},
#include "codegen/Target/Targets.def"
};

struct TargetRow {
  std::string_view name, tune;
  uint32_t features;
  int64_t l1Bytes, l2Bytes;
  bool fastDots;
};
const TargetRow kTargets[] = {
#define ENCAST_TARGET(name, tune, features, l1, l2, dots)                      \
  {name, tune, features, (l1) * 1024, (l2) * 1024, dots},
#include "codegen/Target/Targets.def"
};

struct Models {
  std::string_view target, vendor;
  uint32_t family, first, last;
};
const Models kModels[] = {
#define ENCAST_MODELS(target, vendor, family, first, last)                     \
  {target, vendor, family, first, last},
#include "codegen/Target/Targets.def"
};
} // namespace

/// The target made of a row and a set of features.
static TargetCpu makeTarget(const TargetRow &row, uint32_t features) {
  TargetCpu target;
  target.name = row.name;
  for (const Feature &feature : kFeatures)
    if ((features ^ row.features) & feature.bit)
      target.name +=
          (features & feature.bit ? "+" : "-") + std::string(feature.name);
  const bool avx512 = features & ENCAST_CPU_AVX512;
  target.llvmName = avx512 ? "x86-64-v4" : "x86-64-v3";
  target.llvmTune = row.tune;
  target.features = features;
  target.vectorBytes = avx512 ? 64 : 32;
  target.l1Bytes = row.l1Bytes;
  target.l2Bytes = row.l2Bytes;
  target.fastDots = row.fastDots;
  // More features win within a row.
  target.rank = uint64_t(&row - kTargets) << 32 | features;
  return target;
}

/// The entry of `table` with the longest name that `text` begins with and that
/// ends where the text or the name ends or a sign follows; null if none.
template <typename Entry, size_t N>
static const Entry *findPrefix(const Entry (&table)[N], std::string_view text) {
  const Entry *best = nullptr;
  for (const Entry &entry : table) {
    if (text.substr(0, entry.name.size()) != entry.name)
      continue;
    std::string_view rest = text.substr(entry.name.size());
    if (!rest.empty() && rest[0] != '+' && rest[0] != '-')
      continue;
    if (!best || entry.name.size() > best->name.size())
      best = &entry;
  }
  return best;
}

template <typename Entry, size_t N>
static std::string listNames(const Entry (&table)[N]) {
  std::string list;
  for (const Entry &entry : table)
    list += (list.empty() ? "" : ", ") + std::string(entry.name);
  return list;
}

/// Applies `+feature` or `-feature` with what it requires, or what requires it.
static uint32_t changeFeature(uint32_t features, const Feature &change,
                              bool add) {
  if (add)
    return features | change.bit | change.requirements;
  features &= ~change.bit;
  for (const Feature &feature : kFeatures)
    if (feature.requirements & change.bit)
      features &= ~feature.bit;
  return features;
}

bool encast::parseTarget(std::string_view text, TargetCpu &target,
                         std::string &error) {
  constexpr std::string_view host = "host";
  if (text == host)
    return resolveHostTarget(target, error);
  if (text.substr(0, host.size()) == host &&
      (text[host.size()] == '+' || text[host.size()] == '-')) {
    TargetCpu known;
    if (!resolveHostTarget(known, error))
      return false;
    return parseTarget(known.name + std::string(text.substr(host.size())),
                       target, error);
  }
  const std::string quoted = "target '" + std::string(text) + "'";
  const TargetRow *row = findPrefix(kTargets, text);
  if (!row) {
    error = "unknown " + quoted + ", expected host, " + listNames(kTargets);
    return false;
  }
  uint32_t features = row->features;
  std::string_view rest = text.substr(row->name.size());
  while (!rest.empty()) {
    const bool add = rest[0] == '+';
    rest.remove_prefix(1);
    const Feature *feature = findPrefix(kFeatures, rest);
    if (!feature) {
      error = quoted + " has the unknown feature '" +
              std::string(rest.substr(0, rest.find('+'))) + "', expected " +
              listNames(kFeatures);
      return false;
    }
    features = changeFeature(features, *feature, add);
    rest.remove_prefix(feature->name.size());
  }
  if (!(features & ENCAST_CPU_AVX2)) {
    error = quoted + " lacks avx2, the least that code is generated for";
    return false;
  }
  target = makeTarget(*row, features);
  return true;
}

bool encast::parseTargets(std::string_view text,
                          std::vector<TargetCpu> &targets, std::string &error) {
  targets.clear();
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    if (entry.empty()) {
      error = "the list of targets has an empty entry";
      return false;
    }
    TargetCpu target;
    if (!parseTarget(entry, target, error))
      return false;
    for (const TargetCpu &other : targets)
      if (other.name == target.name) {
        error = "target '" + std::string(entry) +
                "' appears twice in the list, it is " + target.name;
        return false;
      }
    targets.push_back(target);
    if (comma == std::string_view::npos)
      return true;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string> encast::targetNames() {
  std::vector<std::string> names;
  for (const TargetRow &row : kTargets)
    names.emplace_back(row.name);
  return names;
}

std::string encast::featureNames(uint32_t features) {
  std::string names;
  for (const Feature &feature : kFeatures)
    if (features & feature.bit)
      names += (names.empty() ? "" : "+") + std::string(feature.name);
  return names;
}

/// How many times larger one size is than the other, as a power of two; 0 if
/// one is unknown.
static double sizeDistance(int64_t x, int64_t y) {
  if (x <= 0 || y <= 0)
    return 0;
  return std::fabs(std::log2(double(x) / double(y)));
}

static int countFeatures(uint32_t features) {
  int count = 0;
  for (const Feature &feature : kFeatures)
    count += (features & feature.bit) != 0;
  return count;
}

bool encast::nearestTarget(const HostCpu &host, TargetCpu &target,
                           std::string &error) {
  if (!(host.features & ENCAST_CPU_AVX2)) {
    error = "this CPU or its operating system lacks avx2 (with fma, f16c and "
            "bmi2), the least that code is generated for";
    return false;
  }
  const TargetRow *best = nullptr;
  double bestDistance = 0;
  for (const TargetRow &row : kTargets) {
    bool generic = true, sameVendor = false, sameModel = false;
    for (const Models &models : kModels) {
      if (models.target != row.name)
        continue;
      generic = false;
      sameVendor |= models.vendor == host.vendor;
      sameModel |= models.vendor == host.vendor &&
                   models.family == host.family && models.first <= host.model &&
                   host.model <= models.last;
    }
    if (!generic && !sameVendor)
      continue;
    // A model weighs less than any difference of features or caches. A row
    // without models knows nothing of caches, so named rows come first.
    double distance = countFeatures(row.features ^ host.features) +
                      sizeDistance(row.l1Bytes, host.l1Bytes) +
                      sizeDistance(row.l2Bytes, host.l2Bytes) +
                      (generic     ? 0.2
                       : sameModel ? 0
                                   : 0.1);
    if (!best || distance < bestDistance) {
      best = &row;
      bestDistance = distance;
    }
  }
  target = makeTarget(*best, host.features);
  return true;
}

bool encast::resolveHostTarget(TargetCpu &target, std::string &error) {
  return nearestTarget(readHostCpu(), target, error);
}
