"""How long a caller waits for a reply that is late: with upstream's models, and with ours without
and with the answer hedge (R24). `scripts/bench.sh hedging` writes the table of docs/turns.md."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benching import markdown_table, with_table  # noqa: E402

from livekit.plugins.resilient import ResilienceOptions  # noqa: E402
from livekit.plugins.resilient.testing import (  # noqa: E402
    AtAudio,
    Before,
    Fault,
    Reply,
    Silence,
    TurnRequest,
    virtual_time,
)
from livekit.plugins.resilient.testing.errors import ServerTimeoutError  # noqa: E402
from tests.scenarios.call_script import CallScript, ProviderName  # noqa: E402
from tests.scenarios.play import staged  # noqa: E402
from tests.scenarios.stage import Stage, Which  # noqa: E402

LIMIT_S = 90.0
"""Seconds after which a caller is taken to have gone."""
HANG_LIMIT_S = 120.0
"""Real seconds that one run may take."""

ANSWER = Reply("Your parcel will be with you before six tonight.")
STORY = Reply(
    "Your parcel left the depot this morning and is on its way to you just now, they say."
)
CUT_S = 2.0
MARKS = ("<!-- hedging: written by scripts/bench.sh hedging -->", "<!-- /hedging -->")

MODELS: dict[str, tuple[Which, ResilienceOptions | None]] = {
    "upstream": ("upstream", None),
    "ours, `hedge_after_s=None`": ("ours", ResilienceOptions(hedge_after_s=None)),
    "ours": ("ours", None),
}


async def _question(stage: Stage[Any]) -> float:
    """From the end of the caller's words to the answer."""
    stage.server.user_says("where is my parcel")
    said = await stage.call.say(1.0)
    assert said.ended_at is not None
    return await _heard_after(stage, said.ended_at) - said.ended_at


async def _stop(stage: Stage[Any]) -> float:
    """From the last sound of a reply that stopped to its going on."""
    await stage.call.generate_reply(instructions="Tell the caller.", wait=False)
    await stage.call.wait_heard(CUT_S - 0.1)
    stopped_at = stage.call.heard.spans()[-1].end
    return await _heard_after(stage, stopped_at + 0.5) - stopped_at


async def _heard_after(stage: Stage[Any], at: float) -> float:
    def first() -> float | None:
        return stage.call.heard.first_audio_after(at)

    return await stage.call.until(first, timeout_s=LIMIT_S, what="the agent's voice")


SITUATIONS: dict[str, tuple[Callable[[Stage[Any]], Any], dict[ProviderName, Fault]]] = {
    "an answer never begins": (
        _question,
        {
            "gemini": Fault(Before("outputTranscription", connection=1), Silence()),
            "openai": Fault(Before("response.output_item.added", connection=1), Silence()),
        },
    ),
    "a reply stops in the middle": (
        _stop,
        {
            "gemini": Fault(AtAudio(CUT_S, connection=1), Silence()),
            "openai": Fault(AtAudio(CUT_S, connection=1), Silence()),
        },
    ),
}


def _says(request: TurnRequest) -> Reply:
    first = request.connection == 1 and request.reason == "request"
    return STORY if first else ANSWER


async def _wait(provider: ProviderName, situation: str, model: str) -> float | None:
    run, faults = SITUATIONS[situation]
    server: dict[str, Any] = {"default_reply": _says}
    if provider == "openai":
        server |= {"pace": "realtime", "transcription_delay_s": 0.05}
    script = CallScript(
        name="a-late-reply",
        provider=provider,
        run=run,
        promise="The caller waits.",
        faults=(faults[provider],),
        server=server,
    )
    which, options = MODELS[model]
    async with staged(script, which, faults=True, resilience=options) as stage:
        with contextlib.suppress(ServerTimeoutError):
            async with stage.call:
                return float(await run(stage))
    return None


def _table() -> str:
    lines = [["provider, what happens", *MODELS]]
    for situation, (_, faults) in SITUATIONS.items():
        for provider in faults:
            waits = [
                virtual_time.run(_wait(provider, situation, model), run_limit_s=HANG_LIMIT_S)
                for model in MODELS
            ]
            shown = [f"over {LIMIT_S:.0f} s" if s is None else f"{s:.1f} s" for s in waits]
            lines.append([f"{provider}: {situation}", *shown])
    return "\n".join(markdown_table(lines))


def main() -> int:
    table = _table()
    print(table)
    page = ROOT / "docs" / "turns.md"
    page.write_text(with_table(page.read_text("utf-8"), MARKS, table), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
