"""Whatever is written wrongly is refused where it is written, with the name and what is allowed."""

from __future__ import annotations

import socket
import struct
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livekit.plugins.resilient.testing import audio, script
from livekit.plugins.resilient.testing import faults as vocabulary
from livekit.plugins.resilient.testing.errors import (
    AudioFileError,
    FaultPlanError,
    PortInUseError,
    ScriptError,
    SettingError,
    TestBedError,
)
from livekit.plugins.resilient.testing.fault_plan import load_plan, parse_plan
from livekit.plugins.resilient.testing.gemini import GeminiLiveServer, GeminiTimes
from livekit.plugins.resilient.testing.openai import Incomplete, OpenAIRealtimeServer, OpenAITimes
from vendoring.forks import Forks

# The declared types would stop most of this as well: here they are put aside.
faults: Any = vocabulary
Fault: Any = vocabulary.Fault
Reply: Any = script.Reply
ToolCall: Any = script.ToolCall
ToolCalls: Any = script.ToolCalls

ABORT = faults.Abort()
STOPS = faults.UserStops()

# Faults in Python ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Fault("at_noon", ABORT), "unknown trigger 'at_noon'; known: After, AtAudio, AtT"),
        (lambda: Fault(ABORT, ABORT), "unknown trigger 'Abort'; known: After, AtAudio"),
        (lambda: Fault(faults.UserStops, ABORT), "trigger 'the class UserStops'; known: After"),
        (lambda: Fault(STOPS, "explode"), "unknown action 'explode'; known: Abort, Blackhole"),
        (lambda: Fault(STOPS, (ABORT, STOPS)), "unknown action 'UserStops'; known: Abort"),
        (lambda: Fault(STOPS, faults.Abort), "unknown action 'the class Abort'; known: Abort"),
        (lambda: Fault(STOPS, ()), "a fault needs at least one action"),
        (lambda: Fault(STOPS, ABORT, times="ever"), 'whole number from 1, or "always", not \'ever'),
        (lambda: Fault(STOPS, ABORT, times=0), "times must be a whole number from 1"),
        (lambda: Fault(STOPS, ABORT, times=True), "times must be a whole number from 1"),
        (lambda: faults.OnConnection(0), "OnConnection.connection counts from 1: 0"),
        (lambda: faults.OnConnection("2"), "must be a whole number or None, not '2'"),
        (lambda: faults.UserStops(nth=1.5), "UserStops.nth must be a whole number, not 1.5"),
        (lambda: faults.AtAudio(-1), "AtAudio.position_s must not be negative: -1"),
        (lambda: faults.AtTime(float("nan")), "AtTime.after_s must be a finite number, not nan"),
        (lambda: faults.Before(None), "Before.event must be a string, not None"),
        (lambda: faults.Delay(-0.1), "Delay.seconds must not be negative"),
        (lambda: faults.Silence("long"), "Silence.duration_s must be a finite number or None"),
        (lambda: faults.EmptyTurns(-1), "EmptyTurns.count must not be negative"),
        (lambda: faults.Flap(drops=0), "Flap.drops counts from 1: 0"),
        (lambda: faults.StaleHandle("now"), "when must be one of 'before_setup', 'after_setup'"),
        (lambda: faults.FailResponse("boom"), "kind must be one of 'server_error', 'rate_limit'"),
        (lambda: faults.Send("{}"), "Send.message must be a table, not '{}'"),
        (lambda: faults.Refuse(200), "status must be an HTTP error from 300 to 599: 200"),
        (lambda: faults.Refuse("503"), "Refuse.status must be a whole number, not '503'"),
        (lambda: faults.GoAway(code=1006), "close code 1006 cannot be sent; allowed are 1000-1003"),
        (lambda: faults.PoisonHandle(code=99), "close code 99 cannot be sent"),
        (lambda: faults.Close(reason="x" * 124), "a close reason holds at most 123 bytes"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(FaultPlanError, match=message):
        build()


@pytest.mark.parametrize("server", [GeminiLiveServer, OpenAIRealtimeServer])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Fault(STOPS, ABORT), "faults must be a list of Fault, not Fault"),
        ("[[fault]]", r"faults must be a list of Fault, not str \(parse_plan reads TOML\)"),
        ([ABORT], "a fault must be of type Fault, not Abort"),
        ([Fault(faults.Before("turnEnded"), ABORT)], "unknown .* server event 'turnEnded'; known:"),
        ([Fault(faults.Received("setUp"), ABORT)], "unknown .* client message 'setUp'; known: "),
    ],
)
def test_a_server_refuses_what_is_no_fault_of_its_own(
    server: Callable[..., object], given: Any, message: str
) -> None:
    with pytest.raises(FaultPlanError, match=message):
        server(faults=given)


