"""Runs every kind of test and closes with one line over all of them. Called by ./test, which has built."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
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
                if case.get("result") == "SKIPPED":  # said, neither passed nor failed
                    why = " ".join(skip.get("message", "") for skip in case.get("skipped", []))
                    print(f"not run: {suite['name']}.{case['name']}: {why.split(chr(10))[-1]}", flush=True)
                    continue
                failures = "\n".join(failure["failure"] for failure in case.get("failures", []))
                yield f"{preset}/{suite['name']}.{case['name']}", failures or None
        if run.returncode not in (0, 1):
            yield f"{preset}/{binary.name}", f"ended with {run.returncode}\n{run.stderr[-2500:]}"


def python_folders(wanted):
    """pytest over tests/python in our environment, a process a folder, since what observes torch stays in its process: (name, paths) of each."""
    if wanted and not any(word in name for name in wanted for word in ("python", "model", "ops", "package", "observer", "run", "monitor")):
        return
    folder = ROOT / "tests" / "python"
    for path in sorted(path for path in folder.iterdir() if path.is_dir() and list(path.glob("test_*.py"))):
        yield path.name, [path]
    yield "models", sorted(folder.glob("test_*.py"))


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


def kinds_of_tests(options):
    """(kind, what gives its tests): the long ones first, so that two lanes end together."""
    presets = options.presets.split()
    yield from ((f"Python, {name}", lambda paths=paths: pytest_group(paths)) for name, paths in python_folders(options.names))
    yield from ((f"unit tests, {preset}", lambda preset=preset: unit_tests(preset, options.names)) for preset in presets)
    yield "the rest of the product", checks.tests
    yield "command line", cli.tests
    yield "the HTML report", page.tests
    yield "fuzz corpus", lambda: corpus_replays("asan" if "asan" in presets else "release")
    yield "layout and names", tidy.tests
    if options.sanitize or "lint" in options.names:  # minutes of work: not on every run
        yield "clang-tidy", lint.tests


def results_of(tests, names):
    """Runs one kind: ([(name, problem or None)], seconds)."""
    start, results, name = time.monotonic(), [], "the first"
    try:
        for name, problem in tests():
            if names and not any(word in name for word in names):
                continue
            if callable(problem):  # not run yet: only where its name is asked for
                try:
                    problem = problem()
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}"
            results.append((name, problem))
    except Exception as error:  # what gives the tests broke, such as a binary that hangs
        results.append((f"the tests after {name}", f"{type(error).__name__}: {error}"))
    return results, time.monotonic() - start


def run_kinds(kinds, names, tally):
    """Two kinds at a time: hardly one of them keeps two cores busy."""
    with ThreadPoolExecutor(2) as lanes:
        running = {lanes.submit(results_of, tests, names): kind for kind, tests in kinds}
        for future in as_completed(running):
            results, seconds = future.result()
            failed = tally.failed
            for name, problem in results:
                tally.add(name, problem)
            if results:
                print(f"{running[future]}: {len(results) - (tally.failed - failed)} of {len(results)} passed, {seconds:.1f} s", flush=True)


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
        run_kinds(kinds_of_tests(options), options.names, tally)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
