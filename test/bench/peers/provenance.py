"""When, where and of which tree something is measured."""

import datetime
import hashlib
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]


# What decides an artifact's kernels and plan, and how it is run.
FOLDERS = ["codegen", "compiler/Conversion", "compiler/Pipeline",
           "compiler/Transforms", "dialects", "runtime/src"]


def tree_hash():
    """Of all files in these folders but documentation."""
    listed = subprocess.run(["git", "ls-files", "-z", *FOLDERS], cwd=ROOT,
                            check=True, stdout=subprocess.PIPE)
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        if (ROOT / name).is_file() and not name.endswith(".md"):
            digest.update(name.encode() + b"\0")
            digest.update((ROOT / name).read_bytes() + b"\0")
    return digest.hexdigest()


def git_commit():
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE).stdout.strip()
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ":!docs"],
                             cwd=ROOT)
    return commit + ("-changed" if changed.returncode else "")


def provenance():
    return {"date": datetime.date.today().isoformat(), "commit": git_commit(),
            "tree_hash": tree_hash(), "system": platform.platform()}
