"""The TLS handshake of a blocking socket, and its error messages."""

from __future__ import annotations

import ssl

from rmqproto.errors import ConnectError


def shake_hands(connected: ssl.SSLSocket, address: str) -> None:
    """Does the handshake within the socket's time-out. ConnectError for a failure that the user can fix, OSError for
    any other. The caller then closes the socket."""
    try:
        connected.do_handshake()
        return
    except ssl.SSLCertVerificationError as error:
        problem, hint = error.verify_message, "Give the certificate that signed the server's, and its name as address."
    except ssl.SSLError as error:
        problem, hint = error.reason or str(error), "Does the server speak TLS on this port?"
    raise ConnectError(f"no TLS with {address}: {problem}", address=address, hint=hint)
