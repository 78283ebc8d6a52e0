#!/usr/bin/env bash
# ./test --bare [12|13]… [--order run-test|test-run] [--keep]
# Runs both commands, in either order, in roots of Debian 12 and 13. A root has only what debootstrap's minbase gives,
# so it is like a newcomer's machine. This needs root, debootstrap, the network and about 10 GB under build/bare, and
# takes an hour or more for each root. Package sources and pip's configuration are copied from this machine when it
# runs.
set -euo pipefail
BARE_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
BARE="$BARE_ROOT/build/bare"
die() { printf './test --bare: %s\n' "$*" >&2; exit 2; }

codename() { case "$1" in 12) echo bookworm ;; 13) echo trixie ;; *) die "Debian $1? It knows 12 and 13" ;; esac; }

# Prints the mirror that this machine's apt uses, or nothing if it names none of Debian's. debootstrap then uses its
# own.
mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep -v '^ *#' | grep -oE '[a-z+]+://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ' || true
}

# minbase DEBIAN: makes build/bare/DEBIAN.tar, once. The file is complete or not there.
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

# prepare DEBIAN FOLDER: makes the root, with the tree in it as git has it, and with this machine's package sources.
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
  # The certificates that this machine trusts. They get a name of their own, because installing ca-certificates
  # overwrites the usual file.
  [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$folder/etc/bare-certificates.crt"
}

# Prints the folders that pip's configuration names. They are mounted at the same place in the root.
pip_folders() {
  python3 -m pip config list 2>/dev/null | grep -oE "(file://)?/[^ '\"]+" | sed 's,^file://,,' | while read -r path; do
    [ ! -d "$path" ] || (cd "$path" && case "$PWD" in */simple) dirname "$PWD" ;; *) echo "$PWD" ;; esac)
  done | sort -u
}

# inside FOLDER COMMAND: runs the command as root in that root. The mounts are in a namespace of their own, so they are
# gone when its last process ends. All processes end with the first one, and that one ends with us, however we end.
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

# one DEBIAN ORDER: tries one root. Returns 0 if everything went well.
one() {
  local debian="$1" order="$2" name="debian-$1-$2" folder="$BARE/debian-$1-$2" command log start status failed=0
  prepare "$debian" "$folder"
  for command in ${order//-/ }; do
    log="$BARE/$name.$command.log" start=$SECONDS status=0
    inside "$folder" "./$command" >"$log" 2>&1 </dev/null || status=$?
    printf '%-20s ./%-5s exit %d  %5d s  %s\n' "Debian $debian" "$command" "$status" $((SECONDS - start)) "$(tail -n 1 "$log")"
    [ "$status" = 0 ] || { failed=1; echo "    log: ${log#"$BARE_ROOT/"}"; }
  done
  # Now everything is there, so the next start prints nothing and builds nothing.
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
