#!/bin/sh
# Makes a small Debian with newer Pythons than this machine's, without compilers, in a folder:
#
#     .ci/debian_root.sh make FOLDER             40 s, 480 MB; nothing if it is there already
#     .ci/debian_root.sh run FOLDER COMMAND …    runs a command in it, on this machine's network
#
# Needs root and a Debian whose apt has a mirror. The mirror, pip's settings and the certificates are this machine's.
# Status 3, with the reason: it cannot be made here.
set -eu
PYTHONS="python3.14 python3.14-venv libpython3.14-dev python3.15 python3.15-venv libpython3.15-dev"
SUITE=sid  # the one suite that has them all
action=$1 root=$(realpath -m "$2")
shift 2

refuse() {
    echo "debian_root.sh: $*" >&2
    exit 3
}

# The first mirror of Debian itself in apt's sources, in either of their two formats.
mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -n -e 's/^URIs:[[:space:]]*//p' -e 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}//p' |
        tr ' ' '\n' | grep -m 1 '^[a-z]*://.*/debian/*$'
}

case $action in
make)
    test -e "$root/ready" && exit 0
    test "$(id -u)" = 0 || refuse "needs root"
    from=$(mirror) || refuse "apt has no mirror of Debian"
    command -v debootstrap >/dev/null || { apt-get update && apt-get install --yes debootstrap; } >/dev/null 2>&1 ||
        refuse "debootstrap cannot be installed"
    # Only what this run made is removed; nothing is ever mounted there outside of `run`.
    rm -rf "$root"
    mkdir -p "$root"
    debootstrap --variant=minbase --include="$(echo make git ca-certificates procps $PYTHONS | tr ' ' ,)" \
        "$SUITE" "$root" "$from" >"$root.log" 2>&1 || refuse "debootstrap failed: $(tail -n 3 "$root.log")"
    for file in /etc/pip.conf /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
        test ! -e "$file" || cp -L "$file" "$root$file"
    done
    touch "$root/ready"
    ;;
run)
    # The mounts are in a namespace of the command's own, so that none is left behind.
    exec unshare --mount sh -c '
        root=$1; shift
        mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && exec chroot "$root" "$@"' sh "$root" "$@"
    ;;
*) echo "debian_root.sh make|run FOLDER …" >&2; exit 2 ;;
esac
