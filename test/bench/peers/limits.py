"""How much arithmetic a model needs, and how fast a machine could do it."""

import re

# What a product of each arithmetic of a kernel costs: products of the first of
# these instructions that the machine has.
TILES, DOTS = "tdpbf16ps", "vdpbf16ps"
INSTRUCTIONS = {
    "f32": (["fma"], 1), "bf16": ([TILES, DOTS], 1), "bf16x3": ([TILES], 3),
    "bf16x3w": ([TILES], 3), "bf16x6": ([TILES], 6),
}
KERNEL = re.compile(r"[a-z_]+_(f32|bf16(?:x3w?|x6)?)_")


def attended(length, half_window=None):
    """Keys that the queries of a sequence attend to, summed."""
    if half_window is None or half_window >= length:
        return length * length
    within = length * (2 * half_window + 1)
    return within - half_window * (half_window + 1)


def layers(config):
    """Of each layer: multiply-adds of its linears for a token, and half of its
    window (None: all keys), or no attention at all (False)."""
    hidden = config["hidden_size"]
    ffn = config["intermediate_size"]
    kind = config["model_type"]
    for index in range(config["num_hidden_layers"]):
        if kind == "bert":
            yield 4 * hidden**2 + 2 * hidden * ffn, None
        elif kind == "modernbert":
            is_global = index % config["global_attn_every_n_layers"] == 0
            yield (4 * hidden**2 + 3 * hidden * ffn,
                   None if is_global else config["local_attention"] // 2)
        elif config["layer_types"][index] == "conv":
            yield 4 * hidden**2 + 3 * hidden * ffn, False
        else:
            keys = (hidden * config["num_key_value_heads"]
                    // config["num_attention_heads"])
            yield 2 * hidden * (hidden + keys) + 3 * hidden * ffn, None


def necessary_flops(config, lengths):
    """Of the matrix products, for real tokens and keys within windows only."""
    hidden = config["hidden_size"]
    return sum(2 * linear * n + (0 if window is False else
                                 4 * hidden * attended(n, window))
               for linear, window in layers(config) for n in lengths)


def windowed_layers(config):
    """Layers, counted from 1, that attend to a window."""
    return [index for index, (_, window) in enumerate(layers(config), 1)
            if window]


def flops_by_arithmetic(steps):
    """Of a run of Encast; `steps` are encast_step_stats."""
    sums = {}
    for step in steps:
        if step["flops"]:
            known = KERNEL.match(step["kernel"])
            arithmetic = known.group(1) if known else step["kernel"]
            sums[arithmetic] = sums.get(arithmetic, 0) + step["flops"]
    return sums


def limit_seconds(flops, peaks):
    """The least time for operations by arithmetic, at the peaks (GFLOP/s) of
    their instructions; None if this machine has no such instruction, or the
    arithmetic is none of those above."""
    seconds = 0
    for arithmetic, count in flops.items():
        instructions, products = INSTRUCTIONS.get(arithmetic, ([], 0))
        known = [peaks[each] for each in instructions if each in peaks]
        if not known:
            return None
        seconds += count * products / known[0] / 1e9
    return seconds
