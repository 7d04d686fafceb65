# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Functions that the scripts share. Sourced, not run.

umask 022
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build="$repository/build"
runtimes="$build/runtimes"

say() {
    printf '%s\n' "$*"
}

# step TEXT: prints a heading, so that long output can be skimmed.
step() {
    printf '\n== %s\n' "$*"
}

warn() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
}

fail() {
    warn "$*"
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# has_runtime NAME: succeeds if install-deps installed that OpenCL runtime.
has_runtime() {
    [ -d "$runtimes/$1/vendors" ]
}

# Prints the names of the installed runtimes for OpenCL programs, one per line.
available_runtimes() {
    local name
    for name in intel pocl; do
        if has_runtime "$name"; then
            say "$name"
        fi
    done
}

runtime_title() {
    case $1 in
    intel) say "Intel's OpenCL CPU runtime" ;;
    pocl) say "PoCL" ;;
    sycl) say "a SYCL runtime" ;;
    nvrtc) say "NVRTC" ;;
    valkey) say "Valkey" ;;
    doors) say "frameworks for the tests of doors" ;;
    all) say "an OpenCL runtime" ;;
    esac
}

# Makes a temporary directory, sets $scratch to its path, and removes it at exit.
make_scratch() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/kiln-XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
}

# configure_in FOLDER [MESON OPTION…]: sets up a build folder unless that was done before.
configure_in() {
    local folder=$1
    shift
    if [ ! -f "$folder/build.ninja" ]; then
        mkdir -p "$folder"
        if ! meson setup "$@" "$folder" "$repository" >"$folder/setup.log" 2>&1; then
            cat "$folder/setup.log" >&2
            return 1
        fi
    fi
}

# build_in FOLDER: builds what is configured there.
build_in() {
    ninja -C "$1" -j "$(nproc)" --quiet | { grep -v '^ninja: no work to do' || true; }
}
