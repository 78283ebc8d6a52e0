"""Checks the manifests of deploy/kubernetes against the API's own schema, which the Python client of Kubernetes
contains, and against each other. No Kubernetes runs here, and the manifests were never applied."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]
from test_engines import PYTHON, ROOT, has  # noqa: E402

MANIFEST = ROOT / "deploy" / "kubernetes" / "job.yaml"
KINDS = {"Job": "V1Job", "Service": "V1Service"}  # ServiceMonitor belongs to the operator of Prometheus

# Every field belongs to its type, every required field is there, and every value has the right type.
CHECK = """
import json, re, sys
from kubernetes import client
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object, "datetime": str}
def check(value, kind, place):
    if found := re.fullmatch(r"List\\[(.*)\\]", kind):
        if not isinstance(value, list): yield f"{place}: no list"; return
        for i, each in enumerate(value): yield from check(each, found[1], f"{place}[{i}]")
    elif found := re.fullmatch(r"Dict\\[str, (.*)\\]", kind):
        if not isinstance(value, dict): yield f"{place}: no map"; return
        quantities = place.endswith((".limits", ".requests"))  # a number is as good as its text
        for key, each in value.items(): yield from check(str(each) if quantities else each, found[1], f"{place}.{key}")
    elif kind in PLAIN:
        wrong = not isinstance(value, PLAIN[kind]) or (kind == "int" and isinstance(value, bool))
        if wrong: yield f"{place}: {value!r} is no {kind}"
    else:
        model = getattr(client, kind)
        names = {key: name for name, key in model.attribute_map.items()}
        for key, each in value.items():
            if key not in names: yield f"{place}: {kind} has no field {key}"
            else: yield from check(each, model.openapi_types[names[key]], f"{place}.{key}")
        for name, field in model.model_fields.items():
            key = model.attribute_map.get(name)
            if field.is_required() and key and key not in value: yield f"{place}: {kind} needs {key}"
print(json.dumps([problem for kind, body in json.load(sys.stdin) for problem in check(body, kind, body["kind"])]))
"""


def documents():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not at hand")
    return {each["kind"]: each for each in yaml.safe_load_all(MANIFEST.read_text())}


def problems(found):
    told = subprocess.run(
        [PYTHON, "-c", CHECK],
        input=json.dumps([(KINDS[kind], body) for kind, body in found.items() if kind in KINDS]),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(told.stdout)


@pytest.mark.skipif(
    not has("kubernetes", "pydantic"), reason="the client of Kubernetes is not at hand (./test --cluster installs it)"
)
def test_the_manifests_keep_the_schema():
    found = documents()
    assert list(found) == ["Job", "Service", "ServiceMonitor"] and problems(found) == []
    # A wrong manifest must be found.
    pod = found["Job"]["spec"]["template"]["spec"]
    pod["restartpolicy"] = pod.pop("restartPolicy")
    found["Service"]["spec"]["ports"][0]["port"] = "9464"
    del pod["containers"][0]["name"]
    said = problems(found)
    assert [each.partition(": ")[2] for each in said] == [
        "V1Container needs name",
        "V1PodSpec has no field restartpolicy",
        "'9464' is no int",
    ]


def test_the_manifests_fit_each_other():
    found = documents()
    job, service, monitor = (found[kind] for kind in ("Job", "Service", "ServiceMonitor"))
    pod = job["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]  # pods find each other by name
    (port,), (served,), (scraped,) = container["ports"], service["spec"]["ports"], monitor["spec"]["endpoints"]
    assert scraped["port"] == served["name"] and served["port"] == port["containerPort"]
    assert f"0.0.0.0:{port['containerPort']}" in container["command"]
    (token,) = (each["valueFrom"]["secretKeyRef"] for each in container["env"] if each["name"] == "MFU_METRICS_TOKEN")
    assert scraped["authorization"]["credentials"] == token
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["spec"]["volumes"]}
    assert str(job["spec"]["completions"]) == container["command"][container["command"].index("--nnodes") + 1]
