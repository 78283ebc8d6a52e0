"""Runs every kind of test and prints one line over all of them at the end. ./test calls it after building."""

import argparse
import json
import os
import re
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
import setup_checks
from expected import ROOT, NotRun, expected

sys.path.insert(0, str(ROOT / "tests" / "tidy"))
import lint  # noqa: E402
import tidy  # noqa: E402


class Tally:
    def __init__(self):
        self.passed = self.failed = 0

    def add(self, name, problem):
        """problem: None if the test passed, NotRun if it could not run, otherwise the text to show."""
        if problem is None:
            self.passed += 1
            return
        if isinstance(problem, NotRun):  # printed, but neither passed nor failed
            print(f"not run: {name}: {problem}", flush=True)
            return
        self.failed += 1
        print(f"FAILED {name}", flush=True)
        for line in str(problem).rstrip().splitlines()[:40]:
            print(f"    {line}", flush=True)


def unit_tests(preset, wanted):
    """Runs the GoogleTest binaries of one build: gives (name, problem or None) for each test in them."""
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1",
                       TSAN_OPTIONS="halt_on_error=1 die_after_fork=0 "
                       f"suppressions={ROOT / 'tests' / 'tsan_suppressions.txt'}")
    for binary in expected("unit", preset):
        # The LeakSanitizer of g++ 12 misreads the thread-local storage of threads that OpenBLAS and oneDNN leave
        # behind.
        environment["LSAN_OPTIONS"] = f"use_tls={int(binary.name != 'mfu_hardware_test')}"
        if not binary.exists():
            yield f"{preset}/{binary.name}", "it was not built"
            continue
        listed = subprocess.run([binary, "--gtest_list_tests"], capture_output=True, text=True).stdout
        if wanted and not any(name in f"{preset}/{binary.name}" or name in listed for name in wanted):
            continue
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            run = subprocess.run([binary, f"--gtest_output=json:{report.name}"], capture_output=True, text=True,
                                 env=environment, timeout=900)
            text = Path(report.name).read_text()
        if not text:
            yield (
                f"{preset}/{binary.name}",
                f"ended with {run.returncode} and no report\n{run.stdout[-1500:]}{run.stderr[-2500:]}",
            )
            continue
        cases = [(suite["name"], case) for suite in json.loads(text)["testsuites"] for case in suite["testsuite"]]
        for suite, case in cases:
            failures = "\n".join(failure["failure"] for failure in case.get("failures", []))
            if case.get("result") == "SKIPPED":
                why = " ".join(skip.get("message", "") for skip in case.get("skipped", []))
                yield f"{preset}/{suite}.{case['name']}", NotRun(why.split("\n")[-1])
            else:
                yield f"{preset}/{suite}.{case['name']}", failures or None
        broken = any(case.get("failures") for _, case in cases)
        if run.returncode != broken or not cases:  # a sanitizer also ends with 1 after all tests passed
            yield (
                f"{preset}/{binary.name}",
                f"ended with {run.returncode} after {len(cases)} tests\n{run.stderr[-2500:]}",
            )


def probes(preset):
    """Programs that tests in Python ask. If one is missing, the tests that need it do not say so clearly; this does."""
    for probe in expected("probe", preset):
        yield f"{preset}/{probe.name}", None if probe.exists() else "it was not built"


def named_by(path, wanted):
    """Words for pytest that run what of one file is wanted by name, or None."""
    if any(word in path.stem for word in wanted):
        return [path]
    names = re.findall(r"^ *def (test_\w+)", path.read_text(), re.M)
    words = {word.split("[")[0] for word in wanted}
    words = sorted(word for word in words if any(word in name for name in names))
    return ["-k", " or ".join(words), path] if words else None


def python_folders(wanted):
    """Runs pytest over tests/python in our environment, with one process for each folder, because an observer stays in
    its process: gives (name, words for pytest) of each. A wanted name is that of a folder, or part of the name of a
    file or a test."""
    folder = ROOT / "tests" / "python"
    groups = [(path.name, [path]) for path in sorted(folder.iterdir()) if list(path.glob("test_*.py"))]
    groups.append(("models", sorted(folder.glob("test_*.py"))))
    parts = [word for word in wanted if word not in dict(groups)]
    for name, paths in groups:
        if not wanted or name in wanted or "python" in wanted:
            yield name, paths
            continue
        for path in sorted(file for each in paths for file in (each.glob("test_*.py") if each.is_dir() else [each])):
            words = named_by(path, parts)
            if words:
                yield path.stem, words


