"""What the model of one session knows, and what a connection has to be told (R5, R6, R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types
from livekit.agents import llm, utils

from ..core.resumption import Resumption
from .handles import take_handle
from .history import ItemContent, ItemResponse, is_told, told_turns
from .seed import Seed
from .unsupported import warn_of_removals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..core.poison import Poison
    from ..runtime.driver import Driver
    from .activity import Activity
    from .engine import Engine
    from .heard_transcript import HeardTranscript
    from .history import SeedForm
    from .late_results import LateResults
    from .live_session import LiveSession
    from .serving import Serving
    from .tool_results import ToolResults
    from .tools import ToolCalls

__all__ = ["Mirror"]


class Mirror:
    """Keeps the books of what the provider knows of one session, over all its connections.

    Reads and writes the session's record; upstream adds what is spoken to it.

    Args:
        engine: Holds the record, and sends.
        driver: Its clock.
        serving: Which connection serves.
        tools: The calls of the session.
        results: How their results are delivered.
        late_results: Holds what is not to be told now.
        activity: Knows the words of the turn that is open.
        transcript: Knows what was heard of a reply.
        poison: Says how fresh connections are told the history, and how much of it.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        driver: Driver,
        serving: Serving,
        tools: ToolCalls,
        results: ToolResults,
        late_results: LateResults,
        activity: Activity,
        transcript: HeardTranscript,
        poison: Poison[SeedForm],
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._serving = serving
        self._tool_calls = tools
        self._results = results
        self._late_results = late_results
        self._activity = activity
        self._transcript = transcript
        self._poison = poison
        self.resumption = Resumption()
        """What the session on the connection knows, and what the next can be resumed from."""
        # Came from the server, and the application's record has not been seen with it yet.
        self._unrecorded: dict[str, llm.ChatItem] = {}
        # Of the last fresh connection that was dialled, and of the last that was told it.
        self._dialled = self._told = self.fresh()

    # -- what the application adds

    def update(self, chat_ctx: llm.ChatContext) -> None:
        """Adopt the application's record, and tell the connection what is new in it."""
        warn_of_removals(self._engine.record, chat_ctx)
        self._pass_on(self._adopt(chat_ctx), answers_invented=True)

    def _adopt(self, chat_ctx: llm.ChatContext) -> list[llm.ChatItem]:
        """Take over a record, and return what the server does not know of it."""
        items = chat_ctx.items
        present = {item.id for item in items}
        called = {item.call_id for item in items if item.type == "function_call"}
        newest = max((item.created_at for item in items), default=0.0)
        missing: list[llm.ChatItem] = []
        for item_id, item in list(self._unrecorded.items()):
            if item.created_at < newest:
                del self._unrecorded[item_id]  # recorded, or left out on purpose
            elif item_id not in present and not (
                item.type == "function_call" and item.call_id in called
            ):
                missing.append(item)
        merged = llm.ChatContext(list(items))
        merged.insert(missing)
        self._engine.record = merged
        return self._take_new()

    def _take_new(self) -> list[llm.ChatItem]:
        """What of the record the server does not know, which is now to be sent."""
        resumption = self.resumption
        new = [item for item in self._engine.record.items if not resumption.knows(item.id)]
        resumption.adopt(item.id for item in new if not is_told(item))
        told = [item for item in new if is_told(item)]
        resumption.queued(item.id for item in told)
        return told

    def _tell(self, items: Sequence[llm.ChatItem]) -> None:
        turns = told_turns(items, self._tool_calls.arguments)
        if turns:
            ids = [item.id for item in items]
            event = ItemContent(turns=turns, turn_complete=False, item_ids=ids)
            self._engine.send(event)

    def _pass_on(self, items: Sequence[llm.ChatItem], *, answers_invented: bool) -> None:
        """Tell what is new; answer calls, or tell their results where the session does not know
        of the call.

        A call that no server made is the application's own invention, such as the one by which
        livekit-agents gives the result of a tool that ran on; upstream answers it as any other.
        """
        results = [item for item in items if item.type == "function_call_output"]
        self._tell([item for item in items if item.type != "function_call_output"])
        native, in_words = self._results.by_form(results, answers_invented=answers_invented)
        self._results.answer(native)
        if any(item.reply_required for item in in_words):
            self._late_results.hold(in_words)
        elif in_words:
            self._tell(in_words)
            self._results.delivered([], [], in_words)

    # -- what comes from the server, and what was sent

    def spoken(self, item_id: str, at: float) -> None:
        """A turn that upstream put into the context is known to the server since `at`."""
        item = self._engine.record.get_by_id(item_id)
        if item is not None:
            self._unrecorded[item_id] = item
            self.resumption.spoken(item_id, at)

    def called(self, call: types.FunctionCall) -> None:
        """The model called a tool; a later session must know what its result belongs to."""
        assert call.id is not None
        arguments = self._tool_calls.arguments(call.id) or "{}"
        item = llm.FunctionCall(call_id=call.id, name=call.name or "", arguments=arguments)
        self.resumption.called(call.id)
        self.resumption.adopt([item.id])
        self._unrecorded[item.id] = item
        self._engine.record.insert(item)

    def take_handle(self, message: types.LiveServerMessage) -> None:
        """Keep the handle that a message brings."""
        issued = take_handle(message)
        if issued is None:
            return
        self.resumption.handle_issued(
            issued.token,
            self._driver.now,
            open_calls=self._tool_calls.open_on(self._serving.number),
            consumed=issued.consumed,
        )

    def forget_handle(self) -> None:
        """The next session is a fresh one."""
        self.resumption.forget_handle()

    def sent(self, message: object, live: LiveSession) -> None:
        """A message went out."""
        if isinstance(message, ItemContent | ItemResponse):
            self.resumption.sent(message.item_ids, self._driver.now, live.sent)

    # -- a new connection

    @property
    def told(self) -> int:
        """How many items the last fresh connection was told."""
        return self._told.told

    @property
    def in_set_up(self) -> int:
        """How many items the last fresh set-up held."""
        return len(self._dialled.instructed)

    @property
    def announced(self) -> bool:
        """Whether the last fresh set-up said that a history follows."""
        return self._dialled.announced

    def fresh(self) -> Seed:
        """What a fresh connection is told, whatever handle there is; see `Seed` for what to call.

        It may be prepared beside the connection that serves: nothing here changes until `serves`.
        """
        return self._seed_of(self._record)

    def fresh_hedge(self) -> Seed:
        """The same for a connection that is to be asked for what is owed: with the words of the
        turn that is open, which come to the record once that is over."""
        return self._seed_of(self._record_so_far)

    def _seed_of(self, record: Callable[[], llm.ChatContext]) -> Seed:
        return Seed(
            self._poison.form,
            record,
            self._to_seed,
            self._tool_calls.arguments,
            lambda: self._driver.now,
        )

    def announce(self, config: types.LiveConnectConfig) -> None:
        """Say in the set-up of the next connection what belongs there, where it is a fresh one."""
        if self.resumption.handle is None:
            self._dialled = self.fresh()
            self._dialled.announce(config)

    async def restore(self, live: LiveSession, *, resumed: bool) -> bool:
        """Tell a new connection what it does not know, before it gets anything else.

        Returns:
            Whether it was given what it answers by itself.
        """
        record = self._take_record()
        if resumed and not self._serving.log.was_connected:
            self._adopt_handle(record)
            return False
        if not resumed:
            self._adopt(record)
            self._told = self._dialled
            await self._told.tell(live)
            self.serves(self._told)
            return False
        warn_of_removals(self._engine.record, record)
        self._adopt(record)
        return await self._tell_difference(live)

    def serves(self, seed: Seed, *, answering: bool = False) -> None:
        """From here on the books are those of the fresh connection that was told `seed`.

        The handle and the open calls of the one before are no more. What was added to the record
        since it was told is told now, or after its answer.

        Args:
            seed: What the connection was told; its number is that of `Serving` already.
            answering: Whether the model is at an answer, which anything told would cut.
        """
        untold = self.resumption.open_items
        results = [
            item
            for item in seed.items
            if item.type == "function_call_output"
            and item.id in untold
            and not self._results.is_void(item)
        ]
        self.resumption, self._told = seed.resumption, seed
        self._results.delivered([], [], results)
        if self._engine.waiting_record is not None:
            new = self._adopt(self._take_record())
        else:
            new = self._take_new()
        if answering:
            self._late_results.hold(new, at_once=False)
        else:
            self._pass_on(new, answers_invented=False)

    def _record(self) -> llm.ChatContext:
        """The conversation as the application last gave it, or as it stands here."""
        waiting = self._engine.waiting_record
        return self._engine.record if waiting is None else waiting

    def _record_so_far(self) -> llm.ChatContext:
        """The record as it would be if the open turn ended now."""
        record, reply = self._record(), self._engine.open_reply
        said: list[tuple[llm.ChatRole, str, str]] = []
        if captions := self._activity.captions:
            said.append(("user", captions, utils.shortuuid("GI_")))
        if reply is not None:
            said.append(("user", reply.input_transcription, reply.input_id))
            said.append(("assistant", self._transcript.so_far(reply), reply.response_id))
        record = llm.ChatContext(list(record.items))
        for role, text, item_id in said:
            if text and record.get_by_id(item_id) is None:
                record.add_message(role=role, content=text, id=item_id)
        return record

    def _take_record(self) -> llm.ChatContext:
        record = self._record()
        self._engine.drop_waiting_record()
        return record

    def _adopt_handle(self, record: llm.ChatContext) -> None:
        """Take over a handle that the application brought along.

        It stands for the context that was set with it, and for all there is where none was. What
        is new goes the way of any update.
        """
        baseline = self._engine.brought_record
        known = record if baseline is None else baseline
        self.resumption.adopt(item.id for item in known.items)
        answered = {item.call_id for item in known.items if item.type == "function_call_output"}
        waits_for = [
            item
            for item in known.items
            if item.type == "function_call" and item.call_id not in answered
        ]
        self.resumption.hold_open(call.call_id for call in waits_for)
        for call in waits_for:
            number = self._serving.number
            self._tool_calls.restored(call.call_id, call.name, call.arguments, number)
        self.update(record)

    async def _tell_difference(self, live: LiveSession) -> bool:
        """Tell a resumed session what its handle does not stand for; whether that was answers."""
        resumption, driver, results = self.resumption, self._driver, self._results
        untold = resumption.open_items
        items = [item for item in self._engine.record.items if item.id in untold]
        if resumption.handle is not None:
            self._tool_calls.resumed(self._serving.number, resumption.handle.open_calls)
        native, in_words = results.by_form(
            item for item in items if item.type == "function_call_output"
        )
        responses = results.answers_of(native)
        resumption.resumed()
        answers = {result.id for result in native}
        rest = [item for item in items if item.id not in answers and not results.is_void(item)]
        turns = told_turns(rest, self._tool_calls.arguments)
        if turns:
            await live.send_client_content(turns=turns, turn_complete=False)
            resumption.sent([item.id for item in rest], driver.now, live.sent)
        if native:
            await live.send_tool_response(function_responses=responses)
            resumption.sent(answers, driver.now, live.sent)
        results.delivered(native, responses, in_words)
        return bool(native)

    def _to_seed(self, record: llm.ChatContext) -> list[llm.ChatItem]:
        """What of a record a fresh session is told."""
        items = [item for item in record.items if not self._results.is_void(item)]
        if not self._serving.log.was_connected:
            # Upstream tells the first session of a call no calls.
            items = [item for item in items if not item.type.startswith("function_call")]
        limit = self._poison.limit
        return items if limit is None else items[max(0, len(items) - limit) :]
