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
    ("2.8.0 abi1", "2.8.0a0+5228986c39.nv25.5", 1, False),  # a vendor's build is compiled for
    ("2.8.0 abi1", "2.8.0.dev20250601", 1, False),
    ("2.8.0a0+5228986c39.nv25.5 abi1", "2.8.0a0+5228986c39.nv25.5", 1, True),
    ("2.8.0a0+5228986c39.nv25.5 abi1", "2.8.0", 1, False),
])
def test_a_release_is_served_by_its_minor_version(mark, version, abi, serves):
    assert binding.serves(mark, version, abi) is serves


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
    ranks = [subprocess.Popen([sys.executable, "-c", program], env=dict(os.environ, XDG_CACHE_HOME=str(tmp_path)), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [rank.communicate(timeout=120)[0] for rank in ranks] == ["no such luck\n"] * 3
    assert log.read_text() == "tried\n"


def test_without_a_compiler_one_sentence_says_what_helps(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(build.BuildError, match="nothing is prebuilt for this torch and no C\\+\\+ compiler was found: .*python -m mfu._observer.build"):
        build.compiler()
