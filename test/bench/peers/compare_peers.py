#!/usr/bin/env python3
"""Times Encast and its peers side by side on the same models and inputs.

Engines are processes of their own, so that each has its thread settings from
the start and none spins while another is timed. They alternate within each
round. Peers get batches padded to the longest sequence, with an attention mask,
which is how they take them; Encast gets them ragged. All compute the last
hidden state, without a head. Ratios to what the machine allows count necessary
operations only, those of real tokens and of keys within windows.
"""

import argparse
import copy
import pathlib

import kernels
import limits
import machine
import report
import results
from engine_process import Engine, Lost, say
from models import CACHE, ENGINES, MODELS, ROOT, SEED, prepare_files
from provenance import provenance
from sampling import Case

PARTS = [kernels.PART, *MODELS]


def parse_arguments():
    def words(text):
        return text.split(",")

    def numbers(text):
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--measure", type=words, default=PARTS,
                        help=f"some of {','.join(PARTS)}; {kernels.PART} are "
                        "the kernels alone, and files, loading and compiling")
    parser.add_argument("--engines", type=words, default=[],
                        help="names such as torch or encast:bf16, instead of "
                        "those of each model")
    parser.add_argument("--tokens", type=numbers,
                        help="lengths instead of those of each model")
    parser.add_argument("--batches", type=numbers)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engine-seconds", type=float, default=6,
                        help="what the runs of an engine in a case may take "
                        "beside its fewest samples; 0 is for one long sample")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build",
                        help="where Encast is built")
    parser.add_argument("--no-store", action="store_true",
                        help="only print")
    arguments = parser.parse_args()
    for option, given, known in (
            ("--measure", arguments.measure, PARTS),
            ("--engines", arguments.engines,
             ENGINES + [name.split(":")[0] for name in ENGINES])):
        unknown = set(given) - set(known)
        if unknown:
            parser.error(f"{option}: {unknown.pop()} is not one of "
                         + ", ".join(dict.fromkeys(known)))
    return arguments


class ModelRun:
    """All cases of a model. An engine that is lost stays lost, except for want
    of memory: it has the machine alone at the end."""

    def __init__(self, model, arguments, probe):
        self.model = model
        self.arguments = arguments
        self.probe = probe
        self.cases = []
        self.variants = {}
        self.versions = {}
        self.lost = {}
        self.engines = []
        for name in self.names():
            self.start(name)

    def names(self):
        asked = self.arguments.engines
        return [name for name in ENGINES
                if name in asked or name.split(":")[0] in asked
                or not asked and name in self.model.engines]

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
        """Batch, tokens, and the names of engines if not all of them."""
        given = self.arguments
        plan = [(batch, tokens, None)
                for batch in given.batches or self.model.batches
                for tokens in given.tokens or self.model.tokens]
        if not given.tokens and not given.batches:
            plan += [(1, tokens, names)
                     for tokens, names in self.model.once.items()]
        return sorted(plan, key=lambda each: each[:2])

    def measure(self):
        """Yields after each case."""
        for batch, tokens, names in self.plan():
            large = {} if names else self.too_large(batch, tokens)
            engines = [engine for engine in self.engines
                       if not names or engine.name in names]
            if engines or large:
                case = self.measure_case(
                    batch, tokens, engines,
                    0 if names else self.arguments.engine_seconds)
                case["not_measured"] = dict(
                    {} if names else self.lost, **large,
                    **case["not_measured"])
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

    def too_large(self, batch, tokens):
        """Ends engines that the case would need too much memory of: what the
        two lengths before differ by, which grows with their squares at most."""
        known = [case for case in self.cases if case["batch"] == batch][-2:]
        if len(known) < 2:
            return {}
        (shorter, less), (longer, more) = [
            (case["tokens"]**2, case["engines"]) for case in known]
        factor = (tokens**2 - longer) / (longer - shorter)
        ended = {}
        for engine in list(self.engines):
            if engine.name not in less or engine.name not in more:
                continue
            memory = more[engine.name]["peak_memory"]
            growth = memory - less[engine.name]["peak_memory"]
            free = machine.memory_available() + machine.resident(engine.pid)
            if memory + factor * growth > free - machine.MemoryGuard.KEEP:
                say(f"{engine.name}: {Lost.MEMORY}")
                ended[engine.name] = Lost.MEMORY
                engine.close()
                self.engines.remove(engine)
        return ended

    def measure_case(self, batch, tokens, engines, seconds):
        say(f"{self.model.name}: {tokens} tokens, batch {batch}")
        case = Case(self.model, tokens, batch, engines, self.probe,
                    self.variants, seconds)
        measured = case.measure()
        self.engines = [engine for engine in self.engines
                        if engine.name not in case.lost]
        lengths = [len(sequence) for sequence in case.sequences]
        return {"model": self.model.name, "tokens": tokens, "batch": batch,
                "lengths": lengths, "engines": measured,
                "not_measured": case.lost,
                "flops": limits.necessary_flops(self.model.config, lengths)}

    def measure_alone(self, case, name):
        say(f"{name} has the machine alone")
        engine = self.start(name)
        if not engine:
            return
        alone = self.measure_case(case["batch"], case["tokens"], [engine], 0)
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
            results.summarize(case["engines"], self.probe, case["flops"],
                              sum(case["lengths"]))
            results.compare_precisions(case["engines"])
        peaks = results.median_peaks([
            result["peaks_gflops"] for case in cases
            for result in case["engines"].values()])
        run = {**provenance(), "threads": self.arguments.threads,
               "peaks_gflops": peaks, "versions": self.versions, "seed": SEED,
               "growth": results.growth(cases, peaks, self.model.config),
               "cases": cases}
        for case in cases:
            for result in case["engines"].values():
                if "steps" in result:
                    result["kernels"] = results.where_time_goes(
                        result.pop("steps"))
        return run


def measure_model(name, arguments, probe, keep):
    """`keep` gets the result after each case."""
    model_run = ModelRun(MODELS[name].find(name), arguments, probe)
    report.print_head()
    for case in model_run.measure():
        run = model_run.result()
        report.print_case(next(
            each for each in run["cases"]
            if (each["batch"], each["tokens"])
            == (case["batch"], case["tokens"])))
        keep("models", {name: run})
    if model_run.cases:
        report.print_end(model_run.result())


def main():
    arguments = parse_arguments()
    CACHE.mkdir(parents=True, exist_ok=True)
    cpu = machine.cpu_facts()
    file = ROOT / "docs" / "results" / f"{machine.slug(cpu)}.json"

    def keep(key, entries):
        if not arguments.no_store:
            results.store(file, cpu, key, entries)

    cpus = machine.pick_cpus(arguments.threads)
    if kernels.PART in arguments.measure:
        keep(kernels.PART, kernels.measure(arguments.build, arguments.threads))
    probe = machine.Probe(cpus, ROOT / ".cache" / "probe.so", cpu["features"])
    Engine.guard = machine.MemoryGuard()
    for _ in range(20):
        probe.measure()
    for name in arguments.measure:
        if name in MODELS:
            measure_model(name, arguments, probe, keep)
    if not arguments.no_store:
        report.show(file)


if __name__ == "__main__":
    main()
