# Sets up what ./run and ./test need on a fresh Debian or Ubuntu. Both source this file. It prints what it does to
# stderr, does nothing if nothing is missing, and needs no network once everything is set up.
#
# The commands can be called in any order, interrupted and called again, because each stage leaves a stamp when it is
# complete: a file that says what the stage was made from. `keep` writes the stamp in one step, after everything else.
# `kept` says whether the stamp still describes what is here. If it does not, the stage is done again.
MFU_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
MFU_VENV="$MFU_ROOT/.venv"

say() { printf '\033[2m»\033[0m %s\n' "$*" >&2; }
[ -t 2 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '» %s\n' "$*" >&2; }
die() { printf 'mfu set-up: %s\n' "$*" >&2; exit 2; }

kept() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }
keep() { printf '%s\n' "$2" >"$1.part" 2>/dev/null && mv "$1.part" "$1"; }

# Two set-ups at a time would unpack into one folder, so the second one waits. Programs that a killed ./test left
# running hold the lock too.
lock_tree() {
  mkdir -p "$MFU_ROOT/build" || die "$MFU_ROOT/build cannot be made"
  command -v flock >/dev/null || return 0
  exec 9<"$MFU_ROOT/build"
  flock -n 9 || { say "another ./run or ./test is at work in this tree: waiting for it"; flock 9; }
}
unlock_tree() { exec 9<&-; }

# in_background COMMAND…: runs it in a process group of its own, which ends when we end. (Ctrl-C does not reach what a
# script has in the background.)
background=
in_background() {
  set -m
  "$@" &
  background=$!
  set +m
  trap 'kill -- "-$background" 2>/dev/null || true' EXIT
}

# ---- packages -----------------------------------------------------------------------------------------------------------------------
# Nothing can be built without the first list. Each package of the other lists serves one part of mfu, and that part
# says so if the package is missing. a|b means either one; a# means a followed by a version, whichever this distribution
# has.
BUILD_PACKAGES="g++ cmake ninja-build pkg-config libfmt-dev libcli11-dev libyaml-cpp-dev libhwloc-dev libboost-dev libisal-dev libzstd-dev python3 python3-venv"
RUN_PACKAGES="libopenblas0-pthread libdnnl# libpfm4 libcurl4t64|libcurl4"
TEST_PACKAGES="git libgtest-dev clang-format-19 man-db zsh fish chromium chromium-driver fonts-dejavu-core prometheus libopenmpi-dev openmpi-bin"
FUZZ_PACKAGES="clang-19 libclang-rt-19-dev"
CONFIGURED_PACKAGES="$BUILD_PACKAGES libgtest-dev libopenmpi-dev python3-dev python3-torch libtorch-dev"  # what CMake looks for

# Prints "NAME VERSION" for each package, and "NAME -" if it is not installed. A name that another package provides
# counts as installed.
package_versions() {
  dpkg-query -W -f '${db:Status-Abbrev}\t${Package}\t${Version}\t${Provides}\n' 2>/dev/null | awk -F '\t' -v wanted="$*" '
    substr($1, 2, 2) == "i " {
      version[$2] = $3
      count = split($4, provided, /, */)
      for (i = 1; i <= count; ++i) { sub(/[ :].*/, "", provided[i]); if (!(provided[i] in version)) version[provided[i]] = $3 }
    }
    END {
      count = split(wanted, names, " ")
      for (i = 1; i <= count; ++i) {
        found = "-"
        others = split(names[i], either, "|")
        for (j = 1; j <= others && found == "-"; ++j) {
          if (either[j] in version) found = version[either[j]]
          else if (either[j] ~ /#$/) {
            stem = substr(either[j], 1, length(either[j]) - 1)
            for (name in version) if (index(name, stem) == 1 && substr(name, length(stem) + 1) ~ /^[0-9.]+(t64)?$/) found = name "=" version[name]
          }
        }
        print names[i], found
      }
    }'
}
missing_packages() { package_versions "$@" | awk '$2 == "-" { print $1 }'; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else return 1
  fi
}

