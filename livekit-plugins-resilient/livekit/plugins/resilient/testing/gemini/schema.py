"""The fields that the Live API knows, for strict mode: a real server answers others with 1007.

A table maps a message's field to the table of its value; None means that the value is free-form
or scalar and is not looked into. A list is checked element by element.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Table = Mapping[str, Any]

_BLOB: Table = {"data": None, "mimeType": None, "displayName": None}
_FUNCTION_CALL: Table = {"id": None, "name": None, "args": None}
_FUNCTION_RESPONSE: Table = {
    "id": None,
    "name": None,
    "response": None,
    "scheduling": None,
    "willContinue": None,
    "parts": None,
}
_PART: Table = {
    "text": None,
    "thought": None,
    "thoughtSignature": None,
    "inlineData": _BLOB,
    "fileData": None,
    "functionCall": _FUNCTION_CALL,
    "functionResponse": _FUNCTION_RESPONSE,
    "executableCode": None,
    "codeExecutionResult": None,
    "videoMetadata": None,
    "mediaResolution": None,
}
_CONTENT: Table = {"role": None, "parts": _PART}

# `additionalProperties` is missing on purpose: the Live API refuses it (livekit/agents#5450).
SCHEMA: dict[str, Any] = dict.fromkeys(
    (
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "propertyOrdering",
        "default",
        "minimum",
        "maximum",
    )
)
SCHEMA["items"] = SCHEMA
SCHEMA["anyOf"] = SCHEMA

_FUNCTION_DECLARATION: Table = {
    "name": None,
    "description": None,
    "behavior": None,
    "parameters": SCHEMA,
    "parametersJsonSchema": None,
    "response": None,
    "responseJsonSchema": None,
}
_TOOL: Table = {
    "functionDeclarations": _FUNCTION_DECLARATION,
    "googleSearch": None,
    "googleSearchRetrieval": None,
    "codeExecution": None,
    "urlContext": None,
    "googleMaps": None,
    "enterpriseWebSearch": None,
    "retrieval": None,
    "fileSearch": None,
    "computerUse": None,
    "mcpServers": None,
}
_GENERATION_CONFIG: Table = dict.fromkeys(
    (
        "candidateCount",
        "maxOutputTokens",
        "temperature",
        "topP",
        "topK",
        "presencePenalty",
        "frequencyPenalty",
        "responseModalities",
        "seed",
        "enableAffectiveDialog",
        "mediaResolution",
        "translationConfig",
    )
) | {
    "thinkingConfig": {"includeThoughts": None, "thinkingBudget": None, "thinkingLevel": None},
    "speechConfig": {
        "voiceConfig": {
            "prebuiltVoiceConfig": {"voiceName": None},
            "replicatedVoiceConfig": None,
        },
        "multiSpeakerVoiceConfig": None,
        "languageCode": None,
    },
}
_SETUP: Table = {
    "model": None,
    "generationConfig": _GENERATION_CONFIG,
    "systemInstruction": _CONTENT,
    "tools": _TOOL,
    "sessionResumption": {"handle": None, "transparent": None},
    "inputAudioTranscription": None,
    "outputAudioTranscription": None,
    "realtimeInputConfig": {
        "automaticActivityDetection": {
            "disabled": None,
            "startOfSpeechSensitivity": None,
            "endOfSpeechSensitivity": None,
            "prefixPaddingMs": None,
            "silenceDurationMs": None,
        },
        "activityHandling": None,
        "turnCoverage": None,
    },
    "contextWindowCompression": {"triggerTokens": None, "slidingWindow": {"targetTokens": None}},
    "proactivity": {"proactiveAudio": None},
    "historyConfig": {"initialHistoryInClientContent": None},
    "explicitVadSignal": None,
    "avatarConfig": None,
    "safetySettings": None,
    "labels": None,
    "toolConfig": None,
}
CLIENT_MESSAGE: Table = {
    "setup": _SETUP,
    "clientContent": {"turns": _CONTENT, "turnComplete": None},
    "realtimeInput": {
        "audio": _BLOB,
        "video": _BLOB,
        "text": None,
        "mediaChunks": _BLOB,
        "activityStart": {},
        "activityEnd": {},
        "audioStreamEnd": None,
    },
    "toolResponse": {"functionResponses": _FUNCTION_RESPONSE},
    "contextUpdate": {"systemInstruction": _CONTENT, "tools": {"tools": _TOOL}},
}


def unknown_field(message: Mapping[str, Any], table: Table = CLIENT_MESSAGE) -> str | None:
    """The dotted path of the first field that the API does not know, or None."""
    for name, value in message.items():
        if name == "properties" and table is SCHEMA:
            # Below are the tool's own parameter names, each with a schema.
            for parameter, schema in value.items():
                found = unknown_field(schema, SCHEMA)
                if found is not None:
                    return f"properties.{parameter}.{found}"
            continue
        if name not in table:
            return name
        below = table[name]
        if below is None:
            continue
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, Mapping):
                found = unknown_field(element, below)
                if found is not None:
                    return f"{name}.{found}"
    return None
