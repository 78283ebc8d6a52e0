"""Packs an installed folder into a wheel: its own metadata, and the licences of the libraries in it."""

import base64
import hashlib
import re
import zipfile
from pathlib import Path

from toolchain import ROOT

LIMIT_BYTES = 40_000_000


def version():
    return re.search(r"project\(mfu VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def project():
    """name, description, requires-python and classifiers of pyproject.toml, which has each of them on a line."""
    text = (ROOT / "pyproject.toml").read_text()
    found = dict(re.findall(r'^(name|description|requires-python) = "(.*)"$', text, re.M))
    found["classifiers"] = re.findall(
        r'"([^"]+ :: [^"]+)"', re.search(r"^classifiers = \[(.*)\]$", text, re.M).group(1)
    )
    return found


def metadata():
    about = project()
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {about['name']}",
        f"Version: {version()}",
        f"Summary: {about['description']}",
        "License: Apache-2.0",
        f"Requires-Python: {about['requires-python']}",
        *(f"Classifier: {each}" for each in about["classifiers"]),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (ROOT / "README.md").read_text()


def pack(stage, tag, licences, output, made_in):
    """Packs the folder and returns the path of the wheel. `licences`: {name: file} of the libraries that are linked in.
    `made_in`: the folders of the build, which no file may name."""
    output.mkdir(exist_ok=True)
    name = f"{project()['name']}-{version()}"
    info = f"{name}.dist-info"
    files = {
        path.relative_to(stage).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(stage.rglob("*"))
        if path.is_file()
    }
    for place in (ROOT, made_in):
        naming = [each for each, (data, _) in files.items() if f"{place}/".encode() in data]
        if naming:
            raise SystemExit(f"{', '.join(naming)}: the path of the build machine, {place}, is in it")
    pure = "Root-Is-Purelib: false"
    texts = {
        "METADATA": metadata(),
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: mfu\n{pure}\nTag: {tag}\n",
        "entry_points.txt": "[console_scripts]\nmfu = mfu.__main__:main\n",
        "licenses/LICENSE": (ROOT / "LICENSE").read_text(),
        **{f"licenses/{each}": path.read_text() for each, path in licences.items() if path.is_file()},
    }
    files |= {f"{info}/{each}": (text.encode(), 0o644) for each, text in texts.items()}
    record = [
        f"{each},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for each, (data, _) in files.items()
    ]
    files[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]).encode() + b"\n", 0o644)
    path = output / f"{name}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for each, (data, mode) in files.items():
            entry = zipfile.ZipInfo(each, (2020, 1, 1, 0, 0, 0))  # a fixed date makes the same wheel each time
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    if path.stat().st_size > LIMIT_BYTES:
        raise SystemExit(f"{path.name} has {path.stat().st_size} bytes, more than the {LIMIT_BYTES} a wheel may have")
    return path
