"""Which library serves which torch, where it is kept, and who builds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mfu._observer import binding, build

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("mark, version, abi, serves", [
    ("2.8.0 abi1", "2.8.0", 1, True),
    ("2.8.0 abi1", "2.8.1+cu128", 1, True),
    ("2.6.0 abi1", "2.6.0+debian", 1, True),
    ("2.6.0 abi0", "2.6.0+cu124", 1, False),  # the other C++ ABI
    ("2.8.0 abi1", "2.9.0", 1, False),
    ("2.1.0 abi1", "2.10.0", 1, False),
    ("2.8.0 abi1", "2.8.0a0+5228986c39.nv25.5", 1, False),  # for a vendor's build, the library is compiled
    ("2.8.0 abi1", "2.8.0.dev20250601", 1, False),
    ("2.8.0a0+5228986c39.nv25.5 abi1", "2.8.0a0+5228986c39.nv25.5", 1, True),
    ("2.8.0a0+5228986c39.nv25.5 abi1", "2.8.0", 1, False),
])
def test_a_release_is_served_by_its_minor_version(mark, version, abi, serves):
    assert binding.serves(mark, version, abi) is serves


# Versions as vendors, nightlies, release candidates, conda and people who build torch themselves name them.
OTHERS = (
    "2.8.0a0+5228986c39.nv25.06",
    "2.8.0a0+5228986c39.nv25.6",
    "2.13.0.dev20260901+cu130",
    "2.13.0.dev20260901+cpu",
    "2.9.0rc3+rocm7.0",
    "2.9.0rc3",
    "2.8.0.post301",
    "2.8.0.post1",
    "2.9.0a0+gitd38164a",
    "2.9.0+git1c57644",
    "2.8.0+computecanada",
    "2.7.0a0+ecf3bae40a.nv25.02",
)
RELEASES = (
    "2.8.0",
    "2.8.1",
    "2.8.0+cpu",
    "2.8.0+cu128",
    "2.8.0+rocm6.4",
    "2.8.0+xpu",
    "2.6.0+debian",
    "2.5.1+cpu.cxx11.abi",
)


@pytest.mark.parametrize("version", OTHERS)
def test_what_is_no_release_is_compiled_for_under_its_full_name(version, tmp_path, monkeypatch):
    assert not binding.is_release(version)
    headers = ".".join(map(str, binding.numbers(version)))  # TORCH_VERSION has no other numbers
    assert not binding.serves(f"{headers} abi1", version, 1)
    assert binding.serves(f"{version} abi1", version, 1)
    assert binding.numbers(headers) == binding.numbers(version)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    assert build.torch_version(tmp_path / "torch") == version
    assert f"torch-{version}-abi" in build.cache_folder(tmp_path / "torch").name


@pytest.mark.parametrize("version", RELEASES)
def test_a_release_is_one_whatever_it_was_built_with(version):
    assert binding.is_release(version)


def test_a_library_made_for_this_torch_is_held_to_the_headers_numbers_alone(tmp_path):
    import torch

    made = next(binding.prebuilt(str(torch.__version__), int(torch._C._GLIBCXX_USE_CXX11_ABI)))
    said = binding.Library(made, torch.__version__).torch().decode()
    for version in (
        f"{said}a0+5228986c39.nv25.06",
        f"{said}.dev20260901+cu130",
        f"{said}rc3+rocm7.0",
        f"{said}.post301",
        f"{said}+gitabc",
    ):
        binding.Library(made, version, built_for_it=True)
    major, minor, patch = binding.numbers(said)
    with pytest.raises(binding.LibraryError, match="is for torch"):
        binding.Library(made, f"{major}.{minor}.{patch + 1}a0+nv", built_for_it=True)
    binding.Library(made, f"{major}.{minor}.{patch + 1}")  # a release serves its minor version


def test_the_cache_tells_architectures_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = set()
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(build.platform, "machine", lambda machine=machine: machine)
        names.add(build.cache_folder(build.torch_folder()).name)
    assert len(names) == 2


def test_without_a_home_the_cache_is_a_folder_of_the_users_own(monkeypatch, tmp_path):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(build.Path, "home", homeless)
    monkeypatch.setattr(build.tempfile, "gettempdir", lambda: str(tmp_path))
    own = tmp_path / f"mfu-{os.getuid()}"
    assert build.cache_folder(build.torch_folder()).is_relative_to(own)


def test_a_home_that_takes_nothing_is_passed_over(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no folder can be made below a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(build.Path, "home", lambda: tmp_path / "file")
    monkeypatch.setattr(build.tempfile, "gettempdir", lambda: str(tmp_path))
    assert build.cache_folder(build.torch_folder()).is_relative_to(tmp_path / f"mfu-{os.getuid()}")


RANK = """
import sys, time
sys.path.insert(0, {package!r})
from mfu._observer import build
def failing(*_):
    open({log!r}, "a").write("tried\\n")
    time.sleep(3)
    raise build.BuildError("no such luck")
