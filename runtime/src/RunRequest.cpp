//===- RunRequest.cpp - check the inputs and outputs of a run -------------===//

#include "runtime/src/Errors.h"
#include "runtime/src/MemoryFormula.h"
#include "runtime/src/Session.h"
#include <cstddef>
#include <cstring>

namespace encast::runtime {
namespace {

struct NamedInput {
  const char *name;
  const int64_t *data = nullptr;
  int64_t count = 0;
  bool given = false;
};

/// Elements of the caller's array may be of another version's size.
template <typename Element>
const Element *elementAt(const Element *array, int64_t index) {
  return reinterpret_cast<const Element *>(
      reinterpret_cast<const char *>(array) + index * array->size);
}

template <typename Element>
encast_status checkElement(const Element *array, int64_t index,
                           const char *name, encast_error *error) {
  const Element *element = elementAt(array, index);
  constexpr size_t least = offsetof(Element, count) + sizeof(Element::count);
  if (element->size < least)
    return structTooSmall(error, name, element->size, least);
  if (element->size != array->size)
    return structSizesDiffer(error, name, element->size, array->size);
  if (!element->name)
    return nullArgument(error, "name");
  return ENCAST_OK;
}

encast_status checkSequences(const RunRequest &request, int64_t maxTokens,
                             encast_error *error) {
  const int64_t *offsets = request.offsets;
  if (offsets[0] != 0)
    return badFirstOffset(error, offsets[0]);
  for (int64_t i = 0; i < request.sequences; ++i) {
    if (offsets[i + 1] <= offsets[i] || offsets[i + 1] > request.tokens)
      return offsets[i + 1] > request.tokens
                 ? badLastOffset(error, offsets[i + 1], request.tokens)
                 : emptySequence(error, i, offsets[i], offsets[i + 1]);
    int64_t length = offsets[i + 1] - offsets[i];
    if (length > maxTokens)
      return sequenceTooLong(error, i, length, maxTokens);
  }
  if (offsets[request.sequences] != request.tokens)
    return badLastOffset(error, offsets[request.sequences], request.tokens);
  return ENCAST_OK;
}

encast_status checkAttended(const RunRequest &request, const ArtifactView &view,
                            int64_t count, encast_error *error) {
  if (count != request.sequences)
    return attendedCount(error, count, request.sequences);
  for (int64_t i = 0; i < count; ++i) {
    int64_t length = request.offsets[i + 1] - request.offsets[i];
    int64_t attended = request.attended[i];
    if (attended == length)
      continue;
    if (!view.takesAttendedLength())
      return notAllAttended(error, i, attended, length);
    if (attended < 1 || attended > length)
      return attendedOutOfRange(error, i, attended, length);
  }
  return ENCAST_OK;
}

/// The index of the first of `count` values outside of [0, limit); -1: none.
int64_t findOutOfRange(const int64_t *values, int64_t count, int64_t limit) {
  for (int64_t i = 0; i < count; ++i)
    if (static_cast<uint64_t>(values[i]) >= static_cast<uint64_t>(limit))
      return i;
  return -1;
}

/// Where in the batch token row `row` lies.
struct Place {
  int64_t sequence = 0, position = 0;
  Place(const RunRequest &request, int64_t row) {
    while (request.offsets[sequence + 1] <= row)
      ++sequence;
    position = row - request.offsets[sequence];
  }
};

encast_status checkValues(const RunRequest &request, const ArtifactView &view,
                          encast_error *error) {
  int64_t tokens = request.tokens;
  int64_t bad = findOutOfRange(request.ids, tokens, view->vocabulary);
  if (bad >= 0) {
    Place place(request, bad);
    return idOutOfRange(error, place.sequence, place.position, request.ids[bad],
                        view->vocabulary);
  }
  if (request.types) {
    bad = findOutOfRange(request.types, tokens, view->token_types);
    if (bad >= 0) {
      Place place(request, bad);
      return typeOutOfRange(error, place.sequence, place.position,
                            request.types[bad], view->token_types);
    }
  }
  bad = findOutOfRange(request.rows, request.rowCount, tokens);
  if (bad >= 0)
    return rowOutOfRange(error, bad, request.rows[bad], tokens);
  return ENCAST_OK;
}

} // namespace

encast_status RunRequest::readInputs(const ArtifactView &view,
                                     const encast_input *inputs, int64_t count,
                                     encast_error *error) {
  enum { Ids, Offsets, Types, Attended, Rows };
  NamedInput known[] = {
      {"ids"}, {"offsets"}, {"token_type_ids"}, {"attended_length"}, {"rows"}};
  if (count < 0)
    return negativeCount(error, "input_count", count);
  if (count && !inputs)
    return nullArgument(error, "inputs");
  for (int64_t i = 0; i < count; ++i) {
    ENCAST_TRY(checkElement(inputs, i, "encast_input", error));
    const encast_input &input = *elementAt(inputs, i);
    NamedInput *match = nullptr;
    for (NamedInput &candidate : known)
      if (!strcmp(candidate.name, input.name))
        match = &candidate;
    if (!match)
      return unknownInput(error, input.name);
    if (match->given)
      return givenTwice(error, "input", input.name);
    if (input.count < 0)
      return negativeCount(error, "count of an input", input.count);
    if (input.count && !input.data)
      return nullArgument(error, "data of an input");
    *match = {match->name, input.data, input.count, true};
  }
  if (!known[Ids].given)
    return idsMissing(error);
  ids = known[Ids].data;
  tokens = known[Ids].count;
  if (known[Offsets].given) {
    if (!known[Offsets].count)
      return offsetsMissing(error);
    offsets = known[Offsets].data;
    sequences = known[Offsets].count - 1;
  } else {
    oneSequence[1] = tokens;
    offsets = oneSequence;
    sequences = 1;
  }
  if (tokens > kMostRows || sequences > kMostRows - tokens)
    return tooManyRows(error, tokens, sequences, kMostRows);
  ENCAST_TRY(checkSequences(*this, view->max_tokens, error));
  if (known[Attended].given) {
    attended = known[Attended].data;
    ENCAST_TRY(checkAttended(*this, view, known[Attended].count, error));
  }
  if (known[Types].given) {
    if (!view->token_types)
      return noTokenTypes(error);
    if (known[Types].count != tokens)
      return typesCount(error, known[Types].count, tokens);
    types = known[Types].data;
  }
  if (known[Rows].given) {
    if (known[Rows].count > tokens)
      return rowsCount(error, known[Rows].count, tokens);
    // An empty list may be a null pointer, which here means "not given".
    rows = known[Rows].count ? known[Rows].data : oneSequence;
    rowCount = known[Rows].count;
  }
  return checkValues(*this, view, error);
}

encast_status RunRequest::readOutputs(const encast_model &model,
                                      const encast_output *given, int64_t count,
                                      encast_error *error) {
  if (count < 0)
    return negativeCount(error, "output_count", count);
  if (!count)
    return noOutputAsked(error);
  if (!given)
    return nullArgument(error, "outputs");
  const ArtifactView &view = model.view;
  bool needsAllRows = false;
  for (int64_t i = 0; i < count; ++i) {
    ENCAST_TRY(checkElement(given, i, "encast_output", error));
    const encast_output &target = *elementAt(given, i);
    int64_t index = model.findOutput(target.name);
    if (index < 0) {
      Text known;
      for (uint64_t j = 0; j < view->outputs.count; ++j)
        known.appendToList(view.string(view.output(j).name));
      return unknownOutput(error, target.name, known);
    }
    if (outputs >> index & 1)
      return givenTwice(error, "output", target.name);
    const encast_abi_output &output = view.output(index);
    int64_t floats = 0;
    if (__builtin_mul_overflow(outputRows(output), output.columns, &floats) ||
        target.count < floats)
      return outputTooSmall(error, target.name, outputRows(output),
                            output.columns, target.count);
    if (floats && !target.data)
      return nullArgument(error, "data of an output");
    outputs |= uint64_t(1) << index;
    outputData[index] = target.data;
    (output.per_token ? asksPerToken : asksPerSequence) = true;
    needsAllRows |= output.all_rows || (output.per_token && !rows);
  }
  mode = needsAllRows ? ENCAST_MODE_ALL : ENCAST_MODE_SELECTED;
  return ENCAST_OK;
}

} // namespace encast::runtime
