"""The admin client as the types of parameters name it. Loading it takes as long as a help, which asks no server; what
makes one imports it from ``rmqclient.admin``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmqclient.admin import AdminClient as AdminClient
else:
    AdminClient = Any
