"""A dial that no other can cure ends the session at once; a network that fails does not."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import trustme
from livekit.agents import llm
from livekit.plugins import resilient

from livekit.plugins.resilient.core.limits import CERTIFICATE_DIALS
from livekit.plugins.resilient.testing import (
    Abort,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
)

pytestmark = pytest.mark.virtual_time

PROVIDERS = ("google", "openai")
both = pytest.mark.parametrize("provider", PROVIDERS)

# -- certificates

TRUSTED, UNKNOWN = trustme.CA(), trustme.CA()
_NOW = datetime.datetime.now(datetime.timezone.utc)
CERTIFICATES = {
    "good": TRUSTED.issue_cert("127.0.0.1"),
    "no CA that is known": UNKNOWN.issue_cert("127.0.0.1"),
    "another host": TRUSTED.issue_cert("other.example"),
    "expired": TRUSTED.issue_cert(
        "127.0.0.1",
        not_before=_NOW - datetime.timedelta(days=9),
        not_after=_NOW - datetime.timedelta(days=2),
    ),
}
BAD = [name for name in CERTIFICATES if name != "good"]


def context_with(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CERTIFICATES[certificate].configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    TRUSTED.configure_trust(context)
    return context


class Certified:
    """A server's certificates: `shows` is shown from now on, `shown` is what was."""

    def __init__(self, shows: str) -> None:
        self.shows = shows
        # Shown once each, before `shows`.
        self.first: list[str] = []
        self.shown: list[str] = []
        self._contexts = {name: context_with(name) for name in CERTIFICATES}
        self.listening = context_with(shows)
        self.listening.sni_callback = self._choose

    def _choose(self, handshake: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        certificate = self.first.pop(0) if self.first else self.shows
        self.shown.append(certificate)
        handshake.context = self._contexts[certificate]


class TlsGemini(GeminiLiveServer):
    def __init__(self, certified: Certified, **given: Any) -> None:
        super().__init__(**given)
        self.certified = certified

    def tls(self) -> ssl.SSLContext:
        return self.certified.listening


class TlsOpenAI(OpenAIRealtimeServer):
    def __init__(self, certified: Certified, **given: Any) -> None:
        super().__init__(**given)
        self.certified = certified

    def tls(self) -> ssl.SSLContext:
        return self.certified.listening

    @property
    def _root(self) -> str:
        return f"https://{self.host}:{self.port}"


Server = TlsGemini | TlsOpenAI
SERVERS: dict[str, type[Server]] = {"google": TlsGemini, "openai": TlsOpenAI}


@asynccontextmanager
async def model_at(provider: str, url: str) -> AsyncIterator[llm.RealtimeModel]:
    """A model of ours that trusts `TRUSTED` and dials `url`."""
    if provider == "google":
        from google.genai import types

        context = client_context()
        given = {"verify": context, "ssl": context, "proxy": None, "close_timeout": 1}
        options = types.HttpOptions(
            base_url=url, client_args={"verify": context}, async_client_args=given
        )
        yield resilient.google.realtime.RealtimeModel(api_key="k", http_options=options)
        return
    connector = aiohttp.TCPConnector(ssl=client_context())
    async with aiohttp.ClientSession(connector=connector) as http:
        yield resilient.openai.realtime.RealtimeModel(
            api_key=OpenAIRealtimeServer().model_kwargs()["api_key"],
            base_url=url,
            http_session=http,
        )


class Outcome:
    """The errors of a session that was never connected, up to the final one."""

    def __init__(self) -> None:
        self.errors: list[llm.RealtimeModelError] = []
        self.ended_after_s: float | None = None


def causes_of(error: BaseException | None) -> list[str]:
    """An error and what it was raised from, as class names."""
    names = []
    while error is not None:
        names.append(type(error).__name__)
        error = error.__cause__
    return names


async def dial(provider: str, url: str, *, for_s: float = 100.0) -> Outcome:
    """Open a session and wait for its end, or for so many seconds."""
    outcome, ended = Outcome(), asyncio.Event()
    loop = asyncio.get_running_loop()
    async with model_at(provider, url) as model:
        began_at = loop.time()
        session: Any = model.session()

        def on_error(error: llm.RealtimeModelError) -> None:
            outcome.errors.append(error)
            if not error.recoverable:
                outcome.ended_after_s = loop.time() - began_at
                ended.set()

        session.on("error", on_error)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(ended.wait(), for_s)
        await session.aclose()
        await asyncio.gather(session._main_atask, return_exceptions=True)
    return outcome


@both
@pytest.mark.parametrize("certificate", BAD)
async def test_a_certificate_that_does_not_verify_ends_the_first_dial(
    provider: str, certificate: str
) -> None:
    certified = Certified(certificate)
    async with SERVERS[provider](certified) as server:
        outcome = await dial(provider, server.base_url)
    assert certified.shown == [certificate]
    assert [error.recoverable for error in outcome.errors] == [False]
    assert "SSLCertVerificationError" in causes_of(outcome.errors[-1].error)


@asynccontextmanager
async def calling(provider: str) -> AsyncIterator[tuple[Server, HeadlessCall]]:
    """A call that has had an answer."""
    async with (
        SERVERS[provider](Certified("good")) as server,
        model_at(provider, server.base_url) as model,
        HeadlessCall(model) as call,
    ):
        said = await call.say(1.0)
        await call.reply(after=said.ended_at)
        await call.agent_done()
        yield server, call


@both
@pytest.mark.parametrize("certificate", BAD)
async def test_a_certificate_that_never_verifies_again_ends_the_call(
    provider: str, certificate: str
) -> None:
    async with calling(provider) as (server, call):
        server.certified.shows = certificate
        cut_at = call.now
        await server.do(Abort())
        await call.until(lambda: call.errors and not call.errors[-1].recoverable, what="the end")
        # One host of many may show it, so it is tried again, but a caller does not wait for long.
        assert call.errors[-1].at - cut_at < 2
        assert server.certified.shown == ["good"] + [certificate] * CERTIFICATE_DIALS
        assert "SSLCertVerificationError" in causes_of(call.errors[-1].error)


@both
async def test_one_host_of_many_with_a_bad_certificate_ends_no_call(provider: str) -> None:
    assert CERTIFICATE_DIALS > 1
    async with calling(provider) as (server, call):
        server.certified.first = [BAD[0]] * (CERTIFICATE_DIALS - 1)
        await server.do(Abort())
        said = await call.say(1.0)
        await call.reply(after=said.ended_at)
        await call.agent_done()
        expected = ["good"] + [BAD[0]] * (CERTIFICATE_DIALS - 1) + ["good"]
        assert server.certified.shown == expected
        # The next outage counts anew.
        server.certified.first = [BAD[1]] * (CERTIFICATE_DIALS - 1)
        await server.do(Abort())
        said = await call.say(1.0)
        await call.reply(after=said.ended_at)
        assert [error for error in call.errors if not error.recoverable] == []


# -- addresses

WRONG_ADDRESSES = {
    "no host": "https://",
    "a port that is none": "https://127.0.0.1:99999",
    "a port of letters": "https://127.0.0.1:https",
    "half an IPv6 address": "https://[::1",
    "a label that is empty": "https://a..b",
    "a label that is too long": f"https://{'a' * 70}.invalid",
}


@both
@pytest.mark.parametrize("address", WRONG_ADDRESSES)
async def test_an_address_that_is_none_ends_the_first_dial(provider: str, address: str) -> None:
    outcome = await dial(provider, WRONG_ADDRESSES[address])
    assert [error.recoverable for error in outcome.errors] == [False]
    assert outcome.ended_after_s == pytest.approx(0.0, abs=0.1)


async def test_a_scheme_that_is_none_of_the_web_ends_the_first_dial() -> None:
    outcome = await dial("openai", "ftp://127.0.0.1:1")
    assert [error.recoverable for error in outcome.errors] == [False]


# -- TLS


@asynccontextmanager
async def listening(answer: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A TCP port that answers each client's first bytes with `answer`; None cuts it off."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(4096))
        if answer is None:
            writer.transport.abort()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", received


@both
async def test_a_server_that_speaks_no_tls_ends_the_first_dial(provider: str) -> None:
    async with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as (url, received):
        outcome = await dial(provider, url)
    assert len(received) == 1
    assert [error.recoverable for error in outcome.errors] == [False]


@both
async def test_a_handshake_that_is_cut_off_is_dialled_again(provider: str) -> None:
    async with listening(None) as (url, received):
        outcome = await dial(provider, url, for_s=5)
    assert len(received) > 1
    assert outcome.errors
    assert all(error.recoverable for error in outcome.errors)


@both
async def test_a_port_that_is_closed_is_dialled_again(provider: str) -> None:
    async with listening(None) as (url, _):
        pass
    outcome = await dial(provider, url, for_s=5)
    assert len(outcome.errors) > 1
    assert all(error.recoverable for error in outcome.errors)


@both
async def test_a_host_without_an_address_is_dialled_again(provider: str) -> None:
    """A resolver fails for a moment like a network does."""
    outcome = await dial(provider, "https://no-such-host.invalid", for_s=5)
    assert len(outcome.errors) > 1
    assert all(error.recoverable for error in outcome.errors)
