# Sets up what ./run and ./test need, on a fresh Debian or Ubuntu; sourced by both, prints what it does to
# stderr, does nothing where nothing is missing. Works offline once set up.
MFU_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
MFU_VENV="$MFU_ROOT/.venv"

say() { printf '\033[2m»\033[0m %s\n' "$*" >&2; }
[ -t 2 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '» %s\n' "$*" >&2; }
die() { printf 'mfu set-up: %s\n' "$*" >&2; exit 2; }

# Packages: without the first list nothing builds; each of the others serves one part, which says so itself
# when it is missing.
BUILD_PACKAGES="g++ cmake ninja-build pkg-config libfmt-dev libcli11-dev libyaml-cpp-dev libhwloc-dev libboost-dev libisal-dev libzstd-dev python3 python3-venv"
RUN_PACKAGES="libopenblas0-pthread libdnnl2 libpfm4 libcurl4"
TEST_PACKAGES="git libgtest-dev clang-format-19 man-db zsh fish chromium chromium-driver fonts-dejavu-core prometheus libopenmpi-dev openmpi-bin"
FUZZ_PACKAGES="clang-19 libclang-rt-19-dev"

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | cut -c1-2)" = ii ] || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else return 1
  fi
}

apt_ready=
apt_install() {
  if [ -z "$apt_ready" ]; then
    as_root apt-get update -qq >&2 || say "apt-get update failed; going on with the lists that are here"
    apt_ready=1
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$MFU_ROOT/build/apt.log" 2>&1
}

# A package that this distribution does not carry is remembered, so that the next start is quick.
optional_packages() {
  local package absent="$MFU_ROOT/build/.absent-packages"
  for package in $(missing_packages "$@"); do
    grep -qsx "$package" "$absent" && continue
    say "installing $package"
    apt_install "$package" || { echo "$package" >>"$absent"; say "not installed: $package (the part that needs it will say so; see build/apt.log)"; }
  done
}

setup_packages() {
  mkdir -p "$MFU_ROOT/build"
  if ! command -v dpkg-query >/dev/null; then
    command -v cmake >/dev/null && command -v ninja >/dev/null ||
      die "this is neither Debian nor Ubuntu. Install by hand: a C++20 compiler, CMake, Ninja, pkg-config, fmt, CLI11, yaml-cpp, hwloc, ISA-L, zstd; then run this again."
    return
  fi
  local missing; missing="$(missing_packages $BUILD_PACKAGES)"
  if [ -n "$missing" ]; then
    say "installing" $missing
    apt_install $missing ||
      die "could not install: $(echo $missing). As root: apt-get install $(echo $missing)   (log: build/apt.log)"
  fi
  optional_packages $RUN_PACKAGES "$@"
}

# The environment of our own. A torch that the user's Python has is seen through it and not replaced.
setup_python() {
  local stamp="$MFU_VENV/.ready-2"
  [ -e "$stamp" ] && return
  if [ ! -x "$MFU_VENV/bin/python" ]; then
    say "making a Python environment in .venv"
    if python3 -c 'import torch' 2>/dev/null; then
      say "your Python has PyTorch: it is used, not replaced"
      python3 -m venv --system-site-packages "$MFU_VENV" >&2 || { say "no Python environment (Debian: apt-get install python3-venv); what needs it will say so"; return; }
    else
      python3 -m venv "$MFU_VENV" >&2 || { say "no Python environment (Debian: apt-get install python3-venv); what needs it will say so"; return; }
    fi
  fi
  if ! "$MFU_VENV/bin/python" -c 'import torch' 2>/dev/null; then
    say "installing PyTorch into .venv (a few minutes)"
    pip_install numpy torch==2.13.0 || { say "PyTorch was not installed (log: build/pip.log): what needs it will say so, the rest works"; return; }
  fi
  if ! "$MFU_VENV/bin/python" -c 'import nanobind, scikit_build_core' 2>/dev/null; then
    say "installing what the Python package is built with into .venv"
    pip_install $PACKAGE_BUILDERS || { say "not installed (log: build/pip.log): the Python package mfu is left out, the rest works"; return; }
    rm -f "$MFU_ROOT/build/release/build.ninja"  # configured without them
  fi
  "$MFU_VENV/bin/python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' || optional_packages python3-dev
  touch "$stamp"
}

