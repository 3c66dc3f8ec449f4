"""The log of one job, read by one thread, and distributed to all followers on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuctl.kube.api_errors import ClusterError, ConnectionFailed
from gpuctl.kube.connection import Connection
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.logs.log_follower import Interruption, Notice, PodEnded
from gpuctl.reading.logs.log_streams import ContainerLog, LogBatch, LogProblem
from gpuctl.usecases.queries.job_logs import FollowedLogs, JobLogs, LogQuery
from gpuctl.usecases.queries.read_context import context_of
from gpuctl_server.logs.follower import HAS_ENDED, FollowedItem, LogEnd, LogNote, LogSelection, LogSubscription
from gpuctl_server.logs.log_entries import BEGINNING, LogEntries, LogEntry, LogPosition
from gpuctl_server.mirror.redacting_session import RedactingSession
from gpuctl_server.mirror.visibility import Visibility
from gpuctl_server.request_log import LOG

KEPT_LINES = 1000
"""Number of newest lines of each container that are kept for later followers."""
KEPT_BYTES = 4 * 1024 * 1024
"""Maximum size of these lines for all containers of a job, bytes."""
_KEPT_ENDED = 32
_READINGS = 4
"""Maximum number of concurrent readings of past lines of a job: a slow kubelet, or slow clients, delay only its own
followers."""
_ON_THE_WAY = 8
"""Maximum number of batches in transit from the thread to the event loop."""
_STEP = 0.01
AWAY = 1013
FAILED = 1011


class LogAddress(NamedTuple):
    """The log of a job: its namespace, its name as in :func:`find_job`, and a container of its pods.

    ``pools``: those whose pods the followers may see; None: all. A new job of the same name may be in another pool.
    ``is_chinese``: the language of the messages beside the lines.
    """

    namespace: str
    job: str
    container: str | None
    pools: frozenset[str] | None
    is_chinese: bool = False


@dataclass(eq=False)
class RecentLines:
    """The newest lines of a container.

    :param complete: True if these are all lines.
    :param gone: True if older lines can no longer be read.
    """

    log: ContainerLog
    complete: bool
    gone: bool = False
    entries: deque[LogEntry] = field(default_factory=deque)
    size: int = 0

    def add(self, entry: LogEntry, most: int) -> None:
        """Add a line. ``most`` is the maximum size, bytes."""
        self.entries.append(entry)
        self.size += entry.size
        while len(self.entries) > KEPT_LINES or (self.size > most and len(self.entries) > 1):
            self.size -= self.entries.popleft().size
            self.complete = False

    @property
    def head(self) -> LogPosition:
        """The position of the last line."""
        return self.entries[-1].position if self.entries else BEGINNING

    def first_selected(self, key: bytes, selection: LogSelection) -> int | None:
        """Return the index of the first selected line; None if older lines are selected as well."""
        first = self._first(key, selection)
        if first is None and self.gone:
            seen = selection.position_in(key) or BEGINNING
            return sum(entry.position.time <= seen.time for entry in self.entries)
        return first

    def _first(self, key: bytes, selection: LogSelection) -> int | None:
        position = selection.position_in(key)
        if position is not None and position != BEGINNING:
            found = [number for number, entry in enumerate(self.entries) if entry.position == position]
            return found[0] + 1 if found else None
        if position is not None or (selection.resume_from and selection.resume_from.whole):
            return 0 if self.complete else None
        count = len(self.entries)
        first = 0 if selection.tail is None else max(0, count - selection.tail)
        enough = self.complete or (selection.tail is not None and count >= selection.tail)
        if selection.since is not None:
            enough = enough or (count > 0 and self.entries[0].position.time < selection.since)
            late = [number for number, entry in enumerate(self.entries) if entry.position.time >= selection.since]
            first = max(first, late[0] if late else count)
        return first if enough else None


class LogChannel:
    """The stream of one log. Everything except the thread's own work runs on the event loop.

    :param ended: called when the stream has ended.
    """

    def __init__(
        self, connection: Connection, platform: Settings, address: LogAddress, ended: Callable[[LogChannel], None]
    ) -> None:
        self.address = address
        self.users = 0
        self.primed = asyncio.Event()
        self.readings = asyncio.Semaphore(_READINGS)
        self.recent: dict[bytes, RecentLines] = {}
        self.end: LogEnd | None = None
        self._ended = ended
        self._followers: set[LogSubscription] = set()
        self._ended_pods: dict[str, str] = {}
        self._interruptions: dict[str | None, LogNote] = {}
        self._loop = asyncio.get_running_loop()
        self._reader = _ChannelReader(connection, platform, address, self._post)
        self._room = threading.Semaphore(_ON_THE_WAY)

    def start(self) -> None:
        """Start reading."""
        self._reader.start()

    def stop(self) -> None:
        """Request the end, without waiting for it."""
        self._reader.stop()

    def try_join(self, follower: LogSubscription) -> bool:
        """Add a follower if the recent lines include all past lines of its selection. Return False otherwise."""
        selected: list[Iterable[LogEntry]] = []
        positions: dict[bytes, LogPosition] = {}
        for key, recent in self.recent.items():
            first = recent.first_selected(key, follower.selection)
            if first is None:
                return False
            lines = list(recent.entries)
            selected.append(lines[first:])
            if first:
                positions[key] = lines[first - 1].position
            elif recent.complete:
                positions[key] = BEGINNING
        entries = heapq.merge(*selected, key=lambda entry: entry.position.time)
        follower.begin([entry for entry in entries if follower.wants(entry)], positions)
        self.connect(follower)
        return True

    def connect(self, follower: LogSubscription) -> dict[bytes, LogPosition]:
        """Add a follower for new lines. Return the current positions."""
        self._followers.add(follower)
        for note in self._interruptions.values():
            follower.offer(note)
        if self.end is not None:
            follower.finish(self.end)
        elif follower.selection.uid in self._ended_pods:
            follower.finish(LogEnd(HAS_ENDED, self._ended_pods[follower.selection.uid or ""]))
        return {key: recent.head for key, recent in self.recent.items()}

    def leave(self, follower: LogSubscription) -> None:
        """Remove a follower."""
        self._followers.discard(follower)

    def finish(self, end: LogEnd) -> None:
        """End the stream for all followers."""
        self.end = self.end or end
        self.primed.set()
        for follower in self._followers:
            follower.finish(self.end)
        self._ended(self)

    def _post(self, message: _Message) -> None:
        """Send a message from the thread to the event loop. Block while too many are in transit."""
        while not self._room.acquire(timeout=0.5):
            if self._reader.stopped:
                return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._receive, message)

    def _receive(self, message: _Message) -> None:
        if isinstance(message, _Lines):
            self._keep(message)
            self._make_room()
            return
        self._room.release()
        if isinstance(message, _Primed):
            self.recent = message.recent
            self.primed.set()
        elif isinstance(message, PodEnded):
            self._pod_ended(message)
        elif isinstance(message, LogEnd):
            self.finish(message)
        else:
            self._note_interruption(message)
            self._offer([message])

    def _make_room(self) -> None:
        """Let the thread continue when followers have taken most of the items. The wait for a slow follower is
        short."""
        now = self._loop.time()
        # A set evaluates all followers, so that their waiting times overlap instead of adding up.
        if True in {follower.is_waited_for(now) for follower in self._followers}:
            self._loop.call_later(_STEP, self._make_room)
        else:
            self._room.release()

    def _keep(self, lines: _Lines) -> None:
        recent = self.recent.get(lines.key)
        if recent is None:
            recent = self.recent[lines.key] = RecentLines(lines.log, lines.complete)
        most = KEPT_BYTES // len(self.recent)
        for entry in lines.entries:
            recent.add(entry, most)
        self._offer(lines.entries)

    def _offer(self, items: Iterable[FollowedItem]) -> None:
        for follower in self._followers:
            for item in items:
                follower.offer(item)

    def _note_interruption(self, note: LogNote) -> None:
        """Keep an interruption for later followers until it ends, or the rest of the log is lost."""
        if note.interruption is not None or note.kind == "problem":
            self._interruptions.pop(note.pod, None)
        if note.interruption:
            self._interruptions[note.pod] = note

    def _pod_ended(self, ended: PodEnded) -> None:
        self._ended_pods[ended.uid] = ended.text
        self._interruptions = {pod: note for pod, note in self._interruptions.items() if note.uid != ended.uid}
        for follower in self._followers:
            if follower.selection.uid == ended.uid:
                follower.finish(LogEnd(HAS_ENDED, ended.text))
        for recent in self.recent.values():
            recent.gone = recent.gone or (ended.gone and recent.log.pod["metadata"]["uid"] == ended.uid)
        over = [key for key, recent in self.recent.items() if recent.log.pod["metadata"]["uid"] in self._ended_pods]
        for key in over[:-_KEPT_ENDED]:
            del self.recent[key]


class _Lines(NamedTuple):
    """Lines of a container. ``complete`` is True if the first batch begins at the start of its log."""

    key: bytes
    log: ContainerLog
    complete: bool
    entries: list[LogEntry]


class _Primed(NamedTuple):
    """The lines of all containers when the stream began."""

    recent: dict[bytes, RecentLines]


_Message = _Lines | _Primed | PodEnded | LogEnd | LogNote


class _ChannelReader:
    """The thread of a channel."""

    def __init__(
        self, connection: Connection, platform: Settings, address: LogAddress, post: Callable[[_Message], None]
    ) -> None:
        self._connection = connection
        self._platform = platform
        self._address = address
        self._post = post
        self._entries: dict[ContainerLog, LogEntries] = {}
        self.stopped = False

    def start(self) -> None:
        """Start the thread, with the language of the request that is the first to follow the log."""
        threading.Thread(target=copy_context().run, args=(self._work,), daemon=True, name="gpuctl-channel").start()

    def stop(self) -> None:
        """Request the end. The thread checks it several times a second."""
        self.stopped = True

    def _work(self) -> None:
        namespace, keys = self._address.namespace, records(self._platform)
        visibility = Visibility(lambda other: other == namespace, self._address.pools, keys.pool)
        session = RedactingSession(self._connection, visibility, threads=4)
        try:
            end = self._follow(session)
        except ClusterError as error:
            end = LogEnd(AWAY if isinstance(error, ConnectionFailed) else FAILED, error.message)
        except Exception:
            LOG.exception("following a log failed")
            end = LogEnd(FAILED, say("internal error; see the log of the service"))
        finally:
            session.close()
        self._post(end)

    def _follow(self, session: RedactingSession) -> LogEnd:
        reader = context_of(session, self._platform, self._address.namespace)
        query = LogQuery(tail=KEPT_LINES, container=self._address.container)
        logs = JobLogs(reader, self._address.job, query).followed(read_all=True)
        self._post(self._primed(logs))
        last = ""
        with contextlib.closing(logs.items()) as items:
            for item in items:
                if self.stopped:
                    break
                if isinstance(item, LogBatch):
                    self._pass_on(item)
                elif isinstance(item, Notice):
                    last = item.text
                    self._post(LogNote("notice", None, item.text, item.uid))
                elif isinstance(item, Interruption):
                    self._post(LogNote("notice", item.pod, item.text, item.uid, item.reason))
                elif isinstance(item, LogProblem):
                    self._post(LogNote("problem", item.pod, item.message))
                elif item is not None:
                    # A log that has ended needs no numbers of its lines: pods come and go.
                    self._entries = {source: made for source, made in self._entries.items() if made.uid != item.uid}
                    self._post(item)
        return LogEnd(HAS_ENDED, last)

    def _primed(self, logs: FollowedLogs) -> _Primed:
        """Read the last lines of each container."""
        recent: dict[bytes, RecentLines] = {}
        counts = dict.fromkeys(logs.read_first, 0)
        for source in logs.read_first:
            made = self._entries[source] = LogEntries(source)
            recent[made.key] = RecentLines(source, complete=True)
        for source, lines in logs.past():
            counts[source] += len(lines)
            made = self._entries[source]
            for entry in made.of(lines):
                recent[made.key].add(entry, KEPT_BYTES // len(counts))
        for source, count in counts.items():
            kept = recent[self._entries[source].key]
            if count >= KEPT_LINES or source.name in logs.unread:
                kept.complete = False
                # Other lines with the time of the first one may be missing, so that their numbers would be wrong.
                first = kept.entries[0].position.time if kept.entries else 0
                while kept.entries and kept.entries[0].position.time == first:
                    kept.size -= kept.entries.popleft().size
        return _Primed(recent)

    def _pass_on(self, batch: LogBatch) -> None:
        made = self._entries.get(batch.source)
        if made is None:
            made = self._entries[batch.source] = LogEntries(batch.source)
        entries = list(made.of(batch.lines))
        if entries:
            self._post(_Lines(made.key, batch.source, batch.source.options.tail is None, entries))