# Updates apt's lists. Returns 1 if that fails. First it finishes what an interrupted dpkg left.
apt_ready=
apt_update() {
  [ -z "$apt_ready" ] || return $((apt_ready - 1))
  apt_ready=2
  as_root true || { say "installing packages needs root"; return 1; }
  as_root dpkg --configure -a >"$MFU_ROOT/build/apt.log" 2>&1 9<&- || true
  if as_root apt-get update -qq -o APT::Update::Error-Mode=any >>"$MFU_ROOT/build/apt.log" 2>&1 9<&-; then apt_ready=1
  else say "apt-get update failed; going on with the lists that are here (log: build/apt.log)"
  fi
  return $((apt_ready - 1))
}
apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 "$@" \
    >"$MFU_ROOT/build/apt.log" 2>&1 9<&- </dev/null
}

# Prints the names that these packages have in this distribution. A package that it does not have is left out.
names_to_install() {
  local entry name
  for entry in "$@"; do
    for name in ${entry//|/ }; do
      case "$name" in
        *'#') name="$(apt-cache pkgnames "${name%'#'}" 2>/dev/null | grep -E "^${name%'#'}[0-9.]+(t64)?\$" | sort -V | tail -n 1)" ;;
      esac
      [ -n "$name" ] && apt-cache show "$name" >/dev/null 2>&1 && { echo "$name"; break; }
    done
  done
}

# Packages that this distribution does not have are remembered as long as apt's sources stay the same, so that the next
# start is quick.
absent_packages() { echo "$MFU_ROOT/build/.absent-packages-$(cat /etc/os-release /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | cksum | cut -d ' ' -f 1)"; }
optional_packages() {
  local entry name absent wanted="" names=""
  absent="$(absent_packages)"
  for entry in $(missing_packages "$@"); do grep -qsxF "$entry" "$absent" || wanted="$wanted $entry"; done
  [ -n "$wanted" ] || return 0
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then  # nothing can be done: say it once
    kept "$MFU_ROOT/build/.asked" "$wanted" || say "not installed (no root, no sudo):$wanted; what needs them will say so. As root: apt-get install ${wanted//[|#]/ }"
    keep "$MFU_ROOT/build/.asked" "$wanted" || true
    return 0
  fi
  apt_update || true
  for entry in $wanted; do
    name="$(names_to_install "$entry")"
    if [ -n "$name" ]; then names="$names $name"
    elif [ "$apt_ready" = 1 ]; then echo "$entry" >>"$absent"; say "not in this distribution: $entry (the part that needs it will say so)"
    else say "not installed: $entry (the part that needs it will say so; the next start tries again)"
    fi
  done
  [ -n "$names" ] || return 0
  say "installing$names"
  apt_install $names && return
  for name in $names; do  # one that cannot be had does not keep the others out
    apt_install "$name" || say "not installed: $name (the part that needs it will say so; the next start tries again; log: build/apt.log)"
  done
}

# refuse_old: stops if the compiler, CMake or the distribution is too old.
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }
refuse_old() {
  local id="" version="" oldest=""
  [ ! -r /etc/os-release ] || read -r id version < <(. /etc/os-release && echo "$ID ${VERSION_ID:-}")
  case "$id" in debian) oldest=12 ;; ubuntu) oldest=22.04 ;; esac
  if command -v g++ >/dev/null; then
    version="$(g++ -dumpfullversion -dumpversion)"
    ! older "$version" 11 || [ -n "${CXX:-}" ] || die "mfu needs g++ 11 or newer (Debian 12, Ubuntu 22.04), and this g++ is $version."
  elif [ -n "$oldest" ] && [ -n "$version" ] && older "$version" "$oldest"; then
    die "mfu needs g++ 11 and CMake 3.22 or newer, which $id has since $oldest, and this is $id $version."
  fi
  if command -v cmake >/dev/null; then
    version="$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')"
    ! older "$version" 3.22 || die "mfu needs CMake 3.22 or newer (Debian 12, Ubuntu 22.04), and this CMake is $version."
  fi
}

