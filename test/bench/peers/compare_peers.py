#!/usr/bin/env python3
"""Times Encast and its peers side by side on the same models and inputs.

Engines are processes of their own, so that each has its thread settings from
the start and none spins while another is timed. They alternate within each
round; every sample stands between two probes (probe.c) on all CPUs, and counts
as quiet when both find the machine undisturbed. Medians are of quiet samples.
Peers get batches padded to the longest sequence, with an attention mask, which
is how they take them; Encast gets them ragged. Ratios to what the machine
allows count necessary operations only, those of real tokens and of keys within
windows.
"""

import argparse
import copy
import datetime
import hashlib
import json
import os
import pathlib
import platform
import subprocess
import tempfile
import time

import numpy

import limits
import machine
import report
from engine_process import Engine, Lost, say
from models import CACHE, MODELS, ROOT, SEED, draw_sequences, made_file, \
    prepare_files

QUIET_SAMPLES = 9  # per engine and case; more end the case
MIN_SAMPLES = 5
SAMPLE_SECONDS = 0.02
LONG_SECONDS = 2  # of a run that needs no warming up, and no second sample
CHOOSING_TOKENS = 2048  # engines choose their variant up to here

# Engine and precision. Encast in f32 is timed on two checkpoints: one of any
# f32 weights, and one whose matrices are exactly bf16 (f32-bf16-weights); on
# the first also for the host without its tiles (f32-fma).
ENGINES = ["torch:f32", "onnxruntime:f32", "openvino:f32", "llama.cpp:f32",
           "torch:bf16", "openvino:bf16", "llama.cpp:bf16",
           "encast:f32-fma", "encast:f32", "encast:f32-bf16-weights",
           "encast:bf16x3",
           "encast:bf16"]


def difference(rows, reference):
    """How far rows are from those of the reference."""
    rows, reference = rows.astype(float), reference.astype(float)
    norms = (numpy.linalg.norm(rows, axis=1)
             * numpy.linalg.norm(reference, axis=1))
    return {"largest": float(numpy.abs(rows - reference).max()),
            "least_cosine": float(((rows * reference).sum(axis=1)
                                   / norms).min())}


def quietness(probe, sample):
    """At least 1 if nobody disturbed the sample."""
    _, intrusion, before, after = sample
    least = probe.quietness(before, after)
    return (least if intrusion <= machine.INTRUSION
            else min(least, 1) * (1 - min(intrusion, 1)))


