# SPDX-License-Identifier: Apache-2.0
#
# complete.zsh FOLDER LINE...: completes each line in an interactive zsh with the functions of the
# folder. Prints the candidates of each, one a line, and then a line with a full stop.

zmodload zsh/zpty
folder=$1
shift

# Waits until the shell has printed a text, and prints all its output up to there.
output_to() {
    local printed
    zpty -r shell printed "*$1"
    print -r -- "${printed//$'\r'}"
}

# compadd also serves completion functions that filter lists.
zpty shell zsh -f -i
zpty -w shell "PS1=; stty -echo; fpath=(${(q)folder} \$fpath); autoload -U compinit; compinit -u -D
compadd() {
    local -a added
    if [[ \${@[1,(i)(-|--)]} != *-[OAD]* ]]; then
        builtin compadd -O added \"\$@\"
        candidates+=(\$added)
    fi
    builtin compadd \"\$@\"
}
zle -C complete list-choices _main_complete
list() {
    candidates=()
    zle complete
    print -rl -- '' BEGIN \$candidates END
    zle kill-whole-line
}
zle -N list
bindkey '^G' list
print re''ady"
output_to ready >/dev/null
for line in "$@"; do
    zpty -w -n shell "$line"$'\a'
    output_to END | sed -n '/^BEGIN$/,$p' | sed -e '/^BEGIN$/d' -e 's/^END$/./'
done
zpty -d shell
