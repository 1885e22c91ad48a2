"""Samples of one case, of all engines in turns.

Every sample stands between two readings of the probe (probe.c) on all CPUs, and
counts as quiet when both find the machine undisturbed. The peaks that a sample
is compared with are those of the reading right behind it, at the clock that it
has left.
"""

import hashlib
import os
import tempfile
import time

import numpy

import machine
from engine_process import Engine, Lost, say
from models import ROOT, draw_sequences, made_file

QUIET_SAMPLES = 9  # of an engine; more end its part
LEAST, MOST = 5, 27  # samples
LEAST_LONG = 2
SAMPLE_SECONDS = 0.02
# Others begin their turn with a run that is not timed, for the engine before
# has taken caches and clock: a server that is asked again and again is measured.
LONG_SECONDS = 2
QUIET_WAIT = 10  # seconds that a long run waits for a quiet machine, at most
CHOOSING_TOKENS = 2048  # engines choose their variant up to here, padded
# A peer that takes longer than the best one of its precision by this factor
# cannot become the best: it gets only the fewest samples.
CONTENDER = 1.2


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
    _, intrusion, before, behind = sample
    least = probe.quietness(before, behind)
    return (least if intrusion <= machine.INTRUSION
            else min(least, 1) * (1 - min(intrusion, 1)))


class Case:
    """Lost engines are those that cannot go on. `seconds` is what the runs of an
    engine may take beside its fewest samples; 0 is for one long sample."""

    def __init__(self, model, tokens, batch, engines, probe, variants, seconds):
        self.model = model
        self.threads = len(probe.results)
        self.sequences = draw_sequences(model.config, tokens, batch)
        self.probe = probe
        self.variants = variants
        self.choosing = tokens * batch <= CHOOSING_TOKENS
        self.seconds = seconds
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
                                     "long": True, "samples": []}
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
            try:
                name, reference = "torch:f32", self.exact_reference()
            except Lost as lost:  # torch is, not this engine
                say(f"no reference for {engine.name}: {lost}")
                return
        else:
            self.reference = self.reference or (engine.name, rows)
            name, reference = self.reference
        self.results[engine.name]["difference"] = {
            "from": name, **difference(rows, reference)}

    def exact_reference(self):
        """Of the checkpoint whose matrices are exactly bf16; made once."""
        digest = hashlib.sha256(repr(self.sequences).encode()).hexdigest()
        file = made_file(self.model, f"{digest[:12]}.npy")
        if not file.exists():
            say(f"making {file.relative_to(ROOT)}")
            torch = Engine("torch:f32", self.threads)
            torch.ask("load", files={"folder": str(self.model.exact_folder())})
            torch.ask("case", sequences=self.sequences, variant="sdpa")
            torch.ask("sample", calls=1)
            torch.ask("rows", file=str(file))
            torch.close()
        return numpy.load(file)

    def quiet_reading(self, seconds):
        """The first one that is quiet, or the last within these seconds."""
        end = time.monotonic() + seconds
        while True:
            time.sleep(0.02)  # threads of the engine before stop spinning
            reading = self.probe.measure()
            if (time.monotonic() >= end
                    or self.probe.quietness(reading) >= 1):
                return reading
            time.sleep(0.2)

    def sample(self, engine):
        result = self.results[engine.name]
        before = self.quiet_reading(QUIET_WAIT if result["long"] else 0)
        intruders = machine.Intruders(engine.pid)
        seconds = engine.ask("sample", calls=result["calls"],
                             warm_up=not result["long"])["seconds"]
        behind = self.probe.measure()
        result["samples"].append(
            (seconds, intruders.share(), before, behind))
        return seconds

    def contends(self, engine):
        """Whether it may be the best of its precision."""
        if engine.name.startswith("encast"):
            return True
        precision = engine.name.split(":")[1]
        times = {name: min(sample[0] for sample in result["samples"])
                 for name, result in self.results.items()
                 if name.endswith(":" + precision) and result["samples"]
                 and not name.startswith("encast")}
        return (engine.name not in times
                or times[engine.name] <= CONTENDER * min(times.values()))

    def wants_sample(self, engine):
        result = self.results[engine.name]
        taken = len(result["samples"])
        if result["long"]:
            contends = self.seconds and taken and self.contends(engine)
            if taken < (LEAST_LONG if contends else 1):
                return True
        else:
            contends = self.contends(engine)
            if taken < LEAST:
                return True
        spent = result["calls"] * sum(each[0] for each in result["samples"])
        quiet = sum(quietness(self.probe, sample) >= 1
                    for sample in result["samples"])
        return bool(contends and taken < MOST and spent < self.seconds
                    and quiet < QUIET_SAMPLES)

    def measure(self):
        for engine in list(self.engines):
            self.attempt(engine, self.prepare)
        first = 0
        while turn := [engine for engine in self.engines
                       if self.wants_sample(engine)]:
            first = (first + 1) % len(turn)
            for engine in turn[first:] + turn[:first]:
                self.attempt(engine, self.sample)
        for engine in list(self.engines):
            result = self.results[engine.name]
            result["peak_memory"] = machine.resident(engine.pid, peak=True)
            if engine.name.startswith("encast"):
                self.attempt(engine, self.read_run)
        return self.results

    def read_run(self, engine):
        self.results[engine.name].update(engine.ask("last_run"))
