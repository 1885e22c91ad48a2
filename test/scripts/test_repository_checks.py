"""Tests of scripts/repository_checks.py; scripts/check runs them."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import repository_checks


def complaints(line, pattern, **options):
    path = ROOT / "file.txt"
    return repository_checks.matches([(path, line)], pattern, "bad", **options)


class RepositoryChecks(unittest.TestCase):
    def test_machine_paths_are_found(self):
        found = complaints("see " + "/ho" + "me/ann/model.so",
                           repository_checks.MACHINE_PATH)
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("file.txt:1: bad: "))

    def test_negative_relative_and_system_paths(self):
        for line in ("test/work/x", "/usr/lib/llvm-22", "${x}/root/y"):
            self.assertEqual(
                complaints(line, repository_checks.MACHINE_PATH), [], line)

    def test_hosts_are_compared_with_the_list(self):
        def accept(match):
            return match.group(1) in repository_checks.ALLOWED_HOSTS

        self.assertEqual(
            complaints("https" + "://arxiv.org/abs/1",
                       repository_checks.URL_HOST, accept=accept), [])
        self.assertEqual(
            len(complaints("https" + "://example.org/abs/1",
                           repository_checks.URL_HOST, accept=accept)), 1)


if __name__ == "__main__":
    unittest.main()
