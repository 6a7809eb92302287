"""The public face: upstream's signatures plus one keyword, in one import."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import textwrap
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from livekit.agents import inference as upstream_inference
from livekit.agents import llm
from livekit.agents.llm._realtime import openai as upstream_openai
from livekit.plugins import google as upstream_google
from livekit.plugins import openai as upstream_openai_plugin
from livekit.plugins import resilient
from livekit.plugins import xai as upstream_xai
from livekit.plugins.google.realtime import realtime_api as upstream_google_impl

from vendoring.forks import Forks

PACKAGE = Path(__file__).parents[1] / "livekit-plugins-resilient"

MODELS = {
    "google": (resilient.google.realtime.RealtimeModel, upstream_google.realtime.RealtimeModel),
    "openai": (
        resilient.openai.realtime.RealtimeModel,
        upstream_openai_plugin.realtime.RealtimeModel,
    ),
    "inference": (resilient.inference.RealtimeModel, upstream_inference.RealtimeModel),
    "xai": (resilient.xai.realtime.RealtimeModel, upstream_xai.realtime.RealtimeModel),
}
SESSIONS = {
    "google": (resilient.google.realtime.RealtimeSession, upstream_google_impl.RealtimeSession),
    "openai": (resilient.openai.realtime.RealtimeSession, upstream_openai.RealtimeSession),
    "xai": (resilient.xai.realtime.RealtimeSession, upstream_xai.realtime.RealtimeSession),
}


# `emit` takes any event, upstream's those of its own list; `truncate` names a type by an alias.
SPELLED_OTHERWISE = {"emit", "truncate"}


def parameters(function: Callable[..., object]) -> list[Any]:
    return list(inspect.signature(function).parameters.values())


def shape(function: Callable[..., object]) -> list[Any]:
    return [(p.name, p.kind, p.default) for p in parameters(function)]


def constructor(cls: type) -> list[inspect.Parameter]:
    return parameters(getattr(cls, "__init__"))  # noqa: B009


def public_methods(cls: type) -> list[str]:
    return sorted(
        name
        for name, value in inspect.getmembers(cls, callable)
        if not name.startswith("_") and not inspect.isclass(value)
    )


@pytest.mark.parametrize("provider", MODELS)
def test_constructor_is_upstreams_plus_resilience(provider: str) -> None:
    ours, upstream = MODELS[provider]
    added = [p for p in constructor(ours) if p.name == "resilience"]
    kept = [p for p in constructor(ours) if p.name != "resilience"]
    assert [p.kind for p in added] == [inspect.Parameter.KEYWORD_ONLY]
    assert [p.default for p in added] == [None]
    assert kept == constructor(upstream)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="typing.get_overloads is from 3.11")
def test_every_overload_takes_resilience() -> None:
    overloads = typing.get_overloads(resilient.openai.realtime.RealtimeModel.__init__)
    upstream = typing.get_overloads(upstream_openai.RealtimeModel.__init__)
    assert len(overloads) == len(upstream) > 0
    for ours, theirs in zip(overloads, upstream, strict=True):
        assert "resilience" in inspect.signature(ours).parameters
        assert [p for p in parameters(ours) if p.name != "resilience"] == parameters(theirs)


def test_with_azure_is_upstreams_plus_resilience() -> None:
    ours = parameters(resilient.openai.realtime.RealtimeModel.with_azure)
    upstream = parameters(upstream_openai_plugin.realtime.RealtimeModel.with_azure)
    assert [p for p in ours if p.name != "resilience"] == upstream
    assert "resilience" in {p.name for p in ours}


@pytest.mark.parametrize("provider", MODELS)
def test_other_methods_have_upstreams_signatures(provider: str) -> None:
    for ours, upstream in (
        MODELS[provider],
        *([SESSIONS[provider]] if provider in SESSIONS else []),
    ):
        for name in public_methods(upstream):
            if name == "with_azure":
                continue
            compare = shape if name in SPELLED_OTHERWISE else parameters
            assert compare(getattr(ours, name)) == compare(getattr(upstream, name)), name


def make_models(options: resilient.ResilienceOptions | None) -> dict[str, llm.RealtimeModel]:
    return {
        "google": resilient.google.realtime.RealtimeModel(api_key="k", resilience=options),
        "openai": resilient.openai.realtime.RealtimeModel(api_key="k", resilience=options),
        "azure": resilient.openai.realtime.RealtimeModel.with_azure(
            azure_deployment="d",
            azure_endpoint="https://a.invalid",
            api_key="k",
            resilience=options,
        ),
        "inference": resilient.inference.RealtimeModel(
            "openai/gpt-realtime", api_key="k", api_secret="s" * 32, resilience=options
        ),
        "xai": resilient.xai.realtime.RealtimeModel(api_key="k", resilience=options),
    }


def test_models_are_livekit_models_and_keep_their_options() -> None:
    options = resilient.ResilienceOptions(speech_rate_cps=12)
    for name, model in make_models(options).items():
        assert isinstance(model, llm.RealtimeModel), name
        assert model._resilience is options, name  # type: ignore[attr-defined]
    for name, model in make_models(None).items():
        assert model._resilience == resilient.ResilienceOptions(), name  # type: ignore[attr-defined]


@pytest.mark.parametrize("provider", ["google", "openai", "xai"])
def test_options_of_another_type_are_refused_by_name(provider: str) -> None:
    with pytest.raises(resilient.OptionError, match=r"resilience=.*ResilienceOptions or None"):
        MODELS[provider][0](api_key="k", resilience={"on_event": None})


async def test_sessions_are_ours_and_usable_in_the_fallback_adapter() -> None:
    models = make_models(None)
    adapter = llm.RealtimeModelFallbackAdapter(list(models.values()))
    assert isinstance(adapter, llm.RealtimeModel)
    kinds = {
        "google": resilient.google.realtime.RealtimeSession,
        "openai": resilient.openai.realtime.RealtimeSession,
        "azure": resilient.openai.realtime.RealtimeSession,
        "inference": resilient.inference.RealtimeSession,
        "xai": resilient.xai.realtime.RealtimeSession,
    }
    for name, model in models.items():
        session = model.session()
        assert isinstance(session, kinds[name]), name
        await session.aclose()
        await model.aclose()


def test_importing_registers_each_plugin_once(forks: Forks) -> None:
    program = """
        import json
        from livekit.plugins import resilient, google
        from livekit.agents import Plugin
        print(json.dumps([p.package for p in Plugin.registered_plugins]))
    """
    out = forks.run(textwrap.dedent(program))
    assert out.returncode == 0, out.stderr
    packages = json.loads(out.stdout)
    assert packages.count("livekit.plugins.resilient") == 1
    assert packages.count("livekit.plugins.google") == 1


def test_gemini_tools_keep_upstreams_identity() -> None:
    from livekit.plugins.resilient._vendor.google import utils

    assert vars(utils)["GeminiTool"] is upstream_google.tools.GeminiTool


def test_no_namespace_package_is_claimed() -> None:
    assert not (PACKAGE / "livekit/__init__.py").exists()
    assert not (PACKAGE / "livekit/plugins/__init__.py").exists()


USER_PROGRAM = """
from livekit.agents import AgentSession
from livekit.agents import inference as upstream_inference
from livekit.agents.llm import RealtimeModelFallbackAdapter
from livekit.plugins import google as upstream_google
from livekit.plugins import openai as upstream_openai
from livekit.plugins import resilient
from livekit.plugins import xai as upstream_xai
from livekit.plugins.google.realtime import realtime_api


