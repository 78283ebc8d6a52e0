"""Compares `mfu flops --by-class` with the libraries themselves, for each type of transformers and some models of
diffusers.

    python tests/models/sweep.py [NAME…] [--every N] [--docs] [--jobs N] [--kept]

Each type's default config is made small (small.py). mfu answers for each phase, and reference.py counts the same with
FlopCounterMode. `parameters_total` must equal num_parameters() plus persistent router biases. The convention
`flopcounter` must equal torch's count to the digit. Where `exact` differs from it, the operators are named. --docs
writes docs/models.md."""

import argparse
import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import server  # noqa: E402
import table  # noqa: E402

MFU = os.environ.get("MFU_BINARY", str(ROOT / "build" / "release" / "mfu"))
PHASES = ("forward", "train", "prefill", "decode")
MAKE = """
import json, sys
sys.path.insert(0, {here!r})
from small import shrunk
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
def told(config):
    made = config.to_dict()
    made["model_type"] = {kind!r}
    return json.loads(json.dumps(made, default=str))
config = CONFIG_MAPPING[{kind!r}]()
print(json.dumps({{"small": shrunk(told(config)), "default": told(config)}}))
"""


class Sweep:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.environment = os.environ | {
            "MFU_FORKED": str(self.folder / "socket"),
            "MFU_CACHE_DIR": str(self.folder / "cache"),
        }

    def python(self, script, seconds=300):
        run = subprocess.run(
            [str(HERE / "forked.py"), "-"],
            input=script,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=seconds,
        )
        lines = run.stdout.strip().splitlines()
        try:
            return json.loads(lines[-1])
        except (IndexError, ValueError):
            return {"problem": (run.stderr.strip().splitlines() or ["no answer"])[-1][:300]}

    def flops(self, path, *options):
        run = subprocess.run(
            [
                MFU,
                "flops",
                str(path),
                "--by-class",
                "--json",
                "--convention",
                "all",
                "--batch",
                "2",
                "--python",
                str(HERE / "forked.py"),
                *options,
            ],
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=600,
        )
        try:
            return json.loads(run.stdout)
        except ValueError:
            return {"message": f"mfu ended with {run.returncode}: {run.stderr[-300:]}"}

    def config(self, kind):
        made = self.python(MAKE.format(here=str(HERE), kind=kind))
        if "problem" in made:
            return made
        folder = self.folder / kind
        folder.mkdir(exist_ok=True)
        for name in ("small", "default"):
            (folder / f"{name}.json").write_text(json.dumps(made[name]))
        return {"small": folder / "small.json", "default": folder / "default.json"}

    def reference(self, asked):
        text = base64.b64encode(json.dumps(asked).encode()).decode()
        counted = self.python(
            f"{(HERE / 'reference.py').read_text()}\nimport base64\nmain(base64.b64decode('{text}').decode())\n"
        )
        return counted if isinstance(counted, list) else [counted] * len(asked)

    def type(self, kind):
        """The rows of one type, one for each phase."""
        made = self.config(kind)
        if "problem" in made:
            return [{"type": kind, "phase": "config", "verdict": "refused", "why": made["problem"]}]
        rows, path, sequence = [], made["small"], 32
        for phase in PHASES:
            length = (
                ["--seq", "1", "--context", "32", "--encoder-seq", str(sequence)]
                if phase == "decode"
                else ["--seq", str(sequence)]
            )
            found = self.flops(path, "--phase", phase, *length)
            if phase == "forward" and "message" in found and not any(each in found["message"] for each in HOPELESS):
                for other, longer in ((made["small"], 4096), (made["default"], 32), (made["default"], 4096)):
                    again = self.flops(other, "--phase", phase, "--seq", str(longer))
                    if "message" not in again:
                        found, path, sequence = again, other, longer
                        break
            taken = path
            if (
                "message" in found
                and "cannot decode" not in found["message"]
                and path == made["small"]
                and phase != "forward"
            ):
                # With few layers, a kind of layer may be missing.
                again = self.flops(made["default"], "--phase", phase, *length)
                found, taken = (again, made["default"]) if "message" not in again else (found, path)
            row = {"type": kind, "phase": phase, "config": taken.stem}
            rows.append(row)
            if "message" in found:
                row |= {"verdict": "refused", "why": found["message"].split(".json: ")[-1]}
                if phase == "forward":
                    return rows
            else:
                self.noted(row, found)
        for each in (made["small"], made["default"]):
            self.compare([row for row in rows if "exact" in row and row["config"] == each.stem], each)
        return rows

    def model(self, name):
        return self.diffusion(name) if name in DIFFUSION or name == "SDXL" else self.type(name)

    def diffusion(self, name):
        """The rows of one model of diffusers, for a latent of 32x32."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(SDXL if name == "SDXL" else {"_class_name": name}))
        rows = []
        for phase in ("forward", "train"):
            found = self.flops(path, "--phase", phase, "--latent", "32x32")
            row = {"type": name, "phase": phase, "config": "default"}
            rows.append(row)
            if "message" in found:
                row |= {"verdict": "refused", "why": found["message"].split(".json: ")[-1]}
            else:
                self.noted(row, found)
        self.compare([row for row in rows if "exact" in row], path)
        return rows

    def noted(self, row, found):
        row |= {
            "architecture": found["model"]["architecture"],
            "library": found["model"]["source"],
            "parameters": found["model"]["parameters_total"],
            "exact": found["model_flop"],
            "flopcounter": found["conventions"]["flopcounter"],
            "inputs": found["input"]["tensors"],
            "notes": [
                each
                for each in found["notes"]
                if "taken as" in each or "not known" in each or "times and is not counted" in each
            ],
            "differences": [
                each.removeprefix("flopcounter counts ")
                for each in found["notes"]
                if each.startswith("flopcounter counts")
            ],
        }

    def compare(self, rows, path):
        if not rows:
            return
        config = json.loads(path.read_text())
        counts = self.reference(
            [
                {
                    "library": row["library"],
                    "architecture": row["architecture"],
                    "type": row["type"],
                    "config": config,
                    "tensors": row["inputs"],
                    "encoder": rows[0]["inputs"],
                    "phase": row["phase"],
                    "context": 32,
                    "batch": 2,
                    "latent": [32, 32, 1],
                    "parameters": row["parameters"],
                    "flop": row["exact"],
                }
                for row in rows
            ]
        )
        for row, counted in zip(rows, counts):
            if "problem" in counted:
                row |= {"verdict": "not compared", "why": counted["problem"]}
                continue
            row["counter"], row["how"] = counted["total"], counted["how"]
            wrong = []
            if row["parameters"] != counted["parameters"] + counted["router_bias"]:
                wrong.append(
                    f"parameters {row['parameters']}, the library's {counted['parameters']} and"
                    f" {counted['router_bias']}"
                )
            if row["flopcounter"] != counted["total"]:
                wrong.append(f"flopcounter {row['flopcounter']}, torch's {counted['total']} ({counted['by']})")
            row |= {"verdict": "differs" if wrong else "equal", "why": "; ".join(wrong)}


# With such a message, another size of the same config would not help.
HOPELESS = ("has no model for", "requires the", "is not known here", "by the values of its activations")

# Classes of diffusers, with their default configs. FlopCounterMode can count these sizes on the meta device.
DIFFUSION = (
    "DiTTransformer2DModel",
    "PixArtTransformer2DModel",
    "FluxTransformer2DModel",
    "SD3Transformer2DModel",
    "WanTransformer3DModel",
    "CogVideoXTransformer3DModel",
    "HunyuanVideoTransformer3DModel",
    "LTXVideoTransformer3DModel",
    "MochiTransformer3DModel",
    "AllegroTransformer3DModel",
    "AuraFlowTransformer2DModel",
    "SanaTransformer2DModel",
    "Lumina2Transformer2DModel",
    "QwenImageTransformer2DModel",
    "Flux2Transformer2DModel",
    "ChromaTransformer2DModel",
    "CogView4Transformer2DModel",
    "UNet2DModel",
    "UNet2DConditionModel",
    "UNet3DConditionModel",
    "UNetSpatioTemporalConditionModel",
    "AutoencoderKL",
    "AutoencoderKLWan",
    "VQModel",
    "AutoencoderTiny",
    "ControlNetModel",
    "SD3ControlNetModel",
    "FluxControlNetModel",
)
SDXL = {
    "_class_name": "UNet2DConditionModel",
    "sample_size": 128,
    "in_channels": 4,
    "out_channels": 4,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "attention_head_dim": [5, 10, 20],
    "block_out_channels": [320, 640, 1280],
    "cross_attention_dim": 2048,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "layers_per_block": 2,
    "projection_class_embeddings_input_dim": 2816,
    "transformer_layers_per_block": [1, 2, 10],
    "use_linear_projection": True,
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
}


def scripts():
    """A digest of all files that the results depend on."""
    files = [
        *sorted((ROOT / "src" / "measure").glob("*class*")),
        *sorted((ROOT / "src" / "ops").glob("*.cc")),
        *sorted(HERE.glob("*.py")),
    ]
    return hashlib.sha256(b"".join(each.read_bytes() for each in files if each.name != "table.py")).hexdigest()


def kept_rows(path):
    if not os.path.exists(path):
        return {}
    last, kept = json.loads(Path(path).read_text()), {}
    for row in last["rows"] if last["scripts"] == scripts() else []:
        kept.setdefault(row["type"], []).append(row)
    return kept


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="try only every Nth type")
    parser.add_argument(
        "--kept", action="store_true", help="keep the last sweep's rows, if the scripts have not changed"
    )
    parser.add_argument("--docs", action="store_true", help="write docs/models.md")
    parser.add_argument("--output", default=str(ROOT / "build" / "models.json"))
    options = parser.parse_args()
    begun, rows = time.time(), []
    with tempfile.TemporaryDirectory(prefix="mfu-models-") as folder, server.serving(Path(folder) / "socket"):
        sweep = Sweep(folder)
        types = sweep.python(
            "from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES as names\n"
            "import json\nprint(json.dumps(sorted(names)))"
        )
        # Every third type comes first, so that a sweep that is stopped early has seen types of all kinds.
        names = (
            options.names
            or [*DIFFUSION, "SDXL", *(name for first in range(3) for name in types[first::3])][:: options.every]
        )
        kept = kept_rows(options.output) if options.kept else {}
        rows = [row for name in names for row in kept.get(name, [])]
        names = [name for name in names if name not in kept]
        with ThreadPoolExecutor(options.jobs) as pool:
            for some in pool.map(sweep.model, names):
                rows += some
                for row in some:
                    print(
                        f"{row['verdict']:12} {row['type']} {row['phase']} {row.get('architecture', '')}",
                        row.get("why", "")[:400],
                        flush=True,
                    )
                Path(options.output).write_text(json.dumps({"scripts": scripts(), "rows": rows}))
    if options.docs:
        (ROOT / "docs" / "models.md").write_text(table.page(rows))
    print(table.closing(rows) + f"; {time.time() - begun:.0f} s")
    return 1 if any(row["verdict"] == "differs" and not table.reason(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
