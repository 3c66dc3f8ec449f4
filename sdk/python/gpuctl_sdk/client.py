"""The clients: one that waits for its answers, and one for asyncio."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Collection
from types import TracebackType
from typing import Any

import httpx

from gpuctl_sdk.calls import Call
from gpuctl_sdk.exchange import Exchange, Token, Wait
from gpuctl_sdk.following import AsyncLogs, Logs, LogWish
from gpuctl_sdk.operations import AsyncOperations, Operations
from gpuctl_sdk.retrying import Retrying
from gpuctl_sdk.waiting import ENDED, Watch

TIMEOUT = 75.0
"""Seconds: longer than the service lets any request wait, which is 60."""

CONNECTING = 10.0


class Client(Operations):
    """The service at an address, for somebody's token.

    A client may be used by several threads. It is a context manager, or is closed by :meth:`close`::

        with Client("https://gpuctl.example.com", token) as client:
            for job in client.all_jobs(status="running"):
                print(job.job_id, job.gpu)

    :param url: with or without ``/api/v1``.
    :param token: or a function that gives the one that is valid now; it is asked for each request.
    :param timeout: seconds that a part of an exchange may take: sending, the next bytes of an answer;
        connecting takes at most 10.
    :param retrying: how often what is idempotent is sent again on 429, 502, 503 and broken connections.
    :param verify: whom to trust with TLS, as httpx takes it.
    :param insecure_plain_http: accept an http:// address of another machine: the token is sent unencrypted.
    :param transport: of httpx, for tests and for proxies.
    """

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        timeout: float = TIMEOUT,
        retrying: Retrying | None = None,
        verify: ssl.SSLContext | bool = True,
        insecure_plain_http: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._exchange = Exchange(url, token, retrying or Retrying(), insecure_plain_http)
        self._timeout = timeout
        self._http = httpx.Client(
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECTING)), verify=verify, transport=transport
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._exchange.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def send(self, call: Call) -> Any:
        """Send a request; its answer."""
        attempt = 1
        while True:
            try:
                response = self._http.request(**self._exchange.request(call))
            except httpx.TransportError as error:
                found: Any = self._exchange.failed(call, attempt, error)
            else:
                found = self._exchange.answered(call, attempt, response)
            if not isinstance(found, Wait):
                return found
            time.sleep(found.seconds)
            attempt += 1

    def follow_logs(
        self,
        job: str,
        *,
        tail: int | None = None,
        since: str | None = None,
        grep: str | None = None,
        pod: str | None = None,
        container: str | None = None,
        namespace: str | None = None,
    ) -> Logs:
        """What a job prints, as it comes, until it has ended. A connection that breaks is made again; no line is
        given twice. Close it, or use it as a context manager::

            with client.follow_logs("qwen2-7b-sft") as lines:
                for line in lines:
                    print(line.pod, line.text)

        :param tail: lines of each pod that were printed before; default: the service's, 100.
        :param since: how far back: a length of time (``10m``), or a time.
        :param grep: only lines that contain this text.
        """
        wish = LogWish(job, tail, since, grep, pod, container, namespace)
        return Logs(self._http, self._exchange, wish, self._timeout)

    def wait_for_job(
        self,
        job: str,
        until: str | Collection[str] = ENDED,
        *,
        timeout: float | None = None,
        every: float = 2.0,
        namespace: str | None = None,
    ) -> str:
        """Wait until a job has a status; the status.

        :param until: one or more: ``running``, ``succeeded``, ``failed``, ``paused``; default: it has ended.
        :param timeout: seconds for all of it; None waits for ever.
        :param every: seconds between two looks.
        :raises JobEnded: it has ended otherwise.
        :raises TimedOut: it has not come to it in time.
        """
        watch = Watch(job, until, timeout)
        while not watch.reached(self.get_job(job, namespace=namespace).status):
            time.sleep(watch.pause(every))
        return watch.status


class AsyncClient(AsyncOperations):
    """As :class:`Client`, for asyncio."""

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        timeout: float = TIMEOUT,
        retrying: Retrying | None = None,
        verify: ssl.SSLContext | bool = True,
        insecure_plain_http: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._exchange = Exchange(url, token, retrying or Retrying(), insecure_plain_http)
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECTING)), verify=verify, transport=transport
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._exchange.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def send(self, call: Call) -> Any:
        """Send a request; its answer."""
        attempt = 1
        while True:
            try:
                response = await self._http.request(**self._exchange.request(call))
            except httpx.TransportError as error:
                found: Any = self._exchange.failed(call, attempt, error)
            else:
                found = self._exchange.answered(call, attempt, response)
            if not isinstance(found, Wait):
                return found
            await asyncio.sleep(found.seconds)
            attempt += 1

    def follow_logs(
        self,
        job: str,
        *,
        tail: int | None = None,
        since: str | None = None,
        grep: str | None = None,
        pod: str | None = None,
        container: str | None = None,
        namespace: str | None = None,
    ) -> AsyncLogs:
        """As :meth:`Client.follow_logs`, with ``async with`` and ``async for``."""
        wish = LogWish(job, tail, since, grep, pod, container, namespace)
        return AsyncLogs(self._http, self._exchange, wish, self._timeout)

    async def wait_for_job(
        self,
        job: str,
        until: str | Collection[str] = ENDED,
        *,
        timeout: float | None = None,
        every: float = 2.0,
        namespace: str | None = None,
    ) -> str:
        """As :meth:`Client.wait_for_job`."""
        watch = Watch(job, until, timeout)
        while not watch.reached((await self.get_job(job, namespace=namespace)).status):
            await asyncio.sleep(watch.pause(every))
        return watch.status
