"""Typed bodies by subject. A file such as ``bodies.routes`` is loaded at its first use: the client of all admin calls
refers to every file, but a command needs only one or two. ``from rmqproto.bodies.routes import …`` loads it at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqproto.bodies import acl as acl
    from rmqproto.bodies import base as base
    from rmqproto.bodies import groups as groups
    from rmqproto.bodies import lite as lite
    from rmqproto.bodies import own_requests as own_requests
    from rmqproto.bodies import popping as popping
    from rmqproto.bodies import replication as replication
    from rmqproto.bodies import routes as routes
    from rmqproto.bodies import statistics as statistics
else:
    from rmqproto.late_files import late_files

    __getattr__ = late_files(__name__)
