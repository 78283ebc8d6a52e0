"""A real Prometheus that scrapes two launchers, with the rules, alerts and board of deploy/."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / "run")]
from expected import MFU  # noqa: E402
from test_jobs import PROGRAM  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
ABSENT = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
needs_prometheus = pytest.mark.skipif(
    bool(ABSENT), reason=f"{', '.join(ABSENT)} not at hand (apt-get install prometheus)"
)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def launcher(tmp_path, name, rank, address, **variables):
    (tmp_path / "train.py").write_text(PROGRAM)
    environment = dict(
        os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", STEPS="100000", PAUSE="0.1", **variables
    )
    environment.pop("MFU_RUN_ID", None)
    return subprocess.Popen(
        [
            MFU,
            "run",
            "--dir",
            str(tmp_path / name / "run"),
            "--listen",
            address,
            "--",
            sys.executable,
            str(tmp_path / "train.py"),
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def fetch(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def wait_for(what, ready, seconds=90):
    end = time.monotonic() + seconds
    while True:
        found = ready()
        if found:
            return found
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.5)


def end(*processes):
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(60)


@needs_prometheus
def test_the_rules_are_what_promtool_takes():
    for path in ("rules.yml", "alerts.yml"):
        done = subprocess.run(["promtool", "check", "rules", str(DEPLOY / path)], capture_output=True, text=True)
        assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_beyond_loopback_a_token_is_needed(tmp_path):
    done = subprocess.run(
        [MFU, "run", "--dir", str(tmp_path / "run"), "--listen", "0.0.0.0:0", "--", "true"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "HOST]:PORT" in done.stderr
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "MFU_METRICS_TOKEN"}
    refused = subprocess.run(
        [
            MFU,
            "run",
            "--dir",
            str(tmp_path / "run"),
            "--listen",
            f"0.0.0.0:{port}",
            "--",
            "touch",
            str(tmp_path / "ran"),
        ],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert refused.returncode == 2 and "token" in refused.stderr and not (tmp_path / "ran").exists()
    process = launcher(tmp_path, "a", 0, f"0.0.0.0:{port}", MFU_METRICS_TOKEN="secret")
    try:
        wait_for("a step", lambda: "mfu_step" in tried(f"http://127.0.0.1:{port}/metrics", "secret"))
        with pytest.raises(urllib.error.HTTPError) as refusal:
            fetch(f"http://127.0.0.1:{port}/metrics")
        assert refusal.value.code == 401
    finally:
        end(process)


def tried(url, token=None):
    try:
        return fetch(url, token)
    except OSError:
        return ""


@needs_prometheus
def test_a_prometheus_that_scrapes_two_launchers_answers_every_query_of_the_board(tmp_path):
    ports, own = [free_port(), free_port()], free_port()
    launchers = [launcher(tmp_path, name, rank, f":{port}") for rank, (name, port) in enumerate(zip("ab", ports))]
    configuration = (
        (DEPLOY / "prometheus.yml")
        .read_text()
        .replace("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s")
    )
    configuration = configuration.replace(
        '["node-a:9464", "node-b:9464"]', json.dumps([f"127.0.0.1:{port}" for port in ports])
    )
    for rules in ("rules.yml", "alerts.yml"):
        shutil.copy(DEPLOY / rules, tmp_path)
    (tmp_path / "token").write_text("unused")
    (tmp_path / "prometheus.yml").write_text(configuration)
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

    def query(expression):
        try:
            answer = json.loads(
                fetch(f"http://127.0.0.1:{own}/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
            )
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from None
        except OSError:
            return []
        assert answer["status"] == "success", expression
        return answer["data"]["result"]

    try:
        wait_for("two launchers", lambda: len(query("mfu_perf_mfu")) == 2)
        page = fetch(f"http://127.0.0.1:{ports[0]}/metrics")
        checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
        # A rate is 0 until its counter has grown between two scrapes.
        ratio = wait_for(
            "the recording rules",
            lambda: [each for each in query("run:mfu:ratio") if float(each["value"][1]) > 0],
        )
        # both launchers belong to one run
        assert [each["metric"]["run"] for each in ratio] == ["run"] and 0 < float(ratio[0]["value"][1]) < 1
        assert {(each["metric"]["rank"], each["metric"]["device"]) for each in query("mfu_step")} == {
            ("0", "cpu"),
            ("1", "cpu"),
        }
        assert {each["metric"]["phase"] for each in query("mfu_phase_model_flop_total")} >= {"train"}
        assert (
            wait_for("the ranks", lambda: query("run:mfu_ranks:sum == 2"))
            and query("run:mfu_ranks_expected:max")[0]["value"][1] == "2"
        )
        board = json.loads((DEPLOY / "grafana" / "mfu.json").read_text())
        expressions = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]
        assert len(expressions) > 12
        for title, expression in expressions:
            found = query(expression.replace("$run", ".*"))
            assert found or title == "Alerts", f"{title}: {expression} gives nothing"
        drawn = subprocess.run(
            [sys.executable, DEPLOY / "grafana" / "draw.py", f"http://127.0.0.1:{own}", "--seconds", "60"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert all(escape(panel["title"]) in drawn for panel in board["panels"]) and "no data" not in drawn
        ElementTree.fromstring(drawn)
    finally:
        end(*launchers, server)