setup_packages() {
  if ! command -v dpkg-query >/dev/null; then
    command -v cmake >/dev/null && command -v ninja >/dev/null ||
      die "this is neither Debian nor Ubuntu. Install by hand: a C++20 compiler, CMake, Ninja, pkg-config, fmt, CLI11, yaml-cpp, hwloc, ISA-L, zstd; then run this again."
    return
  fi
  local missing; missing="$(echo $(missing_packages $BUILD_PACKAGES))"
  if [ -n "$missing" ]; then
    refuse_old
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null || die "missing: $missing. There is no sudo here. As root: apt-get install $missing"
    apt_update || true
    local optional; optional="$(echo $(names_to_install $(missing_packages $RUN_PACKAGES "$@")))"
    say "installing $missing${optional:+ $optional}"
    # Installing everything in one call is quickest. If one of the optional packages causes an error, try without them.
    apt_install $missing $optional || apt_install $missing ||
      die "could not install: $missing ($(grep -m 1 '^E: ' "$MFU_ROOT/build/apt.log" || true)). As root: apt-get install $missing   (log: build/apt.log)"
  fi
  optional_packages $RUN_PACKAGES "$@"
}

# ---- the Python environment ---------------------------------------------------------------------------------------------------------
TORCH=2.13.0
TORCH_DOWNLOAD="2.6 GB in 29 files"  # of PyPI's torch 2.13.0 for x86-64 with the CUDA it depends on
PACKAGE_BUILDERS="nanobind>=2.4 scikit-build-core>=0.10"
TEST_PYTHON_PACKAGES="pytest pyte mypy clang-tidy==23.1.4 transformers==5.22.2 diffusers==0.42.1 tensorboard wandb uv"
TEST_TORCH_PACKAGES="accelerate lightning"  # which would bring a torch of their own

environment() { "$MFU_VENV/bin/python" "$MFU_ROOT/cmake/environment.py" "$@" 2>/dev/null; }
fact() { sed -n "s/^$1: //p" <<<"$python_facts"; }
pip_install() {
  "$MFU_VENV/bin/python" -m pip install -q --disable-pip-version-check "$@" >"$MFU_ROOT/build/pip.log" 2>&1 </dev/null
}
# True if pip reached its sources and they have no such file. After any other error, such as a lost network or a full
# disk, we try again.
pip_found_none() {
  grep -q 'No matching distribution found' "$MFU_ROOT/build/pip.log" &&
    ! grep -qE 'Retrying \(|Could not fetch URL|NewConnectionError|Max retries|timed out' "$MFU_ROOT/build/pip.log"
}

make_environment() {
  if [ -e "$MFU_VENV" ]; then
    "$MFU_VENV/bin/python" -m ensurepip >/dev/null 2>&1 && python_facts="$(environment mend)" && [ "$(fact pip)" != none ] && return
    say "the Python environment in .venv does not work (interrupted, or made for another Python): making it again"
    rm -rf "$MFU_VENV"
  else say "making a Python environment in .venv"
  fi
  python3 -m venv "$MFU_VENV" >&2 && python_facts="$(environment)"
}

# If the user's Python has torch, our environment uses that one and installs no other.
see_system_torch() {
  python3 -c 'import torch' 2>/dev/null || return 1
  sed -i 's/^include-system-site-packages = .*/include-system-site-packages = true/' "$MFU_VENV/pyvenv.cfg"
  python_facts="$(environment)"
  [ "$(fact torch)" != none ]
}

# Installs Debian's own torch, if the Python is Debian's and the torch is new enough for the observer.
debian_torch() {
  [ "$(python3 -c 'import sys; print(sys.base_prefix)')" = /usr ] && command -v apt-cache >/dev/null || return 1
  apt_update || true
  local version; version="$(apt-cache policy python3-torch 2>/dev/null | sed -n 's/ *Candidate: //p')"
  dpkg --compare-versions "${version:-0}" ge 2.4 || return 1
  say "installing Debian's python3-torch $version and libtorch-dev instead (about 0.2 GB)"
  apt_install python3-torch libtorch-dev && see_system_torch
}

