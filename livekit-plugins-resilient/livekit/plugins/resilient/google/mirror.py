"""What the model of one session knows, and what a connection has to be told (R5, R6, R7, R9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from google.genai import types
from livekit.agents import llm, utils
from pydantic import Field

from .._vendor.google.utils import get_tool_results_for_realtime
from ..core import facts as f
from ..core.resumption import Resumption
from ..events import ToolResultRedelivered
from ..tellable import mended
from .handles import take_handle
from .history import is_told, told_turns
from .seed import Seed
from .unsupported import warn_of_removals, warn_of_replies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .live_connection import LiveSession
    from .realtime import RealtimeSession

__all__ = ["ItemContent", "ItemResponse", "Mirror"]


class ItemContent(types.LiveClientContent):
    """Turns made of context items. They die with their connection, which the next one makes up."""

    item_ids: list[str] = Field(default_factory=list, exclude=True)


class ItemResponse(types.LiveClientToolResponse):
    """Answers to calls, made of context items; as `ItemContent`."""

    item_ids: list[str] = Field(default_factory=list, exclude=True)


class Mirror:
    """Keeps the books of one session over all its connections.

    Reads and writes the session's own context; upstream adds what is spoken to it.
    """

    def __init__(self, session: RealtimeSession) -> None:
        self._session = session
        self.resumption = Resumption()
        """What the session on the connection knows, and what the next can be resumed from."""
        # Came from the server, and the application's record has not been seen with it yet.
        self._unrecorded: dict[str, llm.ChatItem] = {}
        # Of the last fresh connection that was dialled, and of the last that was told it.
        self._dialled = self._told = self.fresh()

    # -- what the application adds

    def update(self, chat_ctx: llm.ChatContext) -> None:
        """Adopt the application's record, and tell the connection what is new in it."""
        warn_of_removals(self._session._chat_ctx, chat_ctx)
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
        self._session._chat_ctx = merged
        return self._take_new()

    def _take_new(self) -> list[llm.ChatItem]:
        """What of the record the server does not know, which is now to be sent."""
        resumption = self.resumption
        new = [item for item in self._session._chat_ctx.items if not resumption.knows(item.id)]
        resumption.adopt(item.id for item in new if not is_told(item))
        told = [item for item in new if is_told(item)]
        resumption.queued(item.id for item in told)
        return told

    def _tell(self, items: Sequence[llm.ChatItem]) -> None:
        turns = told_turns(items, self._session._calls.arguments)
        if turns:
            ids = [item.id for item in items]
            event = ItemContent(turns=turns, turn_complete=False, item_ids=ids)
            self._session._send_client_event(event)

    def _pass_on(self, items: Sequence[llm.ChatItem], *, answers_invented: bool) -> None:
        """Tell what is new; answer calls, or tell their results where the session does not know
        of the call.

        A call that no server made is the application's own invention, such as the one by which
        livekit-agents gives the result of a tool that ran on; upstream answers it as any other.
        """
        results = [item for item in items if item.type == "function_call_output"]
        self._tell([item for item in items if item.type != "function_call_output"])
        native, in_words = self._by_form(results, answers_invented=answers_invented)
        self._answer(native)
        if any(item.reply_required for item in in_words):
            self._session._late_results.hold(in_words)
        elif in_words:
            self._tell(in_words)
            self._delivered([], [], in_words)

    def tell_late(
        self, items: Sequence[llm.ChatItem], request: types.LiveClientContent | None
    ) -> ItemContent | None:
        """What tells items that were held, together with `request`; it asks for a reply where a
        result wants one.

        Returns:
            None where there is nothing to tell any more.
        """
        native, in_words = self._by_form(
            item for item in items if item.type == "function_call_output"
        )
        self._answer(native)
        results = {item.id for item in in_words}
        told = [i for i in items if i.type != "function_call_output" or i.id in results]
        turns = told_turns(told, self._session._calls.arguments)
        if not turns:
            return None
        self._delivered([], [], in_words)
        asks = request is not None or any(result.reply_required for result in in_words)
        asked = (request.turns if request is not None else None) or []
        ids = [item.id for item in told]
        return ItemContent(turns=[*turns, *asked], turn_complete=asks, item_ids=ids)

    def _answer(self, native: Sequence[llm.FunctionCallOutput]) -> None:
        if not native:
            return
        responses = self._responses(native)
        if not self._can_be_silent:
            warn_of_replies(native)
        ids = [item.id for item in native]
        event = ItemResponse(function_responses=responses, item_ids=ids)
        self._session._send_client_event(event)
        self._delivered(native, responses, [])

    def answer_again(self, call_ids: Sequence[str]) -> None:
        """Answer calls that the server repeated; their tools do not run again (R10)."""
        session = self._session
        responses = []
        for call_id in call_ids:
            response = session._calls.response_to(call_id)
            if response is not None:
                responses.append(response)
                session._calls.answered(call_id, response, session._connection)
        session._send_client_event(types.LiveClientToolResponse(function_responses=responses))

    def _by_form(
        self, results: Iterable[llm.FunctionCallOutput], *, answers_invented: bool = False
    ) -> tuple[list[llm.FunctionCallOutput], list[llm.FunctionCallOutput]]:
        session = self._session
        native: list[llm.FunctionCallOutput] = []
        in_words: list[llm.FunctionCallOutput] = []
        for result in results:
            if self._is_void(result):
                self.resumption.withdrawn([result.id])
            elif session._calls.is_known(result.call_id, session._connection) or (
                answers_invented and session._calls.came_on(result.call_id) is None
            ):
                native.append(result)
            else:
                in_words.append(result)
        return native, in_words

    def _responses(self, results: Sequence[llm.FunctionCallOutput]) -> list[types.FunctionResponse]:
        options = self._session._opts
        answer = get_tool_results_for_realtime(
            llm.ChatContext([mended(result) for result in results]),
            vertexai=options.vertexai,
            tool_response_scheduling=options.tool_response_scheduling,
            supports_silent_scheduling=self._can_be_silent,
            synthetic_call_ids=self._session._calls.without_id,
        )
        return (answer.function_responses if answer is not None else None) or []

    @property
    def _can_be_silent(self) -> bool:
        """Whether a result can ask for no reply; Vertex ignores that, blocking tools have none."""
        options = self._session._opts
        return options.tool_behavior == types.Behavior.NON_BLOCKING and not options.vertexai

    def _delivered(
        self,
        native: Sequence[llm.FunctionCallOutput],
        responses: Sequence[types.FunctionResponse],
        in_words: Sequence[llm.FunctionCallOutput],
    ) -> None:
        """Note what a connection is given: each result counts once, each delivery is told.

        Args:
            native: Results that went as the answers to their calls.
            responses: Those answers.
            in_words: Results that were told.
        """
        session = self._session
        calls, driver, here = session._calls, session._driver, session._connection
        silent = types.FunctionResponseScheduling.SILENT
        unsent = self._responses(in_words)
        given = [*zip(native, responses, strict=True), *zip(in_words, unsent, strict=True)]
        for number, (result, response) in enumerate(given):
            is_native = number < len(native)
            came_on = calls.came_on(result.call_id)
            if came_on is not None and came_on != here:
                form: Literal["native", "text"] = "native" if is_native else "text"
                driver.tell(ToolResultRedelivered(driver.now, form))
            if calls.response_to(result.call_id) is None:
                answers = response.scheduling != silent if is_native else result.reply_required
                driver.feed(f.ToolResultDelivered(driver.now, result.call_id, answers))
            # One told in words would still be the answer to the call, should that come again.
            calls.answered(result.call_id, response, here if is_native else 0)

    # -- what comes from the server, and what was sent

    def spoken(self, item_id: str, at: float) -> None:
        """A turn that upstream put into the context is known to the server since `at`."""
        item = self._session._chat_ctx.get_by_id(item_id)
        if item is not None:
            self._unrecorded[item_id] = item
            self.resumption.spoken(item_id, at)

    def called(self, call: types.FunctionCall) -> None:
        """The model called a tool; a later session must know what its result belongs to."""
        assert call.id is not None
        arguments = self._session._calls.arguments(call.id) or "{}"
        item = llm.FunctionCall(call_id=call.id, name=call.name or "", arguments=arguments)
        self.resumption.called(call.id)
        self.resumption.adopt([item.id])
        self._unrecorded[item.id] = item
        self._session._chat_ctx.insert(item)

    def take_handle(self, message: types.LiveServerMessage) -> None:
        """Keep the handle that a message brings."""
        issued = take_handle(message)
        if issued is None:
            return
        session = self._session
        self.resumption.handle_issued(
            issued.token,
            session._driver.now,
            open_calls=session._calls.open_on(session._connection),
            consumed=issued.consumed,
        )

    def forget_handle(self) -> None:
        """The next session is a fresh one."""
        self.resumption.forget_handle()

    def sent(self, message: object, live: LiveSession) -> None:
        """A message went out."""
        if isinstance(message, ItemContent | ItemResponse):
            self.resumption.sent(message.item_ids, self._session._driver.now, live.sent)

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
        session = self._session
        return Seed(
            session._poison.form,
            record,
            self._to_seed,
            session._calls.arguments,
            lambda: session._driver.now,
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
        session = self._session
        context = self._take_record()
        if resumed and not session._connection_log.was_connected:
            self._adopt_handle(context)
            return False
        if not resumed:
            self._adopt(context)
            self._told = self._dialled
            await self._told.tell(live)
            self.serves(self._told)
            return False
        warn_of_removals(session._chat_ctx, context)
        self._adopt(context)
        return await self._tell_difference(live)

    def serves(self, seed: Seed, *, answering: bool = False) -> None:
        """From here on the books are those of the fresh connection that was told `seed`.

        The handle and the open calls of the one before are no more. What was added to the record
        since it was told is told now, or after its answer.

        Args:
            seed: What the connection was told; its number is the session's already.
            answering: Whether the model is at an answer, which anything told would cut.
        """
        untold = self.resumption.open_items
        results = [
            item
            for item in seed.items
            if item.type == "function_call_output" and item.id in untold and not self._is_void(item)
        ]
        self.resumption, self._told = seed.resumption, seed
        self._delivered([], [], results)
        if self._session._pending_chat_ctx is not None:
            new = self._adopt(self._take_record())
        else:
            new = self._take_new()
        if answering:
            self._session._late_results.hold(new, at_once=False)
        else:
            self._pass_on(new, answers_invented=False)

    def _record(self) -> llm.ChatContext:
        """The conversation as the application last gave it, or as it stands here."""
        waiting = self._session._pending_chat_ctx
        return self._session._chat_ctx if waiting is None else waiting

    def _record_so_far(self) -> llm.ChatContext:
        """The record as it would be if the open turn ended now."""
        session, record = self._session, self._record()
        generation = session._current_generation
        said: list[tuple[llm.ChatRole, str, str]] = []
        if captions := session._activity.captions:
            said.append(("user", captions, utils.shortuuid("GI_")))
        if generation is not None and not generation._done:
            said.append(("user", generation.input_transcription, generation.input_id))
            words = session._spoken.so_far(generation)
            said.append(("assistant", words, generation.response_id))
        record = llm.ChatContext(list(record.items))
        for role, text, item_id in said:
            if text and record.get_by_id(item_id) is None:
                record.add_message(role=role, content=text, id=item_id)
        return record

    def _take_record(self) -> llm.ChatContext:
        record, self._session._pending_chat_ctx = self._record(), None
        return record

    def _adopt_handle(self, context: llm.ChatContext) -> None:
        """Take over a handle that the application brought along.

        It stands for the context that was set with it, and for all there is where none was. What
        is new goes the way of any update.
        """
        session = self._session
        baseline = session._resumption_chat_ctx
        known = context if baseline is None else baseline
        self.resumption.adopt(item.id for item in known.items)
        answered = {item.call_id for item in known.items if item.type == "function_call_output"}
        waits_for = [
            item
            for item in known.items
            if item.type == "function_call" and item.call_id not in answered
        ]
        self.resumption.hold_open(call.call_id for call in waits_for)
        for call in waits_for:
            session._calls.restored(call.call_id, call.name, call.arguments, session._connection)
        self.update(context)

    async def _tell_difference(self, live: LiveSession) -> bool:
        """Tell a resumed session what its handle does not stand for; whether that was answers."""
        session, resumption = self._session, self.resumption
        untold = resumption.open_items
        items = [item for item in session._chat_ctx.items if item.id in untold]
        if resumption.handle is not None:
            session._calls.resumed(session._connection, resumption.handle.open_calls)
        native, in_words = self._by_form(
            item for item in items if item.type == "function_call_output"
        )
        responses = self._responses(native)
        if not self._can_be_silent:
            warn_of_replies(native)
        resumption.resumed()
        answers = {result.id for result in native}
        rest = [item for item in items if item.id not in answers and not self._is_void(item)]
        turns = told_turns(rest, session._calls.arguments)
        if turns:
            await live.send_client_content(turns=turns, turn_complete=False)
            resumption.sent([item.id for item in rest], session._driver.now, live.sent)
        if native:
            await live.send_tool_response(function_responses=responses)
            resumption.sent(answers, session._driver.now, live.sent)
        self._delivered(native, responses, in_words)
        return bool(native)

    def _to_seed(self, context: llm.ChatContext) -> list[llm.ChatItem]:
        """What of a record a fresh session is told."""
        items = [item for item in context.items if not self._is_void(item)]
        if not self._session._connection_log.was_connected:
            # Upstream tells the first session of a call no calls.
            items = [item for item in items if not item.type.startswith("function_call")]
        limit = self._session._poison.limit
        return items if limit is None else items[max(0, len(items) - limit) :]

    def _is_void(self, item: llm.ChatItem) -> bool:
        """Whether it is the result of a call that the server took back (R10)."""
        return item.type == "function_call_output" and self._session._calls.is_cancelled(
            item.call_id
        )
