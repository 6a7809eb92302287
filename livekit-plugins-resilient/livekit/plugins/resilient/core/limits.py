"""Every number of the core and of the options, with unit, reason, source and date.

A constant's docstring ends in "Source: ... Date: YYYY-MM."; a test holds this file to that, and
the other modules of the core to having no numbers of their own. One table, so one long file.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Bounds", "ProviderBounds"]

# --- redial ------------------------------------------------------------------------------------

CONNECT_TIMEOUT_S = 10.0
"""Seconds for one dial, from TCP to the provider's first answer. Longer than a slow TLS and
session set-up, short enough to try again while the caller waits. Source: default open timeout of
the websockets library and of livekit-agents' connection options. Date: 2026-11."""

RECONNECT_DEADLINE_S = 60.0
"""Seconds for one outage, all dials together. A caller does not hold a silent line longer.
Source: our choice. Date: 2026-11."""

REDIAL_BASE_S = 0.25
"""Seconds before the second dial, full jitter; doubles. A load balancer drain heals in well under
a second. Source: our choice, against public reports of immediate redial storms. Date: 2026-11."""

FIRST_REDIAL_S = 0.25
"""Longest seconds before the first redial, at random: all the callers of a server that restarts
lose it at the same moment. Source: our choice; 100 sessions were seen to redial within 0.05 s of
each other. Date: 2026-11."""

REDIAL_CAP_S = 8.0
"""Longest seconds between two dials: leaves at least seven tries in the default deadline.
Source: our choice. Date: 2026-11."""

HEALTHY_AFTER_S = 10.0
"""Seconds of connection that restore the redial budget; a bare successful dial proves nothing
where the provider accepts and drops. Source: Pipecat 1.14.0 uses the same. Date: 2026-11."""

FAILOVER_AFTER_S = 3.0
"""Seconds of an outage after which the call is left to another model, where one is available: a
drained load balancer and a restarting front end heal within. Source: our choice; livekit-agents
1.8.9 leaves a refusing OpenAI after 4.1, Gemini at once. Date: 2026-11."""

FAILOVER_LAST_DIAL_S = 0.25
"""Seconds before that moment within which no further dial is begun: a handshake takes longer.
Source: our choice. Date: 2026-11."""

GAP_AUDIO_S = 1.0
"""Seconds of microphone audio that an outage keeps for the next connection: the sentence that was
under way. What is older would have the model answer a question from before the outage.
Source: our choice. Date: 2026-11."""

POISONED_WITHIN_S = 5.0
"""Seconds after a resume or a replay in which a death is put down to the handle, or to what was
told. Poisoned handles were seen to kill every connection within a second or two. Source: report
googleapis/python-genai#2290; the margin is our choice. Date: 2026-11."""

POISONED_AFTER = 2
"""Deaths in a row within that time (count) that make a handle, or the form in which a history was
told, a bad one: one can be chance. Source: our choice. Date: 2026-11."""

TOLD_LESS_BY = 2
"""By which the items of a history are divided that a fresh session is told, each time they are
refused (count): the one at fault is left out after a few dials. Source: our choice.
Date: 2026-11."""

# --- what a handle stands for -------------------------------------------------------------------

COVERAGE_GRACE_S = 0.25
"""Seconds before a handle's arrival in which something sent is not taken to be part of it: the
handle was on its way already. Above a long round trip to a provider.
Source: our choice. Date: 2026-11."""

HANDLE_WAIT_S = 1.5
"""Seconds after a turn in which its handle is waited for before the connection is left: handles
were seen to come a little after the turn's end. Source: report googleapis/python-genai#2527; the
length is our choice. Date: 2026-11."""

# --- leaving a connection ----------------------------------------------------------------------

GOAWAY_MARGIN_S = 2.0
"""Seconds before an announced end by which the connection is left, whatever is under way: two
slow dials. Source: our choice. Date: 2026-11."""

LONGEST_NOTICE_S = 3_600.0
"""Seconds beyond which an announced end is none: Gemini ends a connection after some ten minutes,
and its longest notice on record was 300 s. Source: Google's Live API documentation; report
livekit/agents-js#2507; the margin is our choice. Date: 2026-11."""

