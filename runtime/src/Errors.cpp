//===- Errors.cpp - the text of every error -------------------------------===//

#include "runtime/src/Errors.h"
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace encast::runtime {

void Text::append(const char *piece) {
  size_t pieceLength = strlen(piece), room = sizeof(characters) - 1 - length;
  size_t taken = pieceLength < room ? pieceLength : room;
  memcpy(characters + length, piece, taken);
  length += taken;
  characters[length] = 0;
  if (taken < pieceLength)
    memcpy(characters + sizeof(characters) - 4, "...", 4);
}

void Text::appendToList(const char *piece) {
  if (length)
    append(", ");
  append(piece);
}

/// The bytes that a message may take in a caller's struct of any version.
static size_t messageRoom(const encast_error *error) {
  constexpr size_t before = offsetof(encast_error, message);
  if (!error || error->size <= before)
    return 0;
  size_t room = error->size - before;
  return room < sizeof(error->message) ? room : sizeof(error->message);
}

__attribute__((format(printf, 3, 4))) static encast_status
fail(encast_error *error, encast_status code, const char *format, ...) {
  if (size_t room = messageRoom(error)) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, room, format, arguments);
    va_end(arguments);
    error->code = code;
  }
  return code;
}

void locateError(encast_error *error, const char *where) {
  size_t room = messageRoom(error);
  if (!room)
    return;
  char message[sizeof(error->message)];
  memcpy(message, error->message, room);
  message[room - 1] = 0;
  // The reason is kept whole, and of a name too long for it the end.
  size_t reason = strlen(message) + strlen(": ") + 1, name = strlen(where);
  size_t left = reason < room ? room - reason : 0;
  const char *dots = "";
  if (name > left) {
    dots = "...";
    left -= left < strlen(dots) ? left : strlen(dots);
    where += name - left;
  }
  snprintf(error->message, room, "%s%s: %s", dots, where, message);
}

namespace {
/// "step 3" or "the descriptor".
struct Subject {
  char text[64];
  Subject(const char *what, int64_t index) {
    if (index < 0)
      snprintf(text, sizeof(text), "%s", what);
    else
      snprintf(text, sizeof(text), "%s %" PRId64, what, index);
  }
};
} // namespace

//===- arguments ----------------------------------------------------------===//

encast_status nullArgument(encast_error *error, const char *name) {
  return fail(error, ENCAST_INVALID_ARGUMENT, "argument '%s' is null", name);
}

encast_status structTooSmall(encast_error *error, const char *name,
                             size_t given, size_t least) {
  return fail(error, ENCAST_INVALID_ARGUMENT,
              "field 'size' of %s is %zu, expected at least %zu (set it to "
              "sizeof of the struct)",
              name, given, least);
}

encast_status structSizesDiffer(encast_error *error, const char *name,
                                size_t given, size_t first) {
  return fail(error, ENCAST_INVALID_ARGUMENT,
              "field 'size' of %s is %zu, but that of the first one is %zu",
              name, given, first);
}

encast_status badOption(encast_error *error, const char *name, int64_t given,
                        int64_t least, int64_t most) {
  return fail(error, ENCAST_INVALID_ARGUMENT,
              "option '%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64,
              name, given, least, most);
}

encast_status freeMissing(encast_error *error) {
  return fail(error, ENCAST_INVALID_ARGUMENT,
              "options 'allocate' and 'free' are given together or not at all");
}

encast_status misalignedMemory(encast_error *error, int alignment) {
  return fail(error, ENCAST_INVALID_ARGUMENT,
              "option 'allocate' returned memory that is not aligned to %d",
              alignment);
}

encast_status unknownVariant(encast_error *error, const char *name,
                             const Text &known) {
  return fail(error, ENCAST_UNKNOWN_NAME,
              "variant '%s' is not in the artifact, which has %s", name,
              known.data());
}

encast_status indexOutOfRange(encast_error *error, const char *what,
                              int64_t index, int64_t count) {
  return fail(error, ENCAST_UNKNOWN_NAME,
              "%s %" PRId64 " does not exist, there are %" PRId64, what, index,
              count);
}

encast_status sessionBusy(encast_error *error) {
  return fail(error, ENCAST_BUSY, "the session serves another call");
}

encast_status modelInUse(encast_error *error, int64_t sessions) {
  return fail(error, ENCAST_BUSY,
              "the model still has %" PRId64 " session(s), destroy them first",
              sessions);
}

