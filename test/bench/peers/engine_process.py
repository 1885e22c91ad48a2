"""The process of an engine, as compare_peers.py sees it."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def say(text):
    print(f"compare_peers: {text}", file=sys.stderr, flush=True)


class Lost(Exception):
    """An engine that cannot be measured, and why."""

    MEMORY = "needs more memory than this machine has free"


class Engine:
    guard = None

    def __init__(self, name, threads):
        self.name = name
        engine, precision = name.split(":")
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads),
                           MKL_NUM_THREADS=str(threads),
                           TOKENIZERS_PARALLELISM="false",
                           # Huge pages for all: peers gain up to a tenth.
                           GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
        # Some machines pin BLAS kernels of older libraries; no peer wants it.
        environment.pop("OPENBLAS_CORETYPE", None)
        environment.pop("OPENBLAS_L2_SIZE", None)
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "engines.py"), engine,
             "bf16" if precision == "bf16" else "f32", str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            text=True, env=environment)

    @property
    def pid(self):
        return self.process.pid

    def ask(self, do, **arguments):
        self.guard.process = self.process
        try:
            self.process.stdin.write(
                json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        self.guard.process = None
        if not answer:
            self.process.wait()
            if self.process.pid in self.guard.ended:
                raise Lost(Lost.MEMORY)
            self.log.seek(0)
            lines = self.log.read().strip().splitlines()
            raise Lost("ended: " + (lines[-1] if lines else
                                    f"status {self.process.returncode}"))
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
