"""``rmqserver completion``: files by which bash, zsh and fish complete this program's lines, made from its parser."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from rmqproto.errors import UsageError

SHELLS = ("bash", "zsh", "fish")

Commands = Mapping[str, list[argparse.Action]]
"""The options of each command."""

_FILES = frozenset({"--config", "--seed", "--ready-file"})
_DIRECTORIES = frozenset({"--data"})


def completion(shell: str, commands: Commands) -> str:
    """The text of the file for one of SHELLS."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def install(shell: str, text: str) -> Path:
    """Writes the file where the shell looks for a user's own; its path. UsageError if that cannot be done."""
    home = os.environ.get("HOME")
    data, config = os.environ.get("XDG_DATA_HOME"), os.environ.get("XDG_CONFIG_HOME")
    if not home and not (config if shell == "fish" else data):
        raise UsageError("there is no home directory to install it in", hint="leave out --install")
    data, config = data or f"{home}/.local/share", config or f"{home}/.config"
    path = Path({
        "bash": f"{data}/bash-completion/completions/rmqserver",
        "zsh": f"{data}/zsh/site-functions/_rmqserver",
        "fish": f"{config}/fish/completions/rmqserver.fish",
    }[shell])  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=f"rmqserver completion {shell} prints it") from None
    return path


def run(shell: str, *, installs: bool, commands: Commands) -> int:
    """Prints the file, or installs it; the exit status. UsageError as ``install``."""
    text = completion(shell, commands)
    if not installs:
        sys.stdout.write(text)
        return 0
    path = install(shell, text)
    sys.stdout.write(f"{path}\n")
    if shell == "bash":
        sys.stderr.write(
            f"bash reads it with the package bash-completion; without it, by this line in ~/.bashrc: . {path}\n"
        )
    if shell == "zsh":
        sys.stderr.write(f"zsh reads it with this line before compinit in ~/.zshrc: fpath+=({path.parent})\n")
    return 0


def _words(name: str, options: list[argparse.Action]) -> str:
    """What can follow a command."""
    shells = SHELLS if name == "completion" else ()
    return " ".join((*shells, *(option.option_strings[-1] for option in options)))


def _choices(options: list[argparse.Action]) -> dict[str, list[str]]:
    return {option.option_strings[-1]: [*map(str, option.choices)] for option in options if option.choices}


def _bash(commands: Commands) -> str:
    cases = []
    for name, options in commands.items():
        values = "".join(
            f"        {option}) COMPREPLY=($(compgen -W '{' '.join(words)}' -- \"$cur\")); return ;;\n"
            for option, words in _choices(options).items()
        )
        cases.append(
            f"    {name}) case $prev in\n{values}        esac\n"
            f"        COMPREPLY=($(compgen -W '{_words(name, options)}' -- \"$cur\")) ;;\n"
        )
    return (
        "_rmqserver() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    COMPREPLY=()\n"
        "    case $prev in\n"
        f'    {"|".join(sorted(_FILES))}) COMPREPLY=($(compgen -f -- "$cur")); return ;;\n'
        f'    {"|".join(sorted(_DIRECTORIES))}) COMPREPLY=($(compgen -d -- "$cur")); return ;;\n'
        "    esac\n"
        f"    if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W '{' '.join(commands)}' -- \"$cur\")); return; fi\n"
        "    case ${COMP_WORDS[1]} in\n" + "".join(cases) + "    esac\n}\n"
        "complete -o filenames -F _rmqserver rmqserver\n"
    )


def _zsh(commands: Commands) -> str:
    cases = []
    for name, options in commands.items():
        values = "".join(
            f"    {option}) compadd -- {' '.join(words)}; return ;;\n" for option, words in _choices(options).items()
        )
        cases.append(
            f"  {name}) case $words[CURRENT-1] in\n{values}    esac\n    compadd -- {_words(name, options)} ;;\n"
        )
    return (
        "#compdef rmqserver\n"
        "_rmqserver() {\n"
        "  case $words[CURRENT-1] in\n"
        f"  {'|'.join(sorted(_FILES))}) _files; return ;;\n"
        f"  {'|'.join(sorted(_DIRECTORIES))}) _files -/; return ;;\n"
        "  esac\n"
        f"  if ((CURRENT == 2)); then compadd -- {' '.join(commands)}; return; fi\n"
        "  case $words[2] in\n" + "".join(cases) + "  esac\n}\n"
        "if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then  # from a file on fpath, at the first TAB\n"
        '  _rmqserver "$@"\n'
        "else  # by eval or source\n"
        "  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
        "  compdef _rmqserver rmqserver\n"
        "fi\n"
    )


def _fish(commands: Commands) -> str:
    lines = ["complete -c rmqserver -f", f"complete -c rmqserver -n __fish_use_subcommand -a '{' '.join(commands)}'"]
    lines.append(f"complete -c rmqserver -n '__fish_seen_subcommand_from completion' -a '{' '.join(SHELLS)}'")
    for name, options in commands.items():
        for option in options:
            long = option.option_strings[-1]
            takes = f" -x -a '{' '.join(map(str, option.choices))}'" if option.choices else ""
            takes = " -r -F" if long in _FILES | _DIRECTORIES else takes or (" -x" if option.nargs != 0 else "")
            lines.append(
                f"complete -c rmqserver -n '__fish_seen_subcommand_from {name}' -l {long.removeprefix('--')}{takes}"
            )
    return "\n".join(lines) + "\n"
