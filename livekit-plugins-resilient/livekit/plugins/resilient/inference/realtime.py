"""LiveKit Inference: the public model, driven by the OpenAI driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livekit.agents import inference as _upstream

from .._vendor.inference import realtime as _impl
from ..openai.caps import Host
from ..openai.realtime import RealtimeSession as _OpenAISession
from ..openai.stand_in import AnyHttpModel
from ..upstream_classes import ModelBridge, hide_newer

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..options import ResilienceOptions

__all__ = ["RealtimeModel", "RealtimeSession"]


@hide_newer
class RealtimeModel(_impl.RealtimeModel, AnyHttpModel, ModelBridge, _upstream.RealtimeModel):  # type: ignore[misc]
    """LiveKit Inference realtime, as `livekit.agents.inference.RealtimeModel`, kept alive.

    Takes every argument of upstream's model with the same meaning, and `resilience`, a
    `ResilienceOptions`.

    Raises:
        OptionError: `resilience` is not a `ResilienceOptions`.
        ValueError: Upstream refuses an argument, for example a model without its provider.
    """

    _resilience: ResilienceOptions

    @classmethod
    def from_model_string(cls, model: str) -> Self:
        """As the constructor, from the model's name alone."""
        return cls(model)

    def session(self, *, turn_detection_disabled: bool = False) -> RealtimeSession:
        """Open a session; must be called inside a running event loop."""
        session = RealtimeSession(self, turn_detection_disabled=turn_detection_disabled)
        self._sessions.add(session)
        return session


@hide_newer
class RealtimeSession(_OpenAISession, _impl.RealtimeSession, _upstream.RealtimeSession):  # type: ignore[misc]
    """One conversation through LiveKit Inference over as many connections as it takes."""

    def _host(self) -> Host:
        opts = self._inference_model._inference_opts
        return Host(self._opts.model, azure=opts.provider == "azure", inference=True)
