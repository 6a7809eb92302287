"""A patch as a whole: all or nothing, once, and nothing outside its scopes."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vendoring import engine
from vendoring.engine import HOOKS_IMPORT, apply, edited_scopes, scope_fingerprint
from vendoring.errors import AlreadyApplied, NotFound, PatchProblem, Refused
from vendoring.patchfile import Patch
from vendoring.source import Source, Splice, fingerprint, render, undo

PatchMaker = Callable[..., Patch]

AFTER = {
    "op": "insert-after",
    "in": "Session._run",
    "at": {"kind": "Await", "has": {"call": "asyncio.sleep"}},
    "code": "ours(e)",
}
KWARG = {
    "op": "set-kwarg",
    "in": "Session._run",
    "at": {"call": "self._dial"},
    "name": "first",
    "value": "True",
}
# What holds the value that KWARG changes.
OUTER = {"kind": "Await", "has": {"call": "self._dial"}}
HOOK = {"op": "insert-first", "in": "Session.tell", "code": "_rk.google.tell(self)"}
MISSING = {"op": "insert-after", "in": "Session.tell", "at": {"call": "self.gone"}, "code": "x"}


def test_only_the_edited_lines_change(source: bytes, make_patch: PatchMaker) -> None:
    result = apply(source, make_patch(AFTER), "engine.py")
    ours = b"                ours(e)\n"
    slept = b"                await asyncio.sleep(0)\n"
    mark = b"                # resilient-patch: google/sample\n"
    assert result == source.replace(slept, slept + mark + ours)


def test_a_second_application_is_refused(source: bytes, make_patch: PatchMaker) -> None:
    for edit in (AFTER, KWARG, HOOK):
        patch = make_patch(edit)
        once = apply(source, patch, "engine.py")
        with pytest.raises(AlreadyApplied, match=r"google/sample.*in this file already"):
            apply(once, patch, "engine.py")


def test_a_patch_with_a_longer_name_is_another_patch(source: bytes, make_patch: PatchMaker) -> None:
    once = apply(source, make_patch(AFTER, name="google/sample-two"), "engine.py")
    assert apply(once, make_patch(HOOK), "engine.py") != once


def test_one_edit_that_does_not_fit_stops_the_whole_patch(
    source: bytes, make_patch: PatchMaker
) -> None:
    with pytest.raises(NotFound, match=r"google/sample: insert-after in Session.tell"):
        apply(source, make_patch(AFTER, HOOK, MISSING), "engine.py")


def test_the_hooks_import_is_added_once_and_only_where_used(
    source: bytes, make_patch: PatchMaker
) -> None:
    line = HOOKS_IMPORT.encode() + b"\n"
    once = apply(source, make_patch(HOOK), "engine.py")
    assert b"from .helpers import join\n" + line in once
    other = {"op": "insert-first", "in": "Session.tell", "code": "_rk.google.told(self)"}
    twice = apply(once, make_patch(other, name="google/other"), "engine.py")
    assert twice.count(line) == 1
    assert line not in apply(source, make_patch(AFTER), "engine.py")


def test_edits_of_one_patch_may_not_overlap(source: bytes, make_patch: PatchMaker) -> None:
    outer = {"op": "replace-expr", "in": "Session._run", "at": OUTER, "code": "ours"}
    with pytest.raises(Refused, match="overlap"):
        apply(source, make_patch(KWARG, outer), "engine.py")


def test_two_inserts_at_one_place_keep_their_order(source: bytes, make_patch: PatchMaker) -> None:
    first = {"op": "insert-first", "in": "Session.tell", "code": "one()"}
    second = {"op": "insert-first", "in": "Session.tell", "code": "two()"}
    result = apply(source, make_patch(first, second), "engine.py")
    assert result.index(b"one()") < result.index(b"two()") < result.index(b'logger.info("told")')


def test_a_result_that_does_not_compile_is_refused(source: bytes, make_patch: PatchMaker) -> None:
    """`continue` is fine by grammar, but not outside a loop."""
    edit = {"op": "insert-first", "in": "Session.tell", "code": "continue"}
    with pytest.raises(Refused, match=r"does not compile"):
        apply(source, make_patch(edit), "engine.py")


def test_errors_never_quote_upstream(source: bytes, make_patch: PatchMaker) -> None:
    broken = source + b"def broken(:\n"
    with pytest.raises(Refused) as caught:
        apply(broken, make_patch(HOOK), "engine.py")
    assert (
        str(caught.value) == "patch google/sample: engine.py is not plain UTF-8 Python: SyntaxError"
    )


@pytest.mark.parametrize("data", ["x = 'é'\n".encode("latin-1"), b"\xef\xbb\xbfx = 1\n"])
def test_other_encodings_are_refused(data: bytes) -> None:
    with pytest.raises(Refused, match=r"engine\.py"):
        Source(data, "engine.py")


def test_overload_stubs_and_setters_are_no_scope(make_patch: PatchMaker) -> None:
    code = b"""\
class Box:
    @overload
    def put(self, x: int) -> None: ...
    @typing.overload
    def put(self, x: str) -> None: ...
    def put(self, x):
        return x
    @property
    def size(self):
        return 1
    @size.setter
    def size(self, value):
        return None
