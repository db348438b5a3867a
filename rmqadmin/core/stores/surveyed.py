"""Surveys the directory that a user gives as a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rmqadmin.core.results import Notice

if TYPE_CHECKING:
    from rmqserver.store.checks.survey import Survey


def surveyed(directory: str, notice: Notice) -> Survey:
    """The survey. UsageError if the directory is not a store. Gives a notice if a broker is running on it, because what
    it is just writing looks like damage."""
    from rmqserver.store.checks.survey import survey
    from rmqserver.store.disk.disk import OsDisk

    found = survey(os.path.abspath(os.path.expanduser(directory)), OsDisk())
    if found.is_in_use:
        owner = found.owner_id if not found.lock_owner_id else str(found.lock_owner_id)
        process = f" (process {owner})" if owner.isdecimal() else ""
        notice(
            f"a broker is running on this store{process}: it is only read, and what is being written may look damaged"
        )
    return found
