"""Tests of test/bench/peers/bars.py; scripts/check runs them."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "bench" / "peers"))

import bars

AMX = ["avx2", "avx512f", "amx_bf16"]


def stored(features=AMX, seconds=1.0, of_limit=0.5, peer_seconds=3.0):
    """One case at 8192 tokens."""
    return {"cpu": {"features": features}, "models": {"m": {
        "growth": [{"engine": bars.BF16, "time": 2.6, "arithmetic": 2.5}],
        "cases": [{"tokens": 8192, "batch": 1, "engines": {
            bars.BF16: {"milliseconds": 1e3 * seconds, "of_limit": of_limit,
                        "best_peer": "peer:bf16",
                        "speedup": peer_seconds / seconds},
            "peer:bf16": {"milliseconds": 1e3 * peer_seconds,
                          "of_limit": 0.4}}}]}}}


def verdict(target, stretch=None, most=False, measure=None, **options):
    measure = measure or bars.over_peer("m", 8192, bars.BF16)
    bar = bars.Bar("x", measure, None, target, stretch, most=most)
    return bars.judge(bar, stored(**options), target)


class Bars(unittest.TestCase):
    def test_a_ratio_is_met_from_its_number_on(self):
        self.assertEqual(verdict(3)[1], "met")
        self.assertEqual(verdict(3.01)[1], "**missed**")
        self.assertEqual(verdict(3)[0], "3x (peer:bf16, at 0.40 of its limit)")

    def test_a_maximum_is_met_up_to_its_number(self):
        grown = bars.growth("m", bars.BF16)
        self.assertEqual(verdict(1.05, most=True, measure=grown)[1], "met")
        self.assertEqual(verdict(1.03, most=True, measure=grown)[1],
                         "**missed**")

    def test_a_stretch_is_told_where_the_bar_is_met(self):
        self.assertEqual(verdict(2, 3)[1], "met, stretch met")
        self.assertEqual(verdict(2, 4)[1], "met, stretch missed")

    def test_bars_beyond_the_limit_say_so(self):
        # The peer takes 3 s, the arithmetic at least 0.5 s.
        self.assertEqual(verdict(5)[1], "**missed**")
        self.assertEqual(verdict(6)[1],
                         "**missed**; 6x needs 1.00 of the limit")

    def test_what_is_not_in_the_file_is_not_measured(self):
        for measure in (bars.over_peer("m", 512, bars.BF16),
                        bars.over_peer("m", 8192, bars.X3),
                        bars.of_limit("m", 8192),
                        bars.over_own("m", 8192, bars.BF16, bars.FMA),
                        bars.growth("m", bars.X3),
                        bars.kernel("bench-tiles", "bf16", "n=1"),
                        bars.artifact("runtime_bytes")):
            self.assertEqual(verdict(1, measure=measure),
                             ("-", "not measured"))

    def test_kernels_of_longer_names_are_others(self):
        rows = [{"kernel": "bf16x3", "problem": "n=1", "ratio": 0.2},
                {"kernel": "bf16", "problem": "n=1", "ratio": 0.8}]
        content = {"kernels": {"benches": {"bench-tiles": rows}}}
        self.assertEqual(
            bars.kernel("bench-tiles", "bf16", "n=1")(content).number, 0.8)

    def test_bars_wait_for_the_machine_that_they_are_for(self):
        def lines(features, end):
            return sum(line.endswith(end) for line in bars.markdown(
                stored(features)).splitlines())

        wide = sum(bar.avx512 is not None for bar in bars.BARS)
        tiles = sum(bar.needs_tiles for bar in bars.BARS)
        self.assertEqual(lines(AMX, "| not measured |"), wide)
        self.assertEqual(lines(AMX, "waits for a CPU with AMX | |"), 0)
        self.assertEqual(
            lines(["avx2", "avx512f"], "waits for a CPU with AMX | |"), tiles)
        self.assertEqual(lines(["avx2"], "| not measured |"),
                         sum(bar.avx2 is not None for bar in bars.BARS))


if __name__ == "__main__":
    unittest.main()