class Case:
    """All samples of one case alternate. An engine that is lost here stays lost
    for the model, whose later cases are larger."""

    def __init__(self, model, tokens, batch, engines, probe, variants):
        self.model = model
        self.threads = len(probe.results)
        self.sequences = draw_sequences(model.config, tokens, batch)
        self.probe = probe
        self.variants = variants
        self.choosing = tokens <= CHOOSING_TOKENS
        self.results = {}
        self.lost = {}
        self.engines = list(engines)
        self.reference = None

    def attempt(self, engine, action):
        try:
            return action(engine)
        except Lost as lost:
            say(f"{engine.name}: {lost}")
            self.lost[engine.name] = str(lost)
            self.results.pop(engine.name, None)
            self.engines.remove(engine)
            return None

    def prepare(self, engine):
        known = None if self.choosing else self.variants.get(engine.name)
        chosen = engine.ask("case", sequences=self.sequences, variant=known)
        machine.forget_peak(engine.pid)
        self.variants[engine.name] = chosen["variant"]
        self.results[engine.name] = {"variant": chosen["variant"], "calls": 1,
                                     "samples": []}
        seconds = self.sample(engine)
        self.results[engine.name]["long"] = seconds >= LONG_SECONDS
        if seconds < LONG_SECONDS:
            self.results[engine.name]["samples"] = []
            again = engine.ask("sample", calls=1)["seconds"]
            self.results[engine.name]["calls"] = max(
                1, round(SAMPLE_SECONDS / again))
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "rows.npy")
            engine.ask("rows", file=file)
            self.compare(engine, numpy.load(file))

    def compare(self, engine, rows):
        """With the first engine, on the same weights."""
        if engine.name.endswith("-weights"):
            if not self.choosing:
                return
            name, reference = "torch:f32", self.exact_reference()
        else:
            self.reference = self.reference or (engine.name, rows)
            name, reference = self.reference
        self.results[engine.name]["difference"] = {
            "from": name, **difference(rows, reference)}

    def exact_reference(self):
        """Of the checkpoint whose matrices are exactly bf16; made once."""
        longest = max(map(len, self.sequences))
        file = made_file(self.model, f"{len(self.sequences)}x{longest}.npy")
        if not file.exists():
            say(f"making {file.relative_to(ROOT)}")
            torch = Engine("torch:f32", self.threads)
            torch.ask("load", files={"folder": str(self.model.exact_folder())})
            torch.ask("case", sequences=self.sequences, variant="sdpa")
            torch.ask("sample", calls=1)
            torch.ask("rows", file=str(file))
            torch.close()
        return numpy.load(file)

    def sample(self, engine):
        result = self.results[engine.name]
        time.sleep(0.02)  # threads of the engine before stop spinning
        before = self.probe.measure()
        intruders = machine.Intruders(engine.pid)
        seconds = engine.ask("sample", calls=result["calls"])["seconds"]
        share = intruders.share()
        result["samples"].append(
            (seconds, share, before, self.probe.measure()))
        return seconds

    def quiet(self, result):
        return sum(quietness(self.probe, sample) >= 1
                   for sample in result["samples"])

    def wants_sample(self, engine, in_budget):
        result = self.results[engine.name]
        least = 1 if result["long"] else MIN_SAMPLES
        return (len(result["samples"]) < least
                or in_budget and self.quiet(result) < QUIET_SAMPLES)

    def measure(self, budget):
        for engine in list(self.engines):
            self.attempt(engine, self.prepare)
        start = time.monotonic()
        first = 0
        while True:
            in_budget = time.monotonic() - start < budget
            turn = [engine for engine in self.engines
                    if self.wants_sample(engine, in_budget)]
            if not turn:
                break
            first = (first + 1) % len(turn)
            for engine in turn[first:] + turn[:first]:
                self.attempt(engine, self.sample)
        for engine in list(self.engines):
            result = self.results[engine.name]
            result["peak_memory"] = machine.resident(engine.pid, peak=True)
            if engine.name.startswith("encast"):
                self.attempt(engine, self.read_steps)
        return self.results

    def read_steps(self, engine):
        self.results[engine.name]["steps"] = engine.ask("steps")["steps"]


def summarize(results, probe, flops, tokens):
    """Replaces samples by their statistics: of the quiet ones, or, where those
    are too few, of the least disturbed."""
    peaks = probe.peaks()
    for name, result in results.items():
        samples = sorted(((quietness(probe, sample), sample[0])
                          for sample in result.pop("samples")), reverse=True)
        del result["long"]
        quiet = sum(share >= 1 for share, _ in samples)
        used = samples[:max(quiet, MIN_SAMPLES)]
        low, median, high = numpy.quantile([taken for _, taken in used],
                                           [0.25, 0.5, 0.75])
        arithmetic = ("bf16" if name.endswith(":bf16") else "f32")
        needed = {arithmetic: flops}
        if "steps" in result:
            needed = limits.flops_by_arithmetic(result["steps"])
        limit = limits.limit_seconds(needed, peaks)
        result.update(
            milliseconds=1e3 * median, quartiles=[1e3 * low, 1e3 * high],
            samples=[{"milliseconds": 1e3 * taken, "quietness": share}
                     for share, taken in samples],
            quiet_samples=quiet, least_quietness=used[-1][0],
            gflops=flops / median / 1e9, tokens_per_second=tokens / median,
            flops_by_arithmetic=needed)
        if limit:
            result["of_limit"] = limit / median


def compare_precisions(results):
    """Adds `best_peer` and `speedup` to Encast's results: against the best peer
    that is at least as exact."""
    for name, result in results.items():
        engine, precision = name.split(":")
        if engine != "encast":
            continue
        wanted = ":bf16" if precision == "bf16" else ":f32"
        peers = [peer for peer in results
                 if peer.endswith(wanted) and not peer.startswith("encast")]
        if peers:
            best = min(peers, key=lambda peer: results[peer]["milliseconds"])
            result["best_peer"] = best
            result["speedup"] = (results[best]["milliseconds"]
                                 / result["milliseconds"])