def heard(event: resilient.events.ResilienceEvent) -> None:
    print(event)


options = resilient.ResilienceOptions(on_event=heard)
gemini = resilient.google.realtime.RealtimeModel(
    model="gemini-3.8-live", voice="Puck", resilience=options
)
openai = resilient.openai.realtime.RealtimeModel(voice="marin", resilience=options)
azure = resilient.openai.realtime.RealtimeModel.with_azure(
    azure_deployment="gpt-realtime", resilience=options
)
hosted = resilient.inference.RealtimeModel("google/gemini-3.8-live", resilience=options)
grok = resilient.xai.realtime.RealtimeModel(voice="ara", resilience=options)
searches: type[upstream_xai.WebSearch] = resilient.xai.realtime.WebSearch

# Annotations and checks with upstream's classes go on as they are.
as_gemini: upstream_google.realtime.RealtimeModel = gemini
as_openai: upstream_openai.realtime.RealtimeModel = openai
as_azure: upstream_openai.realtime.RealtimeModel = azure
as_hosted: upstream_inference.RealtimeModel = hosted
as_grok: upstream_xai.realtime.RealtimeModel = grok
named: upstream_inference.RealtimeModel = resilient.inference.RealtimeModel.from_model_string("a/b")
as_other: upstream_openai.realtime.RealtimeModel = gemini  # type: ignore[assignment]


class Branded(resilient.openai.realtime.RealtimeModel):
    @property
    def provider(self) -> str:
        return "ours"


def sessions() -> tuple[
    realtime_api.RealtimeSession,
    upstream_openai.realtime.RealtimeSession,
    upstream_openai.realtime.RealtimeSession,
    upstream_inference.RealtimeSession,
    upstream_xai.realtime.RealtimeSession,
]:
    branded = Branded().session()
    return gemini.session(), openai.session(), branded, hosted.session(), grok.session()


def main() -> None:
    AgentSession[None](llm=RealtimeModelFallbackAdapter([gemini, openai, azure, hosted]))
    for session in (gemini.session(), openai.session(), azure.session(), hosted.session()):
        session.on("resilience", heard)
    openai.session().on("resilience", heard)
    hosted.session().on("resilience", heard)
    grok.session().on("resilience", heard)
"""


def test_a_user_program_type_checks_strictly(tmp_path: Path) -> None:
    # What the check of this checkout found out of upstream need not be found out again: mypy takes
    # of it what it would find itself. In links, as it replaces the files that it writes.
    cache = tmp_path / ".mypy_cache"
    if (ours := PACKAGE.parent / ".mypy_cache").is_dir():
        shutil.copytree(ours, cache, copy_function=os.link)

    def mypy(program: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "agent.py"
        file.write_text(program)
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(file)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )

    good = mypy(USER_PROGRAM)
    assert good.returncode == 0, good.stdout + good.stderr
    bad = mypy(USER_PROGRAM.replace('voice="marin", resilience=options', "voyce=1"))
    assert bad.returncode == 1
    assert "voyce" in bad.stdout


def test_the_version_is_the_packages() -> None:
    project = (PACKAGE / "pyproject.toml").read_text()
    assert f'\nversion = "{resilient.__version__}"\n' in project
