"""Every private name of others that our package uses is declared, and every declaration is used."""

from __future__ import annotations

import ast
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest

from tests.vendoring.private_names import Package
from tests.vendoring.type_inference import World
from vendoring import ensure
from vendoring.layout import PACKAGE, VENDOR_PACKAGE, Layout
from vendoring.overrides import load_all_overrides
from vendoring.relies import Relied, load_all_relied
from vendoring.targets import load_targets

# Whose objects may come to us as values of unknown type.
OTHERS = (
    "aiohttp",
    "google.genai",
    "livekit.agents",
    "livekit.plugins.google",
    "livekit.plugins.openai",
    "livekit.rtc",
    "websockets",
)

# Uses on values of unknown type that are no private name of a package.
EXCEPTIONS = {
    ("hooks.py", "_given_duration"): "hooks.py itself puts it on the model, and reads it back",
    ("openai/websocket.py", "_replace"): "a named tuple's, and public in spite of its name",
    ("testing/recording.py", "_replace"): "a named tuple's, and public in spite of its name",
    ("testing/virtual_time.py", "_context"): "the standard library's, whose loop is driven there",
    ("testing/virtual_time.py", "_run"): "the standard library's, whose loop is driven there",
    ("testing/wire.py", "_ssl_protocol"): "the standard library's TLS transport",
    ("testing/wire.py", "_transport"): "the standard library's TLS transport",
}


def test_declarations_and_uses_agree() -> None:
    layout = Layout.here()
    ensure(layout)
    targets = {t.module: t.name for t in load_targets(layout.targets).targets}
    relied = load_all_relied(layout.patches)
    overridden = {
        f"{o.target}:{o.class_name}.{o.method}" for o in load_all_overrides(layout.patches)
    }
    package = Package(World.around(layout.project), layout.package, PACKAGE, VENDOR_PACKAGE, OTHERS)
    used_by: dict[str, set[str]] = defaultdict(set)
    undeclared, excepted = [], set()
    for use in package.uses():
        module, _, name = use.id.partition(":")
        id_ = f"{targets.get(module, module)}:{name}"
        if use.owner:
            if id_ not in overridden:
                used_by[id_].add(use.file)
        elif (use.file, use.name) in EXCEPTIONS:
            excepted.add((use.file, use.name))
        elif found := _meant(relied, use.file, use.name):
            for item in found:
                used_by[item.id].add(use.file)
        else:
            undeclared.append(str(use))
    for item in relied:
        if not item.name.rpartition(".")[2].startswith("_"):
            used_by[item.id] |= {file for file in item.read_by if _names(layout, file, item)}
    declared = {r.id: set(r.read_by) for r in relied}
    assert undeclared == [], (
        "whose are they? Declare them in patches/relies-on.toml, or say why not"
    )
    assert sorted(used_by.keys() - declared) == [], "not declared in patches/*/relies-on.toml"
    assert sorted(declared.keys() - used_by) == [], "declared, but no module of ours uses it"
    readers = {id_: sorted(files) for id_, files in used_by.items() if files != declared[id_]}
    assert readers == {}, "`read-by` should be this"
    assert sorted(EXCEPTIONS.keys() - excepted) == [], "exceptions that nothing needs"


def _names(layout: Layout, file: str, public: Relied) -> bool:
    """Whether a module names a method that anybody may call, and on whose meaning it relies."""
    tree = ast.parse((layout.package / file).read_text("utf-8"))
    name = public.name.rpartition(".")[2]
    return any(isinstance(node, ast.Attribute) and node.attr == name for node in ast.walk(tree))


def _meant(relied: list[Relied], file: str, name: str) -> list[Relied]:
    """The declarations that a use on a value of unknown type can mean."""
    return [r for r in relied if r.name.rpartition(".")[2] == name and file in r.read_by]


# -- the walk itself, on made-up packages

UPSTREAM = """
class Base:
    def _beat(self): ...

class Options:
    _rate: int = 1

class Session(Base):
    def __init__(self, opts: Options):
        self._opts = opts
        self._queue, self._done = [], False
    async def _run(self): ...
    @property
    def _line(self) -> "Line": ...

class Line:
    _open = True

def _helper() -> Session: ...
"""


