"""The Silero VAD on speech with noise, in front of both models.

Not collected with the other tests: on its first run it installs livekit-plugins-silero and
onnxruntime into `.cache/silero`, beside the environment and not in it. Later runs need no network.

    scripts/test.sh tests/healthy/on_demand_silero.py

In the corpus itself a VAD that listens to energy stands in its place.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.healthy import twists
from tests.healthy.corpus.turn_taking import MANUAL
from tests.healthy.run import judge
from tests.healthy.script import PLAIN, HealthyScript, Situation, scripts_of
from tests.scenarios.lines import STORY
from tests.scenarios.stage import Stage

PLACE = Path(__file__).parents[2] / ".cache" / "silero"
FORMANTS_HZ = ((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480))
"""The first three of four English vowels: Peterson and Barney, 1952."""
BANDWIDTHS_HZ = (80, 100, 140)


def _silero() -> Any:
    if not PLACE.exists():
        wanted = [f"livekit-plugins-silero=={version('livekit-agents')}", "onnxruntime"]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", str(PLACE), *wanted, "flatbuffers"], check=True)
    if str(PLACE) not in sys.path:
        sys.path.append(str(PLACE))
    from livekit.plugins import silero  # type: ignore[attr-defined]

    return silero


def speech(seconds: float, rate: int, seed: int = 1) -> bytes:
    """Syllables of vowels, as a formant synthesiser makes them, over the noise of a room."""
    random = np.random.default_rng(seed)
    samples = random.normal(0.0, 150.0, round(seconds * rate))
    vowels = cycle(FORMANTS_HZ)
    at = 0
    while at < samples.size:
        size = min(round(rate * random.uniform(0.12, 0.22)), samples.size - at)
        pitch_hz = 120 * (1 + 0.1 * np.sin(2 * np.pi * 3 * np.arange(size) / rate))
        phase = np.floor(np.cumsum(pitch_hz / rate))
        sound = (np.diff(phase, prepend=0.0) > 0).astype(float) - 0.01
        for formant_hz, bandwidth_hz in zip(next(vowels), BANDWIDTHS_HZ, strict=True):
            sound = _resonate(sound, formant_hz, bandwidth_hz, rate)
        loudest = max(float(np.max(np.abs(sound))), 1e-9)
        samples[at : at + size] += 6_000 * sound / loudest * np.hanning(size) ** 0.4
        at += size + round(0.03 * rate)
    pcm: bytes = np.clip(np.rint(samples), -32_768, 32_767).astype("<i2").tobytes()
    return pcm


def _resonate(sound: Any, formant_hz: float, bandwidth_hz: float, rate: int) -> Any:
    radius = np.exp(-np.pi * bandwidth_hz / rate)
    first, second = 2 * radius * np.cos(2 * np.pi * formant_hz / rate), -(radius**2)
    result = np.zeros(sound.size)
    before = earlier = 0.0
    for place, value in enumerate(sound):
        result[place] = value + first * before + second * earlier
        before, earlier = result[place], before
    return result


async def talk(stage: Stage[Any]) -> None:
    rate = stage.call.mic.sample_rate
    await stage.call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.call.wait_heard(2.0)
    for seed, pause_s in ((1, 9.0), (2, 1.0)):
        said = await stage.call.say(speech(1.4, rate, seed))
        await stage.call.reply(after=said.ended_at)
        await stage.call.agent_done()
        await stage.rest(pause_s)


def _call() -> dict[str, Any]:
    vad = _silero().VAD.load()
    return {"session_options": {"vad": vad, "turn_handling": {"turn_detection": "vad"}}}


def _beside() -> dict[str, Any]:
    return {"session_options": {"vad": _silero().VAD.load()}}


ALONE = Situation(
    name="silero",
    group="turn taking",
    sentence="Silero hears the caller's turns over noise",
    run=talk,
    providers=("openai",),
    server={"replies": [STORY]},
    model=MANUAL,
    call=_call,
)
BESIDE = Situation(
    name="silero-beside",
    group="turn taking",
    sentence="Silero listens beside the model's own detection",
    run=talk,
    # On Gemini both hear the caller at the same moment; a thread of Silero's then decides whose
    # word comes first, and upstream's model is not equal to itself.
    providers=("openai",),
    server={"replies": [STORY]},
    call=_beside,
)
SCRIPTS = [
    *scripts_of(ALONE, PLAIN, *twists.mid_reply(6), *twists.before_the_response(8, nth=2)),
    *scripts_of(BESIDE, PLAIN, *twists.before_the_answer(12)),
]


@pytest.mark.parametrize("script", [pytest.param(s, id=s.name) for s in SCRIPTS])
@pytest.mark.parametrize("which", ["upstream", "ours"])
def test_nobody_can_tell_our_model_from_upstreams(script: HealthyScript, which: Any) -> None:
    verdict = judge(script, which)
    assert verdict.equal, str(verdict)
