"""HTTP load generator with low CPU use: several connections, each with one request at a time; prints latencies as JSON.

    python clients.py HOST PORT TOKEN SECONDS CLIENTS PATH...

Each client requests the paths in turn. It runs in its own process, so that it does not add to the measured one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

TIMES: list[float] = []
SIZES: list[int] = []
BAD: list[str] = []


async def client(host: str, port: int, requests: list[bytes], first: int, until: float) -> None:
    reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
    number = first
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(requests[number % len(requests)])
        number += 1
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        TIMES.append(time.perf_counter() - begun)
        SIZES.append(length)
        if b" 200 " not in head[:20]:
            BAD.append(head.partition(b"\r\n")[0].decode())
    writer.close()


async def main() -> None:
    host, port, token, seconds, clients, *paths = sys.argv[1:]
    requests = [
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode() for path in paths
    ]
    until = time.perf_counter() + float(seconds)
    await asyncio.gather(*(client(host, int(port), requests, number * 7, until) for number in range(int(clients))))
    TIMES.sort()
    share = {name: TIMES[min(len(TIMES) - 1, int(len(TIMES) * part))] for name, part in (("p50", 0.5), ("p95", 0.95))}
    print(json.dumps({**share, "requests": len(TIMES), "bytes": sum(SIZES) / len(SIZES), "bad": BAD[:5]}))


asyncio.run(main())