PACKAGE_BUILDERS="nanobind>=2.4 scikit-build-core>=0.10"
pip_install() {
  "$MFU_VENV/bin/python" -m pip install -q --disable-pip-version-check "$@" >"$MFU_ROOT/build/pip.log" 2>&1
}

# The package mfu as it was built, in our environment: `import mfu` there, and the command.
link_python() {
  local built="$MFU_ROOT/build/release/python" site
  for site in "$MFU_VENV"/lib/python3*/site-packages; do
    [ -d "$site" ] && [ -d "$built/mfu" ] || return 0
    [ "$(cat "$site/openmfu.pth" 2>/dev/null)" = "$built" ] || echo "$built" >"$site/openmfu.pth"
    cmp -s "$MFU_ROOT/python/openmfu_start.pth" "$site/openmfu_start.pth" || cp "$MFU_ROOT/python/openmfu_start.pth" "$site/"
  done
  [ "$(readlink "$MFU_VENV/bin/mfu")" = "$MFU_ROOT/build/release/mfu" ] || ln -sf "$MFU_ROOT/build/release/mfu" "$MFU_VENV/bin/mfu"
}

# What only the tests need of Python.
TEST_PYTHON_PACKAGES="pytest mypy clang-tidy==23.1.4 transformers==5.22.2 diffusers==0.42.1 accelerate lightning tensorboard wandb uv"
setup_test_python() {
  local stamp="$MFU_VENV/.tests-ready-6"
  { [ -e "$stamp" ] || [ ! -x "$MFU_VENV/bin/python" ]; } && return
  say "installing $TEST_PYTHON_PACKAGES into .venv"
  pip_install $TEST_PYTHON_PACKAGES || { say "not installed (log: build/pip.log): the tests that need them will say so"; return; }
  touch "$stamp"
}

# test_torch VERSION [ARGS…]: the observer's tests in an environment with that torch; its library is compiled there, as for a user.
test_torch() {
  local environment="$MFU_ROOT/build/torch-$1" version="$1"; shift
  mkdir -p "$MFU_ROOT/build"
  [ -x "$environment/bin/python" ] || python3 -m venv "$environment" >&2
  if [ ! -e "$environment/.ready-1" ]; then
    say "installing torch $version into build/torch-$version (several GB)"
    "$environment/bin/python" -m pip install -q --disable-pip-version-check numpy setuptools pytest "torch==$version" >"$MFU_ROOT/build/pip.log" 2>&1 ||
      die "torch $version was not installed (log: build/pip.log)"
    touch "$environment/.ready-1"
  fi
  (cd "$MFU_ROOT" && XDG_CACHE_HOME="$environment/cache" "$environment/bin/python" -m pytest -q -p no:cacheprovider tests/python/observer "$@")
}

# build PRESET [TARGET…]: configures once, builds what changed.
build() {
  local preset="$1" directory="$MFU_ROOT/build/$1" log="$MFU_ROOT/build/$1.log"; shift
  if [ ! -f "$directory/build.ninja" ]; then
    say "configuring ($preset)"
    (cd "$MFU_ROOT" && cmake --preset "$preset" >"$log" 2>&1) || { tail -n 30 "$log" >&2; die "configuring failed; the whole log: build/$preset.log"; }
  fi
  if [ -n "$(ninja -C "$directory" -n "$@" 2>/dev/null | grep -v 'no work to do' | grep -v '^ninja: Entering')" ]; then
    say "building ($preset)"
    if [ -t 2 ]; then ninja -C "$directory" "$@" >&2 || die "the build failed"
    else ninja -C "$directory" "$@" >"$log" 2>&1 || { grep -A 12 -E 'error|FAILED' "$log" | head -n 60 >&2; die "the build failed; the whole log: build/$preset.log"; }
    fi
  fi
}