# Returns 0 if torch is there or will never be, and 1 if the next start should try again. PyPI's builds bring CUDA, so
# they are installed only if the user asks for them.
setup_torch() {
  see_system_torch && { say "your Python has PyTorch: it is used, not replaced"; return; }
  local decided="$MFU_VENV/.without-torch" key="$TORCH, $(fact python)"
  if [ "${MFU_TORCH:-}" = pip ]; then
    say "installing PyTorch $TORCH into .venv from pip's sources (up to $TORCH_DOWNLOAD)"
    pip_install numpy "torch==$TORCH" && return
    say "PyTorch was not installed (log: build/pip.log): what needs it will say so, the rest works"
    return 1
  fi
  kept "$decided" "$key" && return
  say "installing PyTorch $TORCH for CPUs into .venv (a few minutes)"
  pip_install numpy "torch==$TORCH+cpu" && return
  if ! pip_found_none; then
    say "PyTorch was not installed (log: build/pip.log): what needs it will say so, the next start tries again"
    return 1
  fi
  say "pip's sources have no torch $TORCH+cpu for this Python. PyPI's own would be $TORCH_DOWNLOAD, CUDA included: MFU_TORCH=pip ./run takes it"
  debian_torch && return
  [ "$apt_ready" != 2 ] || return 1
  say "going on without PyTorch: counting operators inside a program needs it, the rest works"
  keep "$decided" "$key" || true
}

python_facts=
setup_python() {
  command -v python3 >/dev/null || { say "no python3: the Python package is left out, the rest works"; return 0; }
  python_facts="$(environment)" && [ "$(fact pip)" != none ] || make_environment ||
    { say "no Python environment (Debian: apt-get install python3-venv); what needs it will say so"; return 0; }
  local wanted="torch $TORCH ${MFU_TORCH:-}, $PACKAGE_BUILDERS" ready="$MFU_VENV/.ready" whole=1
  kept "$ready" "$wanted"$'\n'"$python_facts" && return
  python_facts="$(environment mend)"
  [ "$(fact torch)" != none ] || setup_torch || whole=
  if [ "$(fact nanobind)" = none ] || [ "$(fact scikit-build-core)" = none ]; then
    say "installing what the Python package is built with into .venv"
    pip_install $PACKAGE_BUILDERS || { whole=; say "not installed (log: build/pip.log): the Python package mfu is left out, the rest works"; }
  fi
  [ "$(fact 'python headers')" != none ] || ! command -v dpkg-query >/dev/null || optional_packages python3-dev
  python_facts="$(environment)"
  [ -z "$whole" ] || keep "$ready" "$wanted"$'\n'"$python_facts" || true
}

# Makes the package as it was built available in our environment: `import mfu`, and the command mfu.
link_python() {
  local built="$MFU_ROOT/build/release/python" site
  for site in "$MFU_VENV"/lib/python3*/site-packages; do
    [ -d "$site" ] && [ -d "$built/mfu" ] || return 0
    kept "$site/openmfu.pth" "$built" || keep "$site/openmfu.pth" "$built" || die "cannot write to $site (a full disk?)"
    cmp -s "$MFU_ROOT/python/openmfu_start.pth" "$site/openmfu_start.pth" || cp "$MFU_ROOT/python/openmfu_start.pth" "$site/"
  done
  [ "$(readlink "$MFU_VENV/bin/mfu")" = "$MFU_ROOT/build/release/mfu" ] || ln -sf "$MFU_ROOT/build/release/mfu" "$MFU_VENV/bin/mfu"
}

