"""The handshake of a blocking socket with TLS, and what is said when it fails."""

from __future__ import annotations

import ssl

from rmqproto.errors import ConnectError


def shake_hands(connected: ssl.SSLSocket, address: str) -> None:
    """For as long as the socket's time-out says. OSError for every failure but one that the user can do something
    about: ConnectError. The caller closes it then."""
    try:
        connected.do_handshake()
        return
    except ssl.SSLCertVerificationError as error:
        problem, hint = error.verify_message, "Give the certificate that signed the server's, and its name as address."
    except ssl.SSLError as error:
        problem, hint = error.reason or str(error), "Does the server speak TLS on this port?"
    raise ConnectError(f"no TLS with {address}: {problem}", address=address, hint=hint)
