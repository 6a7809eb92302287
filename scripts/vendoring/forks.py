"""Many short Python programs without importing the same libraries for each.

A process imports what they have in common, and each program is run in a fork of it. The programs
cannot meet each other: what one imports or changes is gone with its process.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

__all__ = ["Done", "Forks"]

# Gets one program a line, and tells the fork's process id and how it ended, a line each, on a pipe
# of its own.
_PARENT = '''
import gc, importlib, json, os, sys, types

modules, answers_to = json.loads(sys.argv[1]), int(sys.argv[2])
gc.disable()
for name in modules:
    try:
        importlib.import_module(name)
    except Exception:
        pass  # whoever needs it is told the same
gc.collect()
gc.freeze()
gc.enable()

def run(asked):
    """The fork's own life, up to its program."""
    os.chdir(asked["cwd"])
    out = os.open(asked["out"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    err = os.open(asked["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, place in (nothing, 0), (out, 1), (err, 2):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["env"])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    front = asked["front"] + [os.path.abspath(p) for p in given if p]
    sys.path[:] = ["", *front, *(p for p in PATH if p not in front)]
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    sys.argv = asked["argv"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(asked["code"], "<string>", "exec"), main.__dict__)

PATH = [p for p in sys.path if p]
OWN = sys.modules["__main__"]
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        os.close(answers_to)
        os.setsid()
        run(asked)
        break
    os.write(answers_to, b"%d\\n" % child)
    _, status = os.waitpid(child, 0)
    os.write(answers_to, b"%d\\n" % os.waitstatus_to_exitcode(status))
'''


@dataclass(frozen=True)
class Done:
    """How a program ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


class Forks:
    """Runs programs, one at a time, each in a fork of a process that has imported `modules`.

    What cannot be imported is left out: a program that needs it is told so itself. The process
    starts with the first program. Close it, or use it with `with`.

    Args:
        modules: names of modules, in the order in which they are imported.
        python: the interpreter.
        path: what goes before its own packages on the path, for `modules` too.
    """

    def __init__(
        self,
        modules: Sequence[str],
        *,
        python: Path | str = sys.executable,
        path: Sequence[Path] = (),
    ) -> None:
        self._command = [str(python), "-c", _PARENT, json.dumps(list(modules))]
        self._path = [str(p) for p in path]
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        self._process: subprocess.Popen[str] | None = None
        self._answers = -1

    def __enter__(self) -> Forks:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; may be called twice."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
            os.close(self._answers)
        self._folder.cleanup()

    def run(
        self,
        code: str,
        arguments: Sequence[str] = (),
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        path: Sequence[Path] = (),
        timeout_s: float = 120.0,
    ) -> Done:
        """Run `code` as `python -c` does, and return how it ended.

        Args:
            code: the program.
            arguments: `sys.argv[1:]`.
            cwd: where it runs; by default where we do.
            env: its environment, PYTHONPATH included; by default ours.
            path: what goes before everything else on its path.
            timeout_s: seconds after which it is killed.

        Raises:
            subprocess.TimeoutExpired: it ran longer than `timeout_s`.
            RuntimeError: the process that is forked ended by itself.
        """
        out, err = (Path(self._folder.name) / name for name in ("out", "err"))
        self._ask(
            {
                "code": code,
                "argv": ["-c", *arguments],
                "cwd": str(cwd or Path.cwd()),
                "env": dict(os.environ if env is None else env),
                "front": [*map(str, path), *self._path],
                "out": str(out),
                "err": str(err),
            }
        )
        ends_at = time.monotonic() + timeout_s
        pid = self._answer(ends_at)
        assert pid is not None
        returncode = self._answer(ends_at)
        if returncode is None:
            os.killpg(pid, signal.SIGKILL)
            self._answer(math.inf)
            raise subprocess.TimeoutExpired(code, timeout_s)
        return Done(returncode, *(p.read_text("utf-8", errors="replace") for p in (out, err)))

    def _ask(self, program: Mapping[str, object]) -> None:
        if self._process is None:
            self._answers, theirs = os.pipe()
            # One thread only: what others hold is held for ever in a fork.
            alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            # macOS would end a fork of a process that has loaded its frameworks.
            alone["OBJC_DISABLE_INITIALIZE_FORK_SAFETY"] = "YES"
            path = os.pathsep.join(filter(None, [*self._path, os.environ.get("PYTHONPATH")]))
            self._process = subprocess.Popen(
                [*self._command, str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                pass_fds=[theirs],
                env={**os.environ, **alone, "PYTHONPATH": path},
            )
            os.close(theirs)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(program) + "\n")
        self._process.stdin.flush()

    def _answer(self, ends_at: float) -> int | None:
        """The next number that the process tells, or None where it is not told by then."""
        told = b""
        while not told.endswith(b"\n"):
            left_s = None if ends_at == math.inf else max(0.0, ends_at - time.monotonic())
            if not select.select([self._answers], [], [], left_s)[0]:
                return None
            if not (byte := os.read(self._answers, 1)):
                raise RuntimeError("the process that runs the programs has ended")
            told += byte
        return int(told)
