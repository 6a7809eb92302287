"""Whoever checks a model's or a session's class finds upstream's, and never meets its methods."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import MISSING, fields
from types import ModuleType
from typing import Any

import pytest
from livekit.agents import inference as upstream_inference
from livekit.agents import llm
from livekit.agents.llm import _realtime
from livekit.plugins import google as upstream_google
from livekit.plugins import openai as upstream_openai
from livekit.plugins import resilient
from livekit.plugins import xai as upstream_xai
from livekit.plugins.google.realtime import realtime_api

from livekit.plugins.resilient.events import Reconnected, ResilienceEvent
from livekit.plugins.resilient.testing import (
    Abort,
    AtAudio,
    Fault,
    GeminiLiveServer,
    HeadlessCall,
    OpenAIRealtimeServer,
    Reply,
)
from livekit.plugins.resilient.upstream_classes import ModelBridge, SessionBridge, hide_newer

BASES: tuple[type, ...] = (llm.RealtimeModel, llm.RealtimeSession)

# Ours, and the class that upstream documents for it.
SWAPPED: dict[str, tuple[type, type]] = {
    "google model": (
        resilient.google.realtime.RealtimeModel,
        upstream_google.realtime.RealtimeModel,
    ),
    "google session": (resilient.google.realtime.RealtimeSession, realtime_api.RealtimeSession),
    "openai model": (
        resilient.openai.realtime.RealtimeModel,
        upstream_openai.realtime.RealtimeModel,
    ),
    "openai session": (
        resilient.openai.realtime.RealtimeSession,
        upstream_openai.realtime.RealtimeSession,
    ),
    "inference model": (resilient.inference.RealtimeModel, upstream_inference.RealtimeModel),
    "inference session": (resilient.inference.RealtimeSession, upstream_inference.RealtimeSession),
    "xai model": (resilient.xai.realtime.RealtimeModel, upstream_xai.realtime.RealtimeModel),
    "xai session": (resilient.xai.realtime.RealtimeSession, upstream_xai.realtime.RealtimeSession),
}
every_class = pytest.mark.parametrize("ours", [ours for ours, _ in SWAPPED.values()], ids=SWAPPED)


def modules_below(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield importlib.import_module(found.name)


def exported_classes() -> dict[str, type]:
    """Upstream's realtime classes, under every name that leads to one."""
    packages = (upstream_google, upstream_openai, upstream_xai, upstream_inference, _realtime)
    return {
        f"{module.__name__}.{name}": value
        for package in packages
        for module in modules_below(package)
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, BASES) and value not in BASES
    }


def upstreams(cls: type) -> list[type]:
    """The classes among the ancestors of `cls` that are upstream's own, nearest first."""
    bases = {base for own in BASES for base in own.__mro__}
    return [c for c in cls.__mro__ if c not in bases and not belongs_to_us(c)]


def belongs_to_us(cls: type) -> bool:
    return cls.__module__.startswith("livekit.plugins.resilient")


# -- what an application sees


def test_every_class_that_upstream_exports_is_one_of_ours_too() -> None:
    exported = exported_classes()
    assert "livekit.plugins.google.realtime.RealtimeModel" in exported
    assert "livekit.plugins.openai.realtime.InferenceRealtimeModel" in exported
    ours = [cls for cls, _ in SWAPPED.values()]
    missed = [n for n, cls in exported.items() if not any(issubclass(c, cls) for c in ours)]
    assert missed == []


@pytest.mark.parametrize("name", SWAPPED)
def test_ours_is_a_subclass_of_the_one_it_stands_for(name: str) -> None:
    ours, upstream = SWAPPED[name]
    assert issubclass(ours, upstream)
    # The other way round nothing changes: upstream's is not taken for ours.
    assert not issubclass(upstream, ours)


