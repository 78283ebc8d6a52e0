"""Writes what a sweep found as a page and as one line."""

import re
import textwrap

# Types for which mfu and torch's counter differ, and why. A person has checked each.
KNOWN = {
    "encodec": "the counter has no formula for the CPU's own LSTM (mkldnn_rnn_layer); on the meta device it is matmuls"
}

# Why `exact` differs from the convention `flopcounter`, for each operator that an answer names.
REASONS = {
    "pairs that an attention mask leaves out": (
        "the counter takes the whole square of scores; masks leave part of it out"
    ),
    "aten::convolution_backward": "the counter leaves the groups out of a grouped convolution's weight gradient",
    "aten::mv": "the counter has no formula for a matrix and a vector",
    "aten::addmv": "the counter has no formula for a matrix and a vector",
    "aten::dot": "the counter has no formula for two vectors",
    "aten::linalg_solve_triangular": "the counter has no formula for a triangular solve",
    "aten::triangular_solve": "the counter has no formula for a triangular solve",
}


def reason(row):
    return KNOWN.get(row["type"], "")


def closing(rows):
    count = {
        each: sum(row["verdict"] == each for row in rows) for each in ("equal", "differs", "not compared", "refused")
    }
    types = {each: {row["type"] for row in rows if row["verdict"] == each} for each in count}
    whole = types["equal"] - types["differs"] - types["not compared"]
    return (
        f"{len({row['type'] for row in rows})} models: {len(whole)} equal to torch's counter in every phase that they"
        " have, "
        f"{len(types['differs'])} differ, {len(types['not compared'])} not compared, "
        f"{len(types['refused'] - types['equal'] - types['differs'] - types['not compared'])} refused; "
        f"{count['equal']} answers equal, {count['differs']} differ, {count['not compared']} not compared,"
        f" {count['refused']} refused"
    )


def shortened(text, most=150):
    text = " ".join(re.sub(r"/\S+/", "", text.replace("|", ",").replace("?", " ")).split())  # without paths
    return text if len(text) <= most else text[: most - 1] + "…"


def page(rows):
    lines = [
        "# Models counted by their class",
        "",
        "`./test --models` made this page. For each type of transformers and some of diffusers, it compares the answer",
        "of `mfu flops --by-class` with torch's FlopCounterMode. *Equal*: the number of parameters equals",
        "`num_parameters()` plus persistent router biases, and the convention `flopcounter` equals torch's own count,",
        "both to the digit, in each phase named. Configs are the type's defaults, mostly with two layers.",
        "*Refused*: the class does not accept that config; its message is quoted. *Not compared*: the class runs here,",
        "but not under torch's counter. A type that is not listed was not tried.",
        "",
        *textwrap.wrap(closing(rows) + ".", 116),
        "",
        "## Why `exact` differs from torch's counter",
        "",
        "| what | why | types |",
        "|---|---|---|",
    ]
    by = {}
    for row in rows:
        for each in row.get("differences", []):
            by.setdefault(each.split(" FLOP for ")[-1], set()).add(row["type"])
    for what, types in sorted(by.items()):
        some = ", ".join(sorted(types)[:6]) + (f" and {len(types) - 6} more" if len(types) > 6 else "")
        lines.append(f"| {what} | {REASONS.get(what, 'the counter has no formula for it')} | {some} |")
    lines += ["", "## Models", "", "| type | class | equal in | else |", "|---|---|---|---|"]
    types = {}
    for row in rows:
        types.setdefault(row["type"], []).append(row)
    for name, some in sorted(types.items()):
        equal = ", ".join(row["phase"] for row in some if row["verdict"] == "equal")
        other = [
            f"{row['phase']}: {row['verdict']}: {shortened(reason(row) or row.get('why', ''))}"
            for row in some
            if row["verdict"] != "equal"
            and "cannot decode" not in row.get("why", "")
            and "has no cache" not in row.get("why", "")
        ]
        if not equal and len(other) > 1:
            other = other[:1]
        found = next((row["architecture"] for row in some if "architecture" in row), "")
        lines.append(f"| {name} | {found} | {equal} | {'; '.join(other)} |")
    return "\n".join(lines) + "\n"
