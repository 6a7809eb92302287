"""What the simulated models say in most scenarios."""

from __future__ import annotations

from livekit.plugins.resilient.testing import Reply, TurnRequest

GREETING = Reply("Welcome, what can I do for you?")
STORY = Reply(
    "Once upon a time there was a caller who listened to a long story "
    "and wanted to hear all of it to the very end."
)
ANSWER = Reply("This answers what you have just asked.")
GO_ON = Reply("Sorry for the pause, here is the rest of what I wanted to say.")
TOLD = Reply("The tool tells me that it is sunny in Paris.")

CUT_S = 3.0
"""Where `STORY` is cut: further than any other line here is long, so that only it matches."""

PACE = 4.0
"""Audio seconds that the simulated Gemini sends per second, as recorded, so that some of it is
still to be played when a socket drops."""


def by_reason(request: TurnRequest) -> Reply:
    """A line for every reason to speak, so that a scenario does not depend on their order."""
    return {"speech": ANSWER, "tool_result": TOLD}.get(request.reason, GO_ON)


RESULT = "cloudless"
"""What a tool answers where a scenario looks for its answer."""


def told_once_known(request: TurnRequest) -> Reply:
    """Tells `RESULT` as soon as it is known, in whatever form it came, but not twice."""
    known = any(RESULT in text for text in (*request.knows, str(request.tool_results)))
    said = any(TOLD.text in text for text in request.knows)
    if known and not said:
        return TOLD
    return GO_ON if request.reason == "tool_result" else by_reason(request)
