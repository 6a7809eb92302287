"""What an `AgentSession` records of a reply is cut to what was heard, before anybody reads it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from livekit import rtc
from livekit.agents import llm

from livekit.plugins.resilient.runtime.agent_record import AgentRecord
from livekit.plugins.resilient.runtime.agent_session import listen_first


class AgentSession(rtc.EventEmitter[str]):
    """As much of an `AgentSession` as records messages."""

    def __init__(self) -> None:
        super().__init__()
        self.output = SimpleNamespace(audio=None)
        self.history = llm.ChatContext.empty()

    def records(self, message: llm.ChatMessage) -> None:
        self.history.items.append(message)
        self.emit("conversation_item_added", SimpleNamespace(item=message))


class Activity:
    """The listener through which the session is found."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    def on_error(self, error: object) -> None:
        pass


@pytest.fixture
def agent_session() -> AgentSession:
    return AgentSession()


@pytest.fixture
def realtime(agent_session: AgentSession) -> rtc.EventEmitter[Any]:
    session = rtc.EventEmitter[Any]()
    session.on("error", Activity(agent_session).on_error)
    return session


def said(text: str, *, message_id: str = "m1", role: Any = "assistant") -> llm.ChatMessage:
    return llm.ChatMessage(id=message_id, role=role, content=[text])


def test_an_application_that_listened_first_is_told_what_was_heard(
    agent_session: AgentSession, realtime: rtc.EventEmitter[Any]
) -> None:
    seen: list[tuple[str | None, bool]] = []
    agent_session.on(
        "conversation_item_added",
        lambda event: seen.append((event.item.text_content, event.item.interrupted)),
    )
    record = AgentRecord()
    record.announce(realtime, "r1", lambda: None)
    record.cut("m1", "Your parcel")
    agent_session.records(said("Your parcel left the depot."))
    agent_session.records(said("Good bye.", message_id="m2"))
    assert seen == [("Your parcel", True), ("Good bye.", False)]


def test_a_message_that_is_recorded_already_is_corrected(
    agent_session: AgentSession, realtime: rtc.EventEmitter[Any]
) -> None:
    record = AgentRecord()
    record.announce(realtime, "r1", lambda: None)
    message = said("Your parcel left the depot.")
    agent_session.records(message)
    record.cut("m1", "Your parcel")
    assert message.content == ["Your parcel"]
    assert message.interrupted


def test_the_last_cut_counts_and_nothing_heard_leaves_no_text(
    agent_session: AgentSession, realtime: rtc.EventEmitter[Any]
) -> None:
    record = AgentRecord()
    record.announce(realtime, "r1", lambda: None)
    record.cut("m1", "Your parcel")
    record.cut("m1", "")
    message = said("Your parcel left the depot.")
    agent_session.records(message)
    assert message.content == []


def test_what_the_caller_said_is_left_alone(
    agent_session: AgentSession, realtime: rtc.EventEmitter[Any]
) -> None:
    recorded: list[str] = []
    record = AgentRecord(recorded.append)
    record.announce(realtime, "r1", lambda: None)
    record.cut("m1", "")
    agent_session.records(said("Where is it?", role="user"))
    agent_session.records(said("Here.", message_id="m2"))
    assert agent_session.history.messages()[0].text_content == "Where is it?"
    assert recorded == ["m2"]


def test_another_session_takes_over_and_detached_nothing_is_done(
    agent_session: AgentSession, realtime: rtc.EventEmitter[Any]
) -> None:
    recorded: list[str] = []
    record = AgentRecord(recorded.append)
    record.announce(realtime, "r1", lambda: None)
    other = AgentSession()
    realtime_of_other = rtc.EventEmitter[Any]()
    realtime_of_other.on("error", Activity(other).on_error)
    record.announce(realtime_of_other, "r2", lambda: None)
    agent_session.records(said("Old.", message_id="m1"))
    other.records(said("New.", message_id="m2"))
    record.detach()
    other.records(said("Late.", message_id="m3"))
    assert recorded == ["m2"]


def test_without_an_agent_session_nothing_happens() -> None:
    record = AgentRecord()
    record.announce(rtc.EventEmitter[Any](), "r1", lambda: None)
    record.cut("m1", "Your parcel")
    record.detach()


def test_cuts_that_are_never_recorded_do_not_pile_up(
    agent_session: AgentSession, realtime: rtc.EventEmitter[Any]
) -> None:
    record = AgentRecord()
    record.announce(realtime, "r1", lambda: None)
    for number in range(1000):
        record.cut(f"m{number}", "")
    first, last = said("First.", message_id="m0"), said("Last.", message_id="m999")
    agent_session.records(first)
    agent_session.records(last)
    assert first.content == ["First."]
    assert last.content == []


def test_the_newest_first_listener_is_called_first_and_once() -> None:
    emitter, called = rtc.EventEmitter[str](), list[str]()

    def first() -> None:
        called.append("first")

    emitter.on("event", lambda: called.append("second"))
    listen_first(emitter, "event", first)
    emitter.on("event", lambda: called.append("third"))
    emitter.emit("event")
    assert called == ["first", "second", "third"]


class Speech:
    """As much of a `SpeechHandle` as says when it is over."""

    def __init__(self) -> None:
        self.ended: list[Callable[[Speech], None]] = []

    def add_done_callback(self, callback: Callable[[Speech], None]) -> None:
        self.ended.append(callback)


def test_a_reply_that_is_over_is_told_whatever_was_played_of_it(
    agent_session: AgentSession, realtime: rtc.EventEmitter[Any]
) -> None:
    over: list[str] = []
    record = AgentRecord(on_over=over.append)
    speeches = [Speech(), Speech()]

    def begin(speech: Speech, *, user_initiated: bool = False) -> None:
        created = SimpleNamespace(speech_handle=speech, user_initiated=user_initiated)
        agent_session.emit("speech_created", created)

    def begin_and_say() -> None:
        begin(speeches[0])
        begin(Speech(), user_initiated=True)

    record.announce(realtime, "r1", begin_and_say)
    record.announce(realtime, "asked-for-by-the-application", lambda: None)
    record.announce(realtime, "r2", lambda: begin(speeches[1]))
    for speech in reversed(speeches):
        (ended,) = speech.ended
        ended(speech)
    assert over == ["r2", "r1"]
