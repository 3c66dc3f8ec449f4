"""The clients: a blocking one and one for asyncio."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Collection
from types import TracebackType
from typing import Any

import httpx

from gpuctl_sdk.calls import Call
from gpuctl_sdk.errors import ServiceError, Unreachable
from gpuctl_sdk.exchange import Exchange, Token, Wait
from gpuctl_sdk.following import AsyncLogs, LogQuery, Logs
from gpuctl_sdk.operations import AsyncOperations, Operations
from gpuctl_sdk.retrying import Retrying
from gpuctl_sdk.waiting import ENDED, Watch


class Client(Operations):
    """A blocking client for the service at an address.

    Several threads can share a client. Use it as a context manager, or call :meth:`close`::

        with Client("https://gpuctl.example.com", token) as client:
            for job in client.all_jobs(status="running"):
                print(job.job_id, job.gpu)

    :param url: address, with or without ``/api/v1``.
    :param token: token, or a function that returns the current one; it is called for each request.
    :param timeout: seconds for one phase of an exchange: sending, or waiting for the next bytes of a response.
        Connecting takes at most 10. Default: 75, and 660 for changes, which may save checkpoints or wait for pods.
    :param retrying: how idempotent requests are retried on 429, 502, 503 and broken connections.
    :param verify: TLS verification, as for httpx.
    :param insecure_plain_http: allow an http:// address of another machine; the token is sent unencrypted.
    :param transport: httpx transport, for tests and proxies.
    """

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        timeout: float | None = None,
        retrying: Retrying | None = None,
        verify: ssl.SSLContext | bool = True,
        insecure_plain_http: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._exchange = Exchange(url, token, retrying or Retrying(), insecure_plain_http, timeout)
        self._http = httpx.Client(verify=verify, transport=transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._exchange.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call) -> Any:
        """Send a request and return its response."""
        attempt = 1
        while True:
            try:
                response = self._http.request(**self._exchange.request(call))
            except httpx.RequestError as error:
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
        """Return an iterator over the log lines of a job, which continues until the job has ended. It reconnects after
        a broken connection and returns no line twice. Close it, or use it as a context manager::

            with client.follow_logs("qwen2-7b-sft") as lines:
                for line in lines:
                    print(line.pod, line.text)

        :param tail: number of earlier lines of each pod; default: the service's, 100.
        :param since: start: a duration (``10m``) or a time.
        :param grep: only lines that contain this text.
        """
        wish = LogQuery(job, tail, since, grep, pod, container, namespace)
        return Logs(self._http, self._exchange, wish)

    def wait_for_job(
        self,
        job: str,
        until: str | Collection[str] = ENDED,
        *,
        timeout: float | None = None,
        every: float = 2.0,
        namespace: str | None = None,
    ) -> str:
        """Wait until a job has a status, and return the status. The service may be away for up to a minute, for example
        while it is replaced.

        :param until: one or more of ``running``, ``succeeded``, ``failed``, ``paused``; default: the job has ended.
        :param timeout: seconds for the whole call; None: no limit. Its last request may take a second more.
        :param every: polling interval in seconds.
        :raises JobEnded: the job ended with another status.
        :raises TimedOut: the job did not have the status in time.
        """
        watch = Watch(job, until, timeout, namespace)
        while True:
            try:
                if watch.reached(self.send(watch.call).status):
                    return watch.status
            except (Unreachable, ServiceError) as error:
                watch.missed(error)
            time.sleep(watch.pause(every))


class AsyncClient(AsyncOperations):
    """An asyncio client, with the methods of :class:`Client`."""

    def __init__(
        self,
        url: str,
        token: Token,
        *,
        timeout: float | None = None,
        retrying: Retrying | None = None,
        verify: ssl.SSLContext | bool = True,
        insecure_plain_http: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._exchange = Exchange(url, token, retrying or Retrying(), insecure_plain_http, timeout)
        self._http = httpx.AsyncClient(verify=verify, transport=transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._exchange.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call) -> Any:
        """Send a request and return its response."""
        attempt = 1
        while True:
            try:
                response = await self._http.request(**self._exchange.request(call))
            except httpx.RequestError as error:
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
        """Return what :meth:`Client.follow_logs` returns, for ``async with`` and ``async for``."""
        wish = LogQuery(job, tail, since, grep, pod, container, namespace)
        return AsyncLogs(self._http, self._exchange, wish)

    async def wait_for_job(
        self,
        job: str,
        until: str | Collection[str] = ENDED,
        *,
        timeout: float | None = None,
        every: float = 2.0,
        namespace: str | None = None,
    ) -> str:
        """Wait as :meth:`Client.wait_for_job` does."""
        watch = Watch(job, until, timeout, namespace)
        while True:
            try:
                if watch.reached((await self.send(watch.call)).status):
                    return watch.status
            except (Unreachable, ServiceError) as error:
                watch.missed(error)
            await asyncio.sleep(watch.pause(every))
