"""./package: makes wheels in dist/ that run on any machine with glibc 2.31 or later and need no compiler there.

For each architecture it builds the command and the library against the root of an old Debian (toolchain.py), the
observer for every torch (torches.py) and the native module for each Python whose headers are here. It packs them into
wheels (wheel.py). At the end it names what could not be made.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import roots
import torches
import wheel
from toolchain import ROOT, alone_flags, alone_link_flags, compiler, tool, write_cmake_toolchain

HEADERS_ONLY = ("fmt", "CLI", "boost")
ABI3_SINCE = (3, 12)
OLDEST, NEWEST_OF_ITS_OWN = (3, 9), (3, 11)


def say(text):
    print(f"» {text}", file=sys.stderr, flush=True)


def run(command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"./package: {' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class Build:
    """The build for one architecture, in a folder of its own."""

    def __init__(self, machine, folder):
        self.machine, self.folder = machine, folder / machine
        self.shared = folder
        self.root = roots.root_of("bullseye", machine, folder / "roots", say)
        self.triplet = roots.TRIPLET[machine]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stand_ins = self.folder / "stand_ins.o"
        self.library_folder = self.root / "usr" / "lib" / self.triplet

    def headers(self):
        """A folder with links to this machine's headers of header-only libraries. The compiler must not see the rest of
        /usr/include."""
        folder = self.shared / "include"
        folder.mkdir(exist_ok=True)
        for name in HEADERS_ONLY:
            if not (folder / name).exists():
                (folder / name).symlink_to(f"/usr/include/{name}")
        return folder

    def configure(self, name, *settings):
        """Configures a build of the tree for this architecture. Returns its folder."""
        toolchain = self.folder / "toolchain.cmake"
        run(
            [
                compiler(self.machine, "gcc"),
                *alone_flags(self.machine, self.root),
                "-O2",
                "-fPIC",
                "-c",
                ROOT / "cmake/package/stand_ins.c",
                "-o",
                self.stand_ins,
            ]
        )
        write_cmake_toolchain(toolchain, self.machine, self.root, self.stand_ins)
        run(
            [
                "cmake",
                "-S",
                ROOT,
                "-B",
                self.folder / name,
                "-G",
                "Ninja",
                f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
                "-DCMAKE_BUILD_TYPE=Release",
                "-DCMAKE_UNITY_BUILD=ON",
                "-DCMAKE_UNITY_BUILD_BATCH_SIZE=8",
                "-DMFU_TORCH_PYTHON=",
                f"-DMFU_PACKAGE_HEADERS={self.headers()}",
                *settings,
            ]
        )
        return self.folder / name

    def command(self):
        """Builds the command mfu and the archive of the library. Returns their folder."""
        say(f"building the command for {self.machine}")
        built = self.configure("command", "-DMFU_TESTS=OFF")
        run(["ninja", "-C", built, "mfu_command", "mfu"])
        return built

    def library_path(self):
        """An environment in which the built programs find ISA-L outside of a wheel. Programs of this machine must use
        nothing else of the root."""
        bundled = self.folder / "bundled"
        bundled.mkdir(exist_ok=True)
        shutil.copy2((self.library_folder / "libisal.so.2").resolve(), bundled / "libisal.so.2")
        return dict(os.environ, LD_LIBRARY_PATH=str(bundled))

    def archive(self, name):
        """Debian's archive, made fit for a shared library: it uses the variables of stand_ins.c instead of the C
        library's."""
        renamed = self.folder / f"lib{name}.a"
        names = [f"--redefine-sym={each}=mfu_{each}" for each in ("stderr", "stdout", "program_invocation_name")]
        run([compiler(self.machine, "objcopy"), *names, self.library_folder / f"lib{name}.a", renamed])
        return renamed

    def module(self, python, built, output):
        """Builds the native module for one Python, with nanobind and the library linked in."""
        say(f"building the module for {python.tag}, {self.machine}")
        nanobind = nanobind_folder(self.shared)
        output.mkdir(parents=True, exist_ok=True)
        unity = output / "unity.cc"
        unity.write_text(
            "".join(f'#include "{source}"\n' for source in sorted((ROOT / "python/core").glob("*.cc")))
            + f'#include "{nanobind}/src/nb_combined.cpp"\n'
        )
        flags = [
            "-std=gnu++20",
            "-O2",
            "-DNDEBUG",
            "-fPIC",
            "-fvisibility=hidden",
            "-fno-strict-aliasing",
            "-fno-stack-protector",
            "-w",
            "-DNB_DOMAIN=mfu",
            f"-ffile-prefix-map={self.shared}/=",
            f"-I{ROOT / 'include'}",
            f"-isystem{nanobind / 'include'}",
            f"-isystem{nanobind / 'ext/robin_map/include'}",
            f"-isystem{self.headers()}",
            "-DFMT_HEADER_ONLY",
            *(f"-isystem{folder}" for folder in python.includes),
            *(["-DPy_LIMITED_API=0x030C0000"] if python.abi3 else []),
        ]
        run([*tool(self.machine), *alone_flags(self.machine, self.root), *flags, "-c", unity, "-o", output / "unity.o"])
        libraries = [
            built / "libmfu.a",
            *(self.archive(name) for name in ("yaml-cpp", "hwloc", "zstd")),
            self.library_folder / "libisal.so",
        ]
        module = output / python.module
        run(
            [
                compiler(self.machine),
                "-shared",
                "-o",
                module,
                output / "unity.o",
                *libraries,
                *alone_link_flags(self.machine, self.root, self.stand_ins),
                "-Wl,--exclude-libs,ALL",
                "-Wl,-Bsymbolic",
                "-Wl,-rpath,$ORIGIN/lib",
                "-Wl,--gc-sections",
                "-lpthread",
                "-ldl",
                "-lm",
            ]
        )
        for scrap in (unity, output / "unity.o"):
            scrap.unlink()
        return module

    def wheel(self, tag, command, module, stub, observers, output):
        """Installs the pieces of python/package.cmake into a folder and packs them."""
        built, stage = self.folder / "built" / tag, self.folder / "stage" / tag
        for folder in (built, stage):
            shutil.rmtree(folder, ignore_errors=True)
        (built / "python" / "mfu").mkdir(parents=True)
        shutil.copy2(command / "mfu", built / "mfu")
        for path in filter(None, (module, stub if module else None)):
            shutil.copy2(path, built / "python" / "mfu" / path.name)
        run(
            [
                "cmake",
                "-S",
                ROOT,
                "-B",
                self.folder / "configured" / tag,
                f"-DMFU_PREBUILT={built}",
                f"-DMFU_PACKAGE_OBSERVERS={observers}",
                f"-DMFU_PACKAGE_BUNDLED={self.library_folder / 'libisal.so.2'}",
            ]
        )
        run(["cmake", "--install", self.folder / "configured" / tag, "--component", "python", "--prefix", stage])
        # only the link was installed, without the file that it leads to
        bundled = stage / "mfu" / "lib" / "libisal.so.2"
        bundled.unlink()
        shutil.copy2((self.library_folder / "libisal.so.2").resolve(), bundled)
        licences = {
            name: self.root / "usr/share/doc" / name / "copyright"
            for name in ("libisal2", "libhwloc-dev", "libyaml-cpp-dev", "libzstd-dev")
        }
        return wheel.pack(stage, f"{tag}-manylinux_2_31_{self.machine}", licences, output, self.shared)


