#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kiln help, and what must agree with it: the options that commands accept, the manual pages, and
the completion of command lines in shells."""

import os
import re
import shlex
import shutil
import subprocess
import unittest
from pathlib import Path

import cli
from cli import KILN

ROOT = Path(__file__).resolve().parent.parent.parent.parent
COMPLETION = ROOT / "tools/kiln/completion"
MANUALS = [ROOT / "man" / page for page in ("kiln.1.scd", "kiln-dpcpp.1.scd")]

# Options that all commands accept, except where they have no meaning.
COMMON = {"--dir", "--key-file", "--json"}
FILTERS = {"--device", "--driver", "--name", "--program", "--older-than", "--larger-than",
           "--only", "--limit"}
# Options for the tool's own use.
INTERNAL = {"capture": {"--serve"}, "replay": {"--serve", "--ahead"}}
BASH_COMPLETION = Path("/usr/share/bash-completion/bash_completion")


class Usages(cli.CliTest):
    def help(self, *command):
        return self.kiln("help", *command).stdout.decode()

    def names(self, *command):
        """The names that begin lines of a usage: commands, or actions of a command."""
        return re.findall(r"^  ([a-z]+)(?: [A-Z[\]]+)?  +\S", self.help(*command), re.M)

    def commands(self):
        return [name for name in self.names() if name != "help"]

    def options(self, command):
        """The options that a usage explains, with the names of their values or None."""
        lines = re.findall(r"^  (--[a-z-]+)(?: ([A-Z]+))?  +\S", self.help(command), re.M)
        return {option: value or None for option, value in lines}

    def flags(self, command):
        """The same options, and whether each takes a value."""
        return {option: value is not None for option, value in self.options(command).items()}


def options_in(text):
    """The options that a synopsis names, and whether each takes a value."""
    options = {option: bool(value) for option, value in
               re.findall(r"(--[a-z-]+)\*?(\s_?[A-Za-z])?", text)}
    return options | (dict.fromkeys(FILTERS, True) if "FILTERS" in text else {})


class HelpTest(Usages):
    def test_help_explains_a_command(self):
        self.assertGreater(len(self.commands()), 15)
        for command in self.commands():
            self.assertTrue(self.help(command).startswith(f"Usage: kiln {command} "))
            self.assertEqual(self.help(command), self.kiln(command, "--help").stdout.decode())

    def test_a_missing_argument_is_named(self):
        for command, expected in (("run", b"[--] APP"), ("copy", b"FROM TO"), ("show", b"DIGEST")):
            self.assertIn(expected, self.kiln(command, expect=2).stderr, command)

    def test_help_alone_lists_the_commands(self):
        for arguments in [], ["help"], ["--help"]:
            self.assertEqual(self.help(*arguments), self.kiln("--help").stdout.decode())
        self.assertIn(b"unknown command 'frob'", self.kiln("help", "frob", expect=2).stderr)

    def test_usages_explain_the_options_that_commands_accept(self):
        for command in self.commands():
            explained = self.options(command)
            # The shortest abbreviation is ambiguous: the parser names everything that it accepts.
            refusal = self.kiln(command, "--=", expect=2).stderr.decode()
            accepted = set(re.findall(r"'(--[a-z-]+)'", refusal)) - INTERNAL.get(command, set())
            self.assertEqual(accepted - COMMON, set(explained) - COMMON | {"--help"}, command)
            self.assertLessEqual(set(explained), accepted, command)
            for option, value in explained.items():
                self.kiln(command, option if value is None else option + "=1", "--help")

    def test_usages_explain_the_options_of_their_synopsis(self):
        for command in self.commands():
            synopsis = self.help(command).partition("\n\n")[0]
            self.assertEqual(self.flags(command), options_in(synopsis), command)

    def test_manual_pages_name_the_same_options(self):
        named = {command: {} for command in [*self.commands(), "help"]}
        for page in MANUALS:
            synopsis = page.read_text().partition("# SYNOPSIS\n\n")[2].partition("# ")[0]
            for line in synopsis.split("*kiln ")[1:]:
                command, _, rest = line.partition("*")
                named[command].update(options_in(rest))
        self.assertEqual(named.pop("help"), {"--version": False})
        self.assertEqual(named, {command: self.flags(command) for command in self.commands()})

    def test_manual_pages_explain_each_option(self):
        for command in self.commands():
            explained = set()
            for page in MANUALS:
                beginning, *sections = re.split(r"^## |^# COMMANDS", page.read_text(), flags=re.M)
                # pull and push have the options of copy.
                titles = {"pull": "copy", "push": "copy"}.get(command, command)
                own = [section for section in sections if section.startswith(titles + "\n")]
                for line in re.findall(r"^\*--.*", "\n".join([beginning, *own]), re.M):
                    explained |= set(options_in(line))
            self.assertLessEqual(set(self.options(command)), explained, command)


class Completion:
    """The tests of one shell, which has a method complete(LINES)."""

    def setUp(self):
        super().setUp()
        if not self.is_installed():
            self.skipTest(self.shell + " is not installed")
        self.environment["PATH"] = os.path.dirname(KILN) + ":" + os.environ["PATH"]
        for name in "folder", "file":
            os.mkdir(os.path.join(self.scratch, name))
        os.rmdir(os.path.join(self.scratch, "file"))
        Path(self.scratch, "file").touch()

    def is_installed(self):
        return shutil.which(self.shell) is not None

    def run_shell(self, *arguments):
        done = subprocess.run([self.shell, *arguments], env=self.environment, cwd=self.scratch,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        # After the candidates of a line comes one with a full stop.
        return [part.splitlines() for part in done.stdout.split(".\n")[:-1]]

    def test_completion(self):
        expected = {
            "kiln ": self.names(),
            "kiln l": ["ls"],
            "kiln help s": ["stats", "show"],
            "kiln key ": ["new", "show", "trust", "revoke"],
            "kiln run --tr": ["--trace"],
            "kiln run --dir x --tr": ["--trace"],
            "kiln run kiln ls --so": ["--sort"],
            "kiln run -- kiln ls --so": ["--sort"],
            "kiln run --summary --dir x kiln ls --so": ["--sort"],
            "kiln run --json -- kiln run --trace x -- kiln l": ["ls"],
            "kiln ls --sort ": [],
            **self.files,
        }
        for command in self.commands():
            expected[f"kiln {command} --"] = list(self.options(command))
        completed = self.complete(list(expected))
        self.assertEqual(len(completed), len(expected))
        for (line, wanted), found in zip(expected.items(), completed):
            self.assertEqual(sorted(found), sorted(wanted), line)


class BashTest(Completion, Usages):
    shell = "bash"
    # Bash itself completes files.
    files = {"kiln ls --dir f": [], "kiln unpack f": []}

    def is_installed(self):
        return super().is_installed() and BASH_COMPLETION.exists()

    def complete(self, lines):
        # A function can set options of the completion only during one.
        script = f"""
            . {BASH_COMPLETION}
            . {shlex.quote(str(COMPLETION / "kiln.bash"))}
            compopt() {{ :; }}
            for COMP_LINE; do
                COMP_POINT=${{#COMP_LINE}} COMPREPLY=()
                read -ra COMP_WORDS <<<"$COMP_LINE"
                [[ $COMP_LINE = *' ' ]] && COMP_WORDS+=('')
                COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
                _kiln kiln "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
                printf '%s\\n' "${{COMPREPLY[@]}}" .
            done"""
        return self.run_shell("--norc", "-c", script, "bash", *lines)


class FishTest(Completion, Usages):
    shell = "fish"
    files = {"kiln ls --dir f": ["folder/"], "kiln run --trace fi": ["file"],
             "kiln unpack fi": ["file"]}

    def complete(self, lines):
        script = f"""
            source {shlex.quote(str(COMPLETION / "kiln.fish"))}
            for line in $argv
                complete --do-complete $line | string replace --regex '\\t.*' ''
                echo .
            end"""
        self.environment["HOME"] = self.scratch
        return self.run_shell("--no-config", "-c", script, *lines)


class ZshTest(Completion, Usages):
    shell = "zsh"
    files = {"kiln ls --dir f": ["folder"], "kiln run --trace fi": ["file"],
             "kiln unpack fi": ["file"]}

    def complete(self, lines):
        self.environment["TERM"] = "xterm"
        completed = self.run_shell("-f", str(Path(__file__).with_name("complete.zsh")),
                                   str(COMPLETION), *lines)
        # It may ask a function for the same candidate twice, in groups.
        return [sorted(set(candidates)) for candidates in completed]


if __name__ == "__main__":
    cli.main()
