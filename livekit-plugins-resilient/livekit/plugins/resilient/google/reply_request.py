"""The message by which Gemini is asked for a reply, in the form its model family takes."""

from __future__ import annotations

from google.genai import types

from .engine import inline_instructions, needs_placeholder

__all__ = ["reply_request"]


def reply_request(model: str, instructions: str) -> types.LiveClientContent:
    """Ask `model` for a reply by `instructions`.

    2.x takes instructions as its own turn and needs a user turn to answer; later families would
    continue a turn of their own aloud, so they get the instructions marked up in a user turn.
    """
    if needs_placeholder(model):
        turns = [_turn("model", instructions), _turn("user", ".")]
    else:
        text = inline_instructions(instructions)
        turns = [_turn("user", text)]
    return types.LiveClientContent(turns=turns, turn_complete=True)


def _turn(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])
