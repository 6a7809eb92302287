"""One client of the simulated OpenAI server: events in, events out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from livekit.plugins.resilient.testing import audio
from livekit.plugins.resilient.testing.connection import AudioSpan, ProtocolViolation, SimConnection
from livekit.plugins.resilient.testing.faults import (
    Action,
    FailResponse,
    SessionExpired,
    UnknownMessage,
)
from livekit.plugins.resilient.testing.recording import Frame
from livekit.plugins.resilient.testing.script import (
    NoReply,
    Reason,
    Reply,
    ToolCall,
    Turn,
    TurnRequest,
)
from livekit.plugins.resilient.testing.wire import Wire

from . import requests
from .conversation import RATE, Item, client_item
from .dialects import Dialect
from .idle import IdleTimeout
from .input_audio import InputAudio
from .requests import Refusal
from .responses import Response
from .session import Session
from .shapes import message_on_wire

if TYPE_CHECKING:
    from .server import OpenAIRealtimeServer

EXPIRED = "Your session hit the maximum duration of {minutes:.0f} minutes."
"""Message of the session cap, as in pollen-robotics/reachy_mini#134."""


class OpenAIConnection(SimConnection):
    """A connection and its session; OpenAI keeps no state beyond it."""

    server: OpenAIRealtimeServer

    def __init__(
        self, server: OpenAIRealtimeServer, wire: Wire, model: str, dialect: Dialect
    ) -> None:
        super().__init__(server, wire)
        self.dialect = dialect
        self.session = Session(
            self.number, self.new_id("sess"), model, dialect=dialect, cap_s=server.session_cap_s
        )
        self.conversation_id = self.new_id("conv")
        self.input = InputAudio(self)
        self.idle = IdleTimeout(self)
        self.responses: list[Response] = []
        self._handlers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "session.update": self._on_session_update,
            "input_audio_buffer.commit": self._on_commit,
            "input_audio_buffer.clear": self._on_clear,
            "conversation.item.create": self._on_item_create,
            "conversation.item.retrieve": self._on_item_retrieve,
            "conversation.item.truncate": self._on_item_truncate,
            "conversation.item.delete": self._on_item_delete,
            "response.create": self._on_response_create,
            "response.cancel": self._on_response_cancel,
        }

    # Life ----------------------------------------------------------------------------------

    async def on_open(self) -> None:
        if not self.answers_setup:
            return
        times = self.server.times
        if times.session_created_s:
            await asyncio.sleep(times.session_created_s)
        self.send("session.created", session=self.session.wire())
        if self.dialect.greets:
            conversation = {"id": self.conversation_id, "object": "realtime.conversation"}
            self.send("conversation.created", conversation=conversation)
            self.send("ping", timestamp=round(time.time() * 1000))
        if self.server.session_cap_s is not None:
            expired = SessionExpired(error_first=self.server.error_before_expiry)
            self.on_clock(self.server.session_cap_s, lambda: self.expire(expired))
        if self.server.repeats_call_on_next:
            self.server.repeats_call_on_next = False
            self.repeat_call()

    def on_closed(self) -> None:
        for response in self.responses:
            response.stop()

    def expire(self, how: SessionExpired) -> None:
        """End the session at its cap."""
        message = EXPIRED.format(minutes=(self.server.session_cap_s or 3600.0) / 60)
        if how.error_first:
            self.refuse(Refusal("session_expired", message), None)
        self.close(1001, message)

    # Events in -----------------------------------------------------------------------------

    def decode(self, raw: str | bytes) -> Frame:
        at = self.loop.time()
        try:
            message = json.loads(raw)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            frame = Frame(self.number, at, ("malformed",))
            raise ProtocolViolation(frame, 1007, "Invalid JSON")
        kind = str(message.get("type"))
        sound = message.get("audio")
        if kind == "input_audio_buffer.append" and requests.check_audio(sound) is None:
            pcm = audio.decode_audio(str(sound))
            return Frame(self.number, at, (kind,), {}, pcm, audio.duration_of(pcm, RATE))
        return Frame(
            self.number,
            at,
            (kind,),
            message,
            texts=_texts(message),
            call_ids=_answered_calls(message),
        )

    async def on_frame(self, frame: Frame) -> None:
        if not self.answers_setup:
            return
        if frame.audio_s:
            await self.input.append(frame.audio)
            return
        message = frame.message
        refusal = requests.check_shape(message, strict=self.server.strict)
        if refusal is None and frame.kind == "input_audio_buffer.append":
            refusal = requests.check_audio(message["audio"])
        if refusal is not None:
            self.refuse(refusal, message)
        elif frame.kind in self._handlers:
            self._handlers[frame.kind](message)

    def _on_session_update(self, message: Mapping[str, Any]) -> None:
        changes = message["session"]
        refusal = requests.check_session(changes, self.dialect, strict=self.server.strict)
        if refusal is not None:
            self.refuse(refusal, message)
            return
        self.session.update(changes)
        self.input.configure()
        self.send("session.updated", session=self.session.wire())

    def _on_commit(self, message: Mapping[str, Any]) -> None:
        if self.input.buffered_ms < requests.MIN_COMMIT_MS:
            self.refuse(requests.buffer_too_small(self.input.buffered_ms), message)
        else:
            self.input.commit()

    def _on_clear(self, message: Mapping[str, Any]) -> None:
        self.input.clear()
        self.send("input_audio_buffer.cleared")

    def _on_item_create(self, message: Mapping[str, Any]) -> None:
        written, conversation = message["item"], self.session.conversation
        if written.get("type") == "force_message" and self.dialect.shape == "xai":
            self._on_line(message)
            return
        if self.ignores_tool_responses and written.get("type") == "function_call_output":
            return
        refusal = requests.check_item(written, conversation, strict=self.server.strict)
        previous = message.get("previous_item_id")
        if refusal is None and previous not in (None, "root") and not conversation.get(previous):
            refusal = requests.unknown_previous(previous)
        if refusal is not None:
            self.refuse(refusal, message)
            return
        item = client_item(written.get("id") or self.new_id("item"), written)
        self.item_done(item, self.add_item(item, previous))

    def _on_line(self, message: Mapping[str, Any]) -> None:
        """Speak a line of the client's as if the model had said it.

        Assumed: xAI's documentation says that a whole response follows, and not what becomes of
        a line while another response goes on; it is refused here as a `response.create` is.
        """
        refusal = requests.check_line(message["item"])
        if refusal is None and (active := self.active_response) is not None:
            refusal = requests.active_response(active.response_id)
        if refusal is not None:
            self.refuse(refusal, message)
            return
        self._begin(Reply(" ".join(_texts(message))))

    def _on_item_retrieve(self, message: Mapping[str, Any]) -> None:
        item = self.session.conversation.get(message["item_id"])
        if item is None:
            self.refuse(requests.unknown_item("retrieve", message["item_id"]), message)
        else:
            self.send("conversation.item.retrieved", item=item.to_wire(self.dialect))

    def _on_item_delete(self, message: Mapping[str, Any]) -> None:
        item = self.session.conversation.get(message["item_id"])
        if item is None:
            self.refuse(requests.unknown_item("delete", message["item_id"]), message)
            return
        self.session.conversation.remove(item)
        self.send("conversation.item.deleted", item_id=item.item_id)

    def _on_item_truncate(self, message: Mapping[str, Any]) -> None:
        item = self.session.conversation.get(message["item_id"])
        if item is None:
            self.refuse(requests.unknown_item("truncate", message["item_id"]), message)
            return
        refusal = requests.check_truncate(item, message)
        if refusal is not None:
            self.refuse(refusal, message)
            return
        item.truncated_ms = message["audio_end_ms"]
        self.send(
            "conversation.item.truncated",
            item_id=item.item_id,
            content_index=0,
            audio_end_ms=item.truncated_ms,
        )

    def _on_response_create(self, message: Mapping[str, Any]) -> None:
        request = message.get("response") or {}
        refusal = requests.check_response(request, strict=self.server.strict)
        if refusal is None and (active := self.active_response) is not None:
            refusal = requests.active_response(active.response_id)
        if refusal is not None:
            self.refuse(refusal, message)
            return
        results = self.session.conversation.open_results()
        self.respond("tool_result" if results else "request", request)

    def _on_response_cancel(self, message: Mapping[str, Any]) -> None:
        active, wanted = self.active_response, message.get("response_id")
        if active is None or wanted not in (None, active.response_id):
            self.refuse(requests.NO_ACTIVE_RESPONSE, message)
        else:
            active.cancel("client_cancelled")

    # The model -----------------------------------------------------------------------------

    @property
    def active_response(self) -> Response | None:
        """The response that goes on, if one does."""
        return next((response for response in self.responses if response.active), None)

    def respond(
        self, reason: Reason, request: Mapping[str, Any] | None = None, user_text: str = ""
    ) -> None:
        """Let the model take its turn; a scripted `NoReply` sends nothing."""
        asked = TurnRequest(
            reason,
            user_text or (request or {}).get("instructions") or "",
            self.number,
            self.session.conversation.open_results(),
            tuple(self.session.texts()),
        )
        turn = self.server.script.next_turn(asked)
        if isinstance(turn, NoReply):
            return
        self._begin(turn, request)

    def _begin(self, turn: Turn, request: Mapping[str, Any] | None = None) -> None:
        self.idle.stop()
        response = Response(self, self.new_id("resp"), turn, request)
        self.responses.append(response)
        response.start()

    def response_done(self, response: Response) -> None:
        """A response sent its last event."""
        self._tell_limits()
        self.idle.start(response)
        for item in response.items:
            if item.kind == "function_call":
                args = json.loads(item.arguments)
                self.server.last_call = ToolCall(item.name, args, call_id=item.call_id)

    def _tell_limits(self) -> None:
        if not self.dialect.rate_limits:
            return
        limits = self.session.rate_limits()

        def tell() -> None:
            self.send("rate_limits.updated", rate_limits=limits)

        self.later(self.server.times.rate_limits_s, tell)

    def repeat_call(self) -> None:
        call = self.server.last_call
        if call is None:
            return
        response = Response(self, self.new_id("resp"), call)
        self.responses.append(response)
        response.start()

    def take_failure(self) -> FailResponse | None:
        """How the response that now begins must fail, if it must."""
        return self.server.take_failure()

    def perform_provider(self, action: Action) -> None:
        if isinstance(action, SessionExpired):
            self.expire(action)
        elif isinstance(action, FailResponse):
            self.server.fail_responses(action)
        else:
            super().perform_provider(action)

    async def perform(self, action: Action) -> None:
        # OpenAI's events always have a type: an unknown one is what a newer server would send.
        if isinstance(action, UnknownMessage) and "type" not in action.message:
            action = UnknownMessage({"type": "session.brand_new", **action.message})
        await super().perform(action)

    # Events out ----------------------------------------------------------------------------

    def send(
        self, event: str, *, turn: object = None, span: AudioSpan | None = None, **fields: Any
    ) -> None:
        """Queue a server event under its current name, in the dialect's form."""
        message = message_on_wire(self.dialect, event, fields, self.new_id("event"))
        self.emit(event, message, turn=turn, span=span)

    def refuse(self, refusal: Refusal, message: Mapping[str, Any] | None) -> None:
        """Send an `error` event for the client's `message`, or for none."""
        event_id = (message or {}).get("event_id") if self.server.names_refused_event else None
        self.send(
            "error",
            error={
                "type": refusal.type,
                "code": refusal.code,
                "message": refusal.message,
                "param": refusal.param,
                "event_id": event_id,
            },
        )

    def add_item(
        self, item: Item, previous: str | None = None, *, turn: object = None
    ) -> str | None:
        """Put an item into the conversation and announce it; return the id of the one before."""
        conversation = self.session.conversation
        if previous is None:
            before = conversation.append(item)
        else:
            before = conversation.insert(item, previous)
        self.send(
            "conversation.item.added",
            turn=turn,
            previous_item_id=before,
            item=item.to_wire(self.dialect),
        )
        return before

    def item_done(self, item: Item, previous: str | None, *, turn: object = None) -> None:
        """Announce that an item is complete, where the dialect does."""
        heard = item.role == "user" and item.made_by == "server"
        if self.dialect.item_done == "none" or (self.dialect.item_done == "heard" and not heard):
            return
        self.send(
            "conversation.item.done",
            turn=turn,
            previous_item_id=previous,
            item=item.to_wire(self.dialect),
        )

    def new_id(self, prefix: str) -> str:
        """A fresh id; unique in the server."""
        return self.server.new_id(prefix, self.dialect, self.number)


def _texts(message: Mapping[str, Any]) -> tuple[str, ...]:
    kind = message.get("type")
    if kind == "response.create":
        instructions = (message.get("response") or {}).get("instructions")
        return (instructions,) if instructions else ()
    item = message.get("item")
    if kind != "conversation.item.create" or not isinstance(item, dict):
        return ()
    if item.get("type") == "function_call_output":
        return (str(item.get("output", "")),)
    parts = (part.get("text") or part.get("transcript") for part in item.get("content") or ())
    return tuple(text for text in parts if text)


def _answered_calls(message: Mapping[str, Any]) -> tuple[str, ...]:
    item = message.get("item")
    if isinstance(item, dict) and item.get("type") == "function_call_output":
        return (str(item.get("call_id")),)
    return ()
