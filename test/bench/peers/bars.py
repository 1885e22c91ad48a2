"""The bars: what is to be reached, and whether a file of docs/results shows it.

Each has a number for machines with AVX2 and one for machines with AVX-512 (and
AMX, where it needs that); report.py prints them.
"""

import dataclasses
import typing

LFM2, MODERNBERT = "LFM2.5-230M", "ModernBERT-base"
F32, EXACT, X3, BF16 = (
    "encast:f32", "encast:f32-bf16-weights", "encast:bf16x3", "encast:bf16")
FMA = "encast:f32-fma"  # f32 where there are no tiles
BEYOND = 0.92  # of a limit, nobody gets there with a whole model


class Missing(Exception):
    """The file has nothing about a bar."""


@dataclasses.dataclass
class Value:
    number: float
    note: str = ""
    # Of its limit, that Encast would need to be as fast as the peer.
    peer_share: float = 0.0


# Each returns a function from the content of a file to a Value.

def rows_of(stored, bench, kernel, problem=""):
    """Those whose kernel is this one, or of this kind, like "linear_f32"."""
    rows = [row for row in
            stored.get("kernels", {}).get("benches", {}).get(bench, [])
            if (row["kernel"] + "_").startswith(kernel + "_")
            and row["problem"].startswith(problem)]
    if not rows:
        raise Missing
    return rows


def kernel(bench, name, problem):
    """Of the peak of its instruction; the widest kernel."""
    def measure(stored):
        row = rows_of(stored, bench, name, problem)[-1]
        return Value(row["ratio"], row["problem"])
    return measure


def cold_gemm(stored):
    """The worst of all shapes, 64 rows or more, of the widest f32 kernel."""
    rows = rows_of(stored, "bench-kernels", "linear_f32")
    row = min((row for row in rows if row["kernel"] == rows[-1]["kernel"]
               and row["problem"].endswith("cold")
               and int(row["problem"].split("m=")[1].split()[0]) >= 64),
              key=lambda row: row["ratio"])
    return Value(row["ratio"], row["problem"])


def over_fma(name, problem):
    """Operations a second, over those of f32."""
    def measure(stored):
        speeds = [rows_of(stored, "bench-tiles", each, problem)[0]["gflops"]
                  for each in (name, "f32")]
        return Value(speeds[0] / speeds[1], problem)
    return measure


def results_of(stored, model, tokens, batch=1):
    for case in stored.get("models", {}).get(model, {}).get("cases", []):
        if (case["tokens"], case["batch"]) == (tokens, batch):
            return case["engines"]
    raise Missing


def of_limit(model, tokens):
    """Of f32 by FMA."""
    def measure(stored):
        engines = results_of(stored, model, tokens)
        result = engines.get(FMA) or engines.get(F32, {})
        if "of_limit" not in result:
            raise Missing
        return Value(result["of_limit"])
    return measure


def share_of_limit(engines, result):
    """Of the best peer of a result."""
    share = engines[result["best_peer"]].get("of_limit")
    return result["best_peer"] + (
        f", at {share:.2f} of its limit" if share else "")


def over_peer(model, tokens, engine, batch=1):
    def measure(stored):
        engines = results_of(stored, model, tokens, batch)
        result = engines.get(engine)
        if not result and engine == FMA:
            result = engines.get(F32)
        if not result or "best_peer" not in result:
            raise Missing
        peer = engines[result["best_peer"]]["milliseconds"]
        limit = result.get("of_limit", 0) * result["milliseconds"]
        return Value(result["speedup"], share_of_limit(engines, result),
                     limit / peer)
    return measure


def over_own(model, tokens, engine, other):
    def measure(stored):
        engines = results_of(stored, model, tokens)
        if engine not in engines or other not in engines:
            raise Missing
        return Value(engines[other]["milliseconds"]
                     / engines[engine]["milliseconds"])
    return measure


def growth(model, engine):
    """Of the time from 4096 to 8192 tokens, over that of the arithmetic."""
    def measure(stored):
        for entry in stored.get("models", {}).get(model, {}).get("growth", []):
            if entry["engine"] == engine:
                return Value(entry["time"] / entry["arithmetic"],
                             f"{entry['time']:.2f} / {entry['arithmetic']:.2f}")
        raise Missing
    return measure


