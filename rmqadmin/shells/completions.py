"""Completion for bash, zsh and fish, generated from the command tree: ``python -m rmqadmin.shells.completions [DIR]``.

The files are static: commands, options, values. Names of topics, groups, clusters and brokers come from the files that
``names_cache`` leaves behind; names of contexts come from their directory. TAB therefore never starts Python and never
asks a server. It offers only names of the cluster that the command would ask.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rmqadmin.cli.command_tree import all_commands, root_options
from rmqadmin.shells.bash import bash
from rmqadmin.shells.fish import fish
from rmqadmin.shells.zsh import zsh


def generate() -> dict[str, str]:
    """The name and text of every file."""
    commands, root = all_commands(), root_options()
    return {
        "rmqadmin.bash": bash(commands, root),
        "_rmqadmin": zsh(commands, root),
        "rmqadmin.fish": fish(commands, root),
    }


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "completions"
    for name, text in generate().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
