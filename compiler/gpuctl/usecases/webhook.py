"""Report actions to a webhook: a POST of JSON."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.proxies import proxy_for

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

_WITHIN = 10.0
_LARGEST = 64 * 1024


def post(address: str, value: Mapping[str, Any]) -> bytes:
    """POST a value. Return the body of the answer, at most 64 KiB.

    The address may contain user and password. Redirects are not followed.

    :raises ClusterError: the request failed; the message does not contain secret parts of the address.
    """
    from urllib3.exceptions import HTTPError
    from urllib3.util import make_headers, parse_url

    try:
        url = parse_url(address)
    except HTTPError:
        raise ClusterError("the address of the webhook is not a URL") from None
    headers = {"Content-Type": "application/json"}
    if url.auth:
        headers |= make_headers(basic_auth=url.auth)
    # For many webhooks the path is the secret.
    name = f"{url.scheme}://{url.netloc}"
    logging.getLogger("urllib3.connection").addFilter(_has_no_address)
    with _pool(name) as pool:
        try:
            answer = pool.request(
                "POST",
                f"{name}{url.request_uri}",
                body=json.dumps(value, ensure_ascii=False).encode(),
                headers=headers,
                redirect=False,
                timeout=_WITHIN,
                preload_content=False,
            )
            body = _body(answer)
        except HTTPError as error:
            raise ClusterError(f"the webhook at {name} does not answer ({type(error).__name__})") from None
    if not 200 <= answer.status < 300:
        raise ClusterError(f"the webhook at {name} rejected the message: status {answer.status}")
    return body


def _has_no_address(record: logging.LogRecord) -> bool:
    """Return False for urllib3's warning about the headers of an answer, which contains the whole address."""
    return not str(record.msg).startswith("Failed to parse headers")


def _pool(server: str) -> PoolManager:
    import urllib3

    proxy = proxy_for(server, "")
    if proxy is None:
        return urllib3.PoolManager(num_pools=1, retries=False)
    return urllib3.ProxyManager(proxy.url, num_pools=1, retries=False, proxy_headers=dict(proxy.headers))


def _body(answer: BaseHTTPResponse) -> bytes:
    """Return the beginning of a body. Reading ends in time even if it arrives byte by byte."""
    body, end = b"", time.monotonic() + _WITHIN
    while len(body) < _LARGEST and time.monotonic() < end:
        part = answer.read1(4096)
        if not part:
            break
        body += part
    answer.close()
    return body
