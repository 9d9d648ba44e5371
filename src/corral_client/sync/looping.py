"""
An event loop on a thread of its own, so that the sync client is the async one and not a second copy of it.

The other ways were to write every rule twice over `http.client`, or to generate one side from the other. A thread costs
about 50 µs a call, which next to a request is nothing; callbacks and iterators still run on the caller's thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, TypeVar

_CLEAN_UP_SECONDS = 5.0

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that have no loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._open = set[AsyncGenerator[Any]]()
        self._last: Coroutine[Any, Any, None] | None = None
        self._thread = threading.Thread(target=self._work, name="corral-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What *work* returns; an interruption of the caller cancels it, and is passed on once it has ended."""
        ended = threading.Event()

        async def observed() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(observed(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            ended.wait(_CLEAN_UP_SECONDS)
            raise

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Run *work* beside the caller; `stop` cancels it."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def iterate(self, items: AsyncGenerator[T]) -> Generator[T]:
        """The *items*, each made when it is asked for."""
        self._open.add(items)
        try:
            while True:
                try:
                    item = self.run(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self._open.discard(items)
            if self._loop.is_running():
                self.run(items.aclose())

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """End the loop and its thread; what is unfinished is cancelled, and *last* is run after that."""
        self._last = last
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:  # a collected client may be ended by any thread
            self._thread.join()

    def _work(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._finish())
        self._loop.close()

    async def _finish(self) -> None:
        unfinished = asyncio.all_tasks() - {asyncio.current_task()}
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        for items in list(self._open):  # each closes those it is made of
            await items.aclose()
        if self._last is not None:
            await self._last


async def _next(items: AsyncGenerator[T]) -> T:
    return await anext(items)
