"""Lines that the application has xAI speak (`say`): a drop neither loses nor doubles one (R11)."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from livekit.agents import llm
from livekit.agents.utils import shortuuid

from ..core.limits import TRACKED_GENERATIONS
from ..openai.requests import Requests
from ..runtime.background import Background

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from ..openai.engine import ClientEvent, ReplyFuture
    from ..openai.serving import Serving
    from ..runtime.driver import Driver
    from .engine import SayEngine

__all__ = ["SayRequests", "rest_of"]

_NOT_OF_A_WORD = re.compile(r"\W+")


class SayRequests(Requests):
    """The requests of one xAI session; a line is one whose words are known.

    The response to a line does not say whose it is. Upstream takes the first response without a
    name for that of the oldest line that was sent, and so does this.

    Args:
        engine: As OpenAI's, as the others.
        driver: Of the session.
        serving: Tells whether a connection serves.
    """

    _engine: SayEngine

    def __init__(self, *, engine: SayEngine, driver: Driver, serving: Serving) -> None:
        super().__init__(engine=engine, driver=driver, serving=serving)
        # The words of each line that was sent, by its event id, and of each that is or was spoken,
        # by the response's.
        self._words: dict[str, str] = {}
        self._spoken: dict[str, str] = {}
        self._collecting = Background()

    def say(self, text: str | AsyncIterable[str]) -> ReplyFuture:
        """Have a line spoken once its words are complete; the future is that of its reply."""
        event_id = shortuuid("say_")
        future: ReplyFuture = asyncio.get_running_loop().create_future()
        waiting = self._engine.requests
        waiting[event_id] = future
        future.add_done_callback(lambda _: waiting.pop(event_id, None))
        # Not at once, so that the order of what is asked for in one moment is upstream's.
        self._collecting.start(self._collect(event_id, text, future))
        return future

    async def withdraw_lines(self) -> None:
        """The session is closed: nobody is to hear a line that was not begun."""
        waiting = self._engine.requests | self._held
        for event_id, future in waiting.items():
            if event_id.startswith("say_"):
                future.cancel()
        await self._collecting.aclose()

    async def _collect(
        self, event_id: str, text: str | AsyncIterable[str], future: ReplyFuture
    ) -> None:
        words: list[str] = []
        try:
            if isinstance(text, str):
                words.append(text)
            else:
                async for piece in text:
                    words.append(piece)
            if not future.done():
                self._ask_to_say(event_id, "".join(words), future)
        except Exception as e:
            if not future.done():
                future.set_exception(e)

    def _ask_to_say(self, event_id: str, words: str, future: ReplyFuture) -> None:
        engine = self._engine

        def ask() -> ReplyFuture:
            engine.send(_event(event_id, words))
            timer = self.start_timer(give_up)
            future.add_done_callback(lambda _: timer.cancel())
            return future

        def give_up() -> None:
            if not future.done():
                engine.withdrawn.add(event_id)
                engine.await_line(event_id)
                engine.forget_line_later(event_id)
                future.set_exception(llm.RealtimeError("the line was not begun in time"))

        def withdraw(future: ReplyFuture) -> None:
            # In a gap it was not sent, and is not going to be.
            if future.cancelled() and not self._serving.in_gap:
                engine.withdraw_line(event_id)

        self.make(ask)
        future.add_done_callback(withdraw)

    def saying_on(self, redrive_id: str, words: str) -> ClientEvent:
        """The event that has the rest of a line spoken that a drop cut; it is sent now."""
        return self._unheld(redrive_id, _event(redrive_id, words))

    def sent(self, event: dict[str, Any]) -> None:
        """A line is written to the connection."""
        event_id = event["event_id"]
        self._words[event_id] = "".join(part["text"] for part in event["item"]["content"])
        _forget_oldest(self._words)
        self._engine.await_line(event_id)

    def named(self, event: dict[str, Any]) -> dict[str, Any]:
        """A `response.created` that names the line it belongs to, if it belongs to one."""
        response, waiting = event["response"], self._engine.awaited_lines
        if not waiting or (response.get("metadata") or {}).get("client_event_id"):
            return event
        event_id = waiting[0]
        self._spoken[response["id"]] = self._words.get(event_id, "")
        _forget_oldest(self._spoken)
        metadata = {**(response.get("metadata") or {}), "client_event_id": event_id}
        return {**event, "response": {**response, "metadata": metadata}}

    def words_of(self, response_id: str) -> str:
        """The words of the line that a response speaks; "" where the model speaks its own."""
        return self._spoken.get(response_id, "")

    def connection_ended(self) -> None:
        super().connection_ended()
        self._engine.awaited_lines.clear()


def rest_of(line: str, heard: str) -> str:
    """What is left to say of a line; "" for nothing, or where something else was heard."""
    words, said = line.split(), heard.split()
    if [_plain(word) for word in words[: len(said)]] != [_plain(word) for word in said]:
        return ""
    return " ".join(words[len(said) :])


def _plain(word: str) -> str:
    return _NOT_OF_A_WORD.sub("", word).casefold()


def _event(event_id: str, words: str) -> dict[str, Any]:
    part = {"text": words, "type": "output_text"}
    item = {"content": [part], "role": "assistant", "type": "force_message"}
    return {"event_id": event_id, "item": item, "type": "conversation.item.create"}


def _forget_oldest(kept: dict[str, str]) -> None:
    if len(kept) > TRACKED_GENERATIONS:
        del kept[next(iter(kept))]
