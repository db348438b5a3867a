"""The error vocabulary of the whole project, on one screen.

Every error says what was wrong, where, and - in ``hint`` - what to do about it. Foreign exceptions (``OSError``,
``msgspec.ValidationError``, ``trio.TooSlowError``) are mapped to these where they first occur.
"""

from __future__ import annotations


class RocketMQError(Exception):
    """Base of all errors that a user may see. ``hint`` is one sentence on what to do, or None."""

    def __init__(self, message: str, *, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


class UsageError(RocketMQError):
    """The caller asked for something impossible: a bad option, value or combination."""


class ProtocolError(RocketMQError):
    """Bytes from outside that are not a valid RocketMQ frame, header, body or record. The only error of
    ``*_untrusted``."""


class OtherProtocolError(ProtocolError):
    """The peer speaks another protocol; ``protocol`` is its name, ``TLS``, ``HTTP`` or ``HTTP/2``. ``data`` is what it
    has said in it so far, if a cutter found it."""

    def __init__(self, message: str, *, protocol: str, data: bytes = b""):
        super().__init__(message)
        self.protocol = protocol
        self.data = data


class ConnectError(RocketMQError):
    """No connection to ``address`` could be made, or it broke before the answer came."""

    def __init__(self, message: str, *, address: str = "", hint: str | None = None):
        super().__init__(message, hint=hint)
        self.address = address


class NotConnectedError(ConnectError):
    """There was no connection to ``address``, or no address: nothing was sent."""


class RequestTimeoutError(RocketMQError):
    """The peer took the request and did not answer in time; whether it acted on it is unknown."""


class RefusedError(RocketMQError):
    """The peer answered with a response code other than 0; ``code`` and ``remark`` are as on the wire."""

    def __init__(self, code: int, remark: str, *, address: str = "", hint: str | None = None):
        from rmqproto.codes import response_name

        where = f" by {address}" if address else ""
        super().__init__(f"refused{where}: {remark or 'no remark'} ({code} {response_name(code)})", hint=hint)
        self.code = code
        self.remark = remark
        self.address = address


class NotFoundError(RocketMQError):
    """Something requested by name, id or key does not exist (and this is known without a peer's response code)."""


class DamageError(RocketMQError):
    """The examined files are damaged; the details were reported before."""


class StorageError(RocketMQError):
    """A store directory, or a file in it, that cannot be used; the message names file and offset."""

    lacks_room = False
    """Whether only the disk was full."""