class Python:
    """A Python to build the module for, with the folder of its headers."""

    def __init__(self, version, includes, machine):
        self.version, self.includes, self.abi3 = version, includes, version >= ABI3_SINCE
        digits = f"{version[0]}{version[1]}"
        self.tag = "cp312-abi3" if self.abi3 else f"cp{digits}-cp{digits}"
        self.module = "_core.abi3.so" if self.abi3 else f"_core.cpython-{digits}-{roots.TRIPLET[machine]}.so"


def pythons(machine, folder):
    """(the Pythons whose headers are here, one per tag; [what is missing])."""
    found, missing = {}, []
    question = (
        "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_paths()['include'],"
        " sysconfig.get_paths()['platinclude'])"
    )
    if machine == platform.machine():
        for minor in range(OLDEST[1], 20):
            program = shutil.which(f"python3.{minor}")
            answer = (
                subprocess.run([program, "-c", question], capture_output=True, text=True).stdout.split()
                if program
                else []
            )
            if (
                len(answer) == 4
                and (Path(answer[3]) / "pyconfig.h").is_file()
                and (Path(answer[2]) / "Python.h").is_file()
            ):
                python = Python((int(answer[0]), int(answer[1])), list(dict.fromkeys(answer[2:])), machine)
                found.setdefault(python.tag, python)
    for suite in ("bullseye", "trixie"):
        try:
            root = roots.root_of(suite, machine, folder / "roots", say)
        except roots.RootError as error:
            missing.append(f"the module for {suite}'s Python: {error}")
            continue
        for include in sorted((root / "usr" / "include").glob("python3.*")):
            version = tuple(int(part) for part in include.name[len("python"):].split("."))
            python = Python(
                version,
                [include, root / "usr" / "include" / roots.TRIPLET[machine] / include.name, root / "usr" / "include"],
                machine,
            )
            found.setdefault(python.tag, python)
    for minor in range(OLDEST[1], NEWEST_OF_ITS_OWN[1] + 1):
        if f"cp3{minor}-cp3{minor}" not in found:
            missing.append(
                f"the wheel for Python 3.{minor} on {machine}: no such Python with its headers is here (the py3-none"
                " wheel serves it without the module)"
            )
    if "cp312-abi3" not in found:
        missing.append(f"the wheel for Python 3.12 and later on {machine}: no such Python with its headers is here")
    return list(found.values()), missing


