"""What every scripted call needs, whether or not something goes wrong in it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing.faults import Fault

if TYPE_CHECKING:
    from livekit.agents import Agent

    from .stage import Stage

ProviderName: TypeAlias = Literal["gemini", "openai"]
PROVIDERS: tuple[ProviderName, ...] = ("gemini", "openai")
Flavour: TypeAlias = Literal["plain", "azure", "azure-legacy", "inference", "xai"]
"""Which of a provider's public models is called; Gemini has only "plain"."""

Run: TypeAlias = "Callable[[Stage[Any]], Awaitable[None]]"

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class CallScript:
    """One call with one of the providers.

    Attributes:
        name: kebab-case, unique over all providers.
        provider: whose simulator serves the call.
        run: drives the call and asserts.
        promise: one sentence, what the caller must experience.
        faults: the fault plan.
        server: keywords for the simulator.
        model: keywords for both models, over those of the simulator.
        call: makes keywords for `HeadlessCall`.
        agent: makes the agent, given whether the faults are on; by default a `CallAgent` with its
            weather tool.
        flavour: which of the provider's models.
        resilience: for our model only; None takes the defaults.
        mic_rate: samples per second of the caller's microphone.
    """

    name: str
    provider: ProviderName
    run: Run = field(repr=False)
    promise: str = field(repr=False)
    faults: tuple[Fault, ...] = ()
    server: Mapping[str, Any] = field(default_factory=dict, repr=False)
    model: Mapping[str, Any] = field(default_factory=dict, repr=False)
    call: Callable[[], Mapping[str, Any]] = field(default=dict, repr=False)
    agent: Callable[[bool], Agent] | None = field(default=None, repr=False)
    flavour: Flavour = "plain"
    resilience: ResilienceOptions | None = field(default=None, repr=False)
    mic_rate: int = 24_000

    def __post_init__(self) -> None:
        check("name", self.name, bool(_NAME.fullmatch(self.name)), "kebab-case")
        check("provider", self.provider, self.provider in PROVIDERS, f"one of {PROVIDERS}")
        check("promise", self.promise, bool(self.promise), "a sentence, or the docstring of `run`")


def check(what: str, value: str, fine: bool, allowed: str) -> None:
    """Refuse a malformed field.

    Raises:
        ValueError: `fine` is false; the message says what is `allowed`.
    """
    if not fine:
        raise ValueError(f"script: {what} must be {allowed}, not {value!r}")
