"""Mutants of the Gemini session."""

from __future__ import annotations

from .mutant import Mutant

MUTANTS = (
    # What a new connection is told
    Mutant(
        name="fresh-session-is-told-nothing",
        sentence="A fresh session is told the conversation.",
        module="google.context",
        old="        if turns or self._announced:\n",
        new="        if False:\n",
    ),
    Mutant(
        name="restored-session-is-told-nothing",
        sentence="A restored session is told what its handle does not stand for.",
        module="google.context",
        old="        if turns:\n            await live",
        new="        if False:\n            await live",
    ),
    Mutant(
        name="restored-session-is-told-everything",
        sentence="A restored session is told only what its handle does not stand for.",
        module="core.coverage",
        old="            del self._open[item_id]\n",
        new="            pass\n",
    ),
    Mutant(
        name="handle-covers-what-travels",
        sentence="A handle that was on its way is not taken to stand for what was sent meanwhile.",
        module="core.limits",
        old="COVERAGE_GRACE_S = 0.25\n",
        new="COVERAGE_GRACE_S = 0.0\n",
    ),
    # Handles
    Mutant(
        name="first-handle-is-kept",
        sentence="The newest handle is the one that is resumed.",
        module="google.context",
        old="        session._session_resumption_handle = update.new_handle\n",
        new="        session._session_resumption_handle = (\n"
        "            session._session_resumption_handle or update.new_handle\n"
        "        )\n",
    ),
    Mutant(
        name="empty-handle-is-taken",
        sentence="An empty handle does not replace a good one.",
        module="google.context",
        old="        if update is None or not update.resumable or not update.new_handle:\n",
        new="        if update is None or not update.resumable:\n",
    ),
    Mutant(
        name="refused-handle-is-kept",
        sentence="A handle that was refused is forgotten.",
        module="google.supervisor",
        old="            if refused or self._early_deaths >= _POISONED_AFTER:\n",
        new="            if False:\n",
    ),
    Mutant(
        name="poisoned-handle-is-kept",
        sentence="A handle on which connections die soon is forgotten after two of them.",
        module="google.supervisor",
        old="_POISONED_AFTER = 2\n",
        new="_POISONED_AFTER = 20\n",
    ),
    Mutant(
        name="move-does-not-wait-for-the-handle",
        sentence="A connection is left with the handle of its last turn.",
        module="core.limits",
        old="HANDLE_WAIT_S = 1.5\n",
        new="HANDLE_WAIT_S = 0.0\n",
    ),
    Mutant(
        name="restart-does-not-wait-for-the-handle",
        sentence="A restart right after a turn waits for the handle of that turn.",
        module="google.supervisor",
        old="            turns.ended_at is not None\n            and",
        new="            False\n            and",
    ),
    # Failures
    Mutant(
        name="unlisted-failures-are-final",
        sentence="A loss that says nothing of its cause is followed by a redial.",
        module="google.failures",
        old='            return row.verdict\n    return "retry"\n',
        new='            return row.verdict\n    return "fatal"\n',
    ),
    Mutant(
        name="bad-key-is-tried-again",
        sentence="A key that is refused is final.",
        module="google.failures",
        old='    _Row(401, "fatal"),\n',
        new='    _Row(401, "retry"),\n',
    ),
    Mutant(
        name="invalid-argument-is-final",
        sentence="An invalid argument is left out and tried without.",
        module="google.failures",
        old='    _Row(1007, "invalid"),\n',
        new='    _Row(1007, "fatal"),\n',
    ),
    Mutant(
        name="dial-may-take-for-ever",
        sentence="A dial is bounded, from TCP to the answer to the set-up.",
        module="google.line",
        old="        live = LiveSession(await within(entering, timeout_s))\n",
        new="        live = LiveSession(await entering)\n",
    ),
    Mutant(
        name="unreadable-message-ends-the-connection",
        sentence="A message that nobody can read is skipped.",
        module="google.line",
        old="_UNREADABLE_IN_A_ROW = 50\n",
        new="_UNREADABLE_IN_A_ROW = 0\n",
    ),
    Mutant(
        name="deep-frame-ends-the-connection",
        sentence="A frame that the client library fails at in another way is skipped as well.",
        module="google.line",
        old="            except Exception as error:\n                # Whatever",
        new="            except (APIError, ValueError) as error:\n                # Whatever",
    ),
    Mutant(
        name="end-at-no-time-is-an-end",
        sentence="An announced end at a time that is none is skipped.",
        module="google.set_up",
        old="    return seconds if seconds <= LONGEST_NOTICE_S else None\n",
        new="    return seconds if seconds <= LONGEST_NOTICE_S else 0.0\n",
    ),
    Mutant(
        name="calls-of-no-tool-are-passed-on",
        sentence="A tool call without a name is skipped.",
        module="google.malformed",
        old="    if not call.name:\n        return False\n",
        new="",
    ),
    Mutant(
        name="error-comes-before-the-wait",
        sentence="The application is told of an error just before the redial.",
        module="google.supervisor",
        old="                self._lost(error)\n            return error\n",
        new=(
            "                self._lost(error)\n"
            "                session._emit_error(error, recoverable=True)\n"
            "            return ConnectionSuspectedError()\n"
        ),
    ),
    Mutant(
        name="late-pong-ends-the-connection",
        sentence="A late pong ends nothing.",
        module="google.pings",
        old='        "ping_timeout": None,\n',
        new='        "ping_timeout": 20.0,\n',
    ),
    # Planned moves
    Mutant(
        name="goaway-cuts-the-turn",
        sentence="A notice long before the end lets the turn finish.",
        module="core.handover",
        old="    if rests_from is None:\n        return notice.leave_by\n",
        new="    if rests_from is None:\n        return notice.since\n",
    ),
    Mutant(
        name="goaway-has-no-deadline",
        sentence="A connection is left before its announced end, whatever is under way.",
        module="core.handover",
        old="    if rests_from is None:\n        return notice.leave_by\n",
        new="    if rests_from is None:\n        return math.inf\n",
    ),
    Mutant(
        name="refused-overlap-is-tried-again",
        sentence="Where the provider refuses a second connection, the first is closed before.",
        module="google.supervisor",
        old="refuses_overlap=refuses))\n",
        new="refuses_overlap=False))\n",
    ),
    Mutant(
        name="move-waits-for-nothing",
        sentence="A planned move waits for replies and tools that are under way.",
        module="core.conversation",
        old="        return self.owes_open or self._replies.surely_owes or",
        new="        return False and",
    ),
    Mutant(
        name="suspected-connection-is-closed-politely",
        sentence="A connection that looks dead is cut, its answer to a close not waited for.",
        module="google.supervisor",
        old="        if session._suspected:\n            line.live.abort()\n",
        new="",
    ),
    # Tools
    Mutant(
        name="result-answers-any-session",
        sentence="A result answers its call only where the session knows of the call.",
        module="google.context",
        old="            elif session._calls.is_known(result.call_id, session._connection) or (\n",
        new="            elif result.call_id or (\n",
    ),
    Mutant(
        name="restored-call-is-unknown",
        sentence="A session that was restored with an open call gets its answer.",
        module="google.tool_calls",
        old="            if call.in_handle:\n",
        new="            if False:\n",
    ),
    Mutant(
        name="repeated-call-runs-again",
        sentence="A call that comes twice runs once.",
        module="google.tool_calls",
        old="            if known_id is None or known is None or known.cancelled or",
        new="            if known_id is None or known is None or True or",
    ),
    Mutant(
        name="made-up-id-is-sent",
        sentence="A server that gives its calls no ids is not sent one.",
        module="google.tool_calls",
        old="            self.without_id.add(call.id)\n",
        new="            pass\n",
    ),
    Mutant(
        name="cancelled-tool-runs-on",
        sentence="A tool whose call was taken back is stopped.",
        module="google.realtime",
        old="            self._stopping.start(cancel_tool(self, call_id))\n",
        new="            pass\n",
    ),
    Mutant(
        name="cancelled-call-is-answered",
        sentence="The result of a call that was taken back is not sent.",
        module="google.tool_calls",
        old="            self._calls[call_id].cancelled = True\n",
        new="            pass\n",
    ),
    Mutant(
        name="trailing-audio-begins-a-reply",
        sentence="Audio that trails a tool call begins no reply of its own.",
        module="google.realtime",
        old="            self._late.tool_called()\n",
        new="            pass\n",
    ),
    # Turns
    Mutant(
        name="next-turn-goes-into-the-interrupted-one",
        sentence="An interrupted reply is closed where the next turn begins.",
        module="google.realtime",
        old="        if reply == self._turns.interrupted:\n            begins = answers or words\n",
        new="        if reply == self._turns.interrupted:\n            begins = False\n",
    ),
    Mutant(
        name="next-turn-goes-into-the-complete-one",
        sentence="A complete reply without an end is closed where the next turn begins.",
        module="google.realtime",
        old="        elif self._turns.is_overtaken(reply):\n",
        new="        elif True:\n            begins = False\n"
        "        elif self._turns.is_overtaken(reply):\n",
    ),
    Mutant(
        name="next-turn-must-be-announced",
        sentence="What comes long after a complete reply is the next turn's, whoever announced it.",
        module="google.realtime",
        old="            begins = answers and self._turns.is_long_complete(reply)\n",
        new="            begins = False\n",
    ),
    Mutant(
        name="finalised-reply-swallows-the-next",
        sentence="After a reply that was complete, or cut, only its end is thrown away.",
        module="google.late_content",
        old="        if says_something and (self._only_its_end or spoke_at > self._since):\n",
        new="        if False:\n",
    ),
    Mutant(
        name="reply-must-begin-within-5-s",
        sentence="A reply that takes long to begin is waited for.",
        module="core.limits",
        old="\nREPLY_TIMEOUT_S = 30.0\n",
        new="\nREPLY_TIMEOUT_S = 5.0\n",
    ),
    Mutant(
        name="google-timeout-begins-in-an-outage",
        sentence="The time for a reply to begin does not start while there is no connection.",
        module="google.requests",
        old="        if session._connected:\n            timer.resume()\n",
        new="        if True:\n            timer.resume()\n",
    ),
    Mutant(
        name="own-request-passes-for-a-barge-in",
        sentence="An interruption that our own request caused is none.",
        module="google.activity",
        old="        if content.interrupted and self._cuts_own_answer():\n",
        new="        if False:\n",
    ),
    Mutant(
        name="activity-is-not-begun-anew",
        sentence="A turn that the application holds is begun anew on the next connection.",
        module="google.outgoing",
        old="        if (activity.held and reconnected) or ended:\n",
        new="        if False:\n",
    ),
    Mutant(
        name="request-is-held-on-a-live-connection",
        sentence="A request goes out at once where there is a connection.",
        module="google.requests",
        old="        return held\n",
        new="        return True\n",
    ),
    # Audio and records
    Mutant(
        name="google-drop-does-not-flush",
        sentence="A dropped reply stops at once where the application wants that.",
        module="google.realtime",
        old='        if error is not None and self._resilience.playout_on_drop == "flush":\n',
        new="        if False:\n",
    ),
    Mutant(
        name="google-cut-in-after-a-drop-is-not-recorded",
        sentence="The record of a dropped reply ends where the caller cut in on its rest.",
        module="google.spoken",
        old="            self._cut_in_on(fact.generation_id)\n",
        new="            pass\n",
    ),
    Mutant(
        name="refused-audio-is-sent-again",
        sentence="Audio from before a 1007 is dropped.",
        module="google.outgoing",
        old="        if self.spoilt or (activity",
        new="        if False or (activity",
    ),
    # Set-up
    Mutant(
        name="defaults-are-not-declared",
        sentence="The defaults of a tool's parameters are declared.",
        module="google.set_up",
        old="    restore_schema_details(config.tools or [], tools)\n",
        new="",
    ),
    Mutant(
        name="compression-is-off",
        sentence="Context compression is on by default.",
        module="google.set_up",
        old="    _compress_by_default(config, options)\n",
        new="",
    ),
    # The end
    Mutant(
        name="google-close-waits-for-the-server",
        sentence="Hanging up does not wait for a server that does not answer.",
        module="google.line",
        old="                await asyncio.wait_for(self._live.close(), CLOSE_TIMEOUT_S)\n",
        new="                await self._live.close()\n",
    ),
    Mutant(
        name="dial-outlives-the-call",
        sentence="Hanging up ends a dial.",
        module="google.line",
        old="        live = LiveSession(await within(entering, timeout_s))\n",
        new="        live = LiveSession(await asyncio.shield(within(entering, timeout_s)))\n",
    ),
    Mutant(
        name="wait-outlives-the-call",
        sentence="Hanging up ends the wait for the next dial.",
        module="link_driver",
        old="            await waiter\n",
        new="            await asyncio.shield(asyncio.ensure_future(asyncio.wait({waiter})))\n",
    ),
    Mutant(
        name="pings-outlive-their-connection",
        sentence="Pings end with their connection.",
        module="google.realtime",
        old="            pings.cancel()\n",
        new="            pass\n",
    ),
    Mutant(
        name="tasks-outlive-their-connection",
        sentence="What waits beside a connection ends with it.",
        module="google.supervisor",
        old="            await utils.aio.cancel_and_wait(*carrying, closing, moving)\n"
        "            if successor is None and not moving.cancelled():\n"
        "                await _close_unused(moving)\n",
        new="            await utils.aio.cancel_and_wait(*carrying)\n",
    ),
)