# Installs what only the tests need of Python. The names in site-packages contain versions, so the stamp notices what is
# added or removed.
setup_test_python() {
  local stamp="$MFU_VENV/.tests-ready" wanted="$TEST_PYTHON_PACKAGES"
  [ -x "$MFU_VENV/bin/python" ] || return 0
  [ "$(fact torch)" = none ] || wanted="$wanted $TEST_TORCH_PACKAGES"
  installed() { (cd "$MFU_VENV" && echo "$wanted" && fact torch && ls -d lib/python3*/site-packages/*-info); }
  kept "$stamp" "$(installed)" && return
  say "installing $wanted into .venv"
  environment mend >/dev/null
  pip_install $wanted || { say "not installed (log: build/pip.log): the tests that need them will say so"; return 0; }
  keep "$stamp" "$(installed)" || true
}

# test_torch VERSION [ARGS…]: runs the observer's tests in an environment with that torch. The observer is compiled
# there, as it would be for a user.
test_torch() {
  local environment="$MFU_ROOT/build/torch-$1" version="$1"; shift
  if [ ! -e "$environment/.ready-1" ]; then
    rm -rf "$environment"
    python3 -m venv "$environment" >&2
    say "installing torch $version into build/torch-$version (several GB)"
    "$environment/bin/python" -m pip install -q --disable-pip-version-check numpy setuptools pytest "torch==$version" >"$MFU_ROOT/build/pip.log" 2>&1 ||
      die "torch $version was not installed (log: build/pip.log)"
    touch "$environment/.ready-1"
  fi
  (cd "$MFU_ROOT" && XDG_CACHE_HOME="$environment/cache" "$environment/bin/python" -m pytest -q -p no:cacheprovider tests/python/observer "$@" &&
    XDG_CACHE_HOME="$environment/cache" "$environment/bin/python" -m pytest -q -p no:cacheprovider tests/python/observer_passes "$@")
}

# ---- the build ----------------------------------------------------------------------------------------------------------------------
# Everything that CMake found when it was configured, as text. CMake does not look again, so if this text changes, we
# configure again.
configuration() {
  local tool
  echo "tree: $MFU_ROOT"
  cksum <"$MFU_ROOT/CMakePresets.json"
  for tool in cmake ninja "${CXX:-c++}" pkg-config; do stat -L -c '%n %s %Y' "$(command -v "$tool")" 2>/dev/null || echo "$tool: none"; done
  ! command -v dpkg-query >/dev/null || package_versions $CONFIGURED_PACKAGES
  [ -n "$python_facts" ] || python_facts="$(environment)" || true
  echo "$python_facts"
}

# configure PRESET STAMP-TEXT: configures from nothing, because CMake's cache would keep what is gone. Object files
# stay, so nothing is compiled twice.
configure() {
  local preset="$1" directory="$MFU_ROOT/build/$1" log="$MFU_ROOT/build/$1.log" launchers line
  refuse_old
  launchers="$(sed -n 's/^\(CMAKE_C\(XX\)\?_COMPILER_LAUNCHER\):[A-Z]*=\(..*\)/-D\1=\3/p' "$directory/CMakeCache.txt" 2>/dev/null)" || true
  say "configuring ($preset)"
  [ ! -e "$directory/CMakeCache.txt" ] || grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$MFU_ROOT" "$directory/CMakeCache.txt" || rm -rf "$directory"
  rm -rf "$directory/.configured" "$directory/CMakeCache.txt" "$directory"/CMakeFiles/[0-9]*.*
  (cd "$MFU_ROOT" && cmake --preset "$preset" $launchers >"$log" 2>&1) || { tail -n 30 "$log" >&2; die "configuring failed; the whole log: build/$preset.log"; }
  while read -r line; do say "$line"; done < <(sed -n '/ left out/s/^-- //p' "$log")
  keep "$directory/.configured" "$2" || die "cannot write to $directory (a full disk?)"
}

# build PRESET [TARGET…]: configures if something has changed, then builds.
build() {
  local preset="$1" directory="$MFU_ROOT/build/$1" log="$MFU_ROOT/build/$1.log" text plan; shift
  mkdir -p "$MFU_ROOT/build"
  text="$(configuration)"
  { [ -f "$directory/build.ninja" ] && kept "$directory/.configured" "$text"; } || configure "$preset" "$text"
  plan="$(ninja -C "$directory" -n "$@" 2>&1)" || { configure "$preset" "$text"; plan="again"; }
  if [ -n "$(grep -v 'no work to do' <<<"$plan" | grep -v '^ninja: Entering')" ]; then
    say "building ($preset)"
    if [ -t 2 ]; then ninja -C "$directory" "$@" >&2 || die "the build failed"
    else ninja -C "$directory" "$@" >"$log" 2>&1 || { grep -A 12 -E 'error|FAILED' "$log" | head -n 60 >&2; die "the build failed; the whole log: build/$preset.log"; }
    fi
  fi
}

# require_tests PRESET: stops if CMake left out tests because something is missing (cmake/expect.cmake).
require_tests() {
  local missing; missing="$(sed -n 's/^missing //p' "$MFU_ROOT/build/$1/tests.txt")"
  [ -z "$missing" ] || die "the tests cannot be built without $missing"
}
