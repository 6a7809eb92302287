"""How our classes are upstream's as well, for whoever checks or annotates them.

    @hide_newer
    class RealtimeModel(vendored.RealtimeModel, ModelBridge, upstream.RealtimeModel): ...

Type checkers are told to ignore that both define the same.

The vendored class comes first, so its methods run. Its `super().__init__` finds the bridge, which
goes straight to livekit-agents' base: upstream's constructor, of a class that is made twice here,
never runs.
"""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from livekit.agents import llm

__all__ = ["ModelBridge", "SessionBridge", "hide_newer"]

_Class = TypeVar("_Class", bound=type)


class ModelBridge(llm.RealtimeModel):
    """Stands between a vendored model and upstream's, and keeps them apart."""

    def __init__(self, *, capabilities: llm.RealtimeCapabilities) -> None:
        llm.RealtimeModel.__init__(self, capabilities=capabilities)


class SessionBridge(llm.RealtimeSession[Any]):
    """Stands between a vendored session and upstream's, and keeps them apart."""

    def __init__(self, realtime_model: llm.RealtimeModel) -> None:
        llm.RealtimeSession.__init__(self, realtime_model)


class _Hidden:
    """An attribute that upstream's class has and the vendored one, of an older release, has not."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__!r} has no attribute {self._name!r}: it is new in the installed "
            "upstream release"
        )


def hide_newer(cls: _Class) -> _Class:
    """Keep `cls` from inheriting what only upstream's class, of a newer release, defines.

    Such a method would find none of the attributes that upstream's constructor makes. What
    livekit-agents' base defines is taken from there, as for any plugin that does not override it.
    """
    mro: tuple[type, ...] = cls.__mro__
    bridge = next(i for i, c in enumerate(mro) if c in (ModelBridge, SessionBridge))
    base = llm.RealtimeModel if mro[bridge] is ModelBridge else llm.RealtimeSession
    own = {name for c in mro[: bridge + 1] for name in vars(c)}
    inherited: dict[str, Any] = {n: v for c in reversed(base.__mro__) for n, v in vars(c).items()}
    for upstream in mro[bridge + 1 : mro.index(base)]:
        for name, value in vars(upstream).items():
            # What Python itself notes about a class is that class's own.
            if name not in own and (callable(value) or not name.startswith("__")):
                setattr(cls, name, inherited.get(name, _Hidden(name)))
    return cls