encast_status otherProcess(encast_error *error, int64_t creator,
                           int64_t current) {
  return fail(error, ENCAST_INVALID_ARGUMENT,
              "the session was created by process %" PRId64
              " and does not survive the fork to process %" PRId64
              ", create another one",
              creator, current);
}

//===- the system ---------------------------------------------------------===//

encast_status outOfMemory(encast_error *error, const char *what,
                          int64_t bytes) {
  return fail(error, ENCAST_OUT_OF_MEMORY,
              "the system refused %" PRId64 " bytes of memory for %s", bytes,
              what);
}

encast_status notEnoughMemory(encast_error *error, const char *what,
                              int64_t needed, int64_t available) {
  return fail(error, ENCAST_OUT_OF_MEMORY,
              "%" PRId64 " bytes of memory are needed for %s, but only %" PRId64
              " are available",
              needed, what, available);
}

encast_status threadRefused(encast_error *error, int index, int count,
                            int systemError) {
  return fail(error, ENCAST_OUT_OF_MEMORY,
              "the system refused thread %d of %d: %s", index, count,
              strerror(systemError));
}

encast_status fileError(encast_error *error, const char *action,
                        int systemError) {
  return fail(error,
              systemError == ENOMEM ? ENCAST_OUT_OF_MEMORY : ENCAST_IO_ERROR,
              "cannot %s the file: %s", action, strerror(systemError));
}

encast_status notRegularFile(encast_error *error) {
  return fail(error, ENCAST_IO_ERROR, "not a regular file");
}

encast_status loaderRefused(encast_error *error, const char *reason) {
  // What is not the artifact's fault; of dlopen there is but the text.
  static const char *const system[] = {
      "cannot open shared object", "cannot stat shared object",
      "failed to map segment", "cannot change memory protections"};
  encast_status status = ENCAST_BAD_ARTIFACT;
  for (const char *text : system)
    if (strstr(reason, text))
      status = ENCAST_IO_ERROR;
  return fail(error, status, "the dynamic loader refused it: %s", reason);
}

encast_status loaderReplaces(encast_error *error, const char *token) {
  return fail(error, ENCAST_INVALID_ARGUMENT,
              "the dynamic loader would put something else for '%s' in the "
              "path; rename the folder or the file",
              token);
}

//===- artifacts ----------------------------------------------------------===//

encast_status fileTooSmall(encast_error *error, uint64_t size, uint64_t least) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "not an artifact: %" PRIu64
              " bytes, an ELF header takes %" PRIu64,
              size, least);
}

encast_status badElfField(encast_error *error, const char *field,
                          uint64_t given, uint64_t expected) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "not an x86-64 ELF shared library: %s is 0x%" PRIx64
              ", expected 0x%" PRIx64,
              field, given, expected);
}

encast_status tableNotAtEnd(encast_error *error, uint64_t end, uint64_t size) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "truncated or altered: the section table ends at byte %" PRIu64
              ", the file at byte %" PRIu64,
              end, size);
}

encast_status outsideFile(encast_error *error, const char *what, uint64_t index,
                          uint64_t offset, uint64_t size, uint64_t fileSize) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "%s %" PRIu64 " takes %" PRIu64 " bytes at byte %" PRIu64
              ", but the file has %" PRIu64 " bytes",
              what, index, size, offset, fileSize);
}

encast_status badSegment(encast_error *error, uint64_t index,
                         const char *reason) {
  return fail(error, ENCAST_BAD_ARTIFACT, "segment %" PRIu64 " %s", index,
              reason);
}

encast_status badSection(encast_error *error, uint64_t index,
                         const char *reason) {
  return fail(error, ENCAST_BAD_ARTIFACT, "section %" PRIu64 " %s", index,
              reason);
}

encast_status sectionMissing(encast_error *error, const char *name,
                             const char *hint) {
  return fail(error, ENCAST_BAD_ARTIFACT, "section '%s' is missing; %s", name,
              hint);
}

encast_status libraryNeeded(encast_error *error) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "it needs another library (DT_NEEDED), artifacts need none");
}

encast_status badByteOrder(encast_error *error, uint32_t given) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "descriptor: byte order is 0x%" PRIx32 ", expected 0x01020304",
              given);
}

