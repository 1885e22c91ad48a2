"""How lit runs the .mlir and .test files of this folder."""

import os
import sys

import lit.formats

config.name = "Encast"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
# Python's tests, and data.
config.excludes = ["endtoend", "bench", "fuzz", "scripts", "support", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.encast_build, "test")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.encast_build, "bin"), config.llvm_tools,
     config.environment["PATH"]])
config.substitutions.append(("%python", sys.executable))
# Tiny Hugging Face folders, described in endtoend/README.md.
config.substitutions.append(
    ("%models", os.path.join(config.test_source_root, "endtoend", "models")))