CERTIFICATE_DIALS = 3
"""Dials in a row (count) whose certificate does not verify, after which a call that was connected
before is lost: one host of many may be set up wrong, but a certificate is rarely repaired while a
caller waits. Source: our choice; livekit-agents 1.8.9 makes 4 on OpenAI, 1 on Gemini.
Date: 2026-11."""

CLOSE_TIMEOUT_S = 0.5
"""Seconds that a server is given to answer a CLOSE before the socket is cut, so that hanging up
stays within 1. Source: our choice; the websockets library waits 10. Date: 2026-11."""

LEAST_MARGIN_S = 0.25
"""Seconds before an announced end that a connection is left at the latest, however fast a dial is:
a message takes that long both ways on a slow path. Source: our choice. Date: 2026-11."""

DIALS_AHEAD = 2.0
"""Dials, as long as the last one took (count), that must fit before an announced end: one that
fails and one more. Source: our choice. Date: 2026-11."""

HANDOVER_SPREAD_S = 10.0
"""Longest seconds after a GoAway within which the connection is left, at random: a server that is
drained tells all its callers at once. Source: our choice; Gemini gives 50 s. Date: 2026-11."""

SPREAD_PART = 0.25
"""Part of the time that is left, where that is shorter (count). Source: our choice.
Date: 2026-11."""

OVERLAP_RETRY_S = 1.0
"""Seconds between two tries to dial a second connection beside one that still serves.
Source: our choice. Date: 2026-11."""

OPENAI_RENEW_AFTER_S = 3_300.0
"""Seconds after which an OpenAI session is renewed; it is ended after 60 minutes.
Source: report pollen-robotics/reachy_mini#134. Date: 2026-11."""

OPENAI_RENEWAL_WAIT_S = 240.0
"""Seconds that this renewal waits for the call to rest: all but the last minute before the end.
Source: our choice. Date: 2026-11."""

AZURE_RENEW_AFTER_S = 1_680.0
"""Seconds after which an Azure OpenAI session is renewed; it is ended after 30 minutes.
Source: Azure OpenAI quotas and limits. Date: 2026-11."""

AZURE_RENEWAL_WAIT_S = 90.0
"""Seconds that this renewal waits for the call to rest. Source: our choice. Date: 2026-11."""

XAI_RENEW_AFTER_S = 1_680.0
"""Seconds after which an xAI session is renewed. Assumed: xAI's page on the model says that it is
ended after 120 minutes, and said 30 in April 2026; the shorter one is kept to until a session is
recorded that outlives it. Source: docs.x.ai, "Voice Agent API". Date: 2026-11."""

XAI_RENEWAL_WAIT_S = 90.0
"""Seconds that this renewal waits for the call to rest. Source: our choice. Date: 2026-11."""

GEMINI_RENEW_AFTER_S = 840.0
"""Seconds after which a Gemini session behind LiveKit Inference is renewed, where no resumption
is to be had: Gemini ends it after 15 minutes. Source: Google's Live API documentation.
Date: 2026-11."""

GEMINI_RENEWAL_WAIT_S = 40.0
"""Seconds that this renewal waits for the call to rest, so that a slow dial after them still is
in time. Source: our choice. Date: 2026-11."""

OTHER_RENEW_AFTER_S = 1_200.0
"""Seconds after which a session is renewed whose provider's limit is not known.
Source: default of livekit-agents 1.8.9. Date: 2026-11."""

OTHER_RENEWAL_WAIT_S = 60.0
"""Seconds that a renewal waits for the call to rest where nothing is known of the limit, because
the application said when. Source: our choice. Date: 2026-11."""

RENEWAL_RETRY_S = 5.0
"""Seconds between two tries to renew, while the old connection serves on. Source: our choice.
Date: 2026-11."""

# --- owed replies ------------------------------------------------------------------------------

REDRIVE_AFTER_S = 3.0
"""Seconds in which a session that can know of the turn may go on by itself. Longer than a first
token takes, shorter than it takes a caller to ask whether anyone is there.
Source: our choice. Date: 2026-11."""

HINT_TRUST_S = 10.0
"""Longest seconds that energy at the microphone alone may hold back a re-drive. Music or noise
never ends, and silence is worse than speaking into noise. Source: our choice. Date: 2026-11."""

