"""The model under test: ours, or upstream's own where the vendored tree carries no patch.

`scripts/verify.sh` runs every probe twice: on a tree without patches, where it must fail, and on
the patched one, where it must pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from livekit.plugins import resilient

from livekit.plugins.resilient._vendor.google import realtime_api
from livekit.plugins.resilient._vendor.inference import realtime as inference
from livekit.plugins.resilient._vendor.openai import realtime_model
from livekit.plugins.resilient._vendor.xai import realtime_model as xai

PROVENANCE = Path(realtime_api.__file__).parents[1] / "PROVENANCE.json"
PATCHES = json.loads(PROVENANCE.read_text())["patches"]
BARE = not PATCHES


@pytest.fixture
def google_model() -> Any:
    """The Gemini model class."""
    return realtime_api.RealtimeModel if BARE else resilient.google.realtime.RealtimeModel


@pytest.fixture
def openai_model() -> Any:
    """The OpenAI model class."""
    return realtime_model.RealtimeModel if BARE else resilient.openai.realtime.RealtimeModel


@pytest.fixture
def inference_model() -> Any:
    """The LiveKit Inference model class."""
    return inference.RealtimeModel if BARE else resilient.inference.RealtimeModel


@pytest.fixture
def xai_model() -> Any:
    """The xAI model class."""
    return xai.RealtimeModel if BARE else resilient.xai.realtime.RealtimeModel
