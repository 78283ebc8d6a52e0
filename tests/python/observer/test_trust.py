"""A cached library is code. If another user could have put it there or changed it, it is not loaded."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from mfu._observer import build


@pytest.fixture
def library(tmp_path):
    """A library in our own folders, like the cache; pytest's folder is private."""
    folder = tmp_path / "mfu" / "observer" / "torch-9"
    folder.mkdir(parents=True)
    for each in (folder, *list(folder.parents)[:2]):
        each.chmod(0o755)
    path = folder / build.NAME
    path.write_bytes(b"code")
    path.chmod(0o755)
    return path


def refused(path, *words, **options):
    with pytest.raises(build.BuildError) as refusal:
        build.trusted(path, **options)
    assert all(word in str(refusal.value) for word in words), refusal.value


def test_what_we_alone_may_write_is_used(library):
    assert build.trusted(library) == library.resolve()


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_library_that_others_may_write_is_refused(library, mode):
    library.chmod(mode)
    refused(library, str(library), "can be written by others", f"{mode:04o}")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_library_in_a_folder_that_others_may_write_is_refused(library, mode):
    library.parent.chmod(mode)
    refused(library, str(library.parent), "can be written by others", "XDG_CACHE_HOME")


def test_a_library_below_a_folder_that_everybody_may_write_is_refused(library):
    library.parents[2].chmod(0o777)
    refused(library, str(library.parents[2]))
    library.parents[2].chmod(0o1777)  # like /tmp: others cannot replace our files
    assert build.trusted(library)


def test_somebody_elses_library_is_refused(library):
    if os.geteuid() == 0:
        os.chown(library, 12345, 12345)
        refused(library, "belongs to user 12345")
    else:
        refused(library, f"belongs to user {os.geteuid()}", user=os.geteuid() + 1)


def test_somebody_elses_folder_is_refused_through_a_link_too(library, tmp_path):
    link = tmp_path / "cache"
    link.symlink_to(library.parent)
    if os.geteuid() == 0:
        os.chown(library.parent, 12345, 12345)
        refused(link / build.NAME, str(library.parent), "belongs to user 12345")
    else:
        refused(link / build.NAME, str(library.parent), user=os.geteuid() + 1)


def test_the_cache_looks_before_it_loads(library, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "cache_folder", lambda torch: library.parent)
    library.with_name(build.SHIMS).write_bytes(b"code")
    assert build.cached(tmp_path) == library
    library.chmod(0o777)
    with pytest.raises(build.BuildError, match="can be written by others"):
        build.cached(tmp_path)
    library.unlink()
    library.parent.chmod(0o777)
    with pytest.raises(build.BuildError, match="can be written by others"):
        build.cached(tmp_path)
    assert not (library.parent / "lock").exists()


def test_a_library_made_under_a_loose_umask_is_still_ours(tmp_path):
    before = os.umask(0o000)
    try:
        build.make_folder(tmp_path / "mfu" / "torch-9")
    finally:
        os.umask(before)
    assert build.trusted(tmp_path / "mfu" / "torch-9")


@pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("setpriv") and shutil.which("unshare")),
    reason="root and util-linux are not at hand",
)
def test_a_rootless_container_that_does_not_map_root_uses_its_own_cache():
    """In such a container `/` seems to belong to nobody."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        mine = Path(top) / "cache"
        mine.mkdir(mode=0o755)
        (mine / build.NAME).write_bytes(b"code")
        for place in (top, mine, mine / build.NAME):
            os.chown(place, 12345, 12345)
        script = Path(top) / "ask.py"
        shutil.copy(build.__file__, Path(top) / "build.py")
        script.write_text(
            "import os, sys, build; print(os.stat('/').st_uid != 0, build.trusted(sys.argv[1], user=os.geteuid()))\n"
        )
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        done = subprocess.run(
            [
                "setpriv",
                "--reuid=12345",
                "--regid=12345",
                "--clear-groups",
                "unshare",
                "--user",
                "--map-root-user",
                python,
                str(script),
                str(mine / build.NAME),
            ],
            capture_output=True,
            text=True,
            cwd=top,
        )
        if "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
            pytest.skip("user namespaces are not at hand")
        assert done.stdout.split() == ["True", str((mine / build.NAME).resolve())], done.stderr
