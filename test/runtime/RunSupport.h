//===- RunSupport.h - load and run test artifacts ---------------*- C++ -*-===//

#ifndef ENCAST_TEST_RUNTIME_RUNSUPPORT_H
#define ENCAST_TEST_RUNTIME_RUNSUPPORT_H

#include "encast.h"
#include "test/support/TestArtifact.h"
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace encast::test {

// What a sanitizer changes of a process.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ENCAST_HAS_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define ENCAST_HAS_ASAN 1
#endif
#endif
#if defined(ENCAST_HAS_TSAN) || defined(__SANITIZE_THREAD__)
constexpr int kThreadsOfChild = 1; // no new thread in a forked child
constexpr bool kHasShadowMemory = true;
#else
constexpr int kThreadsOfChild = 2;
#if defined(ENCAST_HAS_ASAN) || defined(__SANITIZE_ADDRESS__)
constexpr bool kHasShadowMemory = true;
#else
constexpr bool kHasShadowMemory = false;
#endif
#endif

/// An error with room for its message.
struct Error : encast_error {
  Error() : encast_error(ENCAST_ERROR_INIT) {}
};

struct CloseModel {
  void operator()(encast_model *model) const {
    Error error;
    EXPECT_EQ(encast_model_close(model, &error), ENCAST_OK) << error.message;
  }
};
using Model = std::unique_ptr<encast_model, CloseModel>;

struct DestroySession {
  void operator()(encast_session *session) const {
    Error error;
    EXPECT_EQ(encast_session_destroy(session, &error), ENCAST_OK)
        << error.message;
  }
};
using Session = std::unique_ptr<encast_session, DestroySession>;

inline Model openModel(const std::string &path) {
  Error error;
  encast_model *model = nullptr;
  EXPECT_EQ(encast_model_open(path.c_str(), nullptr, &model, &error), ENCAST_OK)
      << error.message;
  return Model(model);
}

inline encast_session_options sessionOptions(int threads) {
  encast_session_options options = ENCAST_SESSION_OPTIONS_INIT;
  options.threads = threads;
  return options;
}

inline Session createSession(encast_model *model,
                             const encast_session_options &options) {
  Error error;
  encast_session *session = nullptr;
  EXPECT_EQ(encast_session_create(model, &options, &session, &error), ENCAST_OK)
      << error.message;
  return Session(session);
}

/// A batch of sequences, back to back.
struct Batch {
  std::vector<int64_t> ids, offsets = {0}, types, rows;
  std::vector<int64_t> attended; ///< Empty: not given.
  bool givesTypes = false, givesRows = false;

  void add(const std::vector<int64_t> &sequence) {
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    offsets.push_back(ids.size());
  }
  /// A sequence of one token of type 1; see the ids in TestModel.h.
  void addSpecial(int64_t id) {
    givesTypes = true;
    types.resize(ids.size());
    types.push_back(1);
    add({id});
  }
  int64_t tokens() const { return ids.size(); }
  int64_t sequences() const { return offsets.size() - 1; }
  std::vector<encast_input> inputs() const {
    std::vector<encast_input> inputs = {
        {sizeof(encast_input), "ids", ids.data(), tokens()},
        {sizeof(encast_input), "offsets", offsets.data(), sequences() + 1}};
    if (givesTypes)
      inputs.push_back({sizeof(encast_input), "token_type_ids", types.data(),
                        static_cast<int64_t>(types.size())});
    if (!attended.empty())
      inputs.push_back({sizeof(encast_input), "attended_length",
                        attended.data(),
                        static_cast<int64_t>(attended.size())});
    if (givesRows)
      inputs.push_back({sizeof(encast_input), "rows", rows.data(),
                        static_cast<int64_t>(rows.size())});
    return inputs;
  }
};

/// The outputs of a run of the test model, by index.
struct Results {
  std::vector<float> values[3];
  encast_status status = ENCAST_INTERNAL;
  Error error;
};

constexpr const char *outputNames[] = {"tokens", "first", "all"};

/// Runs a batch and asks for the outputs of a mask.
inline Results run(encast_session *session, const Batch &batch,
                   uint64_t outputs) {
  Results results;
  std::vector<encast_input> inputs = batch.inputs();
  std::vector<encast_output> targets;
  for (int i = 0; i < 3; ++i) {
    if (!(outputs >> i & 1))
      continue;
    int64_t rows = i                 ? batch.sequences()
                   : batch.givesRows ? batch.rows.size()
                                     : batch.tokens();
    results.values[i].assign(rows * TEST_COLUMNS, 0.5f);
    targets.push_back({sizeof(encast_output), outputNames[i],
                       results.values[i].data(),
                       static_cast<int64_t>(results.values[i].size())});
  }
  results.status = encast_run(session, inputs.data(), inputs.size(),
                              targets.data(), targets.size(), &results.error);
  return results;
}

} // namespace encast::test

#endif // ENCAST_TEST_RUNTIME_RUNSUPPORT_H