def uses(tmp_path: Path, ours: str) -> list[str]:
    """What one module of a made-up package uses: `owner:name`, or `?name` where it is not known."""
    files = {
        "site/up/__init__.py": "from .live import Session",
        "site/up/live.py": UPSTREAM,
        "site/up/_inner.py": "class Deep:\n    _x = 1",
        "root/pkg/__init__.py": "",
        "root/pkg/_vendor/__init__.py": "",
        "root/pkg/_vendor/live.py": UPSTREAM,
        "root/pkg/mine.py": ours,
        "std/loops.py": "class Loop:\n    def _tick(self): ...",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), "utf-8")
    world = World([tmp_path / "root", tmp_path / "site"], tmp_path / "std")
    package = Package(world, tmp_path / "root/pkg", "pkg", "pkg._vendor", ("up",))
    return sorted({u.id if u.owner else f"?{u.name}" for u in package.uses()})


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        # by what stands before the dot
        ("import up\ndef f(s: up.Session): s._opts", ["up.live:Session._opts"]),
        ("from up import Session as S\ndef f(s: 'S | None'): s._opts", ["up.live:Session._opts"]),
        ("from up import Session\nasync def f(): await Session()._run()", ["up.live:Session._run"]),
        (
            "from up import Session\ndef f(x):\n    s = Session(x)\n    s._done = True",
            ["up.live:Session._done"],
        ),
        (
            "from up import Session\ndef f(s: Session): s._opts._rate",
            ["up.live:Options._rate", "up.live:Session._opts"],
        ),
        (
            "from up import Session\ndef f(s: Session): s._line._open",
            ["up.live:Line._open", "up.live:Session._line"],
        ),
        (
            "from up import Session\ndef f(s):\n    if isinstance(s, Session): s._opts",
            ["up.live:Session._opts"],
        ),
        (
            "from typing import cast\nimport up\ndef f(x): cast('up.Session', x)._opts",
            ["up.live:Session._opts"],
        ),
        (
            "from up import Session\ndef f(s: Session): return lambda: s._opts",
            ["up.live:Session._opts"],
        ),
        ("from up import live\nlive._helper()._opts", ["up.live:Session._opts", "up.live:_helper"]),
        ("from up.live import Session\ndef f(s: Session): s._beat()", ["up.live:Base._beat"]),
        ("from up import live as l\nl._helper()", ["up.live:_helper"]),
        # by name in a text
        ("import up\ndef f(s: up.Session): getattr(s, '_opts', None)", ["up.live:Session._opts"]),
        (
            "import up\ndef f(s: up.Session):\n    for n in ('_opts', 'x'): getattr(s, n)",
            ["up.live:Session._opts"],
        ),
        (
            "import up\ndef f(s: up.Session): return [hasattr(s, n) for n in ('_done',)]",
            ["up.live:Session._done"],
        ),
        # in a subclass, also of what was vendored
        (
            "from up import Session\nclass A(Session):\n    def f(self): self._opts",
            ["up.live:Session._opts"],
        ),
        (
            "from ._vendor import live\nclass A(live.Session):\n    def f(self): self._opts",
            ["pkg._vendor.live:Session._opts"],
        ),
        (
            "from ._vendor.live import Session\nclass A(Session):\n    def f(self): self._beat()",
            ["pkg._vendor.live:Base._beat"],
        ),
        (
            "from up import Session\nclass A(Session):\n    def _beat(self): ...",
            ["up.live:Base._beat"],
        ),
        (
            "from up import Session\nclass A(Session):\n    def g(self): return super()._run()",
            ["up.live:Session._run"],
        ),
        (
            "from up import Session\nclass A(Session):\n    def f(self): self._done = self._x = 1",
            ["up.live:Session._done"],
        ),
        (
            "from up import Session\nclass A(Session): ...\nclass B:\n"
            "    def __init__(self, a: A): self._a = a\n    def f(self): self._a._queue",
            ["up.live:Session._queue"],
        ),
        # imports
        ("from up.live import _helper", ["up.live:_helper"]),
        ("from up._inner import Deep", ["up:_inner"]),
        ("import up._inner", ["up:_inner"]),
        ("from ._vendor.live import _helper", ["pkg._vendor.live:_helper"]),
        # ours
        (
            "class A:\n    def __init__(self): self._opts = 1\n    def f(self): return self._opts",
            [],
        ),
        (
            "from up import Session\nclass A(Session):\n    _mine = 1\n    def f(self): self._mine",
            [],
        ),
        ("class A:\n    _mine = 1\ndef f(a: A): a._mine", []),
        ("class A:\n    _mine = 1\ndef f(a): a._mine", []),
        ("class A:\n    x = 1\ndef f(a: A): a.__dict__", []),
        ("from . import mine2\nfrom ._vendor import live", []),
        # of the standard library
        ("import loops\nclass A(loops.Loop):\n    def _tick(self): super()._tick()", []),
        # not known
        ("def f(x): x._opts", ["?_opts"]),
        ("def f(x): getattr(x, '_opts')", ["?_opts"]),
        ("class A:\n    _opts = 1\ndef f(x): x._opts", ["?_opts"]),
        (
            "from typing import Protocol\nclass P(Protocol):\n    _what: int\ndef f(x: P): x._what",
            ["?_what"],
        ),
    ],
)
def test_whose_a_name_is(tmp_path: Path, ours: str, expected: list[str]) -> None:
    assert uses(tmp_path, ours) == sorted(expected)