async def test_faults_that_are_added_later_are_checked_too() -> None:
    async with OpenAIRealtimeServer() as server:
        with pytest.raises(FaultPlanError, match="OpenAI Realtime server event 'turnComplete'"):
            server.inject(Fault(faults.Before("turnComplete"), ABORT))
        with pytest.raises(LookupError, match="no connection None; open so far: "):
            await server.do(ABORT)


# Faults in TOML --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("fault = 1", r"write each fault as a \[\[fault\]\] table"),
        ("[[fault]]\ntrigger = 1\naction = 'abort'", "trigger must be a name or a table with a"),
        ("[[fault]]\ntrigger = 'user_stops'\naction = []", "fault 1: a fault needs at least one"),
        (
            "[[fault]]\ntrigger = 'user_stops'\naction = 'abort'\n"
            "[[fault]]\ntrigger = 'user_stops'\naction = 'abort'\nwhen = 1",
            "fault 2: unknown key 'when'; known: action, times, trigger",
        ),
        (
            "[[fault]]\ntrigger = 'user_stops'\naction = { name = 'silence', duration_s = -1 }",
            "fault 1: Silence.duration_s must not be negative: -1",
        ),
        (
            "[[fault]]\ntrigger = { name = 'at_audio', position_s = inf }\naction = 'abort'",
            "fault 1: at_audio.position_s must be a finite number, not inf",
        ),
        (
            "[[fault]]\ntrigger = { name = 'on_connection', connection = true }\naction = 'abort'",
            "fault 1: on_connection.connection must be a whole number or None, not True",
        ),
        (
            "[[fault]]\ntrigger = 'user_stops'\naction = 'swallow'",
            "fault 1: Swallow needs the trigger Before, not UserStops",
        ),
    ],
)
def test_a_plan_that_cannot_be_names_the_fault(plan: str, message: str) -> None:
    with pytest.raises(FaultPlanError, match=message):
        parse_plan(plan)


def test_a_plan_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FaultPlanError, match=r"cannot read the fault plan 'no\.toml': No such"):
        load_plan(tmp_path / "no.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9\n")
    with pytest.raises(FaultPlanError, match=r"the fault plan 'latin\.toml' is not UTF-8"):
        load_plan(tmp_path / "latin.toml")


# Servers and scripts ---------------------------------------------------------------------------


@pytest.mark.parametrize("server", [GeminiLiveServer, OpenAIRealtimeServer])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"replies": "Hello."}, ScriptError, "replies must be a list of turns, not one str"),
        ({"replies": Reply("Hi.")}, ScriptError, "replies must be a list of turns, not one Reply"),
        ({"replies": ["Hi.", 5]}, ScriptError, r"replies\[1\] must be str, Reply, .* not int"),
        ({"replies": [Reply]}, ScriptError, r"replies\[0\] is the class Reply"),
        ({"default_reply": None}, ScriptError, "default_reply must be str, Reply, .* not NoneType"),
        ({"pace": 0}, SettingError, "pace must be a finite number above 0, not 0"),
        ({"pace": "fast"}, SettingError, "pace must be one of 'realtime', 'times', not 'fast'"),
        ({"times": "slow"}, SettingError, "times must be one of 'recorded', 'instant', not 'slow'"),
        ({"times": 1.0}, SettingError, "times must be a name or (Gemini|OpenAI)Times, not float"),
        ({"port": 70_000}, SettingError, "port must be a whole number from 0 to 65535, not 70000"),
        ({"port": "80"}, SettingError, "port must be a whole number from 0 to 65535, not '80'"),
        ({"clock": 60}, SettingError, "clock must be of type Clock, not int"),
        ({"transcript_lead_s": float("nan")}, SettingError, "transcript_lead_s must be a finite"),
    ],
)
def test_an_argument_that_cannot_be_is_named(
    server: Callable[..., object], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        server(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "4"}, "unknown family '4'; known: 2.5, 3.1, 3.1-release, 3.8"),
        ({"stale_handle": "later"}, "stale_handle must be one of 'before_setup', 'after_setup'"),
        ({"silence_s": 0}, "silence_s must be a finite number above 0"),
        ({"go_away_notice_s": -1}, "go_away_notice_s must be a finite number from 0, not -1"),
        ({"connection_limit_s": "none"}, "connection_limit_s must be one of 'family', not 'none'"),
        ({"session_limit_s": 0}, "session_limit_s must be a finite number above 0, not 0"),
        ({"context_limit_tokens": 0}, "context_limit_tokens must be a finite number from 1"),
    ],
)
def test_an_argument_of_gemini_that_cannot_be_is_named(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GeminiLiveServer(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event_names": "old"}, "event_names must be one of 'auto', 'current', 'legacy', not 'o"),
        ({"session_cap_s": 0}, "session_cap_s must be a finite number above 0, not 0"),
        ({"transcription_delay_s": -1}, "transcription_delay_s must be a finite number from 0"),
    ],
)
def test_an_argument_of_openai_that_cannot_be_is_named(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        OpenAIRealtimeServer(**options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GeminiTimes(set_up_s=-1), "set_up_s must be a finite number from 0, not -1"),
        (lambda: GeminiTimes(pace=0), "pace must be a finite number above 0, not 0"),
        (lambda: OpenAITimes(words_pace=0), "words_pace must be a finite number above 0"),
    ],
)
def test_times_that_cannot_be_are_named(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Reply(5), "Reply.text must be a string, not int"),
        (lambda: Reply("x", 0), "characters_per_second must be a finite number above 0, not 0"),
        (lambda: Reply("x", first_token_s=-1), "first_token_s must be a finite number from 0"),
        (lambda: Reply("x", pause_at_s=-1), "pause_at_s must be a finite number from 0, not -1"),
        (lambda: Reply("x", pause_s="1"), "pause_s must be a finite number from 0, not '1'"),
        (lambda: Reply("x", transcript_lead_s="1"), "transcript_lead_s must be a finite number"),
        (lambda: ToolCall(""), "ToolCall.name must not be empty"),
        (lambda: ToolCall("look", {"at": object()}), "ToolCall.args must be a mapping of JSON"),
        (lambda: ToolCall("look", "sky"), "ToolCall.args must be a mapping of JSON values"),
        (lambda: ToolCalls(("look",)), "ToolCalls must hold ToolCall, not str"),
        (lambda: Incomplete("x", stop_at_s=-1), "stop_at_s must be a finite number from 0"),
    ],
)
def test_a_turn_that_cannot_be_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        build()


