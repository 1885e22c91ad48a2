//===- WriteTestArtifact.cpp - the test artifact as a file ----------------===//

#include "test/support/TestArtifact.h"

int main(int argc, char **argv) {
  if (argc != 2)
    return 1;
  encast::test::TestArtifact().write(argv[1]);
}
