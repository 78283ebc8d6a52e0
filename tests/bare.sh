#!/usr/bin/env bash
# ./test --bare [12|13]… [--order run-test|test-run] [--keep]
# Both commands, in either order, in roots of Debian 12 and 13 that hold what debootstrap's minbase gives and nothing else: what a
# newcomer's machine is. It needs root, debootstrap, the network and about 10 GB under build/bare, and takes an hour or more a root.
# Sources of packages and pip's configuration are those of this machine, read when it runs.
set -euo pipefail
BARE_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
BARE="$BARE_ROOT/build/bare"
die() { printf './test --bare: %s\n' "$*" >&2; exit 2; }

codename() { case "$1" in 12) echo bookworm ;; 13) echo trixie ;; *) die "Debian $1? It knows 12 and 13" ;; esac; }

# The mirror that this machine's apt uses; empty where it names none of Debian's (debootstrap then takes its own).
mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -v '^ *#' | grep -oE '[a-z+]+://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ' || true
}

# minbase DEBIAN: build/bare/DEBIAN.tar, made once; whole or not there.
minbase() {
  local base="$BARE/$1.tar" made="$BARE/$1.made"
  [ -e "$base" ] && return
  echo "debootstrap of Debian $1 (minbase)"
  rm -rf "$made"
  debootstrap --variant=minbase "$(codename "$1")" "$made" $(mirror) >"$BARE/$1.debootstrap.log" 2>&1 ||
    die "debootstrap failed: $BARE/$1.debootstrap.log"
  tar -C "$made" -cf "$base.part" .
  mv "$base.part" "$base"
  rm -rf "$made"
}

# prepare DEBIAN FOLDER: the root, with the tree in it as git has it, and this machine's ways to its registries.
prepare() {
  local folder="$2" file
  rm -rf "$folder"
  mkdir -p "$folder"
  tar -C "$folder" -xf "$BARE/$1.tar"
  mkdir -p "$folder/src/mfu"
  (cd "$BARE_ROOT" && git ls-files -co --exclude-standard -z | tar --null --ignore-failed-read -T - -cf -) | tar -C "$folder/src/mfu" -xf -
  [ ! -d "$BARE_ROOT/../shared" ] || cp -r "$BARE_ROOT/../shared" "$folder/src/shared"
  local uri; uri="$(mirror)"
  [ -z "$uri" ] || printf 'deb %s %s main\n' "$uri" "$(codename "$1")" "$uri" "$(codename "$1")-updates" "${uri%/}-security" "$(codename "$1")-security" \
    >"$folder/etc/apt/sources.list"
  for file in /etc/apt/apt.conf.d/*; do
    ! grep -qs '^ *Acquire' "$file" || cp "$file" "$folder/etc/apt/apt.conf.d/"
  done
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf "$HOME/.config/pip/pip.conf"; do
    [ ! -e "$file" ] || { mkdir -p "$folder$(dirname "$file")"; cp -L "$file" "$folder$file"; }
  done
  # Where this machine trusts more than Debian does; by a name of its own, since installing ca-certificates writes the usual one anew.
  [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$folder/etc/bare-certificates.crt"
}

# Folders that pip's configuration names; seen at the same place inside.
pip_folders() {
  python3 -m pip config list 2>/dev/null | grep -oE "(file://)?/[^ '\"]+" | sed 's,^file://,,' | while read -r path; do
    [ ! -d "$path" ] || (cd "$path" && case "$PWD" in */simple) dirname "$PWD" ;; *) echo "$PWD" ;; esac)
  done | sort -u
}

# inside FOLDER COMMAND: as root in that root. The mounts live in a namespace of their own, so they are gone with its last process;
# the processes go with the first one, and that one with us, whatever ends us.
inside() {
  local folder="$1" variable environment=(HOME="$HOME" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" LANG=C.UTF-8); shift
  for variable in $(compgen -e | grep -iE '^(PIP_|https?_proxy$|no_proxy$)'); do environment+=("$variable=${!variable}"); done
  [ ! -e "$folder/etc/bare-certificates.crt" ] || for variable in PIP_CERT SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; do
    environment+=("$variable=/etc/bare-certificates.crt")
  done
  FOLDER="$folder" FOLDERS="$(pip_folders)" setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private bash -euc '
    mount -t proc proc "$FOLDER/proc"
    mount --rbind /sys "$FOLDER/sys"
    mount --rbind /dev "$FOLDER/dev"
    mount -t tmpfs -o mode=1777 shm "$FOLDER/dev/shm"
    for path in $FOLDERS; do mkdir -p "$FOLDER$path"; mount --rbind -o ro "$path" "$FOLDER$path"; done
    mount -o remount,ro,bind "$FOLDER/sys" 2>/dev/null || true
    exec chroot "$FOLDER" /usr/bin/env -i "$@"' bash "${environment[@]}" bash -c "cd /src/mfu && $*"
}

# one DEBIAN ORDER: 0 where everything that a person would call good is.
one() {
  local debian="$1" order="$2" name="debian-$1-$2" folder="$BARE/debian-$1-$2" command log start status failed=0
  prepare "$debian" "$folder"
  for command in ${order//-/ }; do
    log="$BARE/$name.$command.log" start=$SECONDS status=0
    inside "$folder" "./$command" >"$log" 2>&1 </dev/null || status=$?
    printf '%-20s ./%-5s exit %d  %5d s  %s\n' "Debian $debian" "$command" "$status" $((SECONDS - start)) "$(tail -n 1 "$log")"
    [ "$status" = 0 ] || { failed=1; echo "    log: ${log#"$BARE_ROOT/"}"; }
  done
  # Everything is there now: the next start says nothing and makes nothing.
  log="$BARE/$name.again.log" start=$SECONDS
  inside "$folder" "./run --binary" >"$log" 2>&1 </dev/null || failed=1
  if [ "$(wc -l <"$log")" != 1 ]; then failed=1; echo "    the next ./run had more to say: ${log#"$BARE_ROOT/"}"; fi
  printf '%-20s ./run --binary again %5d s\n' "Debian $debian" $((SECONDS - start))
  [ -n "$keep" ] || rm -rf --one-file-system "$folder"
  return $failed
}

debians="" orders="" keep=""
while [ $# -gt 0 ]; do
  case "$1" in
    12 | 13) debians="$debians $1" ;;
    --order) case "${2:-}" in run-test | test-run | run | test) orders="$orders $2"; shift ;; *) die "--order run-test or test-run" ;; esac ;;
    --keep) keep=1 ;;
    *) die "no such argument: $1 (./test --bare [12|13] [--order run-test|test-run] [--keep])" ;;
  esac
  shift
done
[ "$(id -u)" = 0 ] || die "it makes roots and mounts: run it as root"
command -v debootstrap >/dev/null || die "debootstrap is not installed (Debian: apt-get install debootstrap)"
mkdir -p "$BARE"
bad=0
for debian in ${debians:-12 13}; do
  minbase "$debian"
  for order in ${orders:-run-test test-run}; do one "$debian" "$order" || bad=$((bad + 1)); done
done
[ "$bad" = 0 ] && echo "./test --bare: all good" || { echo "./test --bare: $bad of the roots failed"; exit 1; }
