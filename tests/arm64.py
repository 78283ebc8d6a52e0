"""./test --arm64 [NAME…]: cross-builds for AArch64 and runs the unit tests under qemu. NAME: folders of src/ whose
tests to run (default: all)."""

import json
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "cmake" / "package"))
import package  # noqa: E402

MACHINE = "aarch64"


def main():
    emulator = [] if platform.machine() == MACHINE else [f"qemu-{MACHINE}-static"]
    if emulator and not shutil.which(emulator[0]):
        print(f"./test --arm64: {emulator[0]} is missing (Debian: apt-get install qemu-user-static)", file=sys.stderr)
        return 2
    build = package.Build(MACHINE, ROOT / "build" / "package")
    folder = build.configure("tests", "-DMFU_TESTS=ON")
    listed = package.run(["ninja", "-C", folder, "-t", "targets", "all"])
    targets = sorted(
        {
            line.split(":")[0]
            for line in listed.splitlines()
            if line.startswith("unit/") and line.split(":")[0].endswith("_test")
        }
    )
    wanted = [target for target in targets if not sys.argv[1:] or any(name in target for name in sys.argv[1:])]
    if not wanted:
        print(f"./test --arm64: no unit test has {' or '.join(sys.argv[1:])} in its name", file=sys.stderr)
        return 2
    package.say(f"building {len(wanted)} unit tests for {MACHINE}")
    package.run(["ninja", "-C", folder, *wanted])
    passed = failed = 0
    for target in wanted:
        with tempfile.TemporaryDirectory() as place:
            report = Path(place) / "report.json"
            done = subprocess.run(
                (
                    [*emulator, "-L", build.root, folder / target, f"--gtest_output=json:{report}"]
                    if emulator
                    else [folder / target, f"--gtest_output=json:{report}"]
                ),
                capture_output=True,
                text=True,
                timeout=3600,
                env=build.library_path(),
            )
            cases = (
                [case for suite in json.loads(report.read_text())["testsuites"] for case in suite["testsuite"]]
                if report.exists()
                else []
            )
        bad = [case for case in cases if case.get("failures")]
        passed, failed = passed + len(cases) - len(bad), failed + len(bad) + (
            0 if cases and done.returncode in (0, 1) else 1
        )
        for case in bad:
            print(
                f"FAILED {MACHINE}/{case['classname']}.{case['name']}\n    "
                + "\n    ".join(failure["failure"] for failure in case["failures"])[:2000]
            )
        if not cases or done.returncode not in (0, 1):
            print(
                f"FAILED {MACHINE}/{target}: ended with {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
            )
        print(f"{target}: {len(cases) - len(bad)} of {len(cases)} passed", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
