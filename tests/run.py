"""Runs every kind of test and closes with one line over all of them. Called by ./test, which has built."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

import checks
import cli
import page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "tidy"))
import lint  # noqa: E402
import tidy  # noqa: E402


class Tally:
    def __init__(self):
        self.passed = self.failed = 0

    def add(self, name, problem):
        """problem: None where the test passed, else what to show."""
        if problem is None:
            self.passed += 1
            return
        self.failed += 1
        print(f"FAILED {name}", flush=True)
        for line in str(problem).rstrip().splitlines()[:40]:
            print(f"    {line}", flush=True)


def unit_tests(preset, wanted):
    """GoogleTest binaries of one build: (name, problem or None) for each test in them."""
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1",
                       TSAN_OPTIONS="halt_on_error=1 die_after_fork=0")
    for binary in sorted((ROOT / "build" / preset / "unit").glob("*_test")):
        listed = subprocess.run([binary, "--gtest_list_tests"], capture_output=True, text=True).stdout
        if wanted and not any(name in f"{preset}/{binary.name}" or name in listed for name in wanted):
            continue
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            run = subprocess.run([binary, f"--gtest_output=json:{report.name}"], capture_output=True, text=True,
                                 env=environment, timeout=900)
            text = Path(report.name).read_text()
        if not text:
            yield f"{preset}/{binary.name}", f"ended with {run.returncode} and no report\n{run.stdout[-1500:]}{run.stderr[-2500:]}"
            continue
        for suite in json.loads(text)["testsuites"]:
            for case in suite["testsuite"]:
                if case.get("result") == "SKIPPED":  # an oracle that is not at hand: neither passed nor failed
                    continue
                failures = "\n".join(failure["failure"] for failure in case.get("failures", []))
                yield f"{preset}/{suite['name']}.{case['name']}", failures or None
        if run.returncode not in (0, 1):
            yield f"{preset}/{binary.name}", f"ended with {run.returncode}\n{run.stderr[-2500:]}"


def python_tests(wanted):
    """pytest over tests/python in our environment: a process a folder, since what observes torch stays in its process."""
    if wanted and not any(word in name for name in wanted for word in ("python", "model", "ops", "package", "observer", "run", "monitor")):
        return
    folder = ROOT / "tests" / "python"
    groups = [sorted(folder.glob("test_*.py"))] + [[path] for path in sorted(folder.iterdir()) if path.is_dir() and list(path.glob("test_*.py"))]
    for group in groups:
        yield from pytest_group(group)


def heeding_signals():
    """A job in the background, or under nohup, ignores what the tests send, and hands that on."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def pytest_group(paths):
    python, probes = os.environ.get("MFU_PYTHON", sys.executable), ROOT / "build" / "release" / "src"
    package = os.pathsep.join(filter(None, [str(ROOT / "build" / "release" / "python"), os.environ.get("PYTHONPATH")]))
    environment = dict(os.environ, PYTHONPATH=package, PYTHONDONTWRITEBYTECODE="1", MFU_MODEL_PROBE=str(probes / "model" / "mfu_model_probe"), MFU_OPS_PROBE=str(probes / "ops" / "mfu_ops_probe"))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *map(str, paths)], capture_output=True, text=True, timeout=1800, env=environment,
                             preexec_fn=heeding_signals)
        if not report.exists():
            yield f"python/{paths[0].name}", f"pytest did not run in {python} (set-up says why)\n{run.stdout[-1500:]}{run.stderr[-1500:]}"
            return
        for case in ElementTree.parse(report).iter("testcase"):
            bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
            if bad and bad[0].tag == "skipped" and "not at hand" in bad[0].get("message", ""):  # said, neither passed nor failed
                print(f"not run: {case.get('name')}: {bad[0].get('message')}", flush=True)
                continue
            yield f"python/{case.get('name')}", (f"{bad[0].tag}: {bad[0].get('message')}\n{bad[0].text or ''}"[-3000:] if bad else None)


def corpus_replays(preset):
    for binary in sorted((ROOT / "build" / preset / "fuzz").glob("replay_*")):
        corpus = ROOT / "tests" / "fuzz" / "corpus" / binary.name.removeprefix("replay_")
        run = subprocess.run([binary, *sorted(corpus.iterdir())], capture_output=True, text=True)
        yield f"{preset}/{binary.name}", None if run.returncode == 0 else run.stderr


def fuzz(seconds, tally):
    for binary in sorted((ROOT / "build" / "fuzz" / "fuzz").glob("fuzz_*")):
        corpus = ROOT / "tests" / "fuzz" / "corpus" / binary.name.removeprefix("fuzz_")
        print(f"{binary.name}: {seconds} s", flush=True)
        with tempfile.TemporaryDirectory() as found:
            run = subprocess.run([binary, found, corpus, f"-max_total_time={seconds}", "-max_len=4096", "-print_final_stats=1"],
                                 capture_output=True, text=True, cwd=found)
        print("\n".join(line for line in run.stderr.splitlines() if line.startswith(("Done", "stat::number"))))
        tally.add(binary.name, None if run.returncode == 0 else run.stderr[-3000:])


def main():
    parser = argparse.ArgumentParser(prog="./test")
    parser.add_argument("--presets", default="release")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--fuzz", type=int)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    tally = Tally()
    if options.fuzz is not None:
        fuzz(options.fuzz, tally)
    else:
        presets = options.presets.split()
        kinds = [(f"unit tests, {preset}", lambda preset=preset: unit_tests(preset, options.names)) for preset in presets]
        kinds += [("fuzz corpus", lambda: corpus_replays("asan" if "asan" in presets else "release")), ("command line", cli.tests),
                  ("Python", lambda: python_tests(options.names)),
                  ("layout and names", tidy.tests), ("the HTML report", page.tests), ("the rest of the product", checks.tests)]
        if options.sanitize or "lint" in options.names:  # minutes of work: not on every run
            kinds.append(("clang-tidy", lint.tests))
        for kind, tests in kinds:
            start, before = time.monotonic(), tally.passed + tally.failed
            failed = tally.failed
            for name, problem in tests():
                if callable(problem):  # not run yet: only where its name is asked for
                    if options.names and not any(word in name for word in options.names):
                        continue
                    try:
                        problem = problem()
                    except Exception as error:
                        problem = f"{type(error).__name__}: {error}"
                elif options.names and not any(word in name for word in options.names):
                    continue
                tally.add(name, problem)
            count = tally.passed + tally.failed - before
            if count:
                print(f"{kind}: {count - (tally.failed - failed)} of {count} passed, {time.monotonic() - start:.1f} s", flush=True)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
