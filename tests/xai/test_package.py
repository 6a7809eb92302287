"""The xAI plugin is optional: what is there with it, and what is said without it."""

from __future__ import annotations

import json
import textwrap
from types import ModuleType
from typing import Any

import pytest
from livekit.plugins import openai as upstream_openai
from livekit.plugins import resilient
from livekit.plugins import xai as upstream_xai

from vendoring.forks import Forks

WITHOUT = """
    import importlib.abc, sys

    class Without(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "livekit.plugins.xai":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Without())
"""


def said_by(program: str, forks: Forks, *, without: bool) -> Any:
    """What a program prints last, as JSON."""
    text = textwrap.dedent(WITHOUT if without else "") + textwrap.dedent(program)
    run = forks.run(text)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "use",
    [
        "resilient.xai",
        "importlib.import_module('livekit.plugins.resilient.xai')",
        "exec('from livekit.plugins.resilient import xai')",
        "exec('import livekit.plugins.resilient.xai.realtime')",
    ],
)
def test_without_the_plugin_one_error_names_the_package(use: str, forks: Forks) -> None:
    program = f"""
        import importlib, json
        from livekit.plugins import resilient

        said = []
        for _ in range(2):
            try:
                {use}
            except ImportError as e:
                said.append([isinstance(e, resilient.ResilienceError), str(e)])
        print(json.dumps(said))
    """
    said = said_by(program, forks, without=True)
    assert said[0] == said[1]
    is_ours, message = said[0]
    assert is_ours
    assert "livekit-plugins-xai" in message
    assert "pip install livekit-plugins-resilient[xai]" in message


def test_without_the_plugin_all_else_works(forks: Forks) -> None:
    program = """
        import json
        from livekit.plugins.resilient import *
        from livekit.plugins import resilient

        models = [
            resilient.google.realtime.RealtimeModel(api_key="k"),
            resilient.openai.realtime.RealtimeModel(api_key="k"),
            resilient.inference.RealtimeModel("xai/grok", api_key="k", api_secret="s" * 32),
        ]
        print(json.dumps([model.provider for model in models]))
    """
    assert len(said_by(program, forks, without=True)) == 3


def test_the_plugin_is_imported_when_it_is_asked_for(forks: Forks) -> None:
    program = """
        import json, sys
        from livekit.agents import Plugin
        from livekit.plugins import resilient

        def registered():
            return [p.package for p in Plugin.registered_plugins].count("livekit.plugins.xai")

        before = registered(), "livekit.plugins.xai" in sys.modules
        resilient.xai.realtime.RealtimeModel(api_key="k")
        from livekit.plugins.resilient import xai
        assert xai is resilient.xai
        print(json.dumps([*before, registered()]))
    """
    assert said_by(program, forks, without=False) == [0, False, 1]


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"livekit\.plugins\.resilient.* 'xia'"):
        resilient.xia  # noqa: B018


@pytest.mark.parametrize("module", ["", "realtime"])
def test_the_rest_is_upstreams_own(module: str) -> None:
    ours: ModuleType = resilient.xai
    upstream: ModuleType = upstream_xai
    if module:
        ours, upstream = resilient.xai.realtime, upstream_xai.realtime
    replaced = {"realtime", "RealtimeModel", "RealtimeSession"}
    names = {name for name in upstream.__all__ if name not in replaced}
    assert names >= {"FileSearch", "GrokVoices", "WebSearch", "XSearch"}
    for name in names:
        assert getattr(ours, name) is getattr(upstream, name), name


def test_the_model_is_an_openai_model_as_upstreams_is() -> None:
    model = resilient.xai.realtime.RealtimeModel(api_key="k")
    assert isinstance(model, upstream_openai.realtime.RealtimeModel)
    assert isinstance(model, resilient.openai.realtime.RealtimeModel)


def test_the_key_is_taken_from_upstreams_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "of another provider")
    with pytest.raises(ValueError, match="XAI_API_KEY"):
        resilient.xai.realtime.RealtimeModel()
    monkeypatch.setenv("XAI_API_KEY", "k")
    ours, upstream = resilient.xai.realtime.RealtimeModel(), upstream_xai.realtime.RealtimeModel()
    assert vars(ours._opts) == vars(upstream._opts)
    assert ours.capabilities == upstream.capabilities
    assert (ours.model, ours.provider) == (upstream.model, upstream.provider)


async def test_metrics_name_the_provider() -> None:
    for model, provider in (
        (resilient.xai.realtime.RealtimeModel(api_key="k"), "xai"),
        (resilient.openai.realtime.RealtimeModel(api_key="k"), "openai"),
    ):
        session = model.session()
        assert session._driver._telemetry._base == {"provider": provider}
        await session.aclose()
        await model.aclose()
