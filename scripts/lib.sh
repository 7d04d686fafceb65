# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What the scripts have in common. Sourced, not run.

umask 022
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build="$repository/build"
runtimes="$build/runtimes"

say() {
    printf '%s\n' "$*"
}

# A heading on its own, so that long output can be skimmed.
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

# has_runtime NAME: whether install-deps put that OpenCL runtime there.
has_runtime() {
    [ -d "$runtimes/$1/vendors" ]
}

# Names of the runtimes that are there, one a line.
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
    all) say "an OpenCL runtime" ;;
    esac
}

# Makes a temporary directory, names it in $scratch and removes it at exit.
make_scratch() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/kiln-XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
}

# configure_in FOLDER [MESON OPTION…]: sets a build folder up where that wasn't done.
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
