"""Typed headers by subject. A file such as ``headers.tables`` is loaded at its first use, as in ``rmqproto.bodies``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqproto.headers import base as base
    from rmqproto.headers import consuming as consuming
    from rmqproto.headers import controller as controller
    from rmqproto.headers import nameserver as nameserver
    from rmqproto.headers import popping as popping
    from rmqproto.headers import request_table as request_table
    from rmqproto.headers import sending as sending
    from rmqproto.headers import tables as tables
else:
    from rmqproto.late_files import late_files

    __getattr__ = late_files(__name__)
