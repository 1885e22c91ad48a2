//===- LibraryTest.cpp - libencast.so as a file ---------------------------===//

#include "test/support/TestArtifact.h"
#include <cstdio>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace encast::test;

namespace {

std::string outputOf(const std::string &command) {
  FILE *pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c; (c = fgetc(pipe)) != EOF;)
    text += static_cast<char>(c);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

const std::string library = ENCAST_LIBRARY;

} // namespace

TEST(Library, needs_the_c_library_only) {
  std::string dynamic = outputOf("readelf -dW " + library);
  for (size_t at = 0; (at = dynamic.find("(NEEDED)", at)) != dynamic.npos;
       ++at) {
    std::string line = dynamic.substr(at, dynamic.find('\n', at) - at);
    EXPECT_TRUE(line.find("[libc.so.6]") != line.npos ||
                line.find("[ld-linux-x86-64.so.2]") != line.npos)
        << line;
  }
  EXPECT_NE(dynamic.find("Library soname: [libencast.so.1]"), dynamic.npos);
}

TEST(Library, exports_the_functions_of_its_header_only) {
  std::string symbols = outputOf("nm -D --defined-only " + library);
  std::string header = outputOf("cat " ENCAST_HEADER);
  size_t count = 0;
  for (size_t at = 0; (at = symbols.find(" T ", at)) != symbols.npos; ++at) {
    std::string name =
        symbols.substr(at + 3, symbols.find_first_of("@\n", at) - at - 3);
    EXPECT_NE(header.find(name + "("), header.npos) << name;
    ++count;
  }
  EXPECT_EQ(count, 14u) << symbols;
}

TEST(Library, is_below_128_kilobytes_stripped) {
  TemporaryFolder folder;
  std::string stripped = folder.path("libencast.so");
  outputOf("strip -o " + stripped + " " + library);
  struct stat information;
  ASSERT_EQ(stat(stripped.c_str(), &information), 0);
  RecordProperty("bytes", static_cast<int>(information.st_size));
  EXPECT_LT(information.st_size, 128 * 1024);
}
