"""A phone agent on Gemini Live or OpenAI Realtime that survives dropped connections.

Set GOOGLE_API_KEY or OPENAI_API_KEY, then talk to it in the terminal:

    .venv/bin/python examples/agent.py console

(on Linux that needs the PortAudio library) or serve LiveKit rooms with LIVEKIT_URL,
LIVEKIT_API_KEY and LIVEKIT_API_SECRET set:

    .venv/bin/python examples/agent.py start

To see it survive, cut your network for a few seconds in the middle of a reply.
"""

from __future__ import annotations

import os
import sys

from livekit.agents import (
    Agent,
    AgentServer,
    AgentSession,
    JobContext,
    RunContext,
    cli,
    function_tool,
    llm,
)
from livekit.plugins import resilient

COMMANDS_THAT_CALL = {"console", "start", "dev", "connect"}

server = AgentServer()


def report(event: resilient.events.ResilienceEvent) -> None:
    print(f"[resilience] {event}", flush=True)


def choose_model() -> llm.RealtimeModel:
    options = resilient.ResilienceOptions(on_event=report)
    if os.environ.get("GOOGLE_API_KEY"):
        return resilient.google.realtime.RealtimeModel(voice="Puck", resilience=options)
    return resilient.openai.realtime.RealtimeModel(voice="marin", resilience=options)


class Receptionist(Agent):
    def __init__(self) -> None:
        super().__init__(
            instructions="You answer the phone for a parcel service. Be brief and friendly."
        )

    async def on_enter(self) -> None:
        self.session.generate_reply(instructions="Greet the caller and ask how you can help.")

    @function_tool
    async def parcel_status(self, context: RunContext[None], parcel_number: str) -> str:
        """Look up where a parcel is.

        Args:
            parcel_number: The number on the receipt.
        """
        return f"Parcel {parcel_number} is on the van and arrives before six."


@server.rtc_session()
async def entrypoint(ctx: JobContext) -> None:
    session = AgentSession[None](llm=choose_model())
    await session.start(agent=Receptionist(), room=ctx.room)


if __name__ == "__main__":
    has_key = os.environ.get("GOOGLE_API_KEY") or os.environ.get("OPENAI_API_KEY")
    if not has_key and COMMANDS_THAT_CALL & {*sys.argv} and "--help" not in sys.argv:
        raise SystemExit("Set GOOGLE_API_KEY or OPENAI_API_KEY to run this agent.")
    cli.run_app(server)