LONGEST_PUT_OFF_S = 20.0
"""Seconds that a provider may put a reply off because of a rate limit. Told to come back later
than that, we come back then: a caller does not hold a silent line longer, and stated waits are for
the full quota. Source: our choice. Date: 2026-11."""

TIMES_PUT_OFF = 3
"""Times that one reply may be put off by its provider (count), so that a limit that does not
lift ends in silence and not in an endless series. Source: our choice. Date: 2026-11."""

REPLY_TIMEOUT_S = 30.0
"""Seconds of connection in which a requested reply must begin. A reply that comes after its request
failed is thrown away, so this is as patient as with any other silence. Source: as `SILENT_AFTER_S`;
livekit-agents uses 5, counted while disconnected too, and speaks a late reply. Date: 2026-11."""

OPENAI_REPLY_TIMEOUT_S = 20.0
"""Seconds of connection in which OpenAI must have created the response to a request, not counting
the waits that it states: half of it for the connection that was asked, half for the one that takes
over (`OPENAI_REPLY_SILENT_AFTER_S`). Source: livekit-agents 1.8.9 gives the request up after 10,
those waits and outages counted. Date: 2026-11."""

LATE_RESULT_WAIT_S = 0.1
"""Seconds in which a request of the application may follow a tool's result that is told in words,
so that both begin one turn. It comes some steps of the event loop later, if it comes.
Source: our choice. Date: 2026-11."""

# --- generations without a terminal event -------------------------------------------------------

INTERRUPTED_AFTER_S = 3.0
"""Seconds from an interruption to its terminal event, which healthy servers send at once. Above
the 2 s in which livekit-agents tells a false interruption. Source: livekit-agents 1.8.9
`false_interruption_timeout`; report livekit/livekit#4484. Date: 2026-11."""

MUTE_AFTER_S = 3.0
"""Seconds without an answer to what the caller said, where the interruption before it never ended.
Slow answers are healthy, an interruption without its end is not: it comes at once, in recorded
sessions as the next message. Together with a dial and a first output it is heard within 8. Source:
report livekit/livekit#4484; the length is our choice. Date: 2026-11."""

COMPLETE_AFTER_S = 25.0
"""Seconds after the caller has heard complete output, unless the next turn begins before. Gemini
delays the terminal event until it believes playback is over, so its clock may run late, and until
then nothing is lost. Source: google-genai 3.6.1 docstrings; report livekit/agents#6421; our healthy
corpus, with pauses of up to 20. Date: 2026-11."""

STALLED_AFTER_S = 30.0
"""Seconds after the caller has heard all that arrived and no more did. Well above every pause that
was seen in a healthy reply: calls 5.6 to 9.9 after the words, and providers that run a tool of
their own in the middle. Source: reports livekit/agents#7184, google-gemini/gemini-live-api-examples
#57; the margin is our choice. Date: 2026-11."""

SILENT_AFTER_S = 30.0
"""Seconds in which nothing at all was produced. Healthy first outputs were seen as late as 16.
Source: reports livekit/agents#7184, pipecat-ai/pipecat#4108 (5 to 15 to an answer); the margin is
our choice. Date: 2026-11."""

WORKING_AFTER_S = 60.0
"""Seconds in place of the last two where the provider may be at work: it runs tools of its own or
tools that do not block, the model reasons, or said that it only comments on what it does. A cut
cannot be taken back. Source: our choice. Date: 2026-11."""

SLOWEST_START_S = 16.0
"""Seconds to the slowest first output, or next output, of a healthy reply on record: a bound below
it is warned about. Source: report pipecat-ai/pipecat#4108 and our healthy corpus. Date: 2026-11."""

CUT_IN_HEARD_S = 1.0
"""Seconds in which a caller who cut in before the first output must be heard by us too: the energy
hint needs 0.1, and a server may be that much earlier or later. An interruption without anybody's
voice was nobody's. Source: our choice; a phantom interruption is reported in livekit/agents#5408.
Date: 2026-11."""

STOPS_WITHIN_S = 1.0
"""Seconds in which a server that hears the caller cut in stops its reply: until then, that it goes
on does not show that it took what was said. Source: our choice; its own detection takes a few
tenths, and the network as long. Date: 2026-11."""

