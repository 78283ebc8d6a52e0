"""Prometheus itself checks the monitor's metrics: promtool reads what is written and served, and a server scrapes
it."""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROBE = os.environ.get("MFU_MONITOR_PROBE", str(ROOT / "build" / "release" / "src" / "monitor" / "mfu_monitor_probe"))


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def fetched(url, patience=60):
    """Waits until the address answers, and returns the answer."""
    ends = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A monitor that has logged its steps and answers on a port."""
    folder, port = tmp_path_factory.mktemp("served"), free_port()
    process = subprocess.Popen(
        [PROBE, str(folder), "hold", f":{port}"],
        stdin=subprocess.PIPE,
        env=dict(os.environ, MFU_REGION_DIR=str(folder)),
    )
    ends = time.monotonic() + 120
    while "mfu_step 24\n" not in fetched(f"http://127.0.0.1:{port}/metrics"):
        assert time.monotonic() < ends
        time.sleep(0.05)
    yield folder, port
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_promtool_is_content_with_what_is_served(served):
    text = fetched(f"http://127.0.0.1:{served[1]}/metrics")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert 'mfu_perf_mfu{convention="exact",source="calibrated",dtype="bf16"} ' in text


def test_promtool_is_content_with_the_file(tmp_path):
    subprocess.run([PROBE, str(tmp_path)], check=True, timeout=120, env=dict(os.environ, MFU_REGION_DIR=str(tmp_path)))
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=(tmp_path / "mfu.prom").read_text(), capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_prometheus_scrapes_the_endpoint(served, tmp_path):
    folder, port = served
    own = free_port()
    (tmp_path / "prometheus.yml").write_text(
        "scrape_configs: [{job_name: mfu, scrape_interval: 1s, static_configs: [{targets:"
        f" ['127.0.0.1:{port}']}}]}}]\n"
    )
    server = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{own}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        found, ends = [], time.monotonic() + 120
        while not found and time.monotonic() < ends:
            answer = json.loads(fetched(f"http://127.0.0.1:{own}/api/v1/query?query=mfu_perf_mfu"))
            found = answer["data"]["result"]
            time.sleep(0.2)
        logged = [json.loads(line) for line in (folder / "training_log.json").read_text().splitlines()]
        assert float(found[0]["value"][1]) == logged[-1]["perf/mfu"]
        assert found[0]["metric"]["source"] == "calibrated" and found[0]["metric"]["job"] == "mfu"
        targets = json.loads(fetched(f"http://127.0.0.1:{own}/api/v1/targets"))["data"]["activeTargets"]
        assert [target["health"] for target in targets] == ["up"]
    finally:
        server.terminate()
        server.wait(timeout=60)
