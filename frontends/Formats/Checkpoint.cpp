//===- Checkpoint.cpp - the safetensors files of a model folder -----------===//

#include "frontends/Formats/Checkpoint.h"
#include "frontends/Formats/Json.h"
#include "frontends/Formats/Sha256.h"

#include <algorithm>
#include <set>

namespace encast {

bool isPlainRelativePath(const std::string &path) {
  size_t begin = 0;
  while (true) {
    size_t end = std::min(path.find('/', begin), path.size());
    std::string part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." ||
        part.find('\0') != std::string::npos)
      return false;
    if (end == path.size())
      return true;
    begin = end + 1;
  }
}

bool CheckpointReader::open(const std::string &file, OpenFile *&opened,
                            std::string &error) {
  std::unique_ptr<OpenFile> &slot = files[file];
  if (!slot) {
    if (!isPlainRelativePath(file)) {
      error = "'" + file + "': expected a path inside the model's folder";
      return false;
    }
    auto fresh = std::make_unique<OpenFile>();
    if (!fresh->tensors.open(joinPath(root, file), error))
      return false;
    slot = std::move(fresh);
    auto wanted = expected.find(file);
    std::string hex;
    if (wanted != expected.end()) {
      if (!sha256(file, hex, error))
        return false;
      if (hex != wanted->second) {
        error = path(file) + ": expected SHA-256 " + wanted->second +
                ", but the file has " + hex;
        files.erase(file);
        return false;
      }
    }
  }
  opened = slot.get();
  return true;
}

std::string CheckpointReader::path(const std::string &file) const {
  return joinPath(root, file);
}

bool CheckpointReader::tensor(const std::string &file, const std::string &name,
                              const TensorView *&view, std::string &error) {
  OpenFile *opened;
  if (!open(file, opened, error))
    return false;
  view = opened->tensors.find(name);
  if (!view)
    error = path(file) + ": has no tensor '" + name + "'";
  return view != nullptr;
}

bool CheckpointReader::sha256(const std::string &file, std::string &hex,
                              std::string &error) {
  OpenFile *opened;
  if (!open(file, opened, error))
    return false;
  if (opened->sha256.empty()) {
    const MappedFile &mapped = opened->tensors.file();
    opened->sha256 = sha256Hex(mapped.bytes(), mapped.size());
    if (opened->sha256.empty()) {
      error = path(file) + ": libcrypto cannot compute SHA-256";
      return false;
    }
  }
  hex = opened->sha256;
  return true;
}

bool CheckpointReader::list(const std::string &folder,
                            std::vector<CheckpointTensor> &tensors,
                            std::string &error) {
  tensors.clear();
  std::string file = joinPath(folder, "model.safetensors");
  if (fileExists(joinPath(root, file))) {
    OpenFile *opened;
    if (!open(file, opened, error))
      return false;
    for (const TensorView &view : opened->tensors.tensors())
      tensors.push_back({file, &view});
    return true;
  }
  std::string where = joinPath(root, folder);
  if (fileExists(joinPath(where, "model.safetensors.index.json")))
    return listShards(folder, tensors, error);
  for (const char *pickle :
       {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (fileExists(joinPath(where, pickle))) {
      error = joinPath(where, pickle) +
              ": pickled checkpoints are not read; convert it to "
              "model.safetensors (save_pretrained of Transformers does)";
      return false;
    }
  error = where + ": has neither model.safetensors nor "
                  "model.safetensors.index.json";
  return false;
}

bool CheckpointReader::listShards(const std::string &folder,
                                  std::vector<CheckpointTensor> &tensors,
                                  std::string &error) {
  std::string index =
      joinPath(joinPath(root, folder), "model.safetensors.index.json");
  JsonLimits limits;
  limits.bytes = SafeTensors::kMaxHeaderBytes;
  JsonValue document;
  if (!readJsonFile(index, limits, document, error))
    return false;
  JsonFields fields(document, index);
  const JsonValue *map = fields.get("weight_map");
  if (!map)
    fields.fail("weight_map", "is missing");
  else if (!map->is(JsonValue::Kind::Object))
    fields.fail("weight_map", "expected an object, but got " + map->describe());
  if (!fields.ok(error))
    return false;

  std::set<std::string> shards;
  std::map<std::string, std::string> fileOf;
  for (size_t i = 0; i < map->keys.size(); ++i) {
    const JsonValue &value = map->elements[i];
    if (!value.is(JsonValue::Kind::String) ||
        !isPlainRelativePath(value.string) ||
        value.string.find_first_of("/\\") != std::string::npos) {
      fields.fail("weight_map", map->keys[i] +
                                    ": expected a plain file name, but got " +
                                    value.describe());
      return fields.ok(error);
    }
    std::string file = joinPath(folder, value.string);
    const TensorView *view;
    if (!tensor(file, map->keys[i], view, error)) {
      error.insert(0, index + ": weight_map: ");
      return false;
    }
    tensors.push_back({file, view});
    shards.insert(file);
    fileOf[map->keys[i]] = file;
  }
  for (const std::string &shard : shards) {
    OpenFile *opened;
    if (!open(shard, opened, error))
      return false;
    for (const TensorView &view : opened->tensors.tensors()) {
      auto mapped = fileOf.find(view.name);
      if (mapped == fileOf.end() || mapped->second != shard) {
        fields.fail("weight_map", "does not place '" + view.name + "' in " +
                                      shard + ", where it stands");
        return fields.ok(error);
      }
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const CheckpointTensor &a, const CheckpointTensor &b) {
              return a.view->name < b.view->name;
            });
  return true;
}

} // namespace encast