def growth(cases, peaks, config):
    """How time grows from 4096 to 8192 tokens, in all and in the attention of
    layers with a window, which must be linear; beside what it should be."""
    found = []
    times = {(case["tokens"], name): result
             for case in cases for name, result in case["engines"].items()
             if name.startswith("encast")}
    for (tokens, name), result in times.items():
        longer = times.get((8192, name))
        if tokens != 4096 or not longer:
            continue

        def limit(result):
            return limits.limit_seconds(result["flops_by_arithmetic"], peaks)

        entry = {"engine": name,
                 "time": longer["milliseconds"] / result["milliseconds"],
                 "arithmetic": limit(longer) / limit(result)}
        windowed = limits.windowed_layers(config)
        if windowed:
            sums = [sum(step["nanoseconds"] for step in each["steps"]
                        if step["layer"] in windowed
                        and step["kernel"].startswith("attention"))
                    for each in (longer, result)]
            entry["windowed_attention"] = sums[0] / sums[1] if sums[1] else None
        found.append(entry)
    return found


def tree_hash():
    """Of everything that decides an artifact's code and how it is run."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "codegen", "compiler", "dialects",
         "runtime/src"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        if (ROOT / name).is_file() and not name.endswith(".md"):
            digest.update(name.encode() + b"\0")
            digest.update((ROOT / name).read_bytes() + b"\0")
    return digest.hexdigest()


def git_commit():
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT)
    return commit + ("-changed" if changed.returncode else "")


def where_time_goes(steps):
    """Thread time and operations by kernel, without its shape."""
    sums = {}
    for step in steps:
        entry = sums.setdefault(step["kernel"].split(".")[0], {
            "thread_milliseconds": 0, "flops": 0})
        entry["thread_milliseconds"] += step["nanoseconds"] / 1e6
        entry["flops"] += step["flops"]
    return sums


def store(path, cpu, runs):
    """The file holds the last run of each model; other benches have keys of
    their own in it."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    stored["cpu"] = cpu
    stored.setdefault("models", {}).update(runs)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    report.draw(stored, path.with_suffix(".svg"))
    say(f"wrote {path.relative_to(ROOT)} and its plot")


def parse_arguments():
    def numbers(text):
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--engines", default=",".join(
        dict.fromkeys(name.split(":")[0] for name in ENGINES)))
    parser.add_argument("--precisions", default="f32,bf16x3,bf16",
                        help="f32 takes peers' f32, bf16 their bf16")
    parser.add_argument("--tokens", type=numbers,
                        help="lengths instead of those of each model")
    parser.add_argument("--batches", type=numbers)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--case-seconds", type=float, default=60,
                        help="time for the samples of one case; each engine "
                        "has at least one, and five if they are short")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build",
                        help="where Encast is built")
    parser.add_argument("--no-store", action="store_true",
                        help="only print the table")
    arguments = parser.parse_args()
    arguments.models = arguments.models.split(",")
    unknown = set(arguments.models) - set(MODELS)
    if unknown:
        parser.error(f"--models: {unknown.pop()} is not one of "
                     + ", ".join(MODELS))
    engines = arguments.engines.split(",")
    precisions = arguments.precisions.split(",")
    arguments.engines = [
        name for name in ENGINES if name.split(":")[0] in engines
        and name.split(":")[1].split("-")[0] in precisions]
    if not arguments.engines:
        parser.error("--engines and --precisions leave none of "
                     + ", ".join(ENGINES))
    return arguments