def artifact(*keys, scale=1.0, over=None):
    """What compiling and loading LFM2.5-350M took, or a ratio of two such."""
    def look_up(stored, names):
        found = stored.get("kernels", {}).get("artifact", {})
        for name in names:
            if name not in found:
                raise Missing
            found = found[name]
        return found

    def measure(stored):
        value = look_up(stored, keys) * scale
        return Value(value / look_up(stored, over) if over else value)
    return measure


@dataclasses.dataclass
class Bar:
    what: str
    measure: typing.Callable
    avx2: float = None
    avx512: float = None
    stretch: float = None
    unit: str = "x"
    most: bool = False  # else the least
    needs_tiles: bool = False
    any_cpu: bool = False  # once is enough


SHARE = {"unit": ""}
TILES = {"needs_tiles": True}


def kernel_bars():
    yield Bar("f32 attention, 8192 keys, d=64, of the FMA peak",
              kernel("bench-kernels", "attention", "d=64 queries=480 keys=8192"),
              0.86, 0.80, **SHARE)
    yield Bar("f32 GEMM, cold weights, 64 rows or more, worst shape, of the "
              "FMA peak", cold_gemm, 0.92, 0.92, **SHARE)
    yield Bar("bf16 GEMM in L2, of the AMX peak",
              kernel("bench-tiles", "bf16", "n=256 k=1024 m=256 warm"), None,
              0.80, **SHARE, **TILES)
    yield Bar("bf16 FFN, cold weights, of the AMX peak",
              kernel("bench-tiles", "bf16",
                     "ffn h=1024 f=2560 m=512 chunk=512"), None, 0.53, **SHARE,
              **TILES)
    yield Bar("bf16 attention, 8192 keys, of the AMX peak",
              kernel("bench-tile-attention", "bf16",
                     "keys=8192 heads=2 queries=256"), None, 0.55, **SHARE,
              **TILES)
    yield Bar("three products, GEMM in L2, over FMA",
              over_fma("bf16x3w", "n=128 k=1024 m=128 warm"), None, 4, **TILES)
    yield Bar("three products, FFN, over FMA",
              over_fma("bf16x3w", "ffn h=1024 f=2560 m=160 chunk=512"), None, 2.8,
              **TILES)


def model_bars():
    for model, short, long in ((LFM2, (0.85, 0.85), (0.84, 0.82)),
                               (MODERNBERT, (0.82, 0.82), (0.82, 0.80))):
        for tokens, (avx2, avx512) in ((512, short), (8192, long)):
            yield Bar(f"{model} f32 by FMA, {tokens} tokens, of the FMA limit",
                      of_limit(model, tokens), avx2, avx512, **SHARE)
    yield Bar(f"{LFM2} bf16-exact weights over f32 by FMA, 8192 tokens",
              over_own(LFM2, 8192, EXACT, FMA), None, 2, **TILES)
    for model, f32, exact, x3, bf16, stretch in (
            (LFM2, (1.5, 1.7), 4, 3.5, 4, 6),
            (MODERNBERT, (2.2, 3), 8, 7, 8, 12)):
        best = f"{model}, 8192 tokens, over the best peer: "
        yield Bar(best + "f32", over_peer(model, 8192, F32), *f32)
        yield Bar(best + "bf16-exact weights", over_peer(model, 8192, EXACT),
                  None, exact, **TILES)
        yield Bar(best + "bf16x3", over_peer(model, 8192, X3), None, x3,
                  **TILES)
        yield Bar(best + "bf16", over_peer(model, 8192, BF16), None, bf16,
                  stretch, **TILES)
    for model in (LFM2, MODERNBERT):
        best = f"{model}, 512 tokens, over the best peer: "
        yield Bar(best + "f32 by FMA", over_peer(model, 512, FMA), 1.3, 1.4)
        yield Bar(best + "bf16-exact weights", over_peer(model, 512, EXACT),
                  None, 3, **TILES)
        yield Bar(best + "bf16x3", over_peer(model, 512, X3), None, 3, **TILES)
        yield Bar(best + "bf16", over_peer(model, 512, BF16), None, 2.5,
                  **TILES)
    for model in (LFM2, MODERNBERT):
        for engine, tiles in ((F32, False), (FMA, True), (EXACT, True),
                              (X3, True), (BF16, True)):
            yield Bar(f"{model} {engine.split(':')[1]}, time(8192) / "
                      "time(4096), over that of the arithmetic",
                      growth(model, engine), None if tiles else 1.05, 1.05,
                      most=True, needs_tiles=tiles)