build.build = failing
try:
    build.cached()
except build.BuildError as error:
    print(error)
"""


def test_ranks_that_wait_for_a_build_that_fails_do_not_try_again(tmp_path):
    log = tmp_path / "log"
    program = RANK.format(package=str(ROOT / "python"), log=str(log))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=dict(os.environ, XDG_CACHE_HOME=str(tmp_path)),
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    assert [rank.communicate(timeout=120)[0] for rank in ranks] == ["no such luck\n"] * 3
    assert log.read_text() == "tried\n"


def test_without_a_compiler_one_sentence_says_what_helps(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        build.BuildError,
        match="nothing is prebuilt for this torch and no C\\+\\+ compiler was found: .*python -m mfu._observer.build",
    ):
        build.compiler()


VENDORS = """
import sys, torch
from mfu import _observer
_observer.start(region_folder="")
before = _observer.totals().hardware_flop
torch.ones(3, 4) @ torch.ones(4, 5)
print(torch.__version__, _observer.totals().hardware_flop - before, _observer.library().path)
"""

# Stands in for a compiler, which would take minutes: it links the library that was built with this checkout.
COMPILER = """#!/bin/sh
echo "$@" >> "{log}"
while [ "$1" != "" ]; do
  if [ "$1" = "-o" ]; then out="$2"; fi
  shift
done
case "$out" in
  *.o) : > "$out" ;;
  *) cp "{made}/$(basename "$out")" "$out" ;;
esac
"""


@pytest.mark.parametrize("suffix", ["a0+5228986c39.nv25.06", ".dev20260901+cu130", "rc3+rocm7.0", ".post301"])
def test_a_torch_with_a_suffix_is_compiled_for_under_its_full_name_and_counts(tmp_path, suffix):
    import torch

    real = Path(torch.__file__).parent
    made = next(binding.prebuilt(str(torch.__version__), int(torch._C._GLIBCXX_USE_CXX11_ABI)))
    version = ".".join(map(str, binding.numbers(torch.__version__))) + suffix
    (tmp_path / "torch").mkdir()
    for each in real.iterdir():
        if each.name != "version.py":
            (tmp_path / "torch" / each.name).symlink_to(each)
    text = (real / "version.py").read_text().replace(f"'{torch.__version__}'", f"'{version}'")
    assert version in text
    (tmp_path / "torch" / "version.py").write_text(text)
    compiler, log = tmp_path / "cxx", tmp_path / "log"
    compiler.write_text(COMPILER.format(log=log, made=made.parent))
    compiler.chmod(0o755)
    env = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}:{ROOT / 'python'}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "CXX": str(compiler),
    }

    def run():
        done = subprocess.run([sys.executable, "-c", VENDORS], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()

    said, flop, path = run()
    assert (said, flop) == (version, "120")
    assert f"torch-{version}-abi" in path and Path(path).read_bytes() == made.read_bytes()
    compiled = log.read_text()
    assert "kernels_matmul.cc" in compiled and f"-isystem{tmp_path / 'torch' / 'include'}" in compiled
    assert run()[:2] == [version, "120"] and log.read_text() == compiled  # the second program finds it