class ModelRun:
    """All cases of a model. An engine that is lost stays lost, except for want
    of memory: it may have the machine alone at the end."""

    def __init__(self, model, arguments, probe):
        self.model = model
        self.arguments = arguments
        self.probe = probe
        self.cases = []
        self.variants = {}
        self.versions = {}
        self.lost = {}
        self.engines = []
        for name in arguments.engines:
            self.start(name)

    def start(self, name):
        """The engine, loaded; None if it cannot be."""
        try:
            files = prepare_files(name, self.model, self.arguments.build)
            say(f"{self.model.name}: loading {name}")
            engine = Engine(name, self.arguments.threads)
            loaded = engine.ask("load", files=files)
        except Lost as why:
            say(f"{self.model.name}: {name}: {why}")
            self.lost[name] = str(why)
            return None
        self.versions[name] = loaded["version"]
        self.engines.append(engine)
        return engine

    def plan(self):
        """Batch, tokens, and whether Encast alone is timed."""
        given = self.arguments
        plan = [(batch, tokens, False)
                for batch in given.batches or self.model.batches
                for tokens in given.tokens or self.model.tokens]
        if not given.tokens:
            plan += [(1, tokens, True) for tokens in self.model.own_tokens]
        return sorted(plan)

    def measure(self):
        """Yields after each case."""
        for batch, tokens, own in self.plan():
            engines = [engine for engine in self.engines
                       if not own or engine.name.startswith("encast")]
            if engines:
                case = self.measure_case(batch, tokens, engines)
                case["not_measured"] = dict(
                    {} if own else self.lost, **case["not_measured"])
                self.cases.append(case)
                self.lost.update(case["not_measured"])
                yield case
        for engine in self.engines:
            engine.close()
        for case in self.cases:
            for name, why in list(case["not_measured"].items()):
                if why == Lost.MEMORY:
                    self.measure_alone(case, name)
                    yield case

    def measure_case(self, batch, tokens, engines):
        say(f"{self.model.name}: {tokens} tokens, batch {batch}")
        case = Case(self.model, tokens, batch, engines, self.probe,
                    self.variants)
        results = case.measure(self.arguments.case_seconds)
        self.engines = [engine for engine in self.engines
                        if engine.name not in case.lost]
        lengths = [len(sequence) for sequence in case.sequences]
        return {"model": self.model.name, "tokens": tokens, "batch": batch,
                "lengths": lengths, "engines": results,
                "not_measured": case.lost,
                "flops": limits.necessary_flops(self.model.config, lengths)}

    def measure_alone(self, case, name):
        say(f"{name} has the machine alone")
        engine = self.start(name)
        if not engine:
            return
        alone = self.measure_case(case["batch"], case["tokens"], [engine])
        for result in alone["engines"].values():
            result["alone"] = True
            result.pop("difference", None)  # nothing else to compare with
            del case["not_measured"][name]
        case["engines"].update(alone["engines"])
        engine.close()

    def result(self):
        """What is stored of the model, as far as it is measured."""
        cases = copy.deepcopy(self.cases)
        for case in cases:
            summarize(case["engines"], self.probe, case["flops"],
                      sum(case["lengths"]))
            compare_precisions(case["engines"])
        run = {
            "date": datetime.date.today().isoformat(), "commit": git_commit(),
            "tree_hash": tree_hash(), "threads": self.arguments.threads,
            "peaks_gflops": self.probe.peaks(), "versions": self.versions,
            "system": platform.platform(), "seed": SEED,
            "growth": growth(cases, self.probe.peaks(), self.model.config),
            "cases": cases}
        for case in cases:
            for result in case["engines"].values():
                if "steps" in result:
                    result["kernels"] = where_time_goes(result.pop("steps"))
        return run


def main():
    arguments = parse_arguments()
    CACHE.mkdir(parents=True, exist_ok=True)
    cpu = machine.cpu_facts()
    file = ROOT / "docs" / "results" / f"{machine.slug(cpu)}.json"
    probe = machine.Probe(machine.pick_cpus(arguments.threads),
                          ROOT / ".cache" / "probe.so", cpu["features"])
    Engine.guard = machine.MemoryGuard()
    for _ in range(20):
        probe.measure()
    for name in arguments.models:
        model_run = ModelRun(MODELS[name].find(name), arguments, probe)
        report.print_head()
        for case in model_run.measure():
            run = model_run.result()
            report.print_case(next(
                each for each in run["cases"]
                if (each["batch"], each["tokens"])
                == (case["batch"], case["tokens"])))
            if not arguments.no_store:
                store(file, cpu, {name: run})
        report.print_end(model_run.result())


if __name__ == "__main__":
    main()
