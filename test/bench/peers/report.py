#!/usr/bin/env python3
"""Shows results: a table for a terminal, some for a README, and a plot.

usage: report.py docs/results/<cpu>.json

Prints the README's tables and that of the bars, and draws the plot beside the
file.
"""

import io
import json
import pathlib
import sys

import bars
from provenance import tree_hash

ORDER = ["torch", "onnxruntime", "openvino", "llama.cpp", "encast"]
NAMES = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime",
         "openvino": "OpenVINO", "llama.cpp": "llama.cpp", "encast": "Encast"}
PRECISIONS = ["f32-fma", "f32", "f32-bf16-weights", "bf16x3", "bf16"]


def sorted_engines(names):
    def key(name):
        engine, precision = name.split(":")
        return ORDER.index(engine), PRECISIONS.index(precision)

    return sorted(names, key=key)


def print_head():
    print(f"{'model':18}{'tokens':>7}{'batch':>6}  {'engine':24}{'ms':>11}"
          f"{'tokens/s':>10}{'MB':>7}{'of limit':>9}{'best peer':>10}"
          f"{'quiet':>9}{'difference':>12}")


def print_case(case):
    """A line per engine."""
    where = f"{case['model']:18}{case['tokens']:7}{case['batch']:6}  "
    for name in sorted_engines(case["engines"]):
        result = case["engines"][name]
        gain = (f"{result['speedup']:9.2f}x" if "speedup" in result
                else f"{'':10}")
        quiet = f"{result['quiet_samples']}/{len(result['samples'])}"
        distance = (f"{result['difference']['largest']:12.1e}"
                    if "difference" in result else "")
        print(f"{where}{name:24}{result['milliseconds']:11.2f}"
              f"{result['tokens_per_second']:10.0f}"
              f"{result['peak_memory'] / 1e6:7.0f}{share(result):>9}{gain}"
              f"{quiet:>9}{distance}")
    for name, why in case["not_measured"].items():
        print(f"{where}{name:24}  {why}", flush=True)


def print_end(run):
    """Growth and peaks of a model's run."""
    for entry in run["growth"]:
        line = (f"{entry['engine']}: 8192 tokens take {entry['time']:.2f} "
                f"times as long as 4096; arithmetic says "
                f"{entry['arithmetic']:.2f}")
        if entry.get("windowed_attention"):
            line += (f"; attention within windows "
                     f"{entry['windowed_attention']:.2f}, linear is 2")
        print(line)
    print(f"peaks of this run, {run['threads']} cores, GFLOP/s: " + ", ".join(
        f"{name} {peak:.0f}" for name, peak in run["peaks_gflops"].items()),
        flush=True)


def number(milliseconds):
    return f"{milliseconds:.3g}" if milliseconds < 1000 else (
        f"{milliseconds:.0f}")


CAPTION = (
    "Milliseconds to the last hidden state, without a head, in all engines "
    "(encast-bench, unless told by --output, times the default output: logits "
    "for a masked LM). \"of limit\" is the least time that the necessary "
    "arithmetic takes at the peak of its instruction, measured right behind "
    "each sample at the clock that it has left, over the sample's time; for "
    "the peer, with the instruction of its precision.")


def share(result):
    return f"{result['of_limit']:.2f}" if "of_limit" in result else "-"


