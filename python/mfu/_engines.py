"""Reads traces on this machine, or on the machines where Ray has workers; from folders, or from object stores through
fsspec.

Each trace is condensed to a part (docs/formats/part.md) by the program mfu, on the machine where it is read. Only parts
are sent, and the program that asked merges them. The command calls

    python _engines.py --mfu BINARY --engine ray=ADDRESS --window all --out FOLDER PATH…

and gets FOLDER/000000.mfu-part and so on, or FOLDER/error: a code, a newline and a message. This file needs nothing of
the package, so that a worker only needs the program."""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

ENDINGS = (".json", ".json.gz", ".json.zst", ".trace", ".trace.gz")
PART = ".mfu-part"
ATTEMPTS = 3

Progress = Callable[[int, int], None]


class EngineError(Exception):
    """An error that a person can do something about. `code` is that of mfu.error/1."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


@dataclass
class Found:
    """One file to read, and where it is."""

    path: str
    named: bool = True  # a person named it; otherwise it was found in a folder and may not be a trace
    name: str = ""  # name in reports, if it differs from the path
    nodes: List[str] = field(default_factory=list)  # Ray's nodes that have the file; empty: any node


def is_remote(path: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", path) is not None


def natural(path: str) -> List[Any]:
    """Sorts rank-10 after rank-9, as the command does."""
    return [(1, int(piece), "") if piece.isdigit() else (0, 0, piece) for piece in re.split(r"(\d+)", path)]


def traces_among(paths: Sequence[str]) -> List[str]:
    """Of the files in a folder: the traces, or, if there are none, the parts."""
    traces = [path for path in paths if path.endswith(ENDINGS)]
    return sorted(traces or [path for path in paths if path.endswith(PART)], key=natural)


def look(path: str) -> Optional[List[Tuple[str, Tuple[int, int], bool]]]:
    """The files that a path stands for on this machine, each with what identifies it. None if nothing is there."""

    def told(file: str, named: bool) -> Tuple[str, Tuple[int, int], bool]:
        status = os.stat(file)
        return file, (status.st_size, status.st_mtime_ns), named

    if os.path.isdir(path):
        held = [os.path.join(path, name) for name in os.listdir(path)]
        return [told(file, False) for file in traces_among([file for file in held if os.path.isfile(file)])]
    return [told(path, True)] if os.path.exists(path) else None


def object_store(path: str) -> Tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise EngineError(
            "unsupported", f"{path}: needs fsspec: pip install fsspec, and s3fs for s3://, gcsfs for gs://"
        ) from None
    try:
        found: Tuple[Any, str] = fsspec.core.url_to_fs(path)
        return found
    except (ImportError, ValueError) as error:
        raise EngineError("unsupported", f"{path}: {error}") from None


def look_remote(path: str) -> List[Found]:
    """The files that a URL stands for: one file, those of a folder, or those that match a pattern."""
    store, place = object_store(path)
    try:
        if any(sign in place for sign in "*?["):
            paths = sorted(store.glob(place), key=natural)
            named = True
        elif store.isfile(place):
            paths, named = [place], True
        else:
            paths, named = (
                traces_among([each["name"] for each in store.ls(place, detail=True) if each["type"] == "file"]),
                False,
            )
    except FileNotFoundError:
        paths, named = [], False
    except Exception as error:  # each store raises its own errors, for example for credentials or the network
        raise EngineError("io", f"{path}: cannot be listed: {error}") from None
    if not paths:
        raise EngineError(
            "not_found",
            f"{path}: nothing is there: give a trace, or a folder of *.json, *.json.gz, *.json.zst or *.mfu-part",
        )
    return [Found(store.unstrip_protocol(each), named) for each in paths]


def program(told: str) -> str:
    """The program mfu on this machine: the one that asks, if it exists here too."""
    for path in (os.environ.get("MFU_BINARY", ""), told, shutil.which("mfu") or ""):
        if path and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise EngineError(
        "not_found", f"{socket.gethostname()}: has no program mfu: install the package openmfu there, or set MFU_BINARY"
    )


def fetch(url: str, file: str) -> None:
    store, place = object_store(url)
    try:
        with store.open(place, "rb") as source, open(file, "wb") as target:
            shutil.copyfileobj(source, target, 8 << 20)
    except FileNotFoundError:
        raise EngineError("not_found", f"{url}: No such file") from None


def condense_once(path: str, name: str, window: str, mfu: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="mfu-part-") as folder:
        here, out = path, os.path.join(folder, "out" + PART)
        if is_remote(path):
            here = os.path.join(folder, os.path.basename(path) or "trace")
            fetch(path, here)
        if here.endswith(PART):
            with open(here, "rb") as part:
                return part.read()
        words = [
            program(mfu),
            "explain",
            here,
            "--partial",
            out,
            "--json",
            "--as",
            name or path,
            *(["--window", window] if window else []),
        ]
        run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if run.returncode == 0:
            with open(out, "rb") as part:
                return part.read()
        try:
            told = json.loads(run.stdout)
            code, message = told["code"], told["message"]
        except (ValueError, KeyError):
            raise OSError(f"{path}: mfu explain ended with {run.returncode}: {run.stderr[-500:]}") from None
        raise EngineError(code, message.replace(here, name or path))


def condense(path: str, name: str, window: str, mfu: str) -> bytes:
    """The part of one trace. After an error that may pass (network, memory) it tries again."""
    for attempt in range(ATTEMPTS):
        try:
            return condense_once(path, name, window, mfu)
        except EngineError:
            raise
        except Exception as error:  # including the errors of a store
            if attempt == ATTEMPTS - 1:
                raise EngineError("io", f"{name or path}: cannot be read, tried {ATTEMPTS} times: {error}") from None
    raise AssertionError


def attempt(path: str, name: str, window: str, mfu: str) -> Tuple[bytes, str, str]:
    """The same, but returns a value: the part, or a code and a message."""
    try:
        return condense(path, name, window, mfu), "", ""
    except EngineError as error:
        return b"", error.code, error.message


class Parts:
    """Stores parts in a folder as they arrive. At the end they are in the order of their traces."""

    def __init__(self, files: List[Found], folder: str, progress: Optional[Progress]) -> None:
        self.files, self.folder, self.progress = files, folder, progress
        self.left_out: List[str] = []
        self.made: Dict[int, str] = {}
        self.done = 0

    def take(self, index: int, part: bytes, code: str, message: str) -> None:
        self.done += 1
        if self.progress:
            self.progress(self.done, len(self.files))
        if code == "malformed" and not self.files[index].named:
            self.left_out.append(message)
            return
        if code:
            raise EngineError(code, message)
        self.made[index] = os.path.join(self.folder, f"{index:06d}{PART}")
        with open(self.made[index], "wb") as file:
            file.write(part)

    def finish(self) -> List[str]:
        if not self.made:
            raise EngineError(
                "malformed", self.left_out[0] if self.left_out else "no trace is given: give a file or a directory"
            )
        for message in self.left_out:
            print(f"mfu: {message}; left out", file=sys.stderr)
        return [path for _, path in sorted(self.made.items())]


def gather_here(
    paths: Sequence[str], window: str, mfu: str, folder: str, progress: Optional[Progress] = None
) -> List[str]:
    """Fetches what is in object stores, several files at a time. Paths on this machine stay as they are."""
    files: List[Found] = []
    order: List[Any] = []
    for path in paths:
        if not is_remote(path):
            order.append(path)
            continue
        found = look_remote(path)
        order += range(len(files), len(files) + len(found))
        files += found
    parts = Parts(files, folder, progress)
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        waiting = {pool.submit(attempt, file.path, file.name, window, mfu): index for index, file in enumerate(files)}
        try:
            for each in as_completed(waiting):
                parts.take(waiting[each], *each.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if all(isinstance(each, int) for each in order):
        return parts.finish()
    return [
        each if isinstance(each, str) else parts.made[each]
        for each in order
        if isinstance(each, str) or each in parts.made
    ]


def unreachable(address: str) -> str:
    """Why nobody answers at HOST:PORT; empty if somebody does. Ray itself would try for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdigit():
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        return str(error)
    return ""


def connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise EngineError(
            "unsupported",
            f"--engine ray: Ray is not installed for {sys.executable}: pip install ray, or name a Python that has "
            "it (--python, MFU_PYTHON)",
        ) from None
    if ray.is_initialized():
        return ray
    refused = unreachable(address)
    if refused:
        raise EngineError("io", f"--engine ray={address}: no connection: {refused}")
    quiet = {"logging_level": "ERROR", "log_to_driver": False, "configure_logging": False}
    try:
        if address:
            ray.init(address=address, **quiet)
            return ray
        try:
            ray.init(address="auto", **quiet)
        except ConnectionError:
            ray.init(include_dashboard=False, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise EngineError("io", f"--engine ray{'=' + address if address else ''}: no connection: {error}") from None
    return ray


def look_everywhere(ray: Any, path: str) -> List[Found]:
    """The files that a path stands for on any node. A file that several nodes share is read once."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    task = ray.remote(num_cpus=0, max_retries=ATTEMPTS)(look)
    places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    seen = ray.get([task.options(scheduling_strategy=place).remote(path) for place in places])
    holders: Dict[Tuple[str, Tuple[int, int]], List[str]] = {}
    named: Dict[str, bool] = {}
    for node, files in zip(nodes, seen):
        for file, stamp, by_name in files or []:
            holders.setdefault((file, stamp), []).append(node["NodeID"])
            named[file] = by_name
    if not holders:
        raise EngineError("not_found", f"{path}: No such file or directory on any of {len(nodes)} nodes")
    hosts = {node["NodeID"]: node["NodeManagerHostname"] for node in nodes}
    found = []
    for (file, stamp), where in sorted(holders.items(), key=lambda each: natural(each[0][0])):
        twins = [other for other in holders if other[0] == file]
        found.append(
            Found(
                file,
                named[file],
                name=file if len(twins) == 1 else f"{hosts[where[0]]}:{file}",
                nodes=[] if len(where) == len(nodes) else where,
            )
        )
    return found


def gather_by_ray(
    paths: Sequence[str], window: str, mfu: str, folder: str, address: str = "", progress: Optional[Progress] = None
) -> List[str]:
    """Makes a part of each trace, on a node that has it. Tasks of lost nodes run again on other nodes."""
    ray = connect(address)
    from ray import cloudpickle
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if __name__ != "__main__":
        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not have this package
    files = [file for path in paths for file in (look_remote(path) if is_remote(path) else look_everywhere(ray, path))]
    task = ray.remote(num_cpus=1, max_retries=ATTEMPTS)(attempt)
    waiting: Dict[Any, int] = {}
    for index, file in enumerate(files):
        place: Any = NodeAffinitySchedulingStrategy(file.nodes[0], soft=False) if file.nodes else "SPREAD"
        waiting[task.options(scheduling_strategy=place).remote(file.path, file.name, window, mfu)] = index
    parts = Parts(files, folder, progress)
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=1.0)
            for each in ready:
                try:
                    part, code, message = ray.get(each)
                except ray.exceptions.RayError as error:
                    part, code, message = (
                        b"",
                        "io",
                        f"{files[waiting[each]].path}: a worker of Ray failed, tried {ATTEMPTS + 1} times: {error}",
                    )
                parts.take(waiting.pop(each), part, code, message)
    except BaseException:
        for each in waiting:
            ray.cancel(each)
        raise
    return parts.finish()


def gather(
    engine: str, paths: Sequence[str], window: str, mfu: str, folder: str, progress: Optional[Progress] = None
) -> List[str]:
    """The paths that the command explains on this machine: parts in `folder`, and files that are here already."""
    name, _, address = engine.partition("=")
    if name == "ray":
        return gather_by_ray(paths, window, mfu, folder, address, progress)
    if engine not in ("", "local"):
        raise EngineError("invalid_argument", f"--engine {engine}: give local, ray or ray=ADDRESS")
    return gather_here(paths, window, mfu, folder, progress)


def show(done: int, whole: int) -> None:
    width = 24
    bar = "█" * (done * width // whole)
    print(
        f"\r  reading {bar:<{width}} {done} of {whole} traces",
        end="\n" if done == whole else "",
        file=sys.stderr,
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Reads traces elsewhere; what mfu explain --engine calls.")
    for option in ("--mfu", "--engine", "--window"):
        parser.add_argument(option, default="")
    parser.add_argument("--out", required=True)
    parser.add_argument("paths", nargs="+")
    asked = parser.parse_args()
    try:
        made = gather(
            asked.engine, asked.paths, asked.window, asked.mfu, asked.out, show if sys.stderr.isatty() else None
        )
    except EngineError as error:
        with open(os.path.join(asked.out, "error"), "w", encoding="utf-8") as file:
            file.write(f"{error.code}\n{error.message}")
        return 2
    with open(os.path.join(asked.out, "paths"), "w", encoding="utf-8") as file:
        file.write("".join(f"{path}\0" for path in made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