encast_status badMagic(encast_error *error, uint32_t given, uint32_t expected) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "descriptor: magic number is 0x%" PRIx32 ", expected 0x%" PRIx32,
              given, expected);
}

encast_status otherAbiVersion(encast_error *error, uint32_t given,
                              uint32_t oldest, uint32_t newest) {
  return fail(error, ENCAST_ABI_MISMATCH,
              "artifact of ABI version %" PRIu32 ", this runtime reads %" PRIu32
              " to %" PRIu32
              "; use a matching runtime or compile the model again",
              given, oldest, newest);
}

encast_status unknownFeatures(encast_error *error, uint64_t bits) {
  return fail(error, ENCAST_ABI_MISMATCH,
              "artifact needs features of a newer runtime (bits 0x%" PRIx64 ")",
              bits);
}

encast_status artifactAltered(encast_error *error) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "altered: its code and tables do not match its artifact id");
}

encast_status artifactReplaced(encast_error *error) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "the dynamic loader returned another artifact: the file was "
              "replaced too often while older ones are loaded; close the "
              "older models first, or open the file under another name");
}

encast_status badDescriptorField(encast_error *error, const char *what,
                                 int64_t index, const char *field,
                                 uint64_t given, uint64_t least,
                                 uint64_t most) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "descriptor: %s: %s is %" PRIu64 ", expected %" PRIu64
              " to %" PRIu64,
              Subject(what, index).text, field, given, least, most);
}

encast_status badDescriptorTable(encast_error *error, const char *table,
                                 uint64_t offset, uint64_t count,
                                 uint64_t bytes) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "descriptor: table '%s' of %" PRIu64 " rows at byte %" PRIu64
              " does not fit its %" PRIu64 " bytes",
              table, count, offset, bytes);
}

encast_status badDescriptorString(encast_error *error, const char *what,
                                  int64_t index, const char *field,
                                  uint64_t offset) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "descriptor: %s: %s is no string (byte %" PRIu64 ")",
              Subject(what, index).text, field, offset);
}

encast_status functionNotInCode(encast_error *error, uint64_t call,
                                int64_t distance) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "descriptor: call %" PRIu64 ": function at distance %" PRId64
              " lies in no executable section",
              call, distance);
}

encast_status repeatedOutput(encast_error *error, const char *name) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "descriptor: two outputs are named '%s'", name);
}

encast_status badWeightsFileName(encast_error *error, const char *name) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "descriptor: name of the weights file '%s' is not a plain name",
              name);
}

encast_status weightsSize(encast_error *error, const char *where,
                          uint64_t given, uint64_t expected) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "weights in '%s' take %" PRIu64 " bytes, expected %" PRIu64,
              where, given, expected);
}

encast_status weightsOfAnotherArtifact(encast_error *error) {
  return fail(error, ENCAST_BAD_ARTIFACT,
              "these weights belong to another artifact; both files are "
              "written by one run of the compiler");
}

encast_status cpuUnsupported(encast_error *error, const Text &lacks) {
  return fail(error, ENCAST_CPU_UNSUPPORTED, "this CPU lacks instructions: %s",
              lacks.data());
}

encast_status tileStateRefused(encast_error *error, const char *variant,
                               int systemError, unsigned long leastStack) {
  if (systemError == ENOSPC)
    return fail(error, ENCAST_CPU_UNSUPPORTED,
                "variant %s needs AMX tiles, which the system refuses while a "
                "thread has an alternate signal stack of less than %lu bytes "
                "(sigaltstack)",
                variant, leastStack);
  return fail(error, ENCAST_CPU_UNSUPPORTED,
              "variant %s needs AMX tiles, which the system refuses: %s",
              variant, strerror(systemError));
}

//===- runs and reservations ----------------------------------------------===//

encast_status unknownInput(encast_error *error, const char *name) {
  return fail(error, ENCAST_UNKNOWN_NAME,
              "no input is named '%s'; inputs are ids, offsets, "
              "token_type_ids, attended_length, rows",
              name);
}

encast_status unknownOutput(encast_error *error, const char *name,
                            const Text &known) {
  return fail(error, ENCAST_UNKNOWN_NAME,
              "no output is named '%s'; the model has %s", name, known.data());
}

encast_status unknownOutputBits(encast_error *error, uint64_t bits,
                                uint64_t count) {
  return fail(error, ENCAST_UNKNOWN_NAME,
              "output mask 0x%" PRIx64 " asks for outputs that do not exist, "
              "the model has %" PRIu64,
              bits, count);
}

