"""Writes the manual pages, which a checkout does not have: ``python -m rmqadmin.cli.manual DIR``. ``make release`` puts
them into the packages."""

import sys
from pathlib import Path

from rmqadmin.cli.manual.pages import all_pages
from rmqadmin.cli.parsing.command_tree import all_commands


def write(folder: Path) -> None:
    """Writes every page, and removes those of commands that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {page.file_name: page.roff() for page in all_pages(all_commands())}
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink()
    for name, roff in pages.items():
        (folder / name).write_text(roff)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