"""
    for name in ("put", "size"):
        edit = {"op": "insert-after", "in": f"Box.{name}", "at": {"kind": "Return"}, "code": "x"}
        apply(code, make_patch(edit), "box.py")


def test_a_name_inside_a_nested_function_is_another_scope(make_patch: PatchMaker) -> None:
    code = b"def f():\n    def g():\n        return 1\n    return 2\n"
    edit = {"op": "replace-expr", "in": "f.g", "at": {"kind": "Constant"}, "code": "3"}
    assert b"return 2" in apply(code, make_patch(edit), "f.py")
    edit = {"op": "replace-expr", "in": "f", "at": {"kind": "Constant"}, "code": "3"}
    assert b"return 1" in apply(code, make_patch(edit), "f.py")


# -- fingerprints: drift is a change of meaning in what was reviewed


def test_layout_comments_and_docstrings_are_no_drift(source: bytes) -> None:
    tree = ast.parse(source)
    noisy = source.replace(b'"""Keep the options."""', b'"""Other words."""\n\n        # why')
    assert fingerprint(tree) == fingerprint(ast.parse(noisy))
    assert fingerprint(tree) == fingerprint(ast.parse(ast.unparse(tree)))


def test_a_changed_argument_is_drift(source: bytes, make_patch: PatchMaker) -> None:
    patch = make_patch(AFTER)
    before = scope_fingerprint(Source(source, "a"), patch, "Session._run")
    changed = source.replace(b"attempts == 2", b"attempts == 3")
    assert scope_fingerprint(Source(changed, "a"), patch, "Session._run") != before
    elsewhere = source.replace(b'"dial"', b'"dialled"')
    assert scope_fingerprint(Source(elsewhere, "a"), patch, "Session._run") == before


def test_of_a_class_only_header_and_anchor_count(source: bytes, make_patch: PatchMaker) -> None:
    at = {"name": "tell"}
    patch = make_patch({"op": "insert-after", "in": "Session", "at": at, "code": "x = 1"})
    before = scope_fingerprint(Source(source, "a"), patch, "Session")
    method = source.replace(b'"dial"', b'"dialled"')
    assert scope_fingerprint(Source(method, "a"), patch, "Session") == before
    base = source.replace(b"class Session:", b"class Session(Base):")
    assert scope_fingerprint(Source(base, "a"), patch, "Session") != before


def test_each_scope_is_edited_once_in_order(make_patch: PatchMaker) -> None:
    assert edited_scopes(make_patch(AFTER, HOOK, KWARG)) == ["Session._run", "Session.tell"]


def test_fingerprints_are_the_same_on_every_python() -> None:
    """anchors.lock is written on one Python and read on another."""
    code = "async def f(a, /, *b: int, c=1.5, **d) -> None: return [f'{a!r:>{c}}' async for _ in b]"
    assert fingerprint(ast.parse(code)) == "21fe8b54a768d2c4"


# -- properties


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(noise=st.lists(st.sampled_from(["", "\n", "{}# note\n", "\n{}# a: b(c)\n"]), min_size=60))
def test_blank_lines_and_comments_do_not_matter(
    source: bytes, make_patch: PatchMaker, noise: list[str]
) -> None:
    lines = source.decode().splitlines(keepends=True)
    padded = ""
    for line, text in zip(lines, noise, strict=False):
        indent = line[: len(line) - len(line.lstrip())]
        padded += text.format(indent) + line
    padded += "".join(lines[len(noise) :])
    patch = make_patch(AFTER, HOOK)
    plain, noisy = apply(source, patch, "a"), apply(padded.encode(), patch, "a")
    assert fingerprint(ast.parse(noisy)) == fingerprint(ast.parse(plain))


@given(st.binary(max_size=40), st.data())
def test_undo_is_the_inverse_of_render(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    splices = [Splice(a, b, draw.draw(st.binary(max_size=5))) for a, b in pairs]
    try:
        result = render(data, splices)
    except PatchProblem:
        return
    assert undo(result, data, splices) == data


# -- the proofs hold even if an operation were wrong


def test_a_cut_outside_the_scope_is_refused(
    source: bytes, make_patch: PatchMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = source.index(b"    def tell")
    monkeypatch.setattr(engine, "plan", lambda *_: [Splice(place, place, b"    x = 1\n")])
    with pytest.raises(Refused, match="reaches outside its scope"):
        apply(source, make_patch(AFTER), "engine.py")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\n    def extra(self): ...\n", r"also changed Session\.extra"),
        (b"\nclass Other:\n    pass\n", r"also changed .*Session\.tell"),
    ],
)
def test_text_that_breaks_out_of_its_scope_is_refused(
    source: bytes,
    make_patch: PatchMaker,
    monkeypatch: pytest.MonkeyPatch,
    text: bytes,
    says: str,
) -> None:
    """It stands inside the scope and compiles, but takes what follows with it."""
    scope = Source(source, "engine.py").scope("Session._run")
    assert not isinstance(scope, ast.Module)
    _, end, _ = Source(source, "engine.py").lines(scope)
    monkeypatch.setattr(engine, "plan", lambda *_: [Splice(end, end, text)])
    with pytest.raises(Refused, match=says):
        apply(source, make_patch(AFTER), "engine.py")


def test_a_result_that_cannot_be_undone_is_refused(
    source: bytes, make_patch: PatchMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "render", lambda *args: render(*args).replace(b"told", b"said"))
    with pytest.raises(Refused, match="bytes outside the edits changed"):
        apply(source, make_patch(AFTER), "engine.py")
