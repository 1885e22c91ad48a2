//===- FailureTest.cpp - the system refuses memory, maps and threads ------===//
///
/// \file
/// The linker sends these calls here (--wrap); each one in turn is made to
/// fail.
//===----------------------------------------------------------------------===//

#include "test/runtime/RunSupport.h"
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <pthread.h>
#include <sys/mman.h>

using namespace encast::test;

namespace {
/// Calls until the one that fails; negative: none does.
std::atomic<int> callsLeft{-1};

bool failsNow() {
  if (callsLeft.load() < 0)
    return false;
  return callsLeft.fetch_sub(1) == 0;
}
} // namespace

extern "C" {
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
void *__real_mmap(void *address, size_t size, int protection, int flags,
                  int file, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *data);

void *__wrap_malloc(size_t size) {
  return failsNow() ? nullptr : __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size) {
  return failsNow() ? nullptr : __real_calloc(count, size);
}
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size) {
  return failsNow() ? ENOMEM : __real_posix_memalign(memory, alignment, size);
}
void *__wrap_mmap(void *address, size_t size, int protection, int flags,
                  int file, off_t offset) {
  if (failsNow()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return __real_mmap(address, size, protection, flags, file, offset);
}
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *data) {
  return failsNow() ? EAGAIN
                    : __real_pthread_create(thread, attributes, function, data);
}
}

class Failures : public testing::TestWithParam<int> {};

TEST_P(Failures, each_refused_call_is_an_error_that_leaves_nothing_behind) {
  TemporaryFolder folder;
  encast_model_options modelOptions = {};
  modelOptions.size = sizeof(modelOptions);
  modelOptions.huge_page_weights = GetParam();
  TestArtifact artifact;
  artifact.weightsFile = "model.weights";
  std::string path = artifact.write(folder.path("model.so"));
  Batch batch;
  batch.add({20, 21});
  bool succeeded = false;
  int failures = 0;
  while (!succeeded) {
    ASSERT_LT(failures, 100);
    Error error;
    encast_model *model = nullptr;
    encast_session *session = nullptr;
    encast_session_options options = sessionOptions(4);
    callsLeft = failures;
    encast_status status =
        encast_model_open(path.c_str(), &modelOptions, &model, &error);
    if (status == ENCAST_OK)
      status = encast_session_create(model, &options, &session, &error);
    if (status == ENCAST_OK)
      status = encast_session_reserve(session, 10, 2, 0, &error);
    succeeded = status == ENCAST_OK;
    if (!succeeded) {
      ++failures;
      EXPECT_TRUE(status == ENCAST_OUT_OF_MEMORY || status == ENCAST_IO_ERROR)
          << status << ": " << error.message;
      EXPECT_NE(error.message[0], 0);
    } else {
      // A run calls none of these.
      callsLeft = 0;
      std::vector<encast_input> inputs = batch.inputs();
      float rows[TEST_COLUMNS];
      encast_output output = {sizeof(encast_output), "first", rows,
                              TEST_COLUMNS};
      EXPECT_EQ(encast_run(session, inputs.data(), inputs.size(), &output, 1,
                           nullptr),
                ENCAST_OK);
      EXPECT_EQ(callsLeft, 0) << "the run allocated";
    }
    callsLeft = -1;
    EXPECT_EQ(encast_session_destroy(session, nullptr), ENCAST_OK);
    EXPECT_EQ(encast_model_close(model, nullptr), ENCAST_OK);
  }
  // Model, paths, maps, tables, workers, three threads, arena at least.
  EXPECT_GE(failures, 11);
}

INSTANTIATE_TEST_SUITE_P(HugePageWeights, Failures, testing::Values(0, 1));
