"""Mutants of what both providers' sessions run on."""

from __future__ import annotations

from .mutant import Mutant

MUTANTS = (
    # What is owed, and asked for
    Mutant(
        name="redrive-says-nothing-of-the-cut",
        sentence="The model is told what the caller heard last of a reply that broke off.",
        module="wording",
        old="    'A technical fault cut your reply off. The last words the caller heard were: "
        '"{last_words}". \'\n'
        '    "Go on from exactly there and finish the thought. '
        'Do not repeat what was heard, do not greet, "\n'
        '    "do not mention the fault."\n',
        new='    "Continue."\n',
    ),
    Mutant(
        name="cut-reply-is-not-owed",
        sentence="A reply that broke off is asked for.",
        module="core.replies",
        old="                if generation.has_content and not generation.by_caption:\n",
        new="                self.owed = None\n                if False:\n",
    ),
    Mutant(
        name="stopped-reply-is-gone-on-with",
        sentence="A cut reply whose rest was stopped is not asked for.",
        module="core.replies",
        old="""        if owed is None or owed.cause != "reply_cut":
            return ()
        self.owed = None
""",
        new="""        if True:
            return ()
        self.owed = None
""",
    ),
    Mutant(
        name="redrive-is-not-taken-back",
        sentence="The reply to a re-drive is not heard by a caller who cut in before it.",
        module="runtime.driver",
        old="                carrier.take_back(decision.redrive_id, decision.generation_id)\n",
        new="                pass\n",
    ),
    Mutant(
        name="nothing-is-asked-for-after-a-drop",
        sentence="What is owed across a drop is asked for on the next connection.",
        module="core.replies",
        old="        if unanswered or self._requests:\n",
        new="        if False:\n",
    ),
    Mutant(
        name="lost-words-are-not-owed",
        sentence="The caller is asked for words that no session will ever know.",
        module="core.replies",
        old="""        self.owed = Owed("user_words_lost", at)

    def requested""",
        new="""        pass

    def requested""",
    ),
    Mutant(
        name="restored-session-is-asked-at-once",
        sentence="A session that knows of the turn gets the time to go on by itself.",
        module="core.watchdogs",
        old="    return edge.at + bounds.redrive_after_s if edge.knows_turn else edge.at\n",
        new="    return edge.at\n",
    ),
    Mutant(
        name="request-dies-with-its-connection",
        sentence="A request that a drop caught is issued again.",
        module="core.replies",
        old="            self._edge = Edge(at, knows, tuple(self._requests))\n",
        new="            self._edge = Edge(at, knows, ())\n",
    ),
    Mutant(
        name="reply-timeouts-run-on-in-an-outage",
        sentence="The time in which a reply must begin does not run while there is no connection.",
        module="runtime.reply_timer",
        old='keeps what is left of it."""\n        if self._deadline is not None:\n',
        new='keeps what is left of it."""\n        if False:\n',
    ),
    Mutant(
        name="reply-without-output-is-an-answer",
        sentence="A turn in which the model said nothing is asked for again.",
        module="core.replies",
        old="""        elif mine:
            self._fail(at, by_provider=True)
        return self.redrives.settle("failed", generation)
""",
        new="""        elif mine:
            self.owed = None
        return self.redrives.settle("failed", generation)
""",
    ),
    Mutant(
        name="failed-reply-is-waited-for",
        sentence="A reply that failed is asked for again, and not waited for.",
        module="core.watchdogs",
        old="    if owed.failed_at is None:\n",
        new="    if owed.failed_at is None or True:\n",
    ),
    # Replies without an end
    Mutant(
        name="cut-streams-stay-open",
        sentence="The streams of a reply end with its connection.",
        module="core.turn_state",
        old="""            decisions = (CloseStreams(self.open.id), *self.close(at, "cut"))
""",
        new="""            decisions = self.close(at, "cut")
""",
    ),
    Mutant(
        name="complete-reply-stays-open",
        sentence="A complete reply that nothing ends is closed some time after it was heard.",
        module="core.limits",
        old="COMPLETE_AFTER_S = 25.0\n",
        new="COMPLETE_AFTER_S = 75.0\n",
    ),
    Mutant(
        name="stalled-reply-stays-open",
        sentence="A reply that stopped in its middle is given up after 30 s.",
        module="core.limits",
        old="STALLED_AFTER_S = 30.0\n",
        new="STALLED_AFTER_S = 90.0\n",
    ),
    Mutant(
        name="replaced-streams-stay-open",
        sentence="A reply that never ended is closed where the next one begins.",
        module="core.turn_state",
        old='(CloseStreams(self.open.id), *self.close(fact.at, "replaced"))\n',
        new='self.close(fact.at, "replaced")\n',
    ),
    Mutant(
        name="silent-reply-is-waited-for",
        sentence="A reply that never began is asked for after 30 s.",
        module="core.limits",
        old="SILENT_AFTER_S = 30.0\n",
        new="SILENT_AFTER_S = 90.0\n",
    ),
    # Another connection beside
    Mutant(
        name="nothing-is-asked-beside",
        sentence="A reply that gives nothing for long is asked of another connection.",
        module="core.watchdogs",
        old="    if bounds.hedge_after_s is None or claim.hedged",
        new="    if True or claim.hedged",
    ),
    Mutant(
        name="hedge-is-kept-beside",
        sentence="What was asked beside is dropped once the connection that serves gives output.",
        module="runtime.link_driver",
        old="        if hedges and not self._driver.awaits_hedge:\n",
        new="        if False:\n",
    ),
    Mutant(
        name="refused-hedge-is-tried-again",
        sentence="Where a second session is refused for quota, none is tried for a minute.",
        module="core.link",
        old="        if self._hedging is not None and fact.refused_for_quota:\n",
        new="        if False:\n",
    ),
    # Dialling
    Mutant(
        name="one-redial-is-all",
        sentence="A redial that fails is followed by another.",
        module="core.budget",
        old="        if limits.max_redials is not None and self._redials >= limits.max_redials:\n",
        new="        if self._redials >= 1:\n",
    ),
    Mutant(
        name="dial-alone-restores-the-budget",
        sentence="A dial that succeeds proves nothing yet.",
        module="core.budget",
        old=("        self._credit(now)\n        self._quiet_since = None if owed else now\n"),
        new="        self.progressed()\n",
    ),
    Mutant(
        name="outage-is-given-up-early",
        sentence="An outage is outlived for a minute.",
        module="core.limits",
        old="RECONNECT_DEADLINE_S = 60.0\n",
        new="RECONNECT_DEADLINE_S = 15.0\n",
    ),
    Mutant(
        name="outage-is-not-given-up",
        sentence="A provider that is gone is given up after a minute.",
        module="core.limits",
        old="RECONNECT_DEADLINE_S = 60.0\n",
        new="RECONNECT_DEADLINE_S = 600.0\n",
    ),
    # Signs of life
    Mutant(
        name="unheard-caller-is-no-sign",
        sentence="A connection that takes no notice of the caller's voice is suspected.",
        module="core.liveness",
        old="    hinted_at, bound = liveness.hinted_at, bounds.unheard_after_s\n",
        new="    hinted_at, bound = liveness.hinted_at, None\n",
    ),
    Mutant(
        name="suspected-connection-is-kept",
        sentence="A connection that looks dead is replaced.",
        module="runtime.driver",
        old="""                carrier.replace_connection(speaks=decision.sign == "passed_over")
""",
        new="                pass\n",
    ),
    Mutant(
        name="unended-turn-is-no-sign",
        sentence="A connection is left that is silent after an interruption without an end.",
        module="core.interruption",
        old="    if unended.suspected or bounds",
        new="    if True or bounds",
    ),
    Mutant(
        name="unanswered-pings-are-a-sign",
        sentence="A server that never answered a ping is not suspected for that.",
        module="core.liveness",
        old="    if bounds.liveness_timeout_s is not None and liveness.answers_pings:\n",
        new="    if bounds.liveness_timeout_s is not None:\n",
    ),
    Mutant(
        name="earlier-deadline-is-ignored",
        sentence="The one timer moves forward where something falls due sooner.",
        module="runtime.timer",
        old="            if self._handle.when() <= at:\n                return\n",
        new="            return\n",
    ),
    # Audio and records
    Mutant(
        name="outage-audio-is-kept-whole",
        sentence="Of what the microphone heard in an outage only the newest second is kept.",
        module="runtime.gap_audio",
        old="        while self._frames and self._kept_s > self._limit_s:\n",
        new="        while False:\n",
    ),
    Mutant(
        name="unheard-words-are-recorded",
        sentence="Words whose audio never came are in no record.",
        module="core.playout",
        old="""    kept = 1
    while kept < len(words) and""",
        new="""    kept = len(words)
    while kept < len(words) and""",
    ),
    Mutant(
        name="wordless-audio-is-forgotten",
        sentence="Audio whose transcript never came leaves a turn in the record.",
        module="core.playout",
        old="        return self.spoken(rate_cps, audio_s) or UNTRANSCRIBED\n",
        new="        return self.spoken(rate_cps, audio_s)\n",
    ),
    Mutant(
        name="heard-words-are-left-out",
        sentence="Words whose audio came are in the record.",
        module="core.playout",
        old="    while kept < len(words) and",
        new="    while False and",
    ),
)
