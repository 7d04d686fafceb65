# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Completes command lines of kiln, from what `kiln help` prints about commands and options: each
# begins a line, after two spaces, and the name of an option's value follows the option in capitals.
# The package bash-completion loads this file.

_kiln() {
    local kiln=$1 word=$2 previous=$3 command='' help first pattern
    if [ "$COMP_CWORD" -gt 1 ]; then
        command=${COMP_WORDS[1]}
    fi
    help=$("$kiln" help ${command:+"$command"} 2>/dev/null) || return

    # The first operand of `kiln run` begins a command line of its own.
    if [ "$command" = run ]; then
        for ((first = 2; first < COMP_CWORD; first++)); do
            case ${COMP_WORDS[first]} in
            --)
                first=$((first + 1))
                break
                ;;
            -*) [[ $help =~ $'\n'"  ${COMP_WORDS[first]} "[A-Z] ]] && first=$((first + 1)) ;;
            *) break ;;
            esac
        done
        if [ "$first" -lt "$COMP_CWORD" ] || [ "${COMP_WORDS[first - 1]}" = -- ] ||
            { [ "$first" = "$COMP_CWORD" ] && [[ $word != -* ]]; }; then
            _command_offset "$first"
            return
        fi
    fi

    # The shell completes names of files if this function finds nothing.
    if [[ $help =~ $'\n'"  $previous "([A-Z]+) ]]; then
        if [ "${BASH_REMATCH[1]}" = DIR ]; then
            compopt -o dirnames
        fi
        return
    fi
    case $word in
    -*) pattern='--[a-z-]+' ;;
    *) pattern='[a-z]+' ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$(sed -nE "s/^  ($pattern) .*/\1/p" <<<"$help")" -- "$word")
} && complete -o default -F _kiln kiln
