"""The guard: no file in git may share a run of tokens with upstream's text."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import subprocess
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path

from .errors import InvalidConfig, VendoringError
from .fetch import pristine
from .layout import Layout
from .locks import locked_version
from .source import DEFINITIONS
from .targets import load_targets
from .toml import read_toml

# Shorter runs begin to hit idioms of the API; copied methods and sentences are longer.
RUN_TOKENS = 14

# Quotes and comment signs are left out: text copied into another kind of comment still counts.
# So are the marks that a quotation, a list or a diff puts before a line. A ruler of repeated signs
# is no text. A hyphenated name (of a model, say) is one token.
_TOKEN = re.compile(
    r"(?:^|\n)[ \t]*[>|*+-]+|\n|(?:([-=~*_.])\1{2,}|[^\S\n]|[#\"'`\\])+"
    r"|(\w+(?:-\w+|(?<=\d)\.\d+)*|[^\w\s])"
)
_DOCUMENT_SUFFIXES = frozenset({".md", ".rst", ".txt", ""})
_COMMON_WORDS = frozenset(keyword.kwlist) | frozenset(dir(builtins)) | {"self", "cls", "Any"}


def tokens_of(text: str) -> list[str]:
    """The words and signs of a text, Python or prose."""
    return [token for _, token in _TOKEN.findall(text) if token]


def names_of(text: str) -> list[str]:
    """The words of a text that are neither Python's own nor numbers."""
    return [
        t for t in tokens_of(text) if (t[0].isalpha() or t[0] == "_") and t not in _COMMON_WORDS
    ]


@dataclass(frozen=True)
class Overlap:
    """A run of at least RUN_TOKENS tokens that a file has in common with upstream."""

    path: str
    first_line: int
    last_line: int
    tokens: int

    def __str__(self) -> str:
        where = f"{self.path} lines {self.first_line} to {self.last_line}"
        return f"{where}: {self.tokens} tokens in a row are upstream's"


@dataclass(frozen=True)
class Allowed:
    """One entry of vendor/allowed-overlaps.toml: a whole file, or one definition in it."""

    path: str
    why: str
    scope: str = ""


class _Runs:
    """Every run of RUN_TOKENS tokens in some texts, kept as hashes."""

    def __init__(self, tokenise: Callable[[str], list[str]], texts: Iterable[str]) -> None:
        self._tokenise = tokenise
        self._runs: set[int] = set()
        for text in texts:
            self._runs.update(_run_hashes(tokenise(text)))

    def overlaps(self, path: str, numbered: Iterable[tuple[int, str]]) -> list[Overlap]:
        """The shared runs of one file, given as its numbered lines."""
        tokens: list[str] = []
        lines: list[int] = []
        for number, line in numbered:
            found = self._tokenise(line)
            tokens += found
            lines += [number] * len(found)
        spans: list[tuple[int, int]] = []
        for i, run in enumerate(_run_hashes(tokens)):
            if run in self._runs:
                joined = bool(spans) and i <= spans[-1][1]
                start = spans.pop()[0] if joined else i
                spans.append((start, i + RUN_TOKENS))
        return [Overlap(path, lines[a], lines[b - 1], b - a) for a, b in spans]


