"""What the endpoints that speak OpenAI Realtime do differently, as recorded sessions show it.

`tests/conformance/openai.toml` names the recording for each. What no recording shows is said to be
assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from livekit.plugins.resilient.testing.errors import check_choice

DialectName = Literal[
    "gpt-realtime", "gpt-realtime-2.1", "azure", "azure-legacy", "azure-voice-live", "xai"
]


@dataclass(frozen=True)
class Dialect:
    """How one endpoint speaks.

    Attributes:
        name: what users call it.
        model: a model's name that clients ask it for.
        voice: the voice of a fresh session.
        silence_ms: quiet that ends an utterance, where the client names none.
        legacy: whether events and settings have the names of before the API's general release.
        shape: what messages look like; see `shapes`.
        ids: form of ids: a prefix and 21 characters, or UUIDs.
        rate_limits: whether `rate_limits.updated` follows `response.done`.
        obfuscated: whether deltas of text are padded to 16 characters.
        phases: whether messages of the model say whether they are the final answer.
        interleaves: whether a call begins before the message before it has ended.
        item_done: which items get a `conversation.item.done`: all, those that were heard, or none.
        sound_ends_last: whether `response.output_audio.done` comes after the part's end.
        words_follow: whether the words of the transcript come after their audio, not ahead of it.
        item_at_start: whether the item of an utterance is there when it begins, not when it ends.
        always_speaks: whether text as the only modality is not heeded.
        greets: whether `conversation.created` and a `ping` come unasked.
        whole_arguments: whether a call's arguments come in one delta.
    """

    name: DialectName
    model: str = "gpt-realtime"
    voice: str = "alloy"
    silence_ms: int = 200
    legacy: bool = False
    shape: Literal["openai", "azure", "azure-legacy", "azure-voice-live", "xai"] = "openai"
    ids: Literal["prefixed", "uuid"] = "prefixed"
    rate_limits: bool = True
    obfuscated: bool = True
    phases: bool = False
    interleaves: bool = False
    item_done: Literal["all", "heard", "none"] = "all"
    sound_ends_last: bool = False
    words_follow: bool = False
    item_at_start: bool = False
    always_speaks: bool = False
    greets: bool = False
    whole_arguments: bool = False


GPT_REALTIME = Dialect("gpt-realtime")
GPT_REALTIME_2_1 = Dialect(
    "gpt-realtime-2.1",
    model="gpt-realtime-2.1",
    voice="marin",
    silence_ms=500,
    phases=True,
    interleaves=True,
)
AZURE = Dialect("azure", shape="azure", rate_limits=False)
AZURE_LEGACY = Dialect(  # assumed: Azure's documents of its preview API; nobody recorded it
    "azure-legacy",
    legacy=True,
    shape="azure-legacy",
    silence_ms=500,
    rate_limits=False,
    obfuscated=False,
    item_done="none",
)
AZURE_VOICE_LIVE = replace(
    AZURE_LEGACY,
    name="azure-voice-live",
    model="gpt-realtime-global-standard",
    shape="azure-voice-live",
    item_done="heard",
)
XAI = Dialect(
    "xai",
    model="grok-voice-latest",
    voice="ara",
    shape="xai",
    ids="uuid",
    rate_limits=False,
    obfuscated=False,
    item_done="none",
    sound_ends_last=True,
    words_follow=True,
    item_at_start=True,
    always_speaks=True,
    greets=True,
    whole_arguments=True,
)

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (GPT_REALTIME, GPT_REALTIME_2_1, AZURE, AZURE_LEGACY, AZURE_VOICE_LIVE, XAI)
}


def dialect_named(name: str) -> Dialect | None:
    """The dialect of a name; None for "auto".

    Raises:
        SettingError: no such dialect; the message names the known ones.
    """
    check_choice("dialect", name, ["auto", *DIALECTS])
    return DIALECTS.get(name)


def dialect_of(request_path: str) -> Dialect:
    """Which dialect a client means that dials this path."""
    parts = urlsplit(request_path)
    query = parse_qs(parts.query)
    model = (query.get("model") or [""])[0].rpartition("/")[2]
    if "api-version" in query:
        return AZURE_LEGACY
    if parts.path.startswith("/openai/"):
        return AZURE
    if model.startswith("grok"):
        return XAI
    return GPT_REALTIME_2_1 if model.startswith("gpt-realtime-2") else GPT_REALTIME
