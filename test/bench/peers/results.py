"""What is stored of samples: statistics and comparisons."""

import json

import numpy

import limits
from engine_process import say
from provenance import ROOT
from sampling import LEAST, quietness


def median(values):
    return float(numpy.median(list(values)))


def median_peaks(readings):
    """Of dicts from instructions to GFLOP/s, all alike."""
    if not readings:
        return {}
    return {name: median(each[name] for each in readings)
            for name in readings[0]}


def summarize(results, probe, flops, tokens):
    """Replaces samples by their statistics: of the quiet ones, or, where those
    are too few, of the least disturbed."""
    for name, result in results.items():
        samples = sorted(result.pop("samples"), reverse=True,
                         key=lambda sample: quietness(probe, sample))
        shares = [quietness(probe, sample) for sample in samples]
        del result["long"]
        quiet = sum(share >= 1 for share in shares)
        used = samples[:max(quiet, LEAST)]
        low, middle, high = numpy.quantile([sample[0] for sample in used],
                                           [0.25, 0.5, 0.75])
        arithmetic = ("bf16" if name.endswith(":bf16") else "f32")
        needed = {arithmetic: flops}
        if "steps" in result:
            needed = limits.flops_by_arithmetic(result["steps"])
        peaks = [probe.peaks(sample[3]) for sample in used]
        limit = [limits.limit_seconds(needed, each) for each in peaks]
        result.update(
            milliseconds=1e3 * middle, quartiles=[1e3 * low, 1e3 * high],
            samples=[{"milliseconds": 1e3 * sample[0], "quietness": share}
                     for share, sample in zip(shares, samples)],
            quiet_samples=quiet, least_quietness=shares[len(used) - 1],
            gflops=flops / middle / 1e9, tokens_per_second=tokens / middle,
            flops_by_arithmetic=needed, peaks_gflops=median_peaks(peaks))
        if None not in limit:
            result["of_limit"] = median(
                each / sample[0] for each, sample in zip(limit, used))


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
        least = [limits.limit_seconds(each["flops_by_arithmetic"], peaks)
                 for each in (longer, result)]
        if None in least:
            continue
        entry = {"engine": name,
                 "time": longer["milliseconds"] / result["milliseconds"],
                 "arithmetic": least[0] / least[1]}
        windowed = limits.windowed_layers(config)
        if windowed:
            sums = [sum(step["nanoseconds"] for step in each["steps"]
                        if step["layer"] in windowed
                        and step["kernel"].startswith("attention"))
                    for each in (longer, result)]
            entry["windowed_attention"] = sums[0] / sums[1] if sums[1] else None
        found.append(entry)
    return found


def where_time_goes(steps):
    """Thread time and operations by kernel, without its shape."""
    sums = {}
    for step in steps:
        entry = sums.setdefault(step["kernel"].split(".")[0], {
            "thread_milliseconds": 0, "flops": 0})
        entry["thread_milliseconds"] += step["nanoseconds"] / 1e6
        entry["flops"] += step["flops"]
    return sums


def store(path, cpu, key, entries):
    """Replaces entries of the part `key` of a file of docs/results."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    stored["cpu"] = cpu
    stored.setdefault(key, {}).update(entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    say(f"wrote {path.relative_to(ROOT)}")