TRAILS_FOR_S = 1.0
"""Seconds without audio after which audio no longer trails a reply that was said to be complete: it
is another turn's, whose beginning nobody told. Source: recorded sessions, in which nothing trails
it, and an answer takes 0.4 from the end of the caller's words. Date: 2026-11."""

SLOWEST_END_S = 2.0
"""Seconds from complete output that was heard, or from an interruption, to the slowest end of a
healthy turn on record, likewise. Source: recorded sessions of Gemini 3.8 (1.7 after the last
frame, 0.2 before playback ends). Date: 2026-11."""

# --- the answer hedge --------------------------------------------------------------------------

HEDGE_AFTER_S = 8.0
"""Seconds without any output of a reply that is owed, after which another connection is asked
beside. Most healthy answers are there by then; those that are not, as late as 16, lose nothing,
since nobody hears the other one. Source: reports livekit/agents#7184, pipecat-ai/pipecat#4108; the
length is our choice. Date: 2026-11."""

HEDGE_STALLED_AFTER_S = 6.0
"""Seconds likewise for a reply that stopped in the middle, from when the caller has heard all that
arrived of it. Source: our choice; pauses of 5.6 to 9.9 were seen in healthy replies, report
livekit/agents#7184. Date: 2026-11."""

HEDGE_LASTS_S = 30.0
"""Seconds after which a hedge that has given nothing is no better than the connection beside it.
Source: as `SILENT_AFTER_S`. Date: 2026-11."""

SESSIONS_PER_HEDGE = 10
"""Sessions of a process that share one hedge at a time (count): accounts limit how many may be
open, and a provider that is slow for one call is slow for many. Source: our choice.
Date: 2026-11."""

HEDGING_OFF_S = 60.0
"""Seconds in which no session of a process hedges, once a hedge was refused for quota or rate:
quotas are counted by the minute. Source: Google's and OpenAI's pages on rate limits.
Date: 2026-11."""

HEDGE_RETRY_S = 1.0
"""Seconds between two looks for a free place where other sessions hedge. Source: our choice.
Date: 2026-11."""

# --- liveness ----------------------------------------------------------------------------------

GEMINI_LIVENESS_TIMEOUT_S = 25.0
"""Seconds without a byte from Gemini. Its pongs were measured 8 to 30 late, so a shorter bound
would end healthy calls. Source: report aicc2025/sip-to-ai PR#14. Date: 2026-09."""

OPENAI_LIVENESS_TIMEOUT_S = 8.0
"""Seconds without a byte from OpenAI, pings sent every few seconds; its pongs are prompt.
Source: our choice. Date: 2026-11."""

OPENAI_REPLY_SILENT_AFTER_S = 10.0
"""Seconds without a message after OpenAI was asked for a reply, which it confirms 0.1 later when
healthy, however long the model then thinks. Gemini says nothing before the first output, so there
it proves nothing. Source: recorded sessions; livekit-agents gives the request up after the same
time. Date: 2026-11."""

SLOWEST_PONG_S = 2.0
"""Seconds that a connection's slowest answer to a ping may have taken for a missing one to be a
sign at all; Gemini's were measured 8 to 30 late on healthy calls. Source: report
aicc2025/sip-to-ai PR#14. Date: 2026-11."""

SPEECH_QUIET_S = 2.0
"""Seconds of quiet that end the caller's speech: longer than pauses within a sentence and than
the providers' own end-of-turn silence. Source: our choice; OpenAI's server VAD ends a turn after
0.5. Date: 2026-11."""

UNHEARD_AFTER_S = 6.0
"""Seconds without a message or an answer to a ping once the caller has been quiet, on a connection
that answers pings: together with the quiet, a dead socket is noticed 8 after the end of speech.
Source: our choice. Date: 2026-11."""

GEMINI_DEAF_AFTER_S = 20.0
"""Seconds without a message in place of that where the path is not known to be dead. Captions came
up to 8 late and answers 15 on healthy calls, and what sounds like speech may be a television.
Source: report pipecat-ai/pipecat#4108. Date: 2026-11."""

OPENAI_DEAF_AFTER_S = 12.0
"""Seconds likewise for OpenAI, which says at once that it hears speech. Source: our choice, twice
`UNHEARD_AFTER_S` with the quiet. Date: 2026-11."""

