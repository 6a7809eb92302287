"""Tool parameters keep their defaults on the way into the Gemini set-up frame (R20)."""

from __future__ import annotations

from typing import Any, Literal

from livekit.agents import function_tool, llm
from livekit.plugins.google.utils import create_tools_config
from pydantic import BaseModel

from livekit.plugins.resilient.google.tool_schema import restore_schema_details


class Address(BaseModel):
    street: str
    country: str = "NL"


@function_tool
async def order(
    item: str,
    address: Address,
    size: Literal["s", "m"] = "m",
    count: int = 1,
    gift: bool = False,
    note: str | None = "none given",
    tags: list[str] | None = None,
) -> str:
    """Place an order."""
    return item


@function_tool(
    raw_schema={
        "name": "search",
        "description": "Search.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "filter": {
                    "type": "object",
                    "properties": {"limit": {"type": "integer", "default": 5}},
                },
                "rows": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"unit": {"type": "string", "default": "kg"}},
                    },
                },
            },
        },
    }
)
async def search(raw_arguments: dict[str, object]) -> str:
    return ""


def parameters(tool: llm.Tool) -> dict[str, Any]:
    ctx = llm.ToolContext([tool])
    tools, _ = create_tools_config(ctx, use_parameters_json_schema=False)
    restore_schema_details(tools, ctx)
    declaration = (tools[0].function_declarations or [])[0]
    assert declaration.parameters is not None
    return declaration.parameters.model_dump(exclude_none=True)["properties"]  # type: ignore[no-any-return]


def test_upstream_alone_drops_them() -> None:
    tools, _ = create_tools_config(llm.ToolContext([order]), use_parameters_json_schema=False)
    declaration = (tools[0].function_declarations or [])[0]
    assert declaration.parameters is not None
    assert "default" not in str(declaration.parameters.model_dump(exclude_none=True))


def test_defaults_of_every_kind_are_kept() -> None:
    properties = parameters(order)
    assert properties["size"]["default"] == "m"
    assert properties["count"]["default"] == 1
    assert properties["gift"]["default"] is False
    assert properties["note"]["default"] == "none given"
    assert "default" not in properties["item"]
    assert "default" not in properties["tags"]


def test_defaults_behind_a_reference_are_kept() -> None:
    assert parameters(order)["address"]["properties"]["country"]["default"] == "NL"


def test_defaults_inside_raw_objects_and_arrays_are_kept() -> None:
    properties = parameters(search)
    assert properties["filter"]["properties"]["limit"]["default"] == 5
    assert properties["rows"]["items"]["properties"]["unit"]["default"] == "kg"


def test_other_tools_are_left_alone() -> None:
    restore_schema_details([object()], llm.ToolContext.empty())
