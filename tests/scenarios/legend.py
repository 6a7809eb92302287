"""What the codes of kinds and rules stand for."""

from __future__ import annotations

KINDS = {
    "K1": "a drop that is not noticed, or never recovered from",
    "K2": "session caps and GoAway",
    "K3": "retries and error reporting",
    "K4": "resumption handles",
    "K5": "context told twice, lost or malformed",
    "K6": "tool results that never reach the model",
    "K7": "tool calls repeated, cancelled or in parallel",
    "K8": "replies that never end, or never begin",
    "K9": "reply requests that time out, come late or collide",
    "K10": "a record of words that nobody heard",
    "K11": "microphone audio that is stale or lost",
    "K12": "rules of the model families",
    "K13": "hanging up, leaks, growth",
}
"""Kinds of reports that the faults come from."""

RULES = {
    "R1": "Whatever closes a connection is a drop, and the reply that it cuts is over with its "
    "last audio.",
    "R2": "Dials are bounded and tried again with growing waits, within a budget that only "
    "progress restores; then there is one final error.",
    "R3": "What cannot succeed is not tried again; what was refused is left out of the next try; "
    "an error that means nothing is ignored.",
    "R4": "A recoverable error is told just before the redial, so that the application can act on "
    "it.",
    "R5": "The newest good resumption handle is the one that is used.",
    "R6": "A resumed session is told what its handle does not stand for, each item once.",
    "R7": "A refused handle is forgotten: a fresh session is told the conversation once, and "
    "nobody greets again.",
    "R8": "GoAway is a deadline: the turn is finished first, and the next connection dialled "
    "beside the old one.",
    "R9": "A tool's result reaches the model exactly once, and no call is left open.",
    "R10": "A call that comes twice runs the tool once; a call that is taken back is stopped.",
    "R11": "A reply that was asked for around an outage is spoken once, and does not fail as well.",
    "R12": "After a reconnect the model is asked once for what is owed, and for nothing else.",
    "R13": "A reply that does not begin, stops or never ends holds nobody up.",
    "R14": "The record and the model know the words that the caller heard, and no others.",
    "R15": "What the caller says during an outage is kept within a bound and sent once.",
    "R16": "A session is renewed before the provider's cap, between two turns.",
    "R17": "A dead connection is noticed, and one that is only slow is kept.",
    "R18": "What comes late is neither taken for something new nor spoken twice.",
    "R19": "A message that nobody understands is skipped.",
    "R20": "The set-up asks for resumption and compression, and declares the defaults of tools.",
    "R21": "Hanging up takes at most a second, and nothing is dialled after it.",
    "R22": "Drops leave nothing behind, however many there are.",
    "R24": "A reply that does not come is asked of a second connection beside, unheard.",
}
"""What the product keeps to; `Scenario.rule` names the one that a scenario tests."""
