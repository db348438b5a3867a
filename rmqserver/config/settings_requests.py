"""Requests that change a server's settings: those of a broker (25), a nameserver (318) and a controller (1009)."""

from __future__ import annotations

from rmqproto.codes import ResponseCode
from rmqproto.errors import UsageError
from rmqproto.java import java_properties
from rmqserver.config.keyed_settings import Settings
from rmqserver.operation import Refused


def take_settings_untrusted(config: Settings, body: bytes) -> set[str]:
    """Applies the properties in ``body`` and returns the keys whose value changed. Unknown keys and values that do not
    parse change nothing and are not errors. Refused, with nothing changed, if a key must not be changed over the wire,
    or the server cannot work with a value."""
    pairs = java_properties.parse_untrusted(body)
    if any(config.is_black_listed(key) for key in pairs):
        raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    try:
        return config.update(pairs)
    except UsageError as error:
        raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
