"""Each call runs once, whatever the server repeats; a cancelled one is not answered (R10)."""

from __future__ import annotations

from google.genai import types

from livekit.plugins.resilient.core.limits import REMEMBERED_CALLS
from livekit.plugins.resilient.google.tool_calls import ToolCalls


def call(call_id: str | None = "1", name: str = "weather", **args: object) -> types.FunctionCall:
    return types.FunctionCall(id=call_id, name=name, args=args)


def response(call_id: str, text: str = "sunny") -> types.FunctionResponse:
    return types.FunctionResponse(id=call_id, name="weather", response={"output": text})


def run(
    calls: ToolCalls, *arriving: types.FunctionCall, connection: int = 1
) -> tuple[list[types.FunctionCall], list[types.FunctionResponse]]:
    """What is to run of a message, and what is to be answered again."""
    message = types.LiveServerMessage(
        tool_call=types.LiveServerToolCall(function_calls=list(arriving))
    )
    lost = calls.strip(message, connection)
    return (message.tool_call.function_calls or [] if message.tool_call else []), lost


def test_a_repeated_call_does_not_run() -> None:
    calls = ToolCalls()
    assert run(calls, call(city="Paris")) == ([call(city="Paris")], [])
    assert run(calls, call(city="Paris")) == ([], [])
    assert run(calls, call(city="Paris"), connection=2) == ([], [])


def test_the_new_call_beside_a_repeated_one_runs() -> None:
    calls = ToolCalls()
    run(calls, call("1"))
    assert run(calls, call("1"), call("2")) == ([call("2")], [])


def test_a_message_without_a_repeated_call_is_left_alone() -> None:
    message = types.LiveServerMessage(server_content=types.LiveServerContent(turn_complete=True))
    assert ToolCalls().strip(message, 1) == []
    assert message.server_content is not None


def test_calls_without_id_all_run() -> None:
    calls = ToolCalls()
    run(calls, call(None))
    assert run(calls, call(None)) == ([call(None)], [])


def test_an_id_that_is_used_again_for_another_call_runs() -> None:
    calls = ToolCalls()
    run(calls, call(city="Paris"))
    assert run(calls, call(city="Rome"), connection=2) == ([call(city="Rome")], [])


def test_an_answer_that_an_earlier_connection_took_is_given_again_once() -> None:
    calls = ToolCalls()
    run(calls, call())
    calls.answered([response("1")], 1)
    assert run(calls, call(), connection=1) == ([], [])
    assert run(calls, call(), connection=2) == ([], [response("1")])
    calls.answered([response("1")], 2)
    assert run(calls, call(), connection=2) == ([], [])


def test_the_result_of_a_cancelled_call_is_not_wanted() -> None:
    calls = ToolCalls()
    run(calls, call("1"), call("2"))
    calls.cancel("1")
    calls.cancel("never heard of")
    assert calls.wanted([response("1"), response("2")]) == [response("2")]


def test_a_cancelled_call_that_is_made_again_runs_and_is_wanted() -> None:
    calls = ToolCalls()
    run(calls, call())
    calls.cancel("1")
    assert run(calls, call()) == ([call()], [])
    assert calls.wanted([response("1")]) == [response("1")]


def test_only_the_newest_calls_are_remembered() -> None:
    calls = ToolCalls()
    for number in range(REMEMBERED_CALLS + 1):
        run(calls, call(str(number)))
    assert run(calls, call("1")) == ([], [])
    assert run(calls, call("0")) == ([call("0")], [])
