"""Checks that a step is counted whatever a program imports first: libraries before torch, after it, lazily, in pairs.

    python tests/wild/imports.py [NAME…] [--docs] [--kept]

Run it in an environment that has the libraries; ./test --wild runs it too. --kept does not repeat what was right in an
earlier run (build/wild/imports.json).

--docs writes the results to the end of docs/wild.md. Libraries that cannot be imported here are named and left out. The
last line is "N passed, N failed".
"""

import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import zipapp
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
# Names as programs import them. timm, fastai and torchtune are missing: they need a torchvision or torchao that fits
# the CPU build of torch.
LIBRARIES = """
    accelerate bitsandbytes botorch captum dask datasets deepspeed diffusers e3nn einops evaluate gpytorch
    gymnasium haystack huggingface_hub jax kornia langchain liger_kernel lightgbm lightning litgpt
    llama_index.core lm_eval matplotlib mlflow monai numba numpy onnx onnxruntime opacus optimum pandas peft
    polars pyro pytorch_forecasting pytorch_lightning ray rich safetensors.torch schedulefree scipy
    sentence_transformers sentencepiece sklearn skorch spacy stable_baselines3 tensorboard tensordict thinc
    tiktoken tokenizers torch_geometric torchao torchdata torchdiffeq torchmetrics torchopt torchrl tqdm
    transformers trl wandb xgboost
""".split()
# Libraries that look for torch with importlib.util.find_spec while they are imported. Every ordered pair of them is
# tried.
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
}
# More ways, for the libraries that look for torch.
MORE_WAYS = {
    "in a thread": (
        "import threading as t\nx = t.Thread(target=__import__, args=('{0}',))\nx.start(); x.join()\n" + STEP
    ),
    "lazily": """
import importlib.util, sys
found = importlib.util.find_spec("{0}")
found.loader = importlib.util.LazyLoader(found.loader)
lazy = sys.modules["{0}"] = importlib.util.module_from_spec(found)
found.loader.exec_module(lazy)
dir(lazy)
""" + STEP,
    "reloaded": "import importlib, {0}\nimportlib.reload({0})\n" + STEP,
    "by -m": "import {0}\n" + STEP,
    "by runpy": "import {0}\n" + STEP,
    "by zipapp": "import {0}\n" + STEP,
}
PAGE = ROOT / "docs" / "wild.md"
KEPT = ROOT / "build" / "wild" / "imports.json"
SECTION = "## Whoever imports first"


def command_of(name, folder):
    """How the program of that name is started: as a file, as a module, through another program, or from an archive."""
    if name.endswith("by -m"):
        return [sys.executable, "-m", "program"]
    if name.endswith("by runpy"):
        (folder / "through.py").write_text("import runpy\nrunpy.run_path('program.py', run_name='__main__')\n")
        return [sys.executable, "through.py"]
    if name.endswith("by zipapp"):
        (folder / "archive").mkdir()
        (folder / "program.py").rename(folder / "archive" / "__main__.py")
        zipapp.create_archive(folder / "archive", folder / "program.pyz")
        return [sys.executable, "program.pyz"]
    return [sys.executable, "program.py"]


def counted(case):
    """Runs one program under `mfu run` in its own process and folder: gives (what is wrong or None, standard error)."""
    name, program = case
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "program.py").write_text(program)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MFU_", "PYTHONPATH"))}
        environment.update(HF_HUB_OFFLINE="1", WANDB_MODE="offline")
        try:
            done = subprocess.run([MFU, "run", "--dir", "run", "--", *command_of(name, folder)], cwd=folder,
                                  env=environment, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return "it did not end in time", ""
        if done.returncode != 0:
            return "does not run here", done.stderr
        flop = json.loads((folder / "run" / "summary.json").read_text())["hardware_flop"]
    return (None if flop == FLOP else f"{flop} FLOP instead of {FLOP}"), done.stderr


def cases():
    for (way, program), library in itertools.product(WAYS.items(), sorted(LIBRARIES)):
        yield f"{library} {way}", program.format(library)
    for library, (way, program) in itertools.product(LOOKERS, MORE_WAYS.items()):
        yield f"{library} {way}", program.format(library)
    for first, second in itertools.permutations(LOOKERS, 2):
        yield f"{first} then {second}", f"import {first}\nimport {second}\n" + STEP


def page_of(chosen, wrong, absent):
    """The section of docs/wild.md."""
    libraries = sorted(set(LIBRARIES) - absent)
    pairs = sum(" then " in name for name, _ in chosen)
    lines = [
        SECTION, "",
        f"`tests/wild/imports.py` imports {len(libraries)} libraries before torch and after it. It imports those that "
        f"look torch up while they are imported ({', '.join(LOOKERS)}) also in a thread, lazily, reloaded, by `-m`, "
        f"`runpy` and `zipapp`, and in every ordered pair ({pairs}). Each program then trains two steps under "
        "`mfu run`.", "",
        f"{len(chosen) - len(wrong)} of {len(chosen)} programs were counted to the last digit."]
    lines += [f"- {name}: {problem}" for name, problem in wrong]
    lines += ["", "Libraries: " + ", ".join(libraries) + "."]
    if absent:
        lines += ["", "Not run, since they cannot be imported here: " + ", ".join(sorted(absent)) + "."]
    return "\n".join(part for line in lines for part in (textwrap.wrap(line, 119) or [""])) + "\n"


@functools.cache
def importable(library):
    return subprocess.run([sys.executable, "-c", f"import {library}"], capture_output=True, timeout=600).returncode == 0


def main():
    wanted = [each for each in sys.argv[1:] if not each.startswith("--")]
    absent: set = set()
    right = set(json.loads(KEPT.read_text())) if "--kept" in sys.argv and KEPT.exists() else set()
    with ThreadPoolExecutor(int(os.environ.get("MFU_WILD_JOBS", os.cpu_count()))) as pool:
        chosen = [(name, program) for name, program in cases()
                  if not wanted or any(word in name for word in wanted)]
        wrong, left = [], [case for case in chosen if case[0] not in right]
        for (name, _), (problem, error) in zip(left, pool.map(counted, left)):
            if problem is None:
                right.add(name)
                KEPT.parent.mkdir(parents=True, exist_ok=True)
                KEPT.write_text(json.dumps(sorted(right)))
                continue
            missing = {each for each in name.split() if each in LIBRARIES and not importable(each)}
            for each in sorted(missing - absent):
                print(f"not run: {each} cannot be imported here", flush=True)
            absent |= missing
            if not missing:
                wrong.append((name, problem))
                print(f"FAILED {name}: {problem}\n    " + "\n    ".join(error.splitlines()[-3:]), flush=True)
    chosen = [case for case in chosen if not absent & set(case[0].split())]
    if "--docs" in sys.argv:
        before = PAGE.read_text().split(SECTION)[0].rstrip() + "\n\n"
        PAGE.write_text(before + page_of(chosen, wrong, absent))
    print(f"{len(chosen) - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