class UpstreamText:
    """What must not be in git.

    Of the vendored files and the documentation, every token counts. Of the rest of the wheels,
    which is large and full of the idioms of asyncio and of the plugin interface, only names do.
    """

    def __init__(self, close: Iterable[str], rest: Iterable[str]) -> None:
        """`close` are the texts of which every token counts."""
        self._runs = (_Runs(tokens_of, close), _Runs(names_of, rest))

    @classmethod
    def of_folder(cls, folder: Path, vendored: Collection[str]) -> UpstreamText:
        """Everything that `fetch` laid out; `vendored` are the paths of the vendored files."""
        close: list[str] = []
        rest: list[str] = []
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or path.suffix == ".json":
                continue
            name = path.relative_to(folder).as_posix()
            is_close = name in vendored or path.suffix in _DOCUMENT_SUFFIXES
            text = path.read_text("utf-8", errors="replace")
            (close if is_close else rest).append(text)
        return cls(close, rest)

    @classmethod
    def of_locked(cls, layout: Layout) -> UpstreamText:
        """The locked version, fetched when needed."""
        version = locked_version(layout)
        present = load_targets(layout.targets).present(version)
        return cls.of_folder(pristine(layout, version), {o.file for _, o in present})

    def overlaps(self, path: str, text: str) -> list[Overlap]:
        """The shared runs of one file. Imports and function headers in Python do not count."""
        skipped = _interface_lines(text) if path.endswith(".py") else frozenset()
        numbered = [(i, line) for i, line in enumerate(text.split("\n"), 1) if i not in skipped]
        return [o for runs in self._runs for o in runs.overlaps(path, numbered)]


def _run_hashes(tokens: list[str]) -> Iterable[int]:
    return map(hash, zip(*(islice(tokens, i, None) for i in range(RUN_TOKENS)), strict=False))


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _interface_lines(text: str) -> frozenset[int]:
    """Lines of imports and of function headers: an override has to repeat upstream's."""
    tree = _parse(text)
    lines: set[int] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            end = node.body[0].lineno
            stub = isinstance(node.body[0], ast.Expr) and end == node.lineno
            lines.update(range(node.lineno, end + stub))
    return frozenset(lines)


def _definition_lines(text: str, scope: str) -> range:
    """The lines of one definition, by dotted name; empty when there is none."""
    tree = _parse(text)
    node: ast.AST | None = tree
    for name in scope.split("."):
        body = getattr(node, "body", [])
        named = (n for n in body if isinstance(n, DEFINITIONS) and n.name == name)
        node = next(named, None)
    if node is None or not isinstance(node, DEFINITIONS):
        return range(0)
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def load_allowed(path: Path) -> list[Allowed]:
    """Read the allow-list. Raises InvalidConfig."""
    if not path.exists():
        return []
    names = {f.name for f in fields(Allowed)}
    allowed = []
    for i, entry in enumerate(read_toml(path).get("allowed", []), 1):
        if not {"path", "why"} <= set(entry) <= names:
            raise InvalidConfig(f"{path.name}: entry {i} must have path, why and may have scope")
        allowed.append(Allowed(**entry))
    return allowed


def tracked_files(root: Path) -> list[str]:
    """What git would publish. Raises VendoringError where there is no git."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise VendoringError("git could not list the tracked files") from e
    return [name for name in run.stdout.split("\0") if name]


def find_leaks(
    upstream: UpstreamText, root: Path, names: Iterable[str], allowed: Iterable[Allowed]
) -> list[str]:
    """One sentence for each shared run that is not allowed and each allowance that is not used."""
    entries = list(allowed)
    used: set[Allowed] = set()
    problems = []
    for name in names:
        path = root / name
        if not path.is_file():
            continue
        text = path.read_text("utf-8", errors="replace")
        for overlap in upstream.overlaps(name, text):
            cover = [e for e in entries if e.path == name and _covers(e, text, overlap)]
            used.update(cover)
            if not cover:
                problems.append(str(overlap))
    problems += [
        f"allowed-overlaps.toml: the entry for {e.path} {e.scope}".rstrip() + " is not used"
        for e in entries
        if e not in used
    ]
    return problems


def _covers(entry: Allowed, text: str, overlap: Overlap) -> bool:
    if not entry.scope:
        return True
    lines = _definition_lines(text, entry.scope)
    return overlap.first_line in lines and overlap.last_line in lines


def check_repository(layout: Layout) -> list[str]:
    """Run the guard over this checkout; empty when git holds no upstream text."""
    upstream = UpstreamText.of_locked(layout)
    allowed = load_allowed(layout.allowed_overlaps)
    return find_leaks(upstream, layout.root, tracked_files(layout.root), allowed)
