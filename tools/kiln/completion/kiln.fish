# SPDX-License-Identifier: Apache-2.0
#
# Completes command lines of kiln, from what `kiln help` prints about commands and options: each
# begins a line, after two spaces, and the name of an option's value follows the option in capitals.

# __kiln_value OPTION HELP...: prints the name of the option's value, and fails if it takes none.
function __kiln_value
    string replace --filter --regex -- "^  $argv[1] ([A-Z]+) .*" '$1' $argv[2..]
end

function __kiln_candidates
    set -l tokens (commandline --tokenize --cut-at-cursor --current-process)
    set -l word (commandline --current-token --cut-at-cursor)
    set -l help ($tokens[1] help $tokens[2] 2>/dev/null)
    or return

    # The first operand of `kiln run` begins a command line of its own.
    if test "$tokens[2]" = run
        set -l first 3
        while string match --quiet -- '-*' $tokens[$first]; and test $tokens[$first] != --
            __kiln_value $tokens[$first] $help >/dev/null
            and set first (math $first + 1)
            set first (math $first + 1)
        end
        if test "$tokens[$first]" = --
            set first (math $first + 1)
        else if test $first -gt (count $tokens); and string match --quiet -- '-*' $word
            set first (math $first + 1)
        end
        if test $first -le (math (count $tokens) + 1)
            complete --do-complete (string join -- ' ' (string escape -- $tokens[$first..]) $word)
            return
        end
    end

    switch (__kiln_value $tokens[-1] $help; or true)
        case DIR
            __fish_complete_directories $word
        case FILE
            __fish_complete_path $word
        case ''
            if string match --quiet -- '-*' $word
                string replace --filter --regex -- '^  (--[a-z-]+)(?: [A-Z]+)?  +(.*)' '$1\t$2' $help
                return
            end
            string replace --filter --regex -- '^  ([a-z]+)(?: [A-Z[\]]+)?  +(.*)' '$1\t$2' $help
            or __fish_complete_path $word
    end
end

complete --command kiln --no-files --arguments '(__kiln_candidates)'
