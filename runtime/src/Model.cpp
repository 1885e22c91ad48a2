//===- Model.cpp - load an artifact ---------------------------------------===//
///
/// \file
/// The file is opened once. It is checked in a mapping before the dynamic
/// loader sees it; as the loader goes by name, and may know another library of
/// that name, the artifact id of what it loaded is compared with that of the
/// file. The weights are mapped from the same open file.
//===----------------------------------------------------------------------===//

#include "runtime/src/Model.h"
#include "runtime/src/Cpu.h"
#include "runtime/src/Errors.h"
#include "runtime/src/MemoryFormula.h"
#include "runtime/src/PublicStruct.h"
#include "runtime/src/Variant.h"
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <unistd.h>

using namespace encast::runtime;

namespace {

/// Memory from malloc, freed at the end of the scope.
struct Memory {
  void *bytes;
  explicit Memory(size_t size) : bytes(malloc(size)) {}
  explicit Memory(char *owned) : bytes(owned) {}
  ~Memory() { free(bytes); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
};

void destroyModel(encast_model *model) {
  if (model->library)
    dlclose(model->library);
  model->copies.release();
  free(static_cast<void *>(model->weights));
  model->~encast_model();
  free(model);
}

/// The token that dlopen would replace in a path, or null.
const char *dynamicStringToken(const char *path) {
  static const char *const tokens[] = {"$ORIGIN",   "$PLATFORM",   "$LIB",
                                       "${ORIGIN}", "${PLATFORM}", "${LIB}"};
  for (const char *token : tokens)
    if (strstr(path, token))
      return token;
  return nullptr;
}

/// Takes the descriptor of the library just loaded if it is the one that was
/// checked. The error of anything else is in `error`.
encast_status takeDescriptor(Hash128 id, encast_model &model,
                             encast_error *error) {
  auto query = reinterpret_cast<encast_abi_query>(
      dlsym(model.library, ENCAST_QUERY_SYMBOL));
  if (!query)
    return loaderRefused(error, "it has no symbol " ENCAST_QUERY_SYMBOL);
  const encast_abi_descriptor *descriptor = query(ENCAST_ABI_VERSION);
  if (!descriptor || descriptor->magic != ENCAST_ABI_MAGIC ||
      !(ArtifactView(descriptor).id() == id))
    return artifactReplaced(error);
  model.view = ArtifactView(descriptor);
  return ENCAST_OK;
}

/// Loads the library at `path` and finds its descriptor, which must be the one
/// of the file that was checked. The dynamic loader returns a library that it
/// has under the same spelling, even if the file was replaced: then the path is
/// spelled in another way, as folder/././model.so.
encast_status loadLibrary(const char *path, Hash128 id, encast_model &model,
                          encast_error *error) {
  Memory resolved(realpath(path, nullptr));
  auto *real = static_cast<char *>(resolved.bytes);
  // Files in /proc/self/fd may have no name, folders may hide theirs.
  Memory given(strlen(path) + 3);
  if (!given.bytes)
    return outOfMemory(error, "a path", strlen(path) + 3);
  if (!real || access(real, F_OK)) {
    real = static_cast<char *>(given.bytes);
    sprintf(real, "%s%s", strchr(path, '/') ? "" : "./", path);
  }
  if (const char *token = dynamicStringToken(real))
    return loaderReplaces(error, token);
  constexpr size_t mostDots = 15;
  size_t size = strlen(real) + 2 * mostDots + 1;
  Memory name(size);
  if (!name.bytes)
    return outOfMemory(error, "a path", size);
  auto *spelling = static_cast<char *>(name.bytes);
  int folder = strrchr(real, '/') + 1 - real;
  encast_status status = ENCAST_OK;
  for (size_t dots = 0; dots <= mostDots; ++dots) {
    int length = snprintf(spelling, size, "%.*s", folder, real);
    for (size_t i = 0; i < dots; ++i)
      length += snprintf(spelling + length, size - length, "./");
    snprintf(spelling + length, size - length, "%s", real + folder);
    model.library = dlopen(spelling, RTLD_NOW | RTLD_LOCAL);
    if (!model.library)
      return loaderRefused(error, dlerror());
    status = takeDescriptor(id, model, error);
    if (status == ENCAST_OK)
      return status;
    dlclose(model.library);
    model.library = nullptr;
  }
  return status;
}

/// Copies weights into huge pages, and lets the model's table point there.
encast_status copyWeights(const OpenFile &file, uint64_t offset,
                          encast_model &model, encast_error *error) {
  const ArtifactView &view = model.view;
  ArenaOptions options;
  options.what = "copies of the weights";
  uint64_t tableBytes = view->blobs.count * sizeof(int64_t);
  Memory table(tableBytes);
  if (!table.bytes)
    return outOfMemory(error, "a table of weights", tableBytes);
  auto *places = static_cast<int64_t *>(table.bytes);
  int64_t bytes = layOutCopies(view, *model.variant, places);
  if (bytes < 0)
    return outOfMemory(error, options.what, INT64_MAX);
  if (!bytes)
    return ENCAST_OK;
  ENCAST_TRY(model.copies.reserve(options, bytes, model.log, error));
  const auto *blobs = view.rows<encast_abi_blob>(view->blobs);
  for (uint64_t i = 0; i < view->blobs.count; ++i)
    if (places[i] >= 0)
      ENCAST_TRY(file.read(model.copies.data() + places[i],
                           offset + blobs[i].offset, blobs[i].size, error));
  const encast_abi_table &weights = model.variant->weights;
  for (uint64_t i = 0; i < weights.count; ++i) {
    uint32_t blob = view.rows<encast_abi_weight>(weights)[i].blob;
    if (model.weights[i] && places[blob] >= 0)
      model.weights[i] = model.copies.data() + places[blob];
  }
  return ENCAST_OK;
}

/// Maps the weights, which begin at `offset` of `file`, and copies those that
/// the caller wants in huge pages.
encast_status takeWeights(const OpenFile &file, uint64_t offset, bool copies,
                          encast_model &model, encast_error *error) {
  const ArtifactView &view = model.view;
  ENCAST_TRY(
      model.weightsMapping.map(file, offset, view->weights_bytes, error));
  const encast_abi_table &table = model.variant->weights;
  const auto *weights = view.rows<encast_abi_weight>(table);
  const auto *blobs = view.rows<encast_abi_blob>(view->blobs);
  model.weights =
      static_cast<const void **>(calloc(table.count + 1, sizeof(void *)));
  if (!model.weights)
    return outOfMemory(error, "a table of weights",
                       (table.count + 1) * sizeof(void *));
  for (uint64_t i = 0; i < table.count; ++i)
    if (blobs[weights[i].blob].size)
      model.weights[i] =
          model.weightsMapping.data() + blobs[weights[i].blob].offset;
  return copies ? copyWeights(file, offset, model, error) : ENCAST_OK;
}

/// Takes the weights from the file beside the artifact.
encast_status takeWeightsBeside(const char *path, bool copies,
                                encast_model &model, encast_error *error) {
  const char *name = model.view.string(model.view->weights_file);
  const char *slash = strrchr(path, '/');
  size_t folder = slash ? slash + 1 - path : 0;
  size_t size = folder + strlen(name) + 1;
  Memory sideName(size);
  if (!sideName.bytes)
    return outOfMemory(error, "a path", size);
  auto *sidePath = static_cast<char *>(sideName.bytes);
  memcpy(sidePath, path, folder);
  strcpy(sidePath + folder, name);
  OpenFile side;
  encast_status status = side.open(sidePath, error);
  if (status == ENCAST_OK)
    status = checkWeightsFile(side, model.view, error);
  if (status == ENCAST_OK)
    status = takeWeights(side, 0, copies, model, error);
  if (status != ENCAST_OK)
    locateError(error, sidePath);
  return status;
}

encast_status loadModel(const char *path, const encast_model_options &options,
                        encast_model &model, encast_error *error) {
  OpenFile file;
  ENCAST_TRY(file.open(path, error));
  Hash128 id;
  uint64_t variant = 0, weightsOffset = 0;
  {
    Mapping contents;
    ENCAST_TRY(contents.map(file, 0, file.size(), error));
    ArtifactFile found;
    ENCAST_TRY(
        validateArtifact(contents.data(), contents.size(), found, error));
    ENCAST_TRY(chooseVariant(found.view, options.variant,
                             {cpuFeatures(), requestTileState}, model.log,
                             variant, error));
    id = found.view.id();
    weightsOffset = found.weightsOffset;
  }
  ENCAST_TRY(loadLibrary(path, id, model, error));
  model.variant = &model.view.variant(variant);
  bool copies = options.huge_page_weights != 0;
  ENCAST_TRY(model.view->weights_file
                 ? takeWeightsBeside(path, copies, model, error)
                 : takeWeights(file, weightsOffset, copies, model, error));
  model.weightsRead = options.lazy_weights != 0;
  snprintf(model.id, sizeof(model.id), "%016" PRIx64 "%016" PRIx64, id.high,
           id.low);
  model.log.write(ENCAST_LOG_INFO, "%s: loaded, variant %s", path,
                  model.view.string(model.variant->name));
  return ENCAST_OK;
}

} // namespace

int64_t encast_model::findOutput(const char *name) const {
  for (uint64_t i = 0; i < view->outputs.count; ++i)
    if (!strcmp(name, view.string(view.output(i).name)))
      return i;
  return -1;
}

void encast_model::populateWeights() const {
  const auto *rows = view.rows<encast_abi_weight>(variant->weights);
  const auto *blobs = view.rows<encast_abi_blob>(view->blobs);
  for (uint64_t i = 0; i < variant->weights.count; ++i) {
    const encast_abi_blob &blob = blobs[rows[i].blob];
    if (weights[i] == weightsMapping.data() + blob.offset)
      weightsMapping.populate(blob.offset, blob.size);
  }
}

extern "C" {

encast_status encast_model_open(const char *path,
                                const encast_model_options *options,
                                encast_model **result, encast_error *error) {
  if (!path)
    return nullArgument(error, "path");
  if (!result)
    return nullArgument(error, "model");
  *result = nullptr;
  encast_model_options full = {};
  if (options)
    ENCAST_TRY(readStruct(*options, "encast_model_options", full, error));
  if (full.lazy_weights < 0 || full.lazy_weights > 1)
    return badOption(error, "lazy_weights", full.lazy_weights, 0, 1);
  if (full.huge_page_weights < 0 || full.huge_page_weights > 1)
    return badOption(error, "huge_page_weights", full.huge_page_weights, 0, 1);
  void *memory = nullptr;
  if (posix_memalign(&memory, alignof(encast_model), sizeof(encast_model)))
    return outOfMemory(error, "a model", sizeof(encast_model));
  auto *model = new (memory) encast_model;
  model->log = Log(full.log, full.log_data);
  if (encast_status status = loadModel(path, full, *model, error)) {
    locateError(error, path);
    destroyModel(model);
    return status;
  }
  *result = model;
  return ENCAST_OK;
}

encast_status encast_model_close(encast_model *model, encast_error *error) {
  if (!model)
    return ENCAST_OK;
  if (int64_t sessions = model->sessions.load())
    return modelInUse(error, sessions);
  destroyModel(model);
  return ENCAST_OK;
}

encast_status encast_model_info(const encast_model *model,
                                encast_model_info_t *info,
                                encast_error *error) {
  if (!model)
    return nullArgument(error, "model");
  const ArtifactView &view = model->view;
  encast_model_info_t full = {};
  full.family = view.string(view->model);
  full.variant = view.string(model->variant->name);
  full.artifact_id = model->id;
  full.metadata = view.string(view->metadata);
  full.vocabulary = view->vocabulary;
  full.max_tokens = view->max_tokens;
  full.token_types = view->token_types;
  full.pad_id = view->pad_id;
  full.hidden = view->hidden;
  full.layers = view->layers;
  full.output_count = view->outputs.count;
  full.default_output = view->default_output;
  full.weights_bytes = view->weights_bytes;
  full.attended_length = view.takesAttendedLength();
  full.copied_weights_bytes = model->copies.size();
  return writeStruct(full, "encast_model_info_t", info, error);
}

encast_status encast_model_output(const encast_model *model, int64_t index,
                                  encast_output_info *info,
                                  encast_error *error) {
  if (!model)
    return nullArgument(error, "model");
  int64_t count = model->view->outputs.count;
  if (index < 0 || index >= count)
    return indexOutOfRange(error, "output", index, count);
  const encast_abi_output &output = model->view.output(index);
  encast_output_info full = {};
  full.name = model->view.string(output.name);
  full.columns = output.columns;
  full.per_token = output.per_token;
  return writeStruct(full, "encast_output_info", info, error);
}

} // extern "C"
