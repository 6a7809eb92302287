"""K11: microphone audio that no session could take."""

from __future__ import annotations

from livekit.agents.types import APIConnectOptions

from livekit.plugins.resilient.testing import (
    Abort,
    AtTime,
    Close,
    Fault,
    HangHandshake,
    OnConnection,
)

from ..lines import ANSWER, by_reason
from ..registry import scenario
from ..stage import GeminiStage

TALK = {"default_reply": by_reason}
PATIENT = {"conn_options": APIConnectOptions(max_retry=3, retry_interval=0.5, timeout=10.0)}
OUTAGE_S = 6.0
GAP_AUDIO_S = 1.0
BURST_S = 0.3  # what comes in this time after set-up is backlog and little else
SLACK_S = 0.2  # two frames, and what the product takes to notice that it may send


@scenario(
    "gemini-microphone-during-an-outage",
    kind="K11",
    rule="R15",
    provider="gemini",
    faults=[
        Fault(AtTime(5.0, connection=1), Abort()),
        Fault(OnConnection(2), HangHandshake(OUTAGE_S)),
    ],
    server=TALK,
    model=PATIENT,
    mutants="outage-audio-is-kept-whole",
)
@scenario(
    "gemini-microphone-before-a-1007",
    kind="K11",
    rule="R15",
    provider="gemini",
    faults=[
        Fault(AtTime(5.0, connection=1), Close(1007, "Request contains an invalid argument.")),
        Fault(OnConnection(2), HangHandshake(OUTAGE_S)),
    ],
    server={**TALK, "pace": None},
    model=PATIENT,
    mutants="refused-audio-is-sent-again",
)
async def does_not_replay_old_audio(stage: GeminiStage) -> None:
    """After an outage the model hears the last second of it at most, and none after a 1007."""
    await stage.greet()
    if stage.faulty:
        stage.idle = True
        await stage.server.wait_for("setupComplete", connection=2, timeout_s=30)
        ready_at = stage.server.recording.events("setupComplete", connection=2)[0].at
        await stage.rest(1.0)
        frames = stage.server.recording.frames("audio", connection=2)
        burst_s = sum(frame.audio_s for frame in frames if frame.at <= ready_at + BURST_S)
        broken = any(info.code == 1007 for info in stage.server.recording.closes)
        allowed_s = (0.0 if broken else GAP_AUDIO_S) + BURST_S + SLACK_S
        stage.require(burst_s <= allowed_s, f"the backlog is bounded, not {burst_s:.1f} s")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air(stage.call.mic.utterances[0].ended_at)
