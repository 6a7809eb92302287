"""Failed dials that lie in what was set up: an address, a certificate, TLS. No I/O.

Neither of the two client libraries says which of its errors no other dial can cure.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator

from aiohttp import InvalidURL, NonHttpUrlClientError, ServerFingerprintMismatch
from websockets.exceptions import InvalidProxy, InvalidURI

__all__ = ["is_untrusted", "is_unusable"]

_ADDRESS_ERRORS = (InvalidURL, NonHttpUrlClientError, InvalidURI, InvalidProxy)

# OpenSSL's names for two ends that have no way to speak to each other. Not among them is what a
# busy or restarting server does: end the connection, or send an alert about itself.
_TLS_REASONS = frozenset(
    {
        "HTTP_REQUEST",
        "NO_PROTOCOLS_AVAILABLE",
        "SSLV3_ALERT_HANDSHAKE_FAILURE",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_PROTOCOL_VERSION",
        "UNSUPPORTED_PROTOCOL",
        "WRONG_VERSION_NUMBER",
    }
)


def is_untrusted(error: BaseException) -> bool:
    """Whether the server's certificate does not verify: it is signed by no CA that is known, for
    another host, not valid at this time, or not the one that was pinned."""
    kinds = (ssl.SSLCertVerificationError, ServerFingerprintMismatch)
    return any(isinstance(cause, kinds) for cause in _causes(error))


def is_unusable(error: BaseException) -> bool:
    """Whether nothing can be dialled with the given settings: the address, or a proxy's, is none,
    a package for the proxy is missing, or the other end does not speak TLS as we do."""
    return any(
        isinstance(cause, (*_ADDRESS_ERRORS, ImportError))
        # aiohttp has errors of this class without the attribute.
        or (isinstance(cause, ssl.SSLError) and getattr(cause, "reason", None) in _TLS_REASONS)
        for cause in _causes(error)
    ) or _is_from_an_address(error)


def _is_from_an_address(error: BaseException) -> bool:
    """Whether it is what the standard library raises for parts of an address."""
    if isinstance(error, UnicodeError) and not isinstance(error, UnicodeDecodeError):
        return True  # a host name that cannot be encoded
    # google-genai raises the same for an answer that it cannot read.
    return type(error) is ValueError and not isinstance(error.__context__, json.JSONDecodeError)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
