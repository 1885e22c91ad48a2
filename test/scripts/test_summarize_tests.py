"""Tests of scripts/summarize_tests.py; scripts/check runs them."""

import io
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import summarize_tests

# As ctest 3.25 writes it for GoogleTest cases.
CTEST = """<testsuite name="Linux" tests="5">
  <testcase name="A.Passes" classname="A.Passes" status="run">
    <system-out>[       OK ] A.Passes (0 ms)</system-out>
  </testcase>
  <testcase name="A.Skips" classname="A.Skips" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[ RUN      ] A.Skips
t.cpp:3: Skipped
host lacks avx512vnni
[  SKIPPED ] A.Skips (0 ms)
</system-out>
  </testcase>
  <testcase name="A.Fails" classname="A.Fails" status="fail">
    <failure message="Failed"/>
    <system-out>t.cpp:4: Failure
Expected equality of these values:
  1
  2
</system-out>
  </testcase>
  <testcase name="A.Crashes" classname="A.Crashes" status="fail">
    <failure message="ILLEGAL"/>
    <system-out>[ RUN      ] A.Crashes
</system-out>
  </testcase>
  <testcase name="A.Off" classname="A.Off" status="disabled"/>
  <testcase name="A.NotBuilt" classname="A.NotBuilt" status="notrun"/>
</testsuite>"""

LIT = """<testsuites time="0.1"><testsuite name="Encast" tests="2">
<testcase classname="Encast.Plan" name="ops.mlir" time="0.03"/>
<testcase classname="Encast.Plan" name="amx.mlir" time="0.00">
  <skipped message="Missing required feature(s): amx"/></testcase>
</testsuite></testsuites>"""


def read(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.xml"
        path.write_text(text)
        return summarize_tests.read_cases(path)


class SummarizeTests(unittest.TestCase):
    def test_ctest_outcomes_have_their_reasons(self):
        found = [(case.outcome, case.reason) for case in read(CTEST)]
        self.assertEqual(found, [
            ("passed", ""),
            ("skipped", "host lacks avx512vnni"),
            ("failed", "t.cpp:4: Failure | Expected equality of these values: "
             "| 1 | 2"),
            ("failed", "ILLEGAL | [ RUN      ] A.Crashes"),
            ("skipped", "disabled"),
            ("failed", "did not run"),
        ])

    def test_lit_unsupported_is_a_skip(self):
        cases = read(LIT)
        self.assertEqual(cases[0].name, "Encast.Plan/ops.mlir")
        self.assertEqual(cases[1].reason, "Missing required feature(s): amx")

    def test_summary_ends_with_the_counts(self):
        out = io.StringIO()
        summarize_tests.print_summary(read(CTEST) + read(LIT), out)
        lines = out.getvalue().splitlines()
        self.assertEqual(lines[-1], "2 passed, 3 failed, 3 skipped")
        self.assertIn("skipped 1: host lacks avx512vnni", lines)

    def test_broken_file_is_refused(self):
        with self.assertRaisesRegex(ValueError, "report.xml: not an XML file"):
            read("<testsuite>")


if __name__ == "__main__":
    unittest.main()
