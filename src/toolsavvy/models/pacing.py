"""One pace for all workers that ask one server: they pause together, go on carefully, and speed up while it holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")


class Pace:
    """How many requests may be under way, and from when on.

    A server that says it has too much to do (429) holds all workers for as long as it asks, and halves how many may be
    under way afterwards; every answer brings back a little (additive increase, multiplicative decrease).

    Args:
        most: requests under way at most, at least 1.
    """

    def __init__(self, most: int) -> None:
        self.most, self.allowed = most, float(most)
        self._busy, self._until = 0, 0.0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, stop: threading.Event) -> Iterator[bool]:
        """Wait for a place among the requests under way; whether there is one, as against a stop."""
        with self._changed:
            while not stop.is_set():
                rest = self._until - time.monotonic()
                if rest <= 0 and self._busy < max(1, int(self.allowed)):
                    break
                self._changed.wait(min(rest, 0.2) if rest > 0 else 0.2)  # in steps, since a stop wakes nobody
            self._busy += 1
        try:
            yield not stop.is_set()
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify()

    def hold(self, seconds: float) -> None:
        """Nobody asks before so many seconds have passed; of holds at one time one slows down."""
        with self._changed:
            now = time.monotonic()
            if now >= self._until:
                self.allowed = max(1.0, self.allowed / 2)
            self._until = max(self._until, now + seconds)

    def went_well(self) -> None:
        """An answer came."""
        with self._changed:
            self.allowed = min(float(self.most), self.allowed + 1 / self.allowed)
            self._changed.notify()


def each(
    keys: Iterable[Key],
    work: Callable[[Key], Result],
    tell: Callable[[Key, Result], None],
    *,
    workers: int,
    stop: threading.Event,
) -> None:
    """Do something for every key in threads, each of which takes the next key when it is done with the last.

    Nothing waits in line: memory holds what `workers` have under way, however many keys there are.

    Args:
        keys: read one at a time.
        work: called in a thread; its first exception stops the others and is raised.
        tell: called in this thread with every result as it comes, also those that come after an exception.
        workers: threads.
        stop: set on the first exception and at the end, for `work` to look at.
    """
    line, lock = iter(keys), threading.Lock()
    done: SimpleQueue[tuple[Key, Result] | BaseException | None] = SimpleQueue()
    room = threading.Semaphore(2 * workers)  # results that were not told yet

    def run() -> None:
        try:
            while not stop.is_set():
                room.acquire()
                with lock:
                    try:
                        key = next(line)
                    except StopIteration:
                        break
                done.put((key, work(key)))
        except BaseException as error:
            stop.set()
            done.put(error)
        finally:
            room.release()
            done.put(None)

    with ThreadPoolExecutor(workers, thread_name_prefix="asking") as pool:
        try:
            for _ in range(workers):
                pool.submit(run)
            _collect(done, room, tell, workers, stop)
        finally:
            stop.set()
            for _ in range(2 * workers):
                room.release()


def _collect(
    done: SimpleQueue[tuple[Key, Result] | BaseException | None],
    room: threading.Semaphore,
    tell: Callable[[Key, Result], None],
    workers: int,
    stop: threading.Event,
) -> None:
    """Tell results until all workers have ended, then raise what went wrong first."""
    first: BaseException | None = None
    while workers:
        item = done.get()
        if item is None:
            workers -= 1
        elif isinstance(item, BaseException):
            first = first or item
        else:
            room.release()
            try:
                tell(*item)
            except Exception as error:  # what can't be told is no reason to leave threads behind
                stop.set()
                first = first or error
    if first:
        raise first
