"""Times the first answer by a model's class against `import transformers`, and the second answer, which comes from the
cache.

    python bench/class_answer.py [--python PYTHON] [--runs N] [--instructions]

--instructions counts the second answer's instructions with callgrind, which other processes do not disturb. Targets:
the first answer takes at most the import plus 2 s, the second at most 30 ms."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MFU = os.environ.get("MFU_BINARY", str(Path(__file__).resolve().parents[1] / "build" / "release" / "mfu"))
CONFIG = {
    "model_type": "mllama_text_model",
    "architectures": ["MllamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "cross_attention_layers": [],
    "pad_token_id": 0,
}


def seconds(command, **environment):
    """Wall time and processor time of a command, in seconds."""
    before, begun = os.times(), time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | environment
    )
    after = os.times()
    return (
        time.perf_counter() - begun,
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--instructions", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(CONFIG))
        ask = [MFU, "flops", str(path), "--seq", "2048", "--python", options.python]
        rows = {"import transformers": [], "import the class": [], "first answer": [], "second answer": []}
        for run in range(options.runs):
            cache = {"MFU_CACHE_DIR": f"{folder}/{run}"}
            rows["import transformers"].append(seconds([options.python, "-c", "import torch, transformers"]))
            rows["import the class"].append(
                seconds([options.python, "-c", "from transformers import MllamaForCausalLM"])
            )
            rows["first answer"].append(seconds(ask, **cache))
            rows["second answer"].append(seconds(ask, **cache))
        for name, times in rows.items():
            print(
                f"{name:20} {statistics.median(wall for wall, _ in times) * 1e3:8.1f} ms, "
                f"{statistics.median(processor for _, processor in times) * 1e3:8.1f} ms of the processor"
            )
        if options.instructions:
            run = subprocess.run(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *ask],
                capture_output=True,
                text=True,
                env=os.environ | {"MFU_CACHE_DIR": f"{folder}/0"},
            )
            print("second answer        " + re.search(r"Collected : (\d+)", run.stderr)[1] + " instructions")


if __name__ == "__main__":
    main()
