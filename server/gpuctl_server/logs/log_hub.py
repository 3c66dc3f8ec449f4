"""All followed logs and their followers, with limits on their numbers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.connection import Connection
from gpuctl.language.sentences import Template, say
from gpuctl.language.settings import Settings
from gpuctl_server.limits.fair_slots import CountedSlots, NoFreeSlot
from gpuctl_server.logs.follower import FollowedItem, LogEnd, LogSubscription
from gpuctl_server.logs.log_channel import AWAY, LogAddress, LogChannel
from gpuctl_server.logs.log_entries import LogEntry
from gpuctl_server.logs.past_lines import PastLines, ReaderTooSlow
from gpuctl_server.server_settings import ServerSettings

_ENDING = Template("the service is shutting down; connect again")
_SHUTDOWN = 1012
"""Code of the end of a log when the service stops."""
_AT_ONCE = 64
"""Maximum number of concurrent readings of past lines. They wait for kubelets most of the time."""
_ROUNDS = 5
_TURN = 64
_FAREWELL = 2.0


class TooManyFollowers(Exception):
    """The number of followers is at its limit; ``str()`` is a message for the user."""


class LogHub:
    """The followed logs. Coroutines belong to one event loop."""

    def __init__(self, connection: Connection, platform: Settings, settings: ServerSettings) -> None:
        self._connection = connection
        self._platform = platform
        self._settings = settings
        self._slots = CountedSlots(settings.followers, settings.followers_each)
        self._channels: dict[LogAddress, LogChannel] = {}
        self._readings = asyncio.Semaphore(_AT_ONCE)
        self.ending = False

    @property
    def followers(self) -> int:
        """Number of followers."""
        return self._slots.running

    def enter(self, name: str) -> None:
        """Count a follower; :meth:`leave` must follow. May be called from any thread.

        :raises TooManyFollowers: a limit is reached, or the service is shutting down.
        """
        if self.ending:
            raise TooManyFollowers(say(_ENDING))
        try:
            self._slots.begin(name)
        except NoFreeSlot as full:
            most = self._settings.followers_each if full.is_own else self._settings.followers
            raise TooManyFollowers(
                say("{name} is following {most} logs, which is the limit", name=name, most=most)
                if full.is_own
                else say("{most} clients are following logs, which is the limit; try again later", most=most)
            ) from None

    def leave(self, name: str) -> None:
        """End the count of a follower."""
        self._slots.done(name)

    async def follow(
        self, address: LogAddress, follower: LogSubscription, patience: float
    ) -> AsyncGenerator[FollowedItem | LogEnd | None, None]:
        """Yield the selected lines of a log, up to its end; None after the past ones, and when none arrived for
        ``patience`` seconds.
        """
        try:
            channel = self._channel(address)
        except TooManyFollowers as error:
            yield LogEnd(AWAY, str(error))
            return
        channel.users += 1
        try:
            await channel.primed.wait()
            if not channel.try_join(follower):
                async with channel.readings, contextlib.aclosing(self._past(channel, follower)) as past:
                    async for entry in past:
                        yield entry
            yield None
            for number in itertools.count(1):
                item = await follower.next(patience)
                if isinstance(item, LogEnd) and item.code == _SHUTDOWN:
                    # The service ends the logs outside of the requests, which have the languages.
                    item = LogEnd(_SHUTDOWN, say(_ENDING))
                yield item
                if number % _TURN == 0:
                    # Neither taking a waiting line nor writing to a socket yields to other tasks.
                    await asyncio.sleep(0)
                if isinstance(item, LogEnd):
                    return
        finally:
            channel.leave(follower)
            channel.users -= 1
            if not channel.users:
                self._release(channel)

    async def end(self) -> None:
        """End all streams. Wait briefly until the followers have left."""
        self.ending = True
        for channel in list(self._channels.values()):
            channel.stop()
            channel.finish(LogEnd(_SHUTDOWN, ""))
        deadline = asyncio.get_running_loop().time() + _FAREWELL
        while self.followers and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)

    async def _past(self, channel: LogChannel, follower: LogSubscription) -> AsyncGenerator[LogEntry, None]:
        """Yield past lines up to the position where new lines continue."""
        for _ in range(_ROUNDS):
            follower.begin_catch_up()
            heads = channel.connect(follower)
            # Another pod may have the name of a deleted one.
            logs = {key: recent.log for key, recent in channel.recent.items() if not recent.gone}
            try:
                history = PastLines(self._connection, logs, follower)
                async with contextlib.aclosing(history.entries(self._readings)) as entries:
                    async for entry in entries:
                        follower.reached(entry)
                        if follower.wants(entry):
                            yield entry
            except ReaderTooSlow:
                break
            except ClusterError as error:
                follower.finish(LogEnd(AWAY, error.message))
                follower.go_live(heads)
                return
            if not follower.overflowed:
                follower.go_live(heads)
                return
            channel.leave(follower)
        follower.cut.set()

    def _channel(self, address: LogAddress) -> LogChannel:
        channel = self._channels.get(address)
        if channel is None:
            if len(self._channels) >= self._settings.followed_jobs:
                raise TooManyFollowers(
                    say("the logs of {jobs} jobs are being followed, which is the limit", jobs=len(self._channels))
                )
            channel = self._channels[address] = LogChannel(self._connection, self._platform, address, self._release)
            channel.start()
        return channel

    def _release(self, channel: LogChannel) -> None:
        channel.stop()
        if self._channels.get(channel.address) is channel:
            del self._channels[channel.address]
