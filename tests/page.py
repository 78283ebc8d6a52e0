"""Opens the HTML report in a real browser: it is read, sorted, filtered and zoomed, in light and dark, and hostile
names stay text."""

import json
import subprocess
import tempfile
from pathlib import Path

import browser

ROOT = Path(__file__).resolve().parent.parent
MFU = ROOT / "build" / "release" / "mfu"
HOSTILE = '</script><img src=x onerror="document.title=\'broken\'"><b>bold'


def trace(rank, slow=0):
    """Three steps: the loader, a matmul on stream 7, an elementwise kernel with a hostile name, an all-reduce."""
    events, correlation, now = [], 0, 1000.0
    event = lambda **fields: events.append({"ph": "X", "pid": 1, "tid": 1, **fields})  # noqa: E731
    kernel_end = now
    for step in range(3):
        begin = now
        event(
            cat="user_annotation", name="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", ts=now, dur=400
        )
        now += 410
        for name, kernel, took, dims in (
            ("aten::mm", "ampere_sgemm_128x64_tn", 300 + slow, [[512, 512], [512, 512]]),
            ("aten::add", HOSTILE, 80, [[512, 512], [512, 512]]),
            ("c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 120, []),
            # 27.5 GFLOP of fp32 in 1 ms: Winograd, 1.41 times the peak of 19.5 TFLOP/s.
            ("aten::cudnn_convolution", "winograd_fprop", 1000, [[8, 256, 56, 56], [256, 256, 3, 3]]),
        ):
            correlation += 1
            event(
                cat="cpu_op",
                name=name,
                ts=now,
                dur=20,
                args={"External id": correlation, "Input Dims": dims, "Input type": ["float", "float"]},
            )
            event(
                cat="cuda_runtime",
                name="cudaLaunchKernel",
                ts=now + 5,
                dur=8,
                args={"correlation": correlation, "External id": correlation},
            )
            start = max(kernel_end, now + 12)
            event(
                cat="kernel",
                name=kernel,
                pid=0,
                tid=7,
                ts=start,
                dur=took,
                args={"correlation": correlation, "External id": correlation, "device": 0, "stream": 7},
            )
            kernel_end = start + took
            now += 25
        now = kernel_end + 30
        event(cat="user_annotation", name=f"ProfilerStep#{step}", ts=begin, dur=now - begin)
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}],
            "distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"}, "traceEvents": events}


def page(folder):
    paths = []
    for rank in range(2):
        paths.append(Path(folder) / f"rank{rank}.json")
        paths[-1].write_text(json.dumps(trace(rank, slow=150 * rank)))
    made = Path(folder) / "report.html"
    run = subprocess.run([MFU, "explain", *paths, "--html", made], capture_output=True, text=True, timeout=60)
    if run.returncode != 0:
        raise RuntimeError(run.stderr)
    return made


def opened(dark):
    with tempfile.TemporaryDirectory() as folder, browser.browser(dark=dark) as chromium:
        made = page(folder)
        text = made.read_text()
        if "http://" in text.replace("http://www.w3.org/2000/svg", "") or "https://" in text:
            return "the page names an address: it must work offline"
        chromium.open(made.as_uri())
        return clicked_through(chromium)


def clicked_through(chromium):
    steps = [
        ("an MFU", lambda: chromium.text("#mfu-value").endswith("%")),
        ("twelve lines and the window", lambda: chromium.count("#ledger tr") == 13),
        ("two ranks", lambda: chromium.count(".heat .rank") == 2),
        ("a finding", lambda: chromium.count("#findings .finding") >= 1),
        ("an operator above the peak, and why", lambda: "multiplies less: 141.1%" in chromium.text("#operators tbody")),
        ("MFU and the ledger's share reconciled", lambda: "faster than the peak" in chromium.text("#headline")),
        (
            "the hostile name as text",
            lambda: HOSTILE in chromium.text("#kernels tbody") and chromium.count("#kernels b") == 0,
        ),
        (
            "kernels by name after a click",
            lambda: (
                chromium.click("#kernels th"),
                chromium.run("return document.querySelector('#kernels th').getAttribute('aria-sort')"),
            )[1]
            == "ascending",
        ),
        (
            "one kernel after a filter",
            lambda: (chromium.type("#kernels input", "sgemm"), chromium.count("#kernels tbody tr"))[1] == 1,
        ),
        (
            "a timeline that zooms",
            lambda: (
                chromium.wheel("#lanes", -240),
                int(chromium.run("return document.getElementById('lanes').dataset.spanNs || 0")),
            )[1]
            > 0,
        ),
        (
            "the other rank when chosen",
            lambda: (
                chromium.run("document.querySelectorAll('.heat .rank')[0].click()"),
                chromium.run("return document.getElementById('rank').value"),
            )[1]
            == "0",
        ),
        (
            "the other theme",
            lambda: (
                chromium.run("scrollTo(0, 0)"),
                chromium.click("#theme"),
                chromium.run("return document.documentElement.dataset.theme"),
            )[2]
            in ("light", "dark"),
        ),
        ("its own title", lambda: chromium.run("return document.title") != "broken"),
        (
            "nothing wider than the window",
            lambda: chromium.run("return document.documentElement.scrollWidth <= innerWidth"),
        ),
    ]
    for what, holds in steps:
        if not holds():
            return f"the page does not show {what}"
    complaints = chromium.complaints()
    return "\n".join(complaints) or None


def tests():
    if not browser.available():
        print(
            "the HTML report was not opened: chromium and chromedriver are not here (Debian: chromium chromium-driver)"
        )
        return
    yield "page/light", lambda: opened(False)
    yield "page/dark", lambda: opened(True)