FALSE_ALARM_FACTOR = 2.0
"""By which a false alarm lengthens the time to the next (count). Source: our choice.
Date: 2026-11."""

# --- our own event loop -------------------------------------------------------------------------

LOOK_EVERY_S = 1.0
"""Seconds between two looks at whether our event loop still runs; a block is measured to that.
Source: our choice. Date: 2026-11."""

LATE_AFTER_S = 0.25
"""Seconds that a timer may fire late before the loop counts as having been blocked: above what a
busy worker is late by. Source: our choice. Date: 2026-11."""

TIMER_SLACK_S = 0.001
"""Seconds that a timer may fire early, by the resolution of the loop's clock. Source: asyncio's
default event loop. Date: 2026-11."""

READ_WITHIN_S = 0.5
"""Seconds in which what waited in the sockets of a blocked loop is read, before anything is judged.
Source: our choice. Date: 2026-11."""

STALL_TOLD_S = 1.0
"""Seconds of a block from which on the application is told of it. Source: our choice.
Date: 2026-11."""

# --- bookkeeping -------------------------------------------------------------------------------

TRACKED_GENERATIONS = 8
"""Generations whose playback is followed at a time (count). One plays and one is queued in a
normal call; a driver without a speaker reports none finished, and memory must not grow.
Source: our choice. Date: 2026-11."""

REMEMBERED_CALLS = 64
"""Tool calls that are known again when they are delivered once more (count): far more than are
open at a time. Source: our choice. Date: 2026-11."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderBounds:
    """The bounds of a connection that depend on whose it is; None for a sign that it never gives.

    Attributes:
        liveness_timeout_s: See `Bounds`.
        reply_silent_after_s: Likewise.
        deaf_after_s: Likewise.
    """

    liveness_timeout_s: float | None
    reply_silent_after_s: float | None
    deaf_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds one conversation runs with; None switches that watchdog off.

    Built and checked by `ResilienceOptions.bounds()`. All in seconds.

    Attributes:
        redrive: Ask for owed replies. False leaves only the re-issue of pending requests.
        redrive_after_s: Wait where the new session can know of the turn.
        interrupted_after_s: From an interruption to its terminal event.
        mute_after_s: For an answer, where that never came.
        complete_after_s: From complete output, all heard, to the terminal event.
        stalled_after_s: From a stalled stream, all heard, to more of it.
        silent_after_s: For a reply's first output.
        working_after_s: In place of the last two, where the provider may be at work; where it is
            shorter than they are, they hold.
        hedge_after_s: For a reply's first output, before another connection is asked beside.
        hedge_stalled_after_s: For more of a reply that stopped, all heard, likewise.
        liveness_timeout_s: Without a byte.
        reply_silent_after_s: Without a message since a reply was requested.
        unheard_after_s: Without any sign of life since the caller has been quiet, where pings are
            answered in time.
        deaf_after_s: Without a message since then, where they are not, or the path is alive.
        speech_quiet_s: Of quiet that end the caller's speech, by the local hint.
    """

    redrive: bool = True
    redrive_after_s: float = REDRIVE_AFTER_S
    interrupted_after_s: float | None = INTERRUPTED_AFTER_S
    mute_after_s: float | None = MUTE_AFTER_S
    complete_after_s: float | None = COMPLETE_AFTER_S
    stalled_after_s: float | None = STALLED_AFTER_S
    silent_after_s: float | None = SILENT_AFTER_S
    working_after_s: float = WORKING_AFTER_S
    hedge_after_s: float | None = HEDGE_AFTER_S
    hedge_stalled_after_s: float = HEDGE_STALLED_AFTER_S
    liveness_timeout_s: float | None = GEMINI_LIVENESS_TIMEOUT_S
    reply_silent_after_s: float | None = None
    unheard_after_s: float | None = UNHEARD_AFTER_S
    deaf_after_s: float = GEMINI_DEAF_AFTER_S
    speech_quiet_s: float = SPEECH_QUIET_S

    @property
    def hedge_notice_s(self) -> float | None:
        """Seconds that lie at least between what makes a hedge due and its time; None for none."""
        after_s = self.hedge_after_s
        return None if after_s is None else min(after_s, self.hedge_stalled_after_s)
