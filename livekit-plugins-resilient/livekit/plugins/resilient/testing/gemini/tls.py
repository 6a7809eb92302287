"""A certificate for loopback, made when first needed: google-genai insists on wss."""

from __future__ import annotations

import functools
import ssl
import threading
from typing import TYPE_CHECKING

from livekit.plugins.resilient.testing.errors import missing_dependency

if TYPE_CHECKING:
    import trustme


# Servers may be started in several threads, and their clients trust only one authority.
_one_at_a_time = threading.Lock()


def _authority() -> tuple[trustme.CA, trustme.LeafCert]:
    with _one_at_a_time:
        return _new_authority()


@functools.lru_cache(maxsize=1)
def _new_authority() -> tuple[trustme.CA, trustme.LeafCert]:
    try:
        import trustme
    except ModuleNotFoundError:
        raise missing_dependency("trustme", "GeminiLiveServer") from None
    authority = trustme.CA()
    return authority, authority.issue_cert("127.0.0.1", "localhost")


def server_context() -> ssl.SSLContext:
    """A server context with the loopback certificate.

    Raises:
        MissingDependencyError: trustme is not installed.
    """
    _, certificate = _authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@functools.lru_cache(maxsize=1)
def client_context() -> ssl.SSLContext:
    """A client context that trusts the loopback certificate and nothing else."""
    authority, _ = _authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context
