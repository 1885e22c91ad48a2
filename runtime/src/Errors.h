//===- Errors.h - the text of every error -----------------------*- C++ -*-===//
///
/// \file
/// One function per error owns its text; callers pass facts. Each fills `error`
/// (which may be null, or of a shorter size than ours) and returns its status,
/// so that a failure reads `return idOutOfRange(error, ...)`.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_ERRORS_H
#define ENCAST_RUNTIME_SRC_ERRORS_H

#include "encast.h"
#include <cstddef>
#include <cstdint>

/// Runs a check and returns its failure.
#define ENCAST_TRY(check)                                                      \
  if (encast_status status = (check))                                          \
  return status

namespace encast::runtime {

/// A string of bounded size to put lists of names together; what does not fit
/// is cut and ends in "...".
class Text {
public:
  void append(const char *piece);
  /// Appends `piece`, after ", " if something stands before it.
  void appendToList(const char *piece);
  const char *data() const { return characters; }

private:
  char characters[256] = {};
  size_t length = 0;
};

/// Puts `where` and ": " in front of the message of `error`.
void locateError(encast_error *error, const char *where);

// Arguments.
encast_status nullArgument(encast_error *error, const char *name);
encast_status structSizesDiffer(encast_error *error, const char *name,
                                size_t given, size_t first);
encast_status structTooSmall(encast_error *error, const char *name,
                             size_t given, size_t least);
encast_status badOption(encast_error *error, const char *name, int64_t given,
                        int64_t least, int64_t most);
encast_status freeMissing(encast_error *error);
encast_status misalignedMemory(encast_error *error, int alignment);
encast_status unknownVariant(encast_error *error, const char *name,
                             const Text &known);
encast_status indexOutOfRange(encast_error *error, const char *what,
                              int64_t index, int64_t count);
encast_status sessionBusy(encast_error *error);
encast_status modelInUse(encast_error *error, int64_t sessions);
encast_status otherProcess(encast_error *error, int64_t creator,
                           int64_t current);

// The system.
encast_status outOfMemory(encast_error *error, const char *what, int64_t bytes);
encast_status notEnoughMemory(encast_error *error, const char *what,
                              int64_t needed, int64_t available);
encast_status threadRefused(encast_error *error, int index, int count,
                            int systemError);
encast_status fileError(encast_error *error, const char *action,
                        int systemError);
encast_status notRegularFile(encast_error *error);
encast_status loaderRefused(encast_error *error, const char *reason);
encast_status loaderReplaces(encast_error *error, const char *token);

// Artifacts.
encast_status fileTooSmall(encast_error *error, uint64_t size, uint64_t least);
encast_status badElfField(encast_error *error, const char *field,
                          uint64_t given, uint64_t expected);
encast_status tableNotAtEnd(encast_error *error, uint64_t end, uint64_t size);
encast_status outsideFile(encast_error *error, const char *what, uint64_t index,
                          uint64_t offset, uint64_t size, uint64_t fileSize);
encast_status badSegment(encast_error *error, uint64_t index,
                         const char *reason);
encast_status badSection(encast_error *error, uint64_t index,
                         const char *reason);
encast_status sectionMissing(encast_error *error, const char *name,
                             const char *hint);
encast_status libraryNeeded(encast_error *error);
encast_status badByteOrder(encast_error *error, uint32_t given);
encast_status badMagic(encast_error *error, uint32_t given, uint32_t expected);
encast_status otherAbiVersion(encast_error *error, uint32_t given,
                              uint32_t oldest, uint32_t newest);
encast_status unknownFeatures(encast_error *error, uint64_t bits);
encast_status artifactAltered(encast_error *error);
encast_status artifactReplaced(encast_error *error);
/// `what` has an `index` if it is not negative.
encast_status badDescriptorField(encast_error *error, const char *what,
                                 int64_t index, const char *field,
                                 uint64_t given, uint64_t least, uint64_t most);
encast_status badDescriptorTable(encast_error *error, const char *table,
                                 uint64_t offset, uint64_t count,
                                 uint64_t bytes);
encast_status badDescriptorString(encast_error *error, const char *what,
                                  int64_t index, const char *field,
                                  uint64_t offset);
encast_status functionNotInCode(encast_error *error, uint64_t call,
                                int64_t distance);
encast_status repeatedOutput(encast_error *error, const char *name);
encast_status badWeightsFileName(encast_error *error, const char *name);
encast_status weightsOfAnotherArtifact(encast_error *error);
encast_status weightsSize(encast_error *error, const char *where,
                          uint64_t given, uint64_t expected);
/// `lacks` lists each variant with the features that are missing.
encast_status cpuUnsupported(encast_error *error, const Text &lacks);
/// `leastStack`: bytes of an alternate signal stack that are enough.
encast_status tileStateRefused(encast_error *error, const char *variant,
                               int systemError, unsigned long leastStack);

// Runs and reservations.
encast_status unknownInput(encast_error *error, const char *name);
encast_status unknownOutput(encast_error *error, const char *name,
                            const Text &known);
encast_status unknownOutputBits(encast_error *error, uint64_t bits,
                                uint64_t count);
encast_status givenTwice(encast_error *error, const char *what,
                         const char *name);
encast_status idsMissing(encast_error *error);
encast_status noOutputAsked(encast_error *error);
encast_status negativeCount(encast_error *error, const char *what,
                            int64_t given);
encast_status tooManyRows(encast_error *error, int64_t tokens,
                          int64_t sequences, int64_t limit);
encast_status offsetsMissing(encast_error *error);
encast_status badFirstOffset(encast_error *error, int64_t given);
encast_status badLastOffset(encast_error *error, int64_t given, int64_t tokens);
encast_status emptySequence(encast_error *error, int64_t sequence,
                            int64_t begin, int64_t end);
encast_status sequenceTooLong(encast_error *error, int64_t sequence,
                              int64_t given, int64_t limit);
encast_status idOutOfRange(encast_error *error, int64_t sequence,
                           int64_t position, int64_t id, int64_t vocabulary);
encast_status typeOutOfRange(encast_error *error, int64_t sequence,
                             int64_t position, int64_t type, int64_t types);
encast_status typesCount(encast_error *error, int64_t given, int64_t tokens);
encast_status attendedCount(encast_error *error, int64_t given,
                            int64_t sequences);
encast_status notAllAttended(encast_error *error, int64_t sequence,
                             int64_t given, int64_t length);
encast_status attendedOutOfRange(encast_error *error, int64_t sequence,
                                 int64_t given, int64_t length);
encast_status noTokenTypes(encast_error *error);
encast_status rowsCount(encast_error *error, int64_t given, int64_t tokens);
encast_status rowOutOfRange(encast_error *error, int64_t index, int64_t row,
                            int64_t tokens);
encast_status reservationTooSmall(encast_error *error, int64_t tokens,
                                  int64_t sequences, int64_t needed,
                                  int64_t reserved);
encast_status outputTooSmall(encast_error *error, const char *name,
                             int64_t rows, int64_t columns, int64_t given);
/// `copied`: bytes of copied weights, beside the `arena`.
encast_status memoryCapExceeded(encast_error *error, int64_t arena,
                                int64_t copied, int64_t allowed);
encast_status cancelled(encast_error *error);
encast_status notFinite(encast_error *error, const char *output, int64_t row,
                        int64_t column);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_ERRORS_H