def markdown(run):
    """Rows are cases and precisions; a column per engine."""
    names = {name for case in run["cases"] for name in case["engines"]}
    peers = [engine for engine in ORDER[:-1]
             if any(name.startswith(engine + ":") for name in names)]
    lines = ["| model | tokens | batch | precision | "
             + " | ".join(NAMES[peer] for peer in peers)
             + " | Encast | best peer | of limit, Encast / peer | "
             "memory, Encast / peer |",
             "|---" * (8 + len(peers)) + "|"]
    for case in run["cases"]:
        engines = case["engines"]
        for precision in PRECISIONS:
            peer_precision = "bf16" if precision == "bf16" else "f32"
            ours = engines.get("encast:" + precision)
            if not ours and precision != peer_precision:
                continue
            cells = []
            for peer in peers:
                result = engines.get(f"{peer}:{peer_precision}")
                cells.append(number(result["milliseconds"])
                             if result else "-")
            if not ours and set(cells) == {"-"}:
                continue
            cells.append(f"**{number(ours['milliseconds'])}**" if ours
                         else "-")
            best = engines.get(ours.get("best_peer")) if ours else None
            cells.append(f"{ours['speedup']:.2f}x" if best else "-")
            both = [each for each in (ours, best) if each]
            cells.append(" / ".join(map(share, both)) or "-")
            cells.append(" / ".join(f"{each['peak_memory'] / 1e9:.2f}"
                                    for each in both if "peak_memory" in each)
                         + " GB" if both else "-")
            batch = "1" if case["batch"] == 1 else f"{case['batch']}, ragged"
            lines.append(f"| {case['model']} | {case['tokens']} | {batch} | "
                         f"{precision} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


COLOURS = {"torch": "#d95f02", "onnxruntime": "#7570b3",
           "openvino": "#1b78c8", "llama.cpp": "#8c6d31",
           "encast": "#111111"}
STYLES = {"f32-fma": ("-", "v"), "f32": ("-", "o"),
          "f32-bf16-weights": ("-.", "D"),
          "bf16x3": (":", "^"), "bf16": ("--", "s")}


def draw(stored, file):
    """Time against length, log axes, of the models that are timed at 8192
    tokens; nothing if there is none."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "encast",
                                "svg.fonttype": "none"})
    from matplotlib import pyplot

    runs = {model: run for model, run in stored.get("models", {}).items()
            if any(case["tokens"] >= 8192 for case in run["cases"])}
    if not runs:
        return
    figure, panels = pyplot.subplots(
        1, len(runs), figsize=(5.6 * len(runs), 5), squeeze=False,
        sharey=True, layout="constrained")
    for panel, (model, run) in zip(panels[0], runs.items()):
        lines = {}
        for case in run["cases"]:
            if case["batch"] == 1:
                for name, result in case["engines"].items():
                    lines.setdefault(name, []).append(
                        (case["tokens"], result["milliseconds"] / 1e3))
        for name in sorted_engines(lines):
            engine, precision = name.split(":")
            style, marker = STYLES[precision]
            tokens, seconds = zip(*sorted(lines[name]))
            panel.plot(tokens, seconds, style, marker=marker, markersize=4,
                       color=COLOURS[engine],
                       linewidth=2.2 if engine == "encast" else 1.2,
                       label=f"{NAMES[engine]} {precision}".replace(
                           "f32-bf16-weights", "f32, bf16 weights"))
        panel.set(xscale="log", yscale="log", title=model,
                  xlabel="tokens of one sequence")
        ticks = sorted({case["tokens"] for case in run["cases"]
                        if case["batch"] == 1})
        panel.set_xticks(ticks, [f"{tick}" for tick in ticks])
        panel.minorticks_off()
        panel.grid(True, color="#dddddd", linewidth=0.6)
        panel.legend(fontsize=7.5, frameon=False)
    panels[0][0].set_ylabel("seconds")
    panels[0][0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    dates = sorted({run["date"] for run in runs.values()})
    threads = {run["threads"] for run in runs.values()}
    features = stored["cpu"]["features"]
    best = next((text for flag, text in (("amx_bf16", "AVX-512 and AMX"),
                                         ("avx512f", "AVX-512"))
                 if flag in features), "AVX2")
    figure.suptitle(f"{stored['cpu']['name']} ({best}), "
                    f"{max(threads)} threads, {' to '.join(dates)}",
                    fontsize=10)
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg", metadata=dict.fromkeys(
        ["Creator", "Date", "Format", "Type"]))
    pyplot.close(figure)
    pathlib.Path(file).write_text("".join(
        line.rstrip() + "\n" for line in drawing.getvalue().splitlines()))


def age(stored):
    """Of which tree each part of the file is; bars count for this one only."""
    current = tree_hash()
    for name, run in [*stored.get("models", {}).items(),
                      ("kernels", stored.get("kernels"))]:
        if run:
            tree = ("this tree" if run["tree_hash"] == current
                    else "an older tree")
            yield f"{name}: {run['date']}, kernels and plan of {tree}"


def show(path):
    """Prints all tables of a file and draws its plot."""
    stored = json.loads(path.read_text())
    print(CAPTION, end="\n\n")
    for run in stored.get("models", {}).values():
        print(markdown(run), end="\n\n")
    print(bars.markdown(stored), end="\n\n")
    print("\n".join(age(stored)))
    draw(stored, path.with_suffix(".svg"))


if __name__ == "__main__":
    show(pathlib.Path(sys.argv[1]))
