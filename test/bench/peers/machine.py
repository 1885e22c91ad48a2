"""The machine: its CPUs, peaks, quiet moments and memory."""

import ctypes
import os
import pathlib
import re
import sys
import threading
import time

import numpy

# A sample is quiet if each loop of the probes around it reaches this share of
# the run's best. A neighbour on the core takes half of the additions and three
# quarters of the tile products; the clock, lower for some milliseconds after
# heavy vector code of our own, takes up to a fifth of all.
QUIET = 0.7
# And if others take at most this share of one CPU meanwhile.
INTRUSION = 0.05


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


class Probe:
    """Runs the loops of probe.c on all CPUs at once, one pinned thread each."""

    INSTRUCTIONS = {"fma": "fma", "tdpbf16ps": "tiles", "vdpbf16ps": "dots"}

    def __init__(self, cpus, library, features):
        self.library = ctypes.CDLL(str(library))
        self.library.probe_prepare()
        self.loops = ["fma", "adds"]
        if "amx_bf16" in features and self.library.probe_allow_tiles():
            self.loops += ["tiles"]
        elif "avx512_bf16" in features:
            self.loops += ["dots"]
        self.results = [None] * len(cpus)
        self.start = threading.Barrier(len(cpus) + 1)
        self.end = threading.Barrier(len(cpus) + 1)
        self.history = []
        for index, cpu in enumerate(cpus):
            threading.Thread(target=self._serve, args=(index, cpu),
                             daemon=True).start()

    def _serve(self, index, cpu):
        os.sched_setaffinity(0, {cpu})
        values = (ctypes.c_double * len(self.loops))()
        while True:
            self.start.wait()
            self.library.probe_measure(values, len(self.loops),
                                       "tiles" in self.loops)
            self.results[index] = list(values)
            self.end.wait()

    def measure(self):
        """A reading: what each CPU reaches in each loop."""
        self.start.wait()
        self.end.wait()
        self.history += self.results
        return list(self.results)

    def quietness(self, *readings):
        """At least 1 if every loop of these readings is quiet on every CPU,
        measured by a high quantile of all readings, so that one lucky reading
        is no bar; the cores are alike."""
        best = numpy.quantile(numpy.array(self.history), 0.95, axis=0)
        return float((numpy.array(readings) / best).min() / QUIET)

    def peaks(self, reading):
        """Of all CPUs together in a reading, by instruction, GFLOP/s."""
        sums = dict(zip(self.loops, map(sum, zip(*reading))))
        return {name: sums[loop] for name, loop in self.INSTRUCTIONS.items()
                if loop in sums}


class Intruders:
    """Seconds of CPU time that others than one process take, hypervisor
    included. The kernel counts in steps of 10 ms."""

    TICK = os.sysconf("SC_CLK_TCK")

    def __init__(self, pid):
        self.pid = pid
        self.start = time.monotonic()
        self.before = self._others()

    def _others(self):
        total = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0]
        user, nice, system, _, _, irq, softirq, steal = map(
            int, total.split()[1:9])
        own = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        busy = sum(map(int, own.rpartition(")")[2].split()[11:13]))
        return (user + nice + system + irq + softirq + steal
                - busy) / self.TICK

    def share(self):
        """Of one CPU, since the start; 0 within the steps of counting."""
        passed = time.monotonic() - self.start
        taken = self._others() - self.before - 3 / self.TICK
        return max(0.0, taken) / passed


def memory_available():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    sys.exit("compare_peers: error: /proc/meminfo has no MemAvailable")


def resident(pid, peak=False):
    """Bytes of a process in memory, now or at most since forget_peak."""
    key = "VmHWM:" if peak else "VmRSS:"
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    return 0


def forget_peak(pid):
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


class MemoryGuard:
    """Ends the process that is being asked before the machine's memory is full:
    some engines want a multiple of it at 8192 tokens."""

    KEEP = 1 << 30

    def __init__(self):
        self.process = None
        self.ended = set()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        while True:
            process = self.process
            if process and memory_available() < self.KEEP:
                self.ended.add(process.pid)
                process.kill()
            time.sleep(0.05)
