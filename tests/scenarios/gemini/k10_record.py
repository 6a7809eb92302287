"""K10: what the record says was spoken, and what was not."""

from __future__ import annotations

from livekit.plugins.resilient import ResilienceOptions
from livekit.plugins.resilient.testing import Abort, AtAudio, Fault

from ..lines import ANSWER, CUT_S, STORY, by_reason
from ..registry import scenario
from ..stage import GeminiStage

CUT = Fault(AtAudio(CUT_S, connection=1), Abort())
TALE = {"replies": [STORY], "default_reply": by_reason}
TOLERANCE_WORDS = 1


@scenario(
    "gemini-transcript-runs-ahead",
    kind="K10",
    rule="R14",
    provider="gemini",
    faults=[CUT],
    server={**TALE, "transcript_lead_s": 3.0},
    mutants="unheard-words-are-recorded",
)
@scenario(
    "gemini-transcript-and-audio-together",
    kind="K10",
    rule="R14",
    provider="gemini",
    faults=[CUT],
    server=TALE,
    mutants="heard-words-are-left-out",
)
async def records_what_was_heard(stage: GeminiStage) -> None:
    """The record of a cut reply holds the words that the caller heard, and no others."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    await call.until(lambda: call.heard.segments, what="the end of the reply")
    await stage.ask()
    heard = STORY.words_until(CUT_S).split() if stage.faulty else STORY.text.split()
    told = [text.split() for text in call.agent_texts()]
    stage.require(told and told[0] == STORY.text.split()[: len(told[0])], "it is the story's start")
    surplus = len(told[0]) - len(heard)
    stage.require(surplus <= TOLERANCE_WORDS, f"{surplus} words were recorded but never heard")
    stage.require(surplus >= -TOLERANCE_WORDS, f"{-surplus} words were heard but not recorded")
    if stage.faulty:
        unheard = STORY.words[len(heard) + TOLERANCE_WORDS].text
        known = [text for text in stage.server.session.texts("model") if text.startswith("Once")]
        stage.require(
            all(unheard not in text for text in known), "the model is not told what was not heard"
        )
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air()


@scenario(
    "gemini-audio-without-transcript",
    kind="K10",
    rule="R14",
    provider="gemini",
    faults=[CUT],
    server={**TALE, "transcript_lead_s": -4.0},
    mutants="wordless-audio-is-forgotten",
)
async def records_speech_without_words(stage: GeminiStage) -> None:
    """Speech whose words had not arrived leaves a turn in the record, not a hole."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await stage.until_fault()
    await call.until(lambda: call.heard.segments, what="the end of the reply")
    await stage.ask()
    stage.require(len(call.agent_texts()) >= 2, "both replies are recorded")
    stage.require(call.agent_texts()[0].strip(), "the first is not empty")
    stage.require_heard(stage.heard_whole(ANSWER), "the next question is answered in full")
    stage.dead_air()


@scenario(
    "gemini-barge-in-after-a-drop",
    kind="K10",
    rule="R14",
    provider="gemini",
    faults=[Fault(AtAudio(6.0, connection=1), Abort())],
    server={**TALE},
    mutants="google-cut-in-after-a-drop-is-not-recorded",
)
async def is_cut_where_the_caller_cut_in(stage: GeminiStage) -> None:
    """A caller who cuts in on the rest of a dropped reply stops it, and the record ends there."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    await call.wait_heard(2.5)
    await stage.ask()
    first = call.heard.segments[0]
    stage.require_heard(first.interrupted, "the reply is stopped")
    talked_over_s = first.position_s - 2.5
    stage.require_heard(talked_over_s < 2.0, f"it does not go on for {talked_over_s:.1f} s")
    if stage.faulty:  # upstream records the whole of a reply that was cut in on without a drop
        heard = STORY.words_until(first.position_s).split()
        surplus = len(call.agent_texts()[0].split()) - len(heard)
        stage.require(
            surplus <= 2 * TOLERANCE_WORDS, f"{surplus} words were recorded but not heard"
        )
    stage.require_heard(stage.heard_whole(ANSWER), "the caller's question is answered in full")
    stage.dead_air(call.mic.utterances[0].ended_at)


@scenario(
    "gemini-drop-with-flush",
    kind="K10",
    rule="R14",
    provider="gemini",
    faults=[Fault(AtAudio(6.0, connection=1), Abort())],
    server={**TALE},
    resilience=ResilienceOptions(playout_on_drop="flush"),
    mutants="google-drop-does-not-flush",
)
async def stops_at_the_drop_if_told_to(stage: GeminiStage) -> None:
    """Where the application wants it so, a dropped reply stops at once, and the record there."""
    call = stage.call
    await call.generate_reply(instructions="Tell a story.", wait=False)
    dropped_at = await stage.until_fault()
    first = await stage.next_segment()
    await call.agent_done()
    if stage.faulty:
        late_s = call.heard.spans()[0].end - dropped_at
        stage.require_heard(late_s < 0.3, f"it stops at the drop, not {late_s:.1f} s later")
        heard = STORY.words_until(first.position_s).split()
        surplus = len(call.agent_texts()[0].split()) - len(heard)
        stage.require(surplus <= TOLERANCE_WORDS, f"{surplus} words were recorded but not heard")
        stage.require(call.agent_texts()[0].strip(), "what was heard is recorded")
    await stage.ask()
    stage.require_heard(stage.heard_whole(ANSWER), "the caller's question is answered in full")
    stage.dead_air(call.mic.utterances[0].ended_at)
