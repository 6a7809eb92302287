"""Mutants of the OpenAI session, which also serves Azure and LiveKit Inference."""

from __future__ import annotations

from .mutant import Mutant

MUTANTS = (
    # What a new connection is told
    Mutant(
        name="openai-history-is-not-told",
        sentence="A new connection is told the conversation.",
        module="openai.history",
        old="        return [*self._new_settings(), *self._new_items()]\n",
        new="        return [*self._new_settings()]\n",
    ),
    Mutant(
        name="openai-settings-are-not-told",
        sentence="A new connection is told instructions and tools.",
        module="openai.history",
        old="        return [*self._new_settings(), *self._new_items()]\n",
        new="        return [*self._new_items()]\n",
    ),
    Mutant(
        name="openai-cut-reply-is-not-in-the-record",
        sentence="The next connection is told what was heard of a reply that a drop cut.",
        module="openai.mirror",
        old="        if (reply := self._engine.open_reply) is None:\n            return\n",
        new="        if (reply := self._engine.open_reply) is None or True:\n            return\n",
    ),
    Mutant(
        name="openai-refused-history-is-told-again",
        sentence="A server that refuses what it is told is told less.",
        module="openai.replay_limit",
        old="            self.items = told // 2\n",
        new="            pass\n",
    ),
    Mutant(
        name="openai-refusals-have-no-end",
        sentence="A server that refuses a session without a history too is given up.",
        module="openai.replay_limit",
        old="            return self._refusals == 1\n",
        new="            return True\n",
    ),
    Mutant(
        name="openai-unconfirmed-item-is-lost",
        sentence="An item that a drop caught before the server had it goes to the next one.",
        module="openai.outbound",
        old="        for one in pending:\n            self._apply(one)\n",
        new="        for one in pending:\n            self._settle(one)\n",
    ),
    Mutant(
        name="openai-item-waits-for-a-dead-server",
        sentence="Whoever waits for an item goes on when the connection is lost.",
        module="openai.outbound",
        old="            waiter.set_result(None)\n",
        new="            pass\n",
    ),
    Mutant(
        name="openai-blank-items-are-told",
        sentence="What the caller had begun to say is not told as a turn without words.",
        module="openai.history",
        old="for item in self._engine.chat_ctx.items if is_blank(item)}",
        new="for item in () if is_blank(item)}",
    ),
    Mutant(
        name="xai-rest-of-a-line-is-left-to-the-model",
        sentence="The rest of a line that the application gave is said as it was given.",
        module="xai.realtime",
        old="        if left:\n",
        new="        if False:\n",
    ),
    Mutant(
        name="xai-sessions-are-renewed-as-openais",
        sentence="An xAI session is renewed before its own cap.",
        module="openai.caps",
        old="    _Row(lambda host: host.xai, ",
        new="    _Row(lambda host: False, ",
    ),
    # Failures
    Mutant(
        name="openai-expiry-is-a-failure",
        sentence="The session's cap costs no retry and no error.",
        module="openai.errors",
        old='_CLOSES: dict[int, Handling] = {1001: "renew"}\n',
        new="_CLOSES: dict[int, Handling] = {}\n",
    ),
    Mutant(
        name="openai-expired-error-is-reported",
        sentence="The event that announces the session's cap is no error.",
        module="openai.errors",
        old='    "session_expired": "renew",\n',
        new="",
    ),
    Mutant(
        name="openai-bad-key-is-tried-again",
        sentence="A key that is refused is final.",
        module="openai.errors",
        old="    if isinstance(cause, WSServerHandshakeError):\n",
        new="    if False:\n",
    ),
    Mutant(
        name="openai-failing-session-is-kept",
        sentence="A session whose responses fail is left.",
        module="openai.errors",
        old="_FAILURES_IN_A_ROW = 2\n",
        new="_FAILURES_IN_A_ROW = 200\n",
    ),
    Mutant(
        name="openai-rate-limit-is-not-read",
        sentence="A reply that hit a rate limit is asked for after the wait.",
        module="openai.errors",
        old='    if not {error.get("code"), error.get("type")} & _RATE_LIMITS:\n',
        new="    if True:\n",
    ),
    Mutant(
        name="openai-error-comes-before-the-wait",
        sentence="The application is told of an error just before the redial.",
        module="runtime.runner",
        old="                return loss.error\n",
        new=(
            "                self._connector.emit_error(loss.error, recoverable=True)\n"
            "                return ConnectionSuspectedError()\n"
        ),
    ),
    Mutant(
        name="openai-strange-messages-are-passed-on",
        sentence="A message that is no event is skipped.",
        module="openai.websocket",
        old="            event = read(message)\n",
        new="            event = message\n",
    ),
    Mutant(
        name="openai-deep-frame-ends-the-connection",
        sentence="A frame that is nested deeper than can be read is skipped.",
        module="openai.event_shapes",
        old="    except (ValueError, RecursionError):",
        new="    except ValueError:",
    ),
    Mutant(
        name="openai-odd-ends-are-skipped",
        sentence="The end of a response is its end, however it looks.",
        module="openai.event_shapes",
        old='        _Field("response", _is_object, _no_fields),\n'
        '        _Field("response.id", _is_text, _empty),\n',
        new='        _Field("response", _is_object),\n',
    ),
    Mutant(
        name="openai-loss-is-final",
        sentence="A connection that is lost is followed by another.",
        module="openai.connection",
        old="final=isinstance(error, APIError) and not error.retryable)",
        new="final=True)",
    ),
    Mutant(
        name="openai-final-error-is-tried-again",
        sentence="An error that no retry can cure ends the session.",
        module="openai.connection",
        old="final=isinstance(error, APIError) and not error.retryable)",
        new="final=False)",
    ),
    Mutant(
        name="openai-harmless-errors-surface",
        sentence="An error that means nothing is not passed on.",
        module="openai.realtime",
        old="        if self._parts.dispatch.reported(event.error):\n"
        "            super()._handle_error(event)\n",
        new="        self._parts.dispatch.reported(event.error)\n"
        "        if event.error.code != 'session_expired':\n"
        "            self._emit_error(llm.RealtimeError(event.error.message), recoverable=True)\n",
    ),
    Mutant(
        name="openai-newer-events-end-the-connection",
        sentence="An event that is newer than the client is skipped.",
        module="openai.websocket",
        old="            event = read(message)\n",
        new="            kind = json.loads(message.data)['type']\n"
        "            if kind.startswith('session.') and not kind.endswith('ated'):\n"
        "                raise APIConnectionError(kind)\n"
        "            event = read(message)\n",
    ),
    # Dials and moves
    Mutant(
        name="openai-restore-may-take-for-ever",
        sentence="A new connection must answer within the time of a dial.",
        module="runtime.runner",
        old="            await self._within(self._connector.restore(connection), limit_s)\n",
        new="            await self._connector.restore(connection)\n",
    ),
    Mutant(
        name="openai-dial-may-take-for-ever",
        sentence="A dial is bounded.",
        module="runtime.runner",
        old="            return await self._within(self._connector.dial(), within_s, _close)\n",
        new="            return await self._connector.dial()\n",
    ),
    Mutant(
        name="openai-mute-first-connection-is-kept",
        sentence="A first connection that says nothing is given up.",
        module="runtime.runner",
        old="        if not connection.has_answered:\n            connection.abort()\n",
        new="",
    ),
    Mutant(
        name="openai-suspected-connection-is-kept",
        sentence="A connection that looks dead ends even where none can be had beside it.",
        module="core.link",
        old="        if self._suspected_at is not None:\n            return (Leave(),)\n",
        new="",
    ),
    Mutant(
        name="openai-renewal-does-not-wait",
        sentence="A renewal waits for a moment at rest.",
        module="core.handover",
        old="            self._renewal = Notice(renew_at, renew_at + limits.wait_s)\n",
        new="            self._renewal = Notice(renew_at, renew_at)\n",
    ),
    Mutant(
        name="openai-sessions-are-not-renewed",
        sentence="A session is renewed before its provider ends it.",
        module="core.handover",
        old="        if limits is not None and limits.after_s is not None:\n",
        new="        if False and limits is not None and limits.after_s is not None:\n",
    ),
    Mutant(
        name="openai-half-a-frame-is-heard-twice",
        sentence="What waits for a whole frame at a handover is not sent before it is sent again.",
        module="openai.connection_events",
        old="        if unheard:\n            engine.drop_partial_audio()\n",
        new="",
    ),
    Mutant(
        name="openai-handover-loses-the-newest-words",
        sentence="A connection that takes over hears what the one before may not have understood.",
        module="openai.microphone",
        old="        return (self._utterance or self._recent).release()\n",
        new="        return []\n",
    ),
    Mutant(
        name="openai-handover-dial-may-take-for-ever",
        sentence="A dial beside the connection that serves is bounded.",
        module="openai.connection",
        old="await self._within(dialling, timeout_s, close_socket)\n",
        new="await dialling\n",
    ),
    Mutant(
        name="openai-refused-overlap-is-tried-again",
        sentence="Where the provider refuses a second connection, the first is closed before.",
        module="openai.connection",
        old="        overlap = isinstance(error, _OverlapRefusedError)\n",
        new="        overlap = False\n",
    ),
    # Requests
    Mutant(
        name="openai-withdrawn-request-is-sent",
        sentence="A request that was taken back is not issued on the next connection.",
        module="openai.requests",
        old="        if future.cancelled():\n"
        "            driver.feed(f.ReplyCancelled(driver.now, request_id))\n"
        "        elif future.exception() is not None:\n",
        new="        if not future.cancelled() and future.exception() is not None:\n",
    ),
    Mutant(
        name="openai-reply-must-begin-within-5-s",
        sentence="A reply that takes long to begin is waited for.",
        module="core.limits",
        old="OPENAI_REPLY_TIMEOUT_S = 20.0\n",
        new="OPENAI_REPLY_TIMEOUT_S = 5.0\n",
    ),
    Mutant(
        name="openai-timeout-begins-in-an-outage",
        sentence="The time for a reply to begin does not start while there is no connection.",
        module="openai.requests",
        old="        if self._serving.connection is not None:\n            timer.resume()\n",
        new="        if True:\n            timer.resume()\n",
    ),
    Mutant(
        name="openai-refused-request-is-dropped",
        sentence="A request that a running response kept from being answered is made again.",
        module="openai.requests",
        old="                self._ask(request_id, OPENAI_REPLY_TIMEOUT_S)\n\n    def connection",
        new="                pass\n\n    def connection",
    ),
    # The caller
    Mutant(
        name="openai-half-said-question-is-lost",
        sentence="An utterance that a drop cut is sent again.",
        module="openai.microphone",
        old="        said = [] if self._utterance is None else self._utterance.release()\n",
        new="        said: list[rtc.AudioFrame] = []\n",
    ),
    Mutant(
        name="openai-dropped-words-are-forgotten",
        sentence="The caller is asked for words of an outage that are too old to be sent.",
        module="openai.microphone",
        old="        self.words_dropped = before is not None and before < dropped\n",
        new="        self.words_dropped = False\n",
    ),
    # Tools
    Mutant(
        name="openai-repeated-call-runs-again",
        sentence="A call that comes twice runs once.",
        module="openai.tools",
        old="        if short_call_id(call_id) in self._called:\n",
        new="        if False:\n",
    ),
    # Records
    Mutant(
        name="openai-truncates-beyond-the-end",
        sentence="A reply is truncated at no more than the audio that came.",
        module="openai.realtime",
        old="            audio_end_ms = min(audio_end_ms, int(progress.audio_s * 1000))\n",
        new="",
    ),
    Mutant(
        name="openai-unplayed-message-stays",
        sentence="A message that was never played is taken back.",
        module="openai.mirror",
        old="                self.forget(item_id)\n\n    def played",
        new="                pass\n\n    def played",
    ),
    Mutant(
        name="openai-restored-item-is-not-corrected",
        sentence="A restored text is corrected to what was heard.",
        module="openai.mirror",
        old="                self._engine.replace_text(item_id, heard)\n",
        new="                pass\n",
    ),
    Mutant(
        name="openai-drop-does-not-flush",
        sentence="A dropped reply stops at once where the application wants that.",
        module="openai.connection_events",
        old="        if cause is not None and self._flushes:\n",
        new="        if False:\n",
    ),
    Mutant(
        name="openai-stopped-reply-is-truncated",
        sentence="A reply that is stopped before its first sound is not truncated.",
        module="openai.realtime",
        old="        super().interrupt()\n",
        new="        super().interrupt()\n"
        '        for item_id in getattr(self._current_generation, "messages", ()):\n'
        "            self._engine.truncate_audio(item_id, 0.1)\n",
    ),
    # The end
    Mutant(
        name="openai-dials-after-the-end",
        sentence="Nothing is dialled once the call is over.",
        module="runtime.runner",
        old="        self._link.closed()\n",
        new="        pass\n",
    ),
    Mutant(
        name="openai-tasks-outlive-their-connection",
        sentence="What runs beside a connection ends with it.",
        module="runtime.runner",
        old="                await _end(task)\n",
        new="                pass\n",
    ),
    Mutant(
        name="openai-close-waits-for-the-dial",
        sentence="Hanging up does not wait for a dial.",
        module="openai.realtime",
        old="        await end_within(_CLOSE_WITHIN_S, super().aclose(), "
        "self._main_atask, is_idle)\n",
        new="        await super().aclose()\n",
    ),
)