encast_status givenTwice(encast_error *error, const char *what,
                         const char *name) {
  return fail(error, ENCAST_INVALID_ARGUMENT, "%s '%s' is given twice", what,
              name);
}

encast_status idsMissing(encast_error *error) {
  return fail(error, ENCAST_INVALID_ARGUMENT, "input 'ids' is missing");
}

encast_status noOutputAsked(encast_error *error) {
  return fail(error, ENCAST_INVALID_ARGUMENT, "no output is asked for");
}

encast_status negativeCount(encast_error *error, const char *what,
                            int64_t given) {
  return fail(error, ENCAST_BAD_SHAPE, "%s is %" PRId64 ", expected 0 or more",
              what, given);
}

encast_status tooManyRows(encast_error *error, int64_t tokens,
                          int64_t sequences, int64_t limit) {
  return fail(error, ENCAST_BAD_SHAPE,
              "%" PRId64 " tokens in %" PRId64
              " sequences: together or their memory exceed the limit of "
              "%" PRId64,
              tokens, sequences, limit);
}

encast_status offsetsMissing(encast_error *error) {
  return fail(error, ENCAST_BAD_SHAPE,
              "input 'offsets' has no elements, expected the number of "
              "sequences + 1");
}

encast_status badFirstOffset(encast_error *error, int64_t given) {
  return fail(error, ENCAST_BAD_SHAPE,
              "input 'offsets' starts with %" PRId64 ", expected 0", given);
}

encast_status badLastOffset(encast_error *error, int64_t given,
                            int64_t tokens) {
  return fail(error, ENCAST_BAD_SHAPE,
              "input 'offsets' ends with %" PRId64 ", expected %" PRId64
              ", the number of ids",
              given, tokens);
}

encast_status emptySequence(encast_error *error, int64_t sequence,
                            int64_t begin, int64_t end) {
  return fail(error, ENCAST_BAD_SHAPE,
              "sequence %" PRId64 " reaches from token %" PRId64 " to %" PRId64
              ", expected at least one token",
              sequence, begin, end);
}

encast_status sequenceTooLong(encast_error *error, int64_t sequence,
                              int64_t given, int64_t limit) {
  return fail(error, ENCAST_SEQUENCE_TOO_LONG,
              "sequence %" PRId64 " has %" PRId64
              " tokens, but the model's limit is %" PRId64,
              sequence, given, limit);
}

encast_status idOutOfRange(encast_error *error, int64_t sequence,
                           int64_t position, int64_t id, int64_t vocabulary) {
  return fail(error, ENCAST_TOKEN_OUT_OF_RANGE,
              "sequence %" PRId64 ", position %" PRId64 ": id %" PRId64
              " is outside of the vocabulary, 0 to %" PRId64,
              sequence, position, id, vocabulary - 1);
}

encast_status typeOutOfRange(encast_error *error, int64_t sequence,
                             int64_t position, int64_t type, int64_t types) {
  return fail(error, ENCAST_TOKEN_OUT_OF_RANGE,
              "sequence %" PRId64 ", position %" PRId64 ": token type %" PRId64
              " is outside of 0 to %" PRId64,
              sequence, position, type, types - 1);
}

encast_status typesCount(encast_error *error, int64_t given, int64_t tokens) {
  return fail(error, ENCAST_BAD_SHAPE,
              "input 'token_type_ids' has %" PRId64
              " elements, expected %" PRId64 ", the number of ids",
              given, tokens);
}

encast_status attendedCount(encast_error *error, int64_t given,
                            int64_t sequences) {
  return fail(error, ENCAST_BAD_SHAPE,
              "input 'attended_length' has %" PRId64
              " elements, expected %" PRId64 ", the number of sequences",
              given, sequences);
}

encast_status notAllAttended(encast_error *error, int64_t sequence,
                             int64_t given, int64_t length) {
  return fail(error, ENCAST_BAD_SHAPE,
              "sequence %" PRId64 ": attended_length is %" PRId64
              ", but this model attends to all %" PRId64 " ids",
              sequence, given, length);
}

encast_status attendedOutOfRange(encast_error *error, int64_t sequence,
                                 int64_t given, int64_t length) {
  return fail(error, ENCAST_BAD_SHAPE,
              "sequence %" PRId64 ": attended_length is %" PRId64
              ", expected 1 to %" PRId64,
              sequence, given, length);
}

