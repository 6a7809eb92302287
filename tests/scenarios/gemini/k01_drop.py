"""K1: the connection ends without our asking for it."""

from __future__ import annotations

from livekit.plugins.resilient.testing import Abort, AtAudio, Close, Fault, Reply

from ..registry import scenario
from ..stage import GeminiStage

STORY = Reply("This is a long reply which is cut after a second and a half by a dropped socket.")
ANSWER = Reply("And this answers your next question.")
CUT = AtAudio(1.5, connection=1)


@scenario(
    "drop-1006-mid-reply",
    kind="K1",
    rule="R1",
    provider="gemini",
    faults=[Fault(CUT, Abort())],
    server={"replies": [STORY, ANSWER]},
)
@scenario(
    "drop-1011-mid-reply",
    kind="K1",
    rule="R1",
    provider="gemini",
    faults=[Fault(CUT, Close(1011, "Internal error encountered."))],
    server={"replies": [STORY, ANSWER]},
)
async def answers_after_a_drop(stage: GeminiStage) -> None:
    """The reply stops where its audio ended, and the next question is answered as usual."""
    await stage.call.generate_reply(instructions="tell a story")
    await stage.until_fault()
    await stage.call.agent_done()
    await stage.ask()
    stage.require(stage.heard_whole(ANSWER, 2), "the next question is answered in full")
    stage.require(stage.unrecoverable() == 0, "the session is not told that the model gave up")
    stage.dead_air()
