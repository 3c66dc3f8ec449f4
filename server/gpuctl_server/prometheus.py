"""The way to Prometheus: questions with an end, and answers with a limit."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import urllib3
from urllib3.util import Timeout, make_headers, parse_url

from gpuctl.language.wording import visible
from gpuctl_server.access.kubernetes import Remembered

LARGEST = 8 * 1024 * 1024
"""Bytes of an answer that is read."""
_CONNECT = 2.0
_RECENT = 15.0
"""Seconds for which a single value is not asked for again."""
_AWAY = 5.0
"""Seconds for which one that does not answer is not asked for single values again."""


class PrometheusProblem(Exception):
    """It has no answer; ``str()`` is for people."""


class Sample(NamedTuple):
    """A value at a time (seconds since 1970)."""

    time: float
    value: float


class Series(NamedTuple):
    """Values of one set of labels, in the order of time; neither NaN nor Inf is among them."""

    labels: Mapping[str, str]
    samples: list[Sample]


class Prometheus:
    """One Prometheus. ``address`` may have a user and a password; ``token`` is a file with a bearer token. Safe to use
    from several threads."""

    def __init__(self, address: str, token: Path | None = None) -> None:
        url = parse_url(address)
        self.name = f"{url.scheme}://{url.netloc}{url.path or ''}"
        self._base = self.name.rstrip("/")
        self._headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if url.auth:
            self._headers |= make_headers(basic_auth=url.auth)
        self._token = token
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=8, retries=False)
        self._recent: Remembered[str, list[Series]] = Remembered(_RECENT)
        self._lock = threading.Lock()
        self._away_until = 0.0

    def over_time(self, query: str, start: int, end: int, step: int, within: float) -> list[Series]:
        """The series of a query from a time to another (seconds since 1970), a value every ``step`` seconds.

        :param within: how many seconds it may take.
        :raises PrometheusProblem: there is no answer.
        """
        fields = {"query": query, "start": str(start), "end": str(end), "step": str(step)}
        return self._ask("query_range", fields, within)

    def now(self, query: str, within: float) -> list[Series]:
        """The values of a query now, or some seconds ago, each a series of one.

        :raises PrometheusProblem: there is no answer; at once where there was none a moment ago.
        """

        def ask() -> list[Series]:
            if time.monotonic() < self._away_until:
                raise PrometheusProblem(f"{self.name} has not answered")
            begun = time.monotonic()
            try:
                return self._ask("query", {"query": query}, within)
            except PrometheusProblem:
                if time.monotonic() > begun + within / 2:
                    self._away_until = time.monotonic() + _AWAY
                raise

        return self._recent.get(query, ask)

    def _ask(self, path: str, fields: Mapping[str, str], within: float) -> list[Series]:
        value = self._answer(path, fields, time.monotonic() + within)
        data = value.get("data")
        found = data.get("result") if isinstance(data, dict) else None
        try:
            if not isinstance(found, list):
                raise ValueError
            return [_series(item) for item in found]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise PrometheusProblem(f"{self.name} answered with something that is no list of series") from None

    def _answer(self, path: str, fields: Mapping[str, str], deadline: float) -> dict[str, Any]:
        left = max(0.1, deadline - time.monotonic())
        try:
            response = self._pool.request(
                "POST",
                f"{self._base}/api/v1/{path}",
                fields=fields,
                encode_multipart=False,
                headers=self._authorized(),
                # Where it leads may be anywhere, and it would be given the credentials.
                redirect=False,
                timeout=Timeout(connect=min(_CONNECT, left), read=left),
                preload_content=False,
            )
            try:
                body = self._body(response, deadline)
            finally:
                response.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            reason = type(error).__name__ if not str(error) else str(error).rpartition(": ")[2]
            raise PrometheusProblem(f"{self.name} cannot be reached: {visible(reason)[:200]}") from None
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if response.status == 200 and isinstance(value, dict) and value.get("status") == "success":
            return value
        said = value.get("error") if isinstance(value, dict) else None
        text = f": {visible(str(said))[:300]}" if said else ""
        raise PrometheusProblem(f"{self.name} answered with the status {response.status}{text}")

    def _body(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        body = bytearray()
        while data := response.read(64 * 1024, decode_content=False):
            body += data
            if len(body) > LARGEST:
                raise PrometheusProblem(f"{self.name} answered with more than {LARGEST // 2**20} MiB")
            if time.monotonic() > deadline:
                raise PrometheusProblem(f"{self.name} did not answer in time")
        return bytes(body)

    def _authorized(self) -> dict[str, str]:
        if self._token is None:
            return self._headers
        try:
            token = self._token.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise PrometheusProblem(f"the token for {self.name} cannot be read: {error}") from None
        return {**self._headers, "Authorization": f"Bearer {token}"}


def _series(item: Mapping[str, Any]) -> Series:
    values = item["values"] if "values" in item else [item["value"]]
    samples = [Sample(float(at), float(text)) for at, text in values]
    return Series(dict(item["metric"]), [sample for sample in samples if math.isfinite(sample.value)])
