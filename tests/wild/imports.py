"""Whoever imports first: libraries before torch, after it, lazily and in pairs; each time the same step is counted.

    python tests/wild/imports.py [NAME…]      in an environment that has the libraries; ./test --wild runs it too

A library that cannot be installed or imported here is said and left out. Closes with "N passed, N failed".
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
# As they are imported. (timm, fastai and torchtune need a torchvision or torchao that fits the CPU build of torch.)
LIBRARIES = """
    accelerate bitsandbytes botorch captum dask datasets deepspeed diffusers e3nn einops evaluate gpytorch
    gymnasium haystack huggingface_hub jax kornia langchain liger_kernel lightgbm lightning litgpt
    llama_index.core lm_eval matplotlib mlflow monai numba numpy onnx onnxruntime opacus optimum pandas peft
    polars pyro pytorch_forecasting pytorch_lightning ray rich safetensors.torch schedulefree scipy
    sentence_transformers sentencepiece sklearn skorch spacy stable_baselines3 tensorboard tensordict thinc
    tiktoken tokenizers torch_geometric torchao torchdata torchdiffeq torchmetrics torchopt torchrl tqdm
    transformers trl wandb xgboost
""".split()
# Those that look torch up with importlib.util.find_spec while they are imported: every ordered pair of them is tried.
LOOKERS = ("accelerate", "datasets", "diffusers", "evaluate", "lightning", "optimum", "peft", "sentence_transformers",
           "torchmetrics", "transformers", "trl")
STEP = """
import torch
x, w = torch.randn(8, 16), torch.randn(16, 32, requires_grad=True)
sgd = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    (x @ w).sum().backward()
    sgd.step()
"""
FLOP = 2 * 2 * (2 * 8 * 16 * 32)
WAYS = {
    "before torch": "import {0}\n" + STEP,
    "after torch": "import torch\nimport {0}\n" + STEP,
    "in a thread": (
        "import threading as t\nx = t.Thread(target=__import__, args=('{0}',))\nx.start(); x.join()\n" + STEP
    ),
}


def counted(program):
    """(what is wrong or None, standard error) of one program under `mfu run`, in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "program.py").write_text(program)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MFU_", "PYTHONPATH"))}
        environment.update(HF_HUB_OFFLINE="1", WANDB_MODE="offline")
        done = subprocess.run([MFU, "run", "--dir", "run", "--", sys.executable, "program.py"], cwd=folder,
                              env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            return "does not run here", done.stderr
        flop = json.loads((Path(folder) / "run" / "summary.json").read_text())["hardware_flop"]
    return (None if flop == FLOP else f"{flop} FLOP instead of {FLOP}"), done.stderr


def cases():
    for library in sorted(LIBRARIES):
        for way, program in WAYS.items():
            if way != "in a thread" or library in LOOKERS:
                yield f"{library} {way}", program.format(library)
    for first, second in itertools.permutations(LOOKERS, 2):
        yield f"{first} then {second}", f"import {first}\nimport {second}\n" + STEP


def importable(library):
    return subprocess.run([sys.executable, "-c", f"import {library}"], capture_output=True, timeout=600).returncode == 0


def main():
    wanted = sys.argv[1:]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        absent = {name for name, there in zip(LIBRARIES, pool.map(importable, LIBRARIES)) if not there}
        for name in sorted(absent):
            print(f"not run: {name} cannot be imported here", flush=True)
        chosen = [(name, program) for name, program in cases()
                  if not absent & set(name.split()) and (not wanted or any(word in name for word in wanted))]
        failed = 0
        done = pool.map(counted, (program for _, program in chosen))
        for (name, _), (problem, error) in zip(chosen, done):
            if problem is not None:
                failed += 1
                print(f"FAILED {name}: {problem}\n    " + "\n    ".join(error.splitlines()[-3:]), flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