encast_status noTokenTypes(encast_error *error) {
  return fail(error, ENCAST_UNKNOWN_NAME,
              "input 'token_type_ids' is given, but the model has no token "
              "types");
}

encast_status rowsCount(encast_error *error, int64_t given, int64_t tokens) {
  return fail(error, ENCAST_BAD_SHAPE,
              "input 'rows' has %" PRId64 " elements, expected 0 to %" PRId64
              ", the number of ids",
              given, tokens);
}

encast_status rowOutOfRange(encast_error *error, int64_t index, int64_t row,
                            int64_t tokens) {
  return fail(error, ENCAST_BAD_SHAPE,
              "element %" PRId64 " of input 'rows' is %" PRId64
              ", expected 0 to %" PRId64,
              index, row, tokens - 1);
}

encast_status reservationTooSmall(encast_error *error, int64_t tokens,
                                  int64_t sequences, int64_t needed,
                                  int64_t reserved) {
  return fail(error, ENCAST_TOO_SMALL,
              "a run of %" PRId64 " tokens in %" PRId64
              " sequences needs %" PRId64
              " bytes of arena, but encast_session_reserve mapped %" PRId64,
              tokens, sequences, needed, reserved);
}

encast_status outputTooSmall(encast_error *error, const char *name,
                             int64_t rows, int64_t columns, int64_t given) {
  return fail(error, ENCAST_TOO_SMALL,
              "output '%s' takes %" PRId64 " x %" PRId64
              " floats, but its memory has room for %" PRId64,
              name, rows, columns, given);
}

encast_status memoryCapExceeded(encast_error *error, int64_t arena,
                                int64_t copied, int64_t allowed) {
  if (copied)
    return fail(error, ENCAST_MEMORY_CAP,
                "the arena needs %" PRId64
                " bytes and the copied weights %" PRId64
                ", but the cap allows %" PRId64,
                arena, copied, allowed);
  return fail(error, ENCAST_MEMORY_CAP,
              "the arena needs %" PRId64 " bytes, but the cap allows %" PRId64,
              arena, allowed);
}

encast_status cancelled(encast_error *error) {
  return fail(error, ENCAST_CANCELLED, "the run was cancelled");
}

encast_status notFinite(encast_error *error, const char *output, int64_t row,
                        int64_t column) {
  return fail(error, ENCAST_NOT_FINITE,
              "output '%s' is not finite at row %" PRId64 ", column %" PRId64,
              output, row, column);
}

} // namespace encast::runtime

extern "C" const char *encast_status_name(encast_status status) {
  switch (status) {
#define ENCAST_STATUS_CASE(name)                                               \
  case name:                                                                   \
    return #name;
    ENCAST_STATUS_CASE(ENCAST_OK)
    ENCAST_STATUS_CASE(ENCAST_INVALID_ARGUMENT)
    ENCAST_STATUS_CASE(ENCAST_OUT_OF_MEMORY)
    ENCAST_STATUS_CASE(ENCAST_IO_ERROR)
    ENCAST_STATUS_CASE(ENCAST_BAD_ARTIFACT)
    ENCAST_STATUS_CASE(ENCAST_ABI_MISMATCH)
    ENCAST_STATUS_CASE(ENCAST_CPU_UNSUPPORTED)
    ENCAST_STATUS_CASE(ENCAST_UNKNOWN_NAME)
    ENCAST_STATUS_CASE(ENCAST_BAD_SHAPE)
    ENCAST_STATUS_CASE(ENCAST_TOKEN_OUT_OF_RANGE)
    ENCAST_STATUS_CASE(ENCAST_SEQUENCE_TOO_LONG)
    ENCAST_STATUS_CASE(ENCAST_TOO_SMALL)
    ENCAST_STATUS_CASE(ENCAST_MEMORY_CAP)
    ENCAST_STATUS_CASE(ENCAST_BUSY)
    ENCAST_STATUS_CASE(ENCAST_CANCELLED)
    ENCAST_STATUS_CASE(ENCAST_NOT_FINITE)
    ENCAST_STATUS_CASE(ENCAST_INTERNAL)
#undef ENCAST_STATUS_CASE
  }
  return "ENCAST_UNKNOWN";
}
