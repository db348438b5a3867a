"""Where alert rules are. Without such a file, the dashboard's first frame does not wait for the modules that read
it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rmqadmin.core.files import config_dir

if TYPE_CHECKING:
    from rmqadmin.core.alerts.alert_rules import AlertRule


def alerts_path() -> Path:
    return config_dir() / "alerts.toml"


def rules_in_force(asked: Path | None) -> tuple[AlertRule, ...]:
    """The rules of the file ``asked`` for, which must exist, or else of the user's own file, if there is one.
    UsageError, as from ``read_alert_rules``."""
    path = asked or alerts_path()
    if asked is None and not os.path.lexists(path):
        return ()
    from rmqadmin.core.alerts.alert_rules import read_alert_rules

    return read_alert_rules(path, must_exist=asked is not None)
