"""A real zsh in a terminal, with a completion file."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pexpect

_TIMEOUT_S = 30


def assert_zsh_completes(program: str, text: str, way: str, folder: Path, lines: Mapping[str, str]) -> None:
    """Asserts what TAB makes of lines. ``way``: ``eval`` of the text, without compinit before it, or as a file on
    ``fpath``, before compinit."""
    (folder / f"_{program}").write_text(text)
    load = {
        "eval": f'eval "$(cat {folder}/_{program})"',
        "fpath": f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D",
    }[way]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "TERM": "dumb",
        "HOME": str(folder),
        "ZDOTDIR": str(folder),
    }
    zsh = pexpect.spawn(
        "zsh", ["-f", "-i"], env=environment, encoding="utf-8", timeout=_TIMEOUT_S, dimensions=(50, 200), use_poll=True
    )  # fmt: skip
    try:
        zsh.sendline(f"unsetopt zle_bracketed_paste; PS1='%#>'; ZSH_DISABLE_COMPFIX=true; {load}; print -r rea''dy")
        zsh.expect("ready\\r\\n.*>")
        for line, whole in lines.items():
            zsh.send(f"{line}\t")
            zsh.expect_exact(whole)
            zsh.send("\x15")  # the line goes
    finally:
        zsh.close(force=True)
