"""Names for completion: topics, groups, clusters and brokers, as commands last saw them. One file per kind, one name
per line.

TAB reads them and asks no server. Each name server has its own folder. A command does not fail if the cache cannot be
written.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from rmqadmin.cli.options.common_options import Value
from rmqadmin.core.files import cache_dir, make_private_dir

NAMES_MAX = 10_000
"""More than anybody looks through."""

_PLAIN = r"[%|a-zA-Z0-9_.:-]+"
"""Letters, digits, and marks that mean nothing to a shell between quotes."""

NAMESRVS_MAX = 16
"""How many folders are kept, newest first. Test servers, each on a new port, would leave one each."""

KIND_OF_VALUE = {
    Value.TOPIC: "topic",
    Value.GROUP: "group",
    Value.CLUSTER: "cluster",
    Value.BROKER_ADDR: "broker",
    Value.BROKER_NAME: "broker_name",
}
"""The kinds of names that are remembered, by the values that they are."""

KINDS = tuple(KIND_OF_VALUE.values())


def names_dir() -> Path:
    return cache_dir() / "names"


def remembered(namesrv_addrs: Iterable[str], kind: str) -> list[str]:
    """The names of a kind as last seen."""
    try:
        return (_folder(namesrv_addrs) / kind).read_text().splitlines()
    except OSError:
        return []


def _folder(namesrv_addrs: Iterable[str]) -> Path:
    return names_dir() / re.sub(r"[^\w.-]", "_", ",".join(namesrv_addrs))


def remember(namesrv_addrs: Iterable[str], kind: str, names: Iterable[str]) -> None:
    """Replaces the saved names of a kind. Only plain names are saved: bash expands the words that it completes, and a
    server could name a topic ``$(rm -r ~)``."""
    assert kind in KINDS
    known = sorted({name for name in names if re.fullmatch(_PLAIN, name)})[:NAMES_MAX]
    text = "".join(f"{name}\n" for name in known)
    folder = _folder(namesrv_addrs)
    path = folder / kind
    try:
        if path.exists() and path.read_text() == text:
            return
        if not folder.exists():
            make_private_dir(folder)
            _forget_oldest(folder.parent)
        temporary = folder / f".{kind}.{os.getpid()}"
        temporary.touch(0o600)
        temporary.write_text(text)
        temporary.rename(path)
    except OSError:
        pass


def _forget_oldest(base: Path) -> None:
    by_age = sorted((folder for folder in base.iterdir() if folder.is_dir()), key=lambda folder: folder.stat().st_mtime)
    for folder in by_age[:-NAMESRVS_MAX]:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
