"""Each call runs once, whatever the server repeats; a cancelled one is not answered (R10)."""

from __future__ import annotations

from google.genai import types

from livekit.plugins.resilient.core.limits import REMEMBERED_CALLS
from livekit.plugins.resilient.google.tools import ToolCalls


def call(call_id: str | None = "1", name: str = "weather", **args: object) -> types.FunctionCall:
    return types.FunctionCall(id=call_id, name=name, args=args)


def response(call_id: str, text: str = "sunny") -> types.FunctionResponse:
    return types.FunctionResponse(id=call_id, name="weather", response={"output": text})


def run(
    calls: ToolCalls, *arriving: types.FunctionCall, connection: int = 1
) -> tuple[list[types.FunctionCall], list[str]]:
    """What is to run of a message, and which calls are to be answered again."""
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
    first, again = call(None), call(None)
    assert run(calls, first)[0] == [first]
    assert run(calls, again)[0] == [again]
    assert first.id != again.id
    assert calls.without_id == {first.id, again.id}


def test_a_call_without_id_that_a_drop_left_open_is_known_again() -> None:
    calls = ToolCalls()
    first = call(None)
    run(calls, first)
    assert run(calls, call(None), connection=2) == ([], [])
    assert first.id is not None
    assert calls.is_known(first.id, 2)
    calls.answered(first.id, response(first.id), 2)
    later = call(None)
    assert run(calls, later, connection=3)[0] == [later]


def test_a_resumed_session_knows_the_calls_that_its_handle_holds_open() -> None:
    calls = ToolCalls()
    run(calls, call("1"))
    held = calls.open_on(1)
    run(calls, call("2"))
    calls.resumed(2, held)
    assert [calls.is_known(call_id, 2) for call_id in ("1", "2", "3")] == [True, False, False]


def test_an_answered_call_is_not_open_for_sure() -> None:
    calls = ToolCalls()
    run(calls, call("1"), call("2"))
    calls.answered("1", response("1"), 1)
    assert calls.open_on(1) == ["2"]
    assert calls.open_on(2) == []


def test_a_call_that_is_forgotten_is_not_known_though_a_handle_holds_it_open() -> None:
    calls = ToolCalls()
    calls.resumed(2, ["1"])
    assert not calls.is_known("1", 2)


def test_an_id_that_is_used_again_for_another_call_runs() -> None:
    calls = ToolCalls()
    run(calls, call(city="Paris"))
    assert run(calls, call(city="Rome"), connection=2) == ([call(city="Rome")], [])


def test_an_answer_that_an_earlier_connection_took_is_given_again_once() -> None:
    calls = ToolCalls()
    run(calls, call())
    calls.answered("1", response("1"), 1)
    assert run(calls, call(), connection=1) == ([], [])
    assert run(calls, call(), connection=2) == ([], ["1"])
    assert calls.response_to("1") == response("1")
    calls.answered("1", response("1"), 2)
    assert run(calls, call(), connection=2) == ([], [])


def test_the_result_of_a_cancelled_call_is_not_wanted() -> None:
    calls = ToolCalls()
    run(calls, call("1"), call("2"))
    calls.cancel("1")
    calls.cancel("never heard of")
    assert calls.is_cancelled("1")
    assert not calls.is_cancelled("2")
    assert not calls.is_cancelled("never heard of")


def test_a_cancelled_call_that_is_made_again_runs_and_is_wanted() -> None:
    calls = ToolCalls()
    run(calls, call())
    calls.cancel("1")
    assert run(calls, call()) == ([call()], [])
    assert not calls.is_cancelled("1")


def test_only_the_newest_calls_are_remembered() -> None:
    calls = ToolCalls()
    for number in range(REMEMBERED_CALLS + 1):
        run(calls, call(str(number)))
    assert run(calls, call("1")) == ([], [])
    assert run(calls, call("0")) == ([call("0")], [])
