"""Traces read by a real Ray of two nodes, and out of an object store (moto's server stands in for S3).

What comes out is what the same traces give here. Needs ray, moto and s3fs in MFU_CLUSTER_PYTHON; ./test --cluster
installs them."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent.parent
MFU = os.environ.get("MFU_COMMAND", str(ROOT / "build" / "release" / "mfu"))
OWN = ROOT / ".venv-cluster" / "bin" / "python"
PYTHON = os.environ.get("MFU_CLUSTER_PYTHON") or (str(OWN) if OWN.exists() else sys.executable)


def has(*modules):
    code = f"import importlib.util, sys; sys.exit(not all(importlib.util.find_spec(each) for each in {modules!r}))"
    return subprocess.run([PYTHON, "-c", code], check=False).returncode == 0


with_ray = pytest.mark.skipif(not has("ray"), reason="Ray is not at hand (./test --cluster installs it)")
with_store = pytest.mark.skipif(
    not has("moto", "s3fs", "boto3"), reason="moto and s3fs are not at hand (./test --cluster installs them)"
)

# Starts two nodes of Ray on this machine and ends when its standard input is closed.
NODES = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def explain(*arguments, status=0, **environment):
    run = subprocess.run(
        [MFU, "explain", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MFU_PYTHON": PYTHON, **environment},
    )
    assert run.returncode == status, run.stderr[-3000:]
    return run


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    subprocess.run(
        [sys.executable, ROOT / "bench" / "make_ranks.py", folder, "--ranks", "12", "--layers", "6"], check=True
    )
    return folder


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def store(ranks, tmp_path_factory):
    """Environment variables for a bucket that holds the ranks."""
    port = free_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "FSSPEC_S3_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    log = open(tmp_path_factory.mktemp("store") / "log", "w")
    server = subprocess.Popen([PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    fill = """
import boto3, pathlib, sys
store = boto3.client("s3")
store.create_bucket(Bucket="job")
for file in pathlib.Path(sys.argv[1]).glob("*.json"): store.upload_file(str(file), "job", "run/" + file.name)
store.put_object(Bucket="job", Key="run/other.json", Body=b"{}")
"""
    for _ in range(120):
        if (
            subprocess.run(
                [PYTHON, "-c", fill, ranks], env={**os.environ, **environment}, capture_output=True, check=False
            ).returncode
            == 0
        ):
            break
        time.sleep(0.5)
    yield environment
    server.terminate()
    server.wait()


@pytest.fixture(scope="module")
def nodes(request, tmp_path_factory):
    """The address of the two nodes. Their workers can reach the object store, and a program that kills its parent
    once."""
    folder = tmp_path_factory.mktemp("nodes")
    killer = folder / "mfu"
    killer.write_text(f"""#!/bin/sh
if [ -e {folder}/kill ]; then rm {folder}/kill; touch {folder}/killed; kill -9 $PPID; fi
exec {MFU} "$@"
""")
    killer.chmod(0o755)
    environment = {**os.environ, "MFU_BINARY": str(killer), "RAY_DISABLE_IMPORT_WARNING": "1"}
    if has("moto", "s3fs", "boto3"):
        environment.update(request.getfixturevalue("store"))
    with open(folder / "log", "w") as log:
        cluster = subprocess.Popen(
            [PYTHON, "-c", NODES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
    address = cluster.stdout.readline().strip()
    assert address, (folder / "log").read_text()[-2000:]
    yield address, folder
    cluster.stdin.close()
    cluster.wait(timeout=60)


def without_paths(text):
    found = json.loads(text)
    for rank in found["ranks"]:
        rank["path"] = Path(rank["path"]).name
    found["notes"] = [note for note in found["notes"] if "left out" not in note]
    for rank in found["ranks"]:
        rank["notes"] = [note for note in rank["notes"] if "left out" not in note]
    return found


@with_ray
def test_ray_gives_what_reading_here_gives(ranks, nodes):
    files = sorted(ranks.glob("*.json"))
    assert explain(*files, "--engine", f"ray={nodes[0]}", "--json").stdout == explain(*files, "--json").stdout
    assert (
        explain(ranks, "--engine", f"ray={nodes[0]}", "--window", "all", "--csv").stdout
        == explain(ranks, "--window", "all", "--csv").stdout
    )


@with_ray
def test_worker_that_dies_is_replaced(ranks, nodes):
    (nodes[1] / "kill").touch()
    assert explain(ranks, "--engine", f"ray={nodes[0]}", "--json").stdout == explain(ranks, "--json").stdout
    assert (nodes[1] / "killed").exists()


@with_ray
def test_bad_trace_is_named_and_a_stranger_in_a_folder_left_out(ranks, nodes, tmp_path):
    shutil.copy(ranks / "rank-0.json", tmp_path)
    (tmp_path / "config.json").write_text("{}")
    run = explain(tmp_path, "--engine", f"ray={nodes[0]}", "--json")
    assert "config.json: is not a profiler trace" in run.stderr and len(json.loads(run.stdout)["ranks"]) == 1
    told = json.loads(explain(tmp_path / "config.json", "--engine", f"ray={nodes[0]}", "--json", status=2).stdout)
    assert told["code"] == "malformed" and "config.json: is not a profiler trace" in told["message"]
    assert "nothing.json" in explain(tmp_path / "nothing.json", "--engine", f"ray={nodes[0]}", status=2).stderr
    assert "no connection" in explain(ranks, "--engine", "ray=127.0.0.1:1", status=2).stderr


@with_ray
def test_python_asks_ray_too(ranks, nodes):
    code = "import mfu, sys; print(mfu.explain(sys.argv[1], engine=sys.argv[2]).summary.mfu)"
    run = subprocess.run(
        [PYTHON, "-c", code, ranks, f"ray={nodes[0]}"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "build" / "release" / "python"), "MFU_BINARY": MFU},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert float(run.stdout) == json.loads(explain(ranks, "--json").stdout)["summary"]["mfu"]


@with_store
def test_object_store_is_read_like_a_folder(ranks, store):
    run = explain("s3://job/run", "--json", **store)
    assert without_paths(run.stdout) == without_paths(explain(ranks, "--json").stdout)
    assert json.loads(run.stdout)["ranks"][0]["path"] == "s3://job/run/rank-0.json" and "other.json" in run.stderr
    mixed = explain("s3://job/run/rank-1.json", ranks / "rank-0.json", "--json", **store)
    assert without_paths(mixed.stdout) == without_paths(
        explain(ranks / "rank-1.json", ranks / "rank-0.json", "--json").stdout
    )
    assert "s3://job/nothing" in explain("s3://job/nothing", status=2, **store).stderr


@with_ray
@with_store
def test_ray_reads_object_stores(ranks, store, nodes):
    run = explain("s3://job/run/rank-*.json", "--engine", f"ray={nodes[0]}", "--json", **store)
    assert without_paths(run.stdout) == without_paths(explain(ranks, "--json").stdout)


def test_without_ray_it_is_said(ranks, tmp_path):
    (tmp_path / "ray.py").write_text("raise ImportError('none')\n")
    run = explain(ranks, "--engine", "ray", status=2, MFU_PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    assert "Ray is not installed for" in run.stderr and "pip install ray" in run.stderr
    assert (
        "give local, ray or ray=ADDRESS" in explain(
            ranks, "--engine", "dask", status=2, MFU_PYTHON=sys.executable
        ).stderr
    )
    (tmp_path / "fsspec.py").write_text("raise ImportError('none')\n")
    run = explain("s3://bucket/x", status=2, MFU_PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    assert "needs fsspec" in run.stderr