@pytest.mark.parametrize("server", [GeminiLiveServer, OpenAIRealtimeServer])
async def test_a_port_in_use_is_named(server: Callable[..., Any]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"port {port} on 127\.0\.0\.1 is in use; port=0"):
            await server(port=port).start()


# Audio -----------------------------------------------------------------------------------------


def write_wav(path: Path, *, width: int = 2, seconds: float = 0.1) -> Path:
    with wave.open(str(path), "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(width)
        writer.setframerate(8_000)
        writer.writeframes(bytes(width * round(8_000 * seconds)))
    return path


def test_a_wav_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    for width in (1, 3, 4):
        path = write_wav(tmp_path / f"{width}.wav", width=width)
        with pytest.raises(AudioFileError, match=f"{8 * width}-bit samples; only 16-bit PCM"):
            audio.load_wav(path)
    form = struct.pack("<HHIIHH", 3, 1, 8_000, 32_000, 4, 32)  # 3 is IEEE float
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", 0)
    path = tmp_path / "float.wav"
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    with pytest.raises(AudioFileError, match=r"'float\.wav' is not a WAV file of 16-bit PCM"):
        audio.load_wav(path)


def test_a_wav_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=f"{tmp_path.name}' cannot be read: Is a directory"):
        audio.load_wav(tmp_path)
    cut = tmp_path / "cut.wav"
    cut.write_bytes(write_wav(tmp_path / "whole.wav").read_bytes()[:20])
    with pytest.raises(AudioFileError, match=r"'cut\.wav' is not a WAV file of 16-bit PCM"):
        audio.load_wav(cut)
    with pytest.raises(ValueError, match="rate must be a positive number of samples per second"):
        audio.load_wav(tmp_path / "whole.wav", 0)


def test_a_wav_file_without_sound_is_silence(tmp_path: Path) -> None:
    assert audio.load_wav(write_wav(tmp_path / "empty.wav", seconds=0)) == b""


# Libraries -------------------------------------------------------------------------------------

TOML = "tomllib" if sys.version_info >= (3, 11) else "tomli"
USES = {  # in this order: the server's module must not be loaded before it is missed
    "websockets": "testing.OpenAIRealtimeServer",
    "websockets.asyncio": "testing.OpenAIRealtimeServer",
    TOML: "testing.parse_plan('')",
}
WITHOUT = """
import sys
import livekit.plugins.resilient
from livekit.plugins.resilient import testing
for absent in sys.argv[1:]:
    for name in [n for n in sys.modules if n == absent or n.startswith(absent + ".")]:
        del sys.modules[name]
    sys.modules[absent] = None
    try:
        exec({uses!r}[absent])
    except testing.MissingDependencyError as exc:
        print(exc)
    del sys.modules[absent]
"""


def test_a_missing_library_is_named_with_the_command(forks: Forks) -> None:
    code = WITHOUT.format(uses=USES)
    done = forks.run(code, list(USES))
    told = done.stdout.splitlines()
    assert len(told) == 3, done.stderr
    assert all("pip install livekit-plugins-resilient[testing]" in line for line in told)
    assert told[0].startswith("livekit.plugins.resilient.testing.OpenAIRealtimeServer needs the")
    assert "needs the library 'websockets'" in told[1]
    assert f"Reading a fault plan from TOML needs the library {TOML!r}" in told[2]


def test_every_error_of_the_test_bed_has_one_root() -> None:
    for error in (AudioFileError, FaultPlanError, PortInUseError, ScriptError, SettingError):
        assert issubclass(error, TestBedError)
