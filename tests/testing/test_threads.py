"""Simulators in threads of their own."""

from __future__ import annotations

import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import trustme

from livekit.plugins.resilient.testing.gemini import tls


def test_servers_that_start_together_share_one_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[trustme.CA] = []
    together = threading.Barrier(2)

    def make() -> trustme.CA:
        authority = real_authority()
        made.append(authority)
        return authority

    def start(_: int) -> ssl.SSLContext:
        together.wait()
        return tls.server_context()

    real_authority = trustme.CA
    monkeypatch.setattr(trustme, "CA", make)
    tls._new_authority.cache_clear()
    tls.client_context.cache_clear()
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(start, range(2)))
    finally:
        tls._new_authority.cache_clear()
    assert len(made) == 1
