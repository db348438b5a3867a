"""Packed test data."""

import tarfile
from pathlib import Path


def unpack(archive: Path, directory: Path, below: str = "") -> None:
    """Unpacks a tar file into an existing directory: all of it, or what lies ``below`` a folder of it, such as
    ``"clean/store/"``, without that folder.

    From 3.14 on, Python asks for the filter; up to 3.11.3, as in Debian 12, it knows none. The archives are our own.
    """
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.name.startswith(below)]
        for member in members:
            member.name = member.name[len(below) :]
        if hasattr(tarfile, "data_filter"):
            tar.extractall(directory, members, filter="data")
        else:
            tar.extractall(directory, members)
