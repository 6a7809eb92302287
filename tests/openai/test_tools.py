"""Which calls came, by whatever id they are answered (R10)."""

from __future__ import annotations

from typing import Any

import pytest

from livekit.plugins.resilient.openai.engine import short_call_id
from livekit.plugins.resilient.openai.tools import ToolCalls

OPENAI_ID = "call_0000000000000001"
XAI_ID = "call_" + "0" * 37 + "1"


class Facts:
    """As much of a driver as they need."""

    now = 1.0

    def __init__(self) -> None:
        self.fed: list[Any] = []

    def feed(self, fact: Any) -> None:
        self.fed.append(fact)


@pytest.mark.parametrize("call_id", [OPENAI_ID, XAI_ID], ids=["openai", "xai"])
def test_a_call_is_the_same_by_its_own_id_and_by_the_one_it_is_answered_with(call_id: str) -> None:
    driver: Any = Facts()
    calls = ToolCalls(driver=driver)
    assert not calls.has_begun(call_id)
    assert calls.came(call_id)
    assert calls.has_begun(call_id)
    assert calls.waits_for(short_call_id(call_id))
    calls.answered(short_call_id(call_id))
    assert not calls.waits_for(call_id)
    assert [fact.call_id for fact in driver.fed] == [call_id]
    assert not calls.came(call_id)