def make_models() -> dict[str, tuple[llm.RealtimeModel, str]]:
    return {
        "google": (resilient.google.realtime.RealtimeModel(api_key="k"), "google"),
        "openai": (resilient.openai.realtime.RealtimeModel(api_key="k"), "openai"),
        "azure": (
            resilient.openai.realtime.RealtimeModel.with_azure(
                azure_deployment="d", azure_endpoint="https://a.invalid", api_key="k"
            ),
            "openai",
        ),
        "inference": (
            resilient.inference.RealtimeModel(
                "openai/gpt-realtime", api_key="k", api_secret="s" * 32
            ),
            "inference",
        ),
        "xai": (resilient.xai.realtime.RealtimeModel(api_key="k"), "xai"),
    }


async def test_models_and_their_sessions_are_instances_of_upstreams() -> None:
    for name, (model, kind) in make_models().items():
        assert isinstance(model, SWAPPED[f"{kind} model"][1]), name
        session = model.session()
        try:
            assert isinstance(session, SWAPPED[f"{kind} session"][1]), name
            assert session in vars(model)["_sessions"]
            assert session.realtime_model is model
        finally:
            await session.aclose()
            await model.aclose()


def test_a_model_from_a_string_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEKIT_API_KEY", "k")
    monkeypatch.setenv("LIVEKIT_API_SECRET", "s" * 32)
    model = resilient.inference.RealtimeModel.from_model_string("openai/gpt-realtime")
    assert type(model) is resilient.inference.RealtimeModel


def test_a_label_and_a_repr_name_our_class() -> None:
    for name, (model, kind) in make_models().items():
        module = type(model).__module__
        assert module == f"livekit.plugins.resilient.{kind}.realtime", name
        assert model.label == f"{module}.RealtimeModel"
        assert repr(model).startswith(f"<{module}.RealtimeModel object at ")


# -- whose methods run

# Noted by Python for a class itself.
IRRELEVANT = {
    "__annotations__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__qualname__",
    "__static_attributes__",
}


@every_class
def test_no_attribute_is_found_on_upstreams_class(ours: type) -> None:
    theirs = upstreams(ours)
    assert theirs
    wrong = {}
    for name in {name for cls in theirs for name in vars(cls)} - IRRELEVANT:
        definer = next(cls for cls in ours.__mro__ if name in vars(cls))
        if definer in theirs:
            wrong[name] = definer
    assert wrong == {}


@every_class
def test_no_super_call_reaches_upstreams_class(ours: type) -> None:
    theirs = upstreams(ours)
    calls = [(cls, name) for cls in ours.__mro__ if belongs_to_us(cls) for name in supers(cls)]
    assert {name for _, name in calls} >= {"__init__"}
    for cls, name in calls:
        rest = ours.__mro__[ours.__mro__.index(cls) + 1 :]
        definer = next(c for c in rest if name in vars(c))
        assert definer not in theirs, f"super().{name} of {cls.__module__}.{cls.__qualname__}"


