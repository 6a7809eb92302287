"""Restores what upstream's Gemini schema conversion drops from tool parameters (R20).

Upstream strips `default` from every parameter, so the model asks for values that have one, or
leaves out what the tool then rejects (livekit/agents#7189).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.genai import types
from livekit.agents import llm

__all__ = ["restore_schema_details"]


def restore_schema_details(tools: Sequence[object], tool_ctx: llm.ToolContext) -> None:
    """Put the defaults of `tool_ctx`'s functions back into the declarations in `tools`.

    Changes the declarations in place. Declarations without a counterpart are left alone.
    """
    for tool in tools:
        if not isinstance(tool, types.Tool):
            continue
        for declaration in tool.function_declarations or []:
            source = _json_schema(tool_ctx.function_tools.get(declaration.name or ""))
            if source is not None and declaration.parameters is not None:
                _restore(declaration.parameters, source, source.get("$defs", {}), depth=0)


def _json_schema(tool: object) -> Mapping[str, Any] | None:
    if isinstance(tool, llm.RawFunctionTool):
        parameters = tool.info.raw_schema.get("parameters")
    elif isinstance(tool, llm.FunctionTool):
        parameters = llm.utils.build_legacy_openai_schema(tool, internally_tagged=True).get(
            "parameters"
        )
    else:
        return None
    return parameters if isinstance(parameters, Mapping) else None


# Upstream refuses recursive schemas; the bound only keeps a malformed one from recursing here.
_MAX_DEPTH = 32


def _restore(
    target: types.Schema, source: Mapping[str, Any], defs: Mapping[str, Any], depth: int
) -> None:
    if depth > _MAX_DEPTH:
        return
    if source.get("default") is not None:
        target.default = source["default"]
    shape = _resolve(source, defs)
    for name, child in (target.properties or {}).items():
        if isinstance(original := (shape.get("properties") or {}).get(name), Mapping):
            _restore(child, original, defs, depth + 1)
    if target.items is not None and isinstance(shape.get("items"), Mapping):
        _restore(target.items, shape["items"], defs, depth + 1)


def _resolve(source: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that gives `source` its shape: through `$ref`, and through `X | None`."""
    if isinstance(ref := source.get("$ref"), str):
        found = defs.get(ref.removeprefix("#/$defs/"))
        return _resolve(found, defs) if isinstance(found, Mapping) else source
    options = [o for o in source.get("anyOf") or [] if o.get("type") != "null"]
    return _resolve(options[0], defs) if len(options) == 1 else source