def without_torch(words):
    """If our Python has no torch, a folder that needs torch gives one failure, not one for each test."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    if subprocess.run([os.environ.get("MFU_PYTHON", sys.executable), "-c", look], capture_output=True).returncode == 0:
        return False
    return any(
        "import torch" in file.read_text()
        for path in words
        if isinstance(path, Path)
        for file in (path.rglob("*.py") if path.is_dir() else [path])
    )


def heeding_signals():
    """A job in the background, or under nohup, ignores the signals that the tests send, and its children inherit
    that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def pytest_group(words):
    """`words`: what pytest is to run, its paths last."""
    paths = [word for word in words if isinstance(word, Path)]
    python, probes = os.environ.get("MFU_PYTHON", sys.executable), ROOT / "build" / "release" / "src"
    package = os.pathsep.join(filter(None, [str(ROOT / "build" / "release" / "python"), os.environ.get("PYTHONPATH")]))
    environment = dict(
        os.environ,
        PYTHONPATH=package,
        PYTHONDONTWRITEBYTECODE="1",
        MFU_MODEL_PROBE=str(probes / "model" / "mfu_model_probe"),
        MFU_OPS_PROBE=str(probes / "ops" / "mfu_ops_probe"),
    )
    if without_torch(paths):
        yield (
            f"python/{paths[0].name}",
            (
                "it needs PyTorch in .venv, and set-up said why it is not there (MFU_TORCH=pip ./test takes PyPI's,"
                " CUDA included)"
            ),
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run = subprocess.run(
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=3600,  # a busy machine takes long; a test that hangs has limits of its own
            env=environment,
            preexec_fn=heeding_signals,
        )
        if not report.exists():
            yield (
                f"python/{paths[0].name}",
                f"pytest did not run in {python} (set-up says why)\n{run.stdout[-1500:]}{run.stderr[-1500:]}",
            )
            return
        for case in ElementTree.parse(report).iter("testcase"):
            bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
            module = case.get("classname") or case.get("name")  # a module that skips itself has no other name
            below = module.rpartition("tests.python.")[2].split(".")
            below = below if len(below) > 1 else ["models", *below]
            name = "/".join(["python", *below, case.get("name")])
            if bad and bad[0].tag == "skipped" and "not at hand" in bad[0].get("message", ""):
                yield name, NotRun(bad[0].get("message"))
                continue
            # First what failed, then where: only the beginning is shown.
            yield name, (
                f"{bad[0].tag}: {(bad[0].get('message') or '')[:1500]}\n{(bad[0].text or '')[-2000:]}" if bad else None
            )


def corpus_replays(preset):
    for binary in expected("replay", preset):
        corpus = ROOT / "tests" / "fuzz" / "corpus" / binary.name.removeprefix("replay_")
        if not binary.exists():
            yield f"{preset}/{binary.name}", "it was not built"
            continue
        run = subprocess.run([binary, *sorted(corpus.iterdir())], capture_output=True, text=True)
        yield f"{preset}/{binary.name}", None if run.returncode == 0 else run.stderr


def fuzz(seconds, tally):
    for binary in expected("fuzz", "fuzz"):
        corpus = ROOT / "tests" / "fuzz" / "corpus" / binary.name.removeprefix("fuzz_")
        print(f"{binary.name}: {seconds} s", flush=True)
        with tempfile.TemporaryDirectory() as found:
            run = subprocess.run(
                [binary, found, corpus, f"-max_total_time={seconds}", "-max_len=4096", "-print_final_stats=1"],
                capture_output=True,
                text=True,
                cwd=found,
            )
        print("\n".join(line for line in run.stderr.splitlines() if line.startswith(("Done", "stat::number"))))
        tally.add(binary.name, None if run.returncode == 0 else run.stderr[-3000:])


def kinds_of_tests(options):
    """(kind, function that gives its tests). The long ones come first, so that two lanes end at about the same time."""
    presets = options.presets.split()
    yield from (
        (f"Python, {name}", lambda words=words: pytest_group(words)) for name, words in python_folders(options.names)
    )
    yield from (
        (f"unit tests, {preset}", lambda preset=preset: unit_tests(preset, options.names)) for preset in presets
    )
    yield "probes", lambda: probes("release")
    yield "the two commands", setup_checks.tests
    yield "the rest of the product", checks.tests
    yield "command line", cli.tests
    yield "the HTML report", page.tests
    yield "fuzz corpus", lambda: corpus_replays("asan" if "asan" in presets else "release")
    yield "layout and names", tidy.tests
    if options.sanitize or "lint" in options.names:  # takes minutes, so it is not in every run
        yield "clang-tidy", lint.tests


def results_of(tests, names):
    """Runs one kind and returns ([(name, problem or None)], seconds)."""
    start, results, name = time.monotonic(), [], "the first"
    try:
        for name, problem in tests():
            if names and not any(word in name for word in names):
                continue
            if callable(problem):  # runs only if its name is asked for
                try:
                    problem = problem()
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}"
            results.append((name, problem))
        if not results and not names:
            results.append(("the whole kind", "no test was found"))
    except Exception as error:  # the function itself failed, for example because a binary hangs
        results.append((f"the tests after {name}", f"{type(error).__name__}: {error}"))
    return results, time.monotonic() - start


def run_kinds(kinds, names, tally):
    """Runs two kinds at a time, because few of them keep two cores busy."""
    with ThreadPoolExecutor(2) as lanes:
        running = {lanes.submit(results_of, tests, names): kind for kind, tests in kinds}
        for future in as_completed(running):
            results, seconds = future.result()
            failed = tally.failed
            for name, problem in results:
                tally.add(f"{running[future]}: {name}" if name == "the whole kind" else name, problem)
            ran = sum(not isinstance(problem, NotRun) for _, problem in results)
            if ran:
                print(
                    f"{running[future]}: {ran - (tally.failed - failed)} of {ran} passed, {seconds:.1f} s", flush=True
                )


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
    if tally.passed + tally.failed == 0 and options.names:
        print(f"no test has {' or '.join(options.names)} in its name")
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
