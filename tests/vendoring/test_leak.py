"""The guard against upstream text in git. Planted copies live in temporary folders only."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vendoring.errors import InvalidConfig, VendoringError
from vendoring.fetch import pristine
from vendoring.layout import Layout
from vendoring.leak import (
    RUN_TOKENS,
    Allowed,
    UpstreamText,
    check_repository,
    find_leaks,
    load_allowed,
    tracked_files,
)
from vendoring.locks import locked_version
from vendoring.targets import load_targets

if TYPE_CHECKING:
    from tests.vendoring.conftest import Checkout

SENTENCE = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


@pytest.fixture(scope="module")
def real() -> UpstreamText:
    return UpstreamText.of_locked(Layout.here())


def test_git_holds_no_upstream_text() -> None:
    assert check_repository(Layout.here()) == []


def longest_method(path: Path) -> str:
    """The body of the longest function of a fetched file, without its header."""
    text = path.read_text("utf-8")
    functions = [
        n
        for n in ast.walk(ast.parse(text))
        if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    longest = max(functions, key=lambda f: (f.end_lineno or 0) - f.body[0].lineno)
    lines = text.splitlines()[longest.body[0].lineno - 1 : longest.end_lineno]
    return "\n".join(lines)


def test_a_planted_copy_of_any_vendored_file_is_caught(real: UpstreamText, tmp_path: Path) -> None:
    layout = Layout.here()
    version = locked_version(layout)
    folder = pristine(layout, version)
    big = [
        (target.name, folder / origin.file)
        for target, origin in load_targets(layout.targets).present(version)
        if (folder / origin.file).stat().st_size > 4000
    ]
    assert len(big) >= 4
    for name, path in big:
        (tmp_path / f"{name}.py").write_text("def ours():\n" + longest_method(path), "utf-8")
        problems = find_leaks(real, tmp_path, [f"{name}.py"], [])
        assert problems, name
        assert problems[0].startswith(f"{name}.py lines ")


def test_a_copy_is_caught_as_prose_or_as_a_comment_too(real: UpstreamText, tmp_path: Path) -> None:
    layout = Layout.here()
    version = locked_version(layout)
    origin = load_targets(layout.targets).get("google-realtime").origin(version)
    assert origin is not None
    body = longest_method(pristine(layout, version) / origin.file)
    (tmp_path / "notes.md").write_text("> " + body.replace("\n", "\n> "), "utf-8")
    (tmp_path / "a.toml").write_text("# " + body.replace("\n", "\n# "), "utf-8")
    for name in ("notes.md", "a.toml"):
        assert find_leaks(real, tmp_path, [name], [])


def test_a_copy_from_the_rest_of_the_wheels_is_caught(real: UpstreamText, tmp_path: Path) -> None:
    source = pristine(Layout.here(), locked_version(Layout.here())) / "livekit/agents/vad.py"
    (tmp_path / "vad.py").write_text(source.read_text("utf-8"), "utf-8")
    assert find_leaks(real, tmp_path, ["vad.py"], [])


def test_the_readme_of_a_wheel_counts(real: UpstreamText, tmp_path: Path) -> None:
    folder = pristine(Layout.here(), locked_version(Layout.here()))
    metadata = next(folder.glob("livekit_agents-*.dist-info")) / "METADATA"
    prose = metadata.read_text("utf-8").partition("\n\n")[2]
    (tmp_path / "README.md").write_text(prose, "utf-8")
    assert find_leaks(real, tmp_path, ["README.md"], [])


# -- what counts, on made-up text


def overlaps(upstream: str, ours: str, name: str = "ours.py") -> list[int]:
    return [o.tokens for o in UpstreamText([upstream], []).overlaps(name, ours)]


def test_a_run_is_fourteen_tokens() -> None:
    words = SENTENCE.split()
    assert len(words) == RUN_TOKENS
    assert overlaps(SENTENCE, SENTENCE) == [14]
    assert overlaps(SENTENCE, " ".join(words[:-1])) == []
    assert overlaps(SENTENCE, " ".join([*words[:-1], "other"])) == []


def test_line_breaks_quotes_and_comment_signs_do_not_hide_a_run() -> None:
    assert overlaps(SENTENCE, "# " + SENTENCE.replace(" five ", ' "five"\n# ')) == [14]


@pytest.mark.parametrize("mark", ["+", "-", "> ", "    * ", "| "])
def test_marks_before_a_line_do_not_hide_a_run(mark: str) -> None:
    lines = SENTENCE.replace(" five ", "\nfive\n").replace(" ten ", "\nten ")
    marked = "\n".join(mark + line for line in lines.split("\n"))
    assert overlaps(lines, marked, name="ours.md") == [14]
    assert overlaps(marked, marked, name="ours.md") == [14]


def test_a_ruler_is_no_text() -> None:
    ruler = "# " + "-" * 60 + "\n"
    assert overlaps(ruler, ruler) == []


def test_two_runs_in_one_file_are_two() -> None:
    text = f"{SENTENCE}\nours\n{SENTENCE}\n"
    assert overlaps(SENTENCE, text) == [14, 14]
    assert [str(o) for o in UpstreamText([SENTENCE], []).overlaps("a.md", text)] == [
        "a.md lines 1 to 1: 14 tokens in a row are upstream's",
        "a.md lines 3 to 3: 14 tokens in a row are upstream's",
    ]


def test_imports_and_function_headers_are_the_interface() -> None:
    code = (
        "from up import (a, b, c, d, e, f, g)\n"
        "def push(self, frame: Frame, *, wait: bool = True, now: bool = False) -> None:\n"
        "    return 1\n"
    )
    assert overlaps(code, code) == []
    assert overlaps(code, code, name="ours.md") != []


def test_of_the_rest_only_names_count() -> None:
    code = "for i in range(3):\n    x = [i + 1, i + 2, i + 3, i + 4, i + 5]\n"
    upstream = UpstreamText([], [code, SENTENCE])
    assert upstream.overlaps("ours.py", code) == []
    assert upstream.overlaps("ours.py", SENTENCE) != []


# -- the allow-list


def leaks(tmp_path: Path, text: str, *allowed: Allowed) -> list[str]:
    (tmp_path / "ours.py").write_text(text)
    return find_leaks(UpstreamText([SENTENCE], []), tmp_path, ["ours.py"], allowed)


def test_an_entry_covers_a_file_or_one_definition(tmp_path: Path) -> None:
    text = f'class A:\n    def f(self):\n        """{SENTENCE}"""\n'
    assert len(leaks(tmp_path, text)) == 1
    assert leaks(tmp_path, text, Allowed("ours.py", "why")) == []
    assert leaks(tmp_path, text, Allowed("ours.py", "why", "A.f")) == []
    assert len(leaks(tmp_path, text, Allowed("ours.py", "why", "A.g"))) == 2


def test_an_entry_that_is_not_used_is_a_problem(tmp_path: Path) -> None:
    assert leaks(tmp_path, "x = 1\n", Allowed("ours.py", "why")) == [
        "allowed-overlaps.toml: the entry for ours.py is not used"
    ]


def test_a_malformed_allow_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "allowed-overlaps.toml"
    path.write_text('[[allowed]]\npath = "a"\n')
    with pytest.raises(InvalidConfig, match="entry 1 must have path, why"):
        load_allowed(path)


def test_only_tracked_files_are_looked_at(checkout: Checkout) -> None:
    root = checkout.layout.root
    checkout.write("tracked.py", SENTENCE)
    checkout.write("other.py", SENTENCE)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "tracked.py"], check=True)
    assert tracked_files(root) == ["tracked.py"]


def test_a_folder_without_git_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(VendoringError, match="git could not list"):
        tracked_files(tmp_path)
