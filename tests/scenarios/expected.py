"""What the catalogue must hold at least."""

from __future__ import annotations

from .registry import ProviderName

LEAST: dict[ProviderName, int] = {
    "gemini": 25,
    "openai": 20,
}
"""Scenarios per provider."""

NOT_APPLICABLE: dict[ProviderName, frozenset[str]] = {
    # GoAway, not age, renews a Gemini connection.
    "gemini": frozenset({"R16"}),
    # Handles, GoAway and the set-up frame are Gemini's.
    "openai": frozenset({"R5", "R6", "R7", "R8", "R20", "K4", "K12"}),
}
"""Rules and kinds that a provider has no scenario for, because it lacks what they are about."""