def short_text_bars():
    for model in ("all-MiniLM-L6-v2", "bert-base"):
        for batch, kind in ((1, "alone"), (32, "ragged batch of 32")):
            for tokens in (32, 128, 512):
                yield Bar(f"{model} f32, {tokens} tokens, {kind}, over the "
                          "best peer", over_peer(model, tokens, F32, batch),
                          1.3, 1.3)


def artifact_bars():
    def most(what, unit, bar, *keys, **options):
        return Bar("LFM2.5-350M: " + what, artifact(*keys, **options), bar, bar,
                   unit=unit, most=True, any_cpu=True)

    yield most("compile", " s", 60, "f32", "compile_seconds")
    yield most("load", " ms", 50, "f32", "load_milliseconds")
    yield most("first run beyond a later one", " ms", 20, "f32",
               "first_run_more_milliseconds")
    yield most("arena for 8192 tokens, f32", " MB", 200, "f32", "arena_8192",
               scale=1e-6)
    yield most("arena for 8192 tokens, bf16", " MB", 200, "bf16", "arena_8192",
               scale=1e-6)
    yield Bar("LFM2.5-350M: arena of bf16 over that of f32",
              artifact("bf16", "arena_8192", over=("f32", "arena_8192")), None,
              0.5, unit="", most=True, needs_tiles=True)
    yield Bar("libencast.so, stripped", artifact("runtime_bytes", scale=1 / 1024),
              128, 128, unit=" KB", most=True, any_cpu=True)


BARS = [*model_bars(), *kernel_bars(), *short_text_bars(), *artifact_bars()]


def judge(bar, stored, target):
    """Measured, and met or not, of the number `target`."""
    try:
        value = bar.measure(stored)
    except Missing:
        return "-", "not measured"

    def reached(number):
        return (value.number <= number if bar.most
                else value.number >= number)

    verdict = "met" if reached(target) else "**missed**"
    if bar.stretch and reached(target):
        verdict += f", stretch {'met' if reached(bar.stretch) else 'missed'}"
    for number in (target, bar.stretch):
        if number and not reached(number) and (
                number * value.peer_share > BEYOND):
            verdict += (f"; {number:g}x needs {number * value.peer_share:.2f} "
                        "of the limit")
    note = f" ({value.note})" if value.note else ""
    return f"{value.number:.3g}{bar.unit}{note}", verdict


def markdown(stored):
    """Tables of what this machine is to reach, and of what waits for others."""
    features = stored["cpu"]["features"]
    wide, tiles = "avx512f" in features, "amx_bf16" in features
    lines = ["| bar | | measured | |", "|---|---|---|---|"]
    waiting = []
    for bar in BARS:
        target = bar.avx512 if wide else bar.avx2
        stretch = f", stretch {bar.stretch:g}{bar.unit}" if bar.stretch else ""
        text = {number: f"{'at most ' if bar.most else ''}{number:g}{bar.unit}"
                        f"{stretch}"
                for number in (bar.avx2, bar.avx512) if number is not None}
        if target is not None and (tiles or not bar.needs_tiles):
            lines.append(f"| {bar.what} | {text[target]} | "
                         + " | ".join(judge(bar, stored, target)) + " |")
        for number, here, machine in (
                (bar.avx2, not wide, "AVX2 alone"),
                (bar.avx512, wide and (tiles or not bar.needs_tiles),
                 "AMX" if bar.needs_tiles else "AVX-512")):
            if number is not None and not here and not bar.any_cpu:
                waiting.append(f"| {bar.what} | {text[number]} | waits for a "
                               f"CPU with {machine} | |")
    return "\n".join(lines + waiting)
