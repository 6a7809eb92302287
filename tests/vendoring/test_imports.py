from __future__ import annotations

import pytest

from vendoring.errors import Refused
from vendoring.imports import rewrite_imports

MODULE = "up.google.live.engine"
VENDORED = {
    "up.google.live.engine": "ours.google.engine",
    "up.google.live.helpers": "ours.google.helpers",
    "up.google.log": "ours.google.log",
    "up.google.renamed": "ours.google.another",
    "up.other.log": "ours.other.log",
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from .helpers import a, b", "from ours.google.helpers import a, b"),
        ("from ..log import logger as l", "from ours.google.log import logger as l"),
        ("from up.google.log import logger", "from ours.google.log import logger"),
        ("from . import helpers", "from ours.google import helpers"),
        ("from .. import log", "from ours.google import log"),
        ("from ..tools import Tool", "from up.google.tools import Tool"),
        ("from ...base import Base", "from up.base import Base"),
        ("from . import unknown", "from up.google.live import unknown"),
        ("from other.pkg import x", "from other.pkg import x"),
        ("import other.pkg", "import other.pkg"),
        (
            "from .helpers import (  # why\n    a,\n)",
            "from ours.google.helpers import (  # why\n    a,\n)",
        ),
    ],
)
def test_only_the_module_token_changes(before: str, after: str) -> None:
    assert rewrite_imports(f"{before}\nx = 1\n".encode(), MODULE, VENDORED) == (
        f"{after}\nx = 1\n".encode()
    )


def test_imports_inside_functions_and_conditions_count() -> None:
    code = b"def f():\n    if x:\n        from .helpers import a\n"
    assert b"from ours.google.helpers import a" in rewrite_imports(code, MODULE, VENDORED)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import up.google.log", "`import up.google.log` cannot be rewritten"),
        ("from .. import log, tools", "line 1: mixed import from up.google"),
        ("from .. import renamed", "line 1: mixed import from up.google"),
        ("from  . helpers import a", "line 1: unusual spacing"),
    ],
)
def test_what_the_rule_cannot_express_is_refused(code: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        rewrite_imports(code.encode(), MODULE, VENDORED)