def supers(cls: type) -> set[str]:
    """The names that the source of `cls` asks `super()` for."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id == "super"
    }


async def test_upstreams_constructors_do_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("upstream's constructor ran")

    for cls in {cls for ours, _ in SWAPPED.values() for cls in upstreams(ours)}:
        if "__init__" in vars(cls):
            monkeypatch.setattr(cls, "__init__", fail)
    for model, _ in make_models().values():
        session = model.session()
        await session.aclose()
        await model.aclose()


# -- an upstream newer than the one that was vendored


class Vendored(llm.RealtimeModel):
    def __init__(self, *, voice: str) -> None:
        super().__init__(capabilities=CAPABILITIES)
        self.voice = voice

    def kept(self) -> str:
        return "vendored"


class Newer(llm.RealtimeModel):
    added_value = 7

    def __init__(self, *, voice: str, pitch: float) -> None:
        super().__init__(capabilities=CAPABILITIES)
        self.pitch = pitch

    def kept(self) -> str:
        return "newer"

    def added(self) -> float:
        return self.pitch

    @property
    def metrics_metadata(self) -> Any:
        return {"model_name": str(self.pitch)}


CAPABILITIES = llm.RealtimeCapabilities(
    **{f.name: True for f in fields(llm.RealtimeCapabilities) if f.default is MISSING}
)


@hide_newer
class Ours(Vendored, ModelBridge, Newer):
    def session(self, *, turn_detection_disabled: bool = False) -> llm.RealtimeSession[Any]:
        raise NotImplementedError

    async def aclose(self) -> None: ...


def test_what_a_newer_upstream_adds_is_not_ours() -> None:
    model = Ours(voice="Puck")
    assert isinstance(model, Newer)
    assert model.kept() == "vendored"
    assert not hasattr(model, "pitch")
    for name in ("added", "added_value"):
        assert not hasattr(model, name)
        assert not hasattr(Ours, name)
        with pytest.raises(AttributeError, match=rf"'Ours' .* '{name}'"):
            getattr(model, name)
    # What livekit-agents asks every model for is its own.
    assert model.metrics_metadata == {"model_name": "unknown", "model_provider": "unknown"}


def test_a_subclass_may_bring_what_is_hidden() -> None:
    class Own(Ours):
        def added(self) -> float:
            return 1.0

    assert Own(voice="Puck").added() == 1.0


def test_nothing_is_hidden_of_the_vendored_release() -> None:
    import livekit.agents

    if livekit.agents.__version__ != resilient.__version__.rpartition(".")[0]:
        pytest.skip("another upstream release is installed")
    for ours, upstream in SWAPPED.values():
        for name in dir(upstream):
            if name != "__abstractmethods__":
                assert hasattr(ours, name), name


def test_bridges_are_livekits_own_bases() -> None:
    assert issubclass(ModelBridge, llm.RealtimeModel)
    assert issubclass(SessionBridge, llm.RealtimeSession)


# -- a call

TALE = Reply("Your parcel left the depot this morning and will be with you before six tonight.")
CUT_S = 2.0
DROP = Fault(AtAudio(CUT_S, connection=1), Abort())
_openai = resilient.openai.realtime.RealtimeModel
Server = GeminiLiveServer | OpenAIRealtimeServer
FLAVOURS: dict[str, tuple[str, type[Server], Callable[..., llm.RealtimeModel]]] = {
    "google": (
        "google",
        GeminiLiveServer,
        lambda server, **given: resilient.google.realtime.RealtimeModel(
            **server.model_kwargs(**given)
        ),
    ),
    "openai": (
        "openai",
        OpenAIRealtimeServer,
        lambda server, **given: _openai(**server.model_kwargs(**given)),
    ),
    "azure": (
        "openai",
        OpenAIRealtimeServer,
        lambda server, **given: _openai.with_azure(**server.azure_kwargs(**given)),
    ),
    "inference": (
        "inference",
        OpenAIRealtimeServer,
        lambda server, **given: resilient.inference.RealtimeModel(
            **server.inference_kwargs(**given)
        ),
    ),
}


@asynccontextmanager
async def calling(flavour: str, events: list[ResilienceEvent]) -> AsyncIterator[Any]:
    _, make_server, make_model = FLAVOURS[flavour]
    options = resilient.ResilienceOptions(on_event=events.append)
    async with make_server(default_reply=TALE, faults=[DROP], pace="realtime") as server:
        async with HeadlessCall(make_model(server, resilience=options)) as call:
            yield call
        assert call.close_problem is None
        assert call.leftover_tasks() == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_call_of_both_classes_survives_a_drop(flavour: str) -> None:
    kind, events = FLAVOURS[flavour][0], list[ResilienceEvent]()
    async with calling(flavour, events) as call:
        assert isinstance(call.session.llm, SWAPPED[f"{kind} model"][1])
        assert isinstance(call.realtime_session, SWAPPED[f"{kind} session"][1])
        said = await call.say(1.0)
        await call.reply(after=said.ended_at)
        await call.until(
            lambda: any(isinstance(e, Reconnected) for e in events),
            timeout_s=30,
            what="the reconnect",
        )
        await call.agent_done()
        said = await call.say(1.0)
        reply = await call.reply(after=said.ended_at)
        await call.agent_done()
        assert reply.interrupted is False
        assert [e for e in call.errors if not e.recoverable] == []