def nanobind_folder(folder):
    """The folder of nanobind 2, the last version for Python 3.9."""
    place = folder / "nanobind"
    if not (place / "nanobind").is_dir():
        run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place, "nanobind>=2.4,<3"])
    return place / "nanobind"


def stub_of(module, folder, environment):
    """_core.pyi, from a module that this Python can load."""
    output = folder / "_core.pyi"
    run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "_core", "-i", module.parent, "-o", output],
        env=dict(environment, PYTHONPATH=str(folder / "nanobind")),
    )
    return output


def main():
    parser = argparse.ArgumentParser(prog="./package", description="Make portable wheels in dist/.")
    parser.add_argument(
        "--machine",
        action="append",
        choices=sorted(roots.TRIPLET),
        help="architectures to make wheels for (default: this machine's)",
    )
    parser.add_argument(
        "--torch", action="append", help="versions of torch to prebuild the observer for (default: 2.4.0 to 2.15.0)"
    )
    parser.add_argument(
        "--python",
        action="append",
        help="tags of the wheels to make, such as py3-none or cp311-cp311 (default: all that can be made)",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "build" / "package",
        help="where roots, torches and objects are kept between calls",
    )
    options = parser.parse_args()
    output, folder, missing, made = ROOT / "dist", options.folder.resolve(), [], []
    for machine in options.machine or [platform.machine()]:
        try:
            build = Build(machine, folder)
        except roots.RootError as error:
            missing.append(f"wheels for {machine}: {error}")
            continue
        command = build.command()
        observers, lacking = torches.build_all(machine, build.root, folder, options.torch or torches.VERSIONS, say)
        found, absent = pythons(machine, folder)
        missing += lacking + absent
        wanted = [python for python in found if not options.python or python.tag in options.python]
        modules = {python.tag: build.module(python, command, build.folder / "module" / python.tag) for python in wanted}
        stub = folder / "_core.pyi"
        own = f"cp{sys.version_info[0]}{sys.version_info[1]}-cp{sys.version_info[0]}{sys.version_info[1]}"
        if machine == platform.machine() and own in modules:
            stub_of(modules[own], folder, build.library_path())
        for tag, module in [*modules.items(), ("py3-none", None)]:
            if not options.python or tag in options.python:
                made.append(build.wheel(tag, command, module, stub if stub.exists() else None, observers, output))
    for path in made:
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")
    for line in missing:
        print(f"not made: {line}")
    return 0 if made else 2


if __name__ == "__main__":
    sys.exit(main())
