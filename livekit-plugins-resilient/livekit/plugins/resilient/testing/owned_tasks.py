"""Which asyncio tasks belong to whom, so that a test can ask what a call left behind."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

_T = TypeVar("_T")

_OWNER: contextvars.ContextVar[object | None] = contextvars.ContextVar("task_owner", default=None)
# Weak both ways: an owner keeps tasks of its own, so that none of the two would ever be freed.
_OWNED: weakref.WeakKeyDictionary[asyncio.Task[Any], weakref.ref[object]]
_OWNED = weakref.WeakKeyDictionary()


def context_of(owner: object) -> contextvars.Context:
    """A copy of the current context; tasks that start in it, and theirs, belong to `owner`."""
    context = contextvars.copy_context()
    context.run(_OWNER.set, owner)
    return context


def owner_in(context: contextvars.Context) -> object | None:
    """Whom what runs in `context` belongs to."""
    return context.get(_OWNER)


def track(loop: asyncio.AbstractEventLoop) -> None:
    """Note the owner of every task that `loop` creates from now on; may be called repeatedly."""
    factory = loop.get_task_factory()
    if not isinstance(factory, _TrackingFactory):
        loop.set_task_factory(_TrackingFactory(factory))


def unfinished(owner: object) -> list[asyncio.Task[Any]]:
    """The tasks of `owner` on the running loop that are not done."""
    reference = weakref.ref(owner)
    return [task for task in asyncio.all_tasks() if _OWNED.get(task) is reference]


class _TrackingFactory:
    """A task factory that remembers the owner; what else was installed goes on making the tasks."""

    def __init__(self, inner: Callable[..., asyncio.Future[Any]] | None) -> None:
        self._inner = inner

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, _T] | Generator[Any, None, _T],
        **options: Any,
    ) -> asyncio.Future[_T]:
        task: asyncio.Future[_T]
        if self._inner is None:
            task = asyncio.Task(coro, loop=loop, **options)
        else:
            task = self._inner(loop, coro, **options)
        owner = _OWNER.get()
        if owner is not None and isinstance(task, asyncio.Task):
            _OWNED[task] = weakref.ref(owner)
        return task
