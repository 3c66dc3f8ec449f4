"""Channels over a WebSocket, with a server that fragments its messages in any way that RFC 6455 allows."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.channels import PORTION, STATUS, STDERR, STDIN, STDOUT, V4, V5, Channels, Message
from gpuctl.kube.pod_exec import ExecStreams, NotStarted, _run
from gpuctl.kube.port_forwarding import _join

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Yield both ends of a connection: the client's and the server's."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    yield ours, theirs
    ours.close()
    theirs.close()


def frame(payload: bytes, opcode: int = 2, *, last: bool = True) -> bytes:
    """Return an unmasked frame, as servers send them."""
    head = bytes([opcode | (0x80 if last else 0)])
    if len(payload) < 126:
        return head + bytes([len(payload)]) + payload
    if len(payload) < 65536:
        return head + b"\x7e" + len(payload).to_bytes(2, "big") + payload
    return head + b"\x7f" + len(payload).to_bytes(8, "big") + payload


def unmasked(data: bytes) -> tuple[int, bytes, bytes]:
    """Return opcode and payload of a client's first frame, and the data after it."""
    length, start = data[1] & 0x7F, 2
    assert data[1] & 0x80, "a client masks its frames"
    if length >= 126:
        start = 4 if length == 126 else 10
        length = int.from_bytes(data[2:start], "big")
    mask, body = data[start : start + 4], data[start + 4 : start + 4 + length]
    payload = bytes(byte ^ mask[number % 4] for number, byte in enumerate(body))
    return data[0] & 0x0F, payload, data[start + 4 + length :]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_messages_are_read_from_any_fragments(pair: Pair, size: int) -> None:
    ours, theirs = pair
    channels = Channels(ours, V5)
    large = os.urandom(70_000)
    data = frame(b"\x01abc") + frame(b"\x02" + large[:300]) + frame(b"", 0x9) + frame(b"\x01")
    data += frame(b"\x01one ", last=False) + frame(b"", 0xA) + frame(b"two", 0, last=True) + frame(b"\x01" + large)
    thread = threading.Thread(target=lambda: [theirs.sendall(data[at : at + size]) for at in range(0, len(data), size)])
    thread.start()
    found: list[Message] = []
    while len(found) < 5:
        found += channels.receive()
    thread.join()
    expected = [(1, b"abc"), (2, large[:300]), (1, b""), (1, b"one two"), (1, large)]
    assert found == [Message(*item) for item in expected]
    assert not channels.closed
    # A ping is answered.
    assert unmasked(theirs.recv(100))[:2] == (0xA, b"")


def test_send_does_not_block_if_the_peer_does_not_read(pair: Pair) -> None:
    ours, theirs = pair
    channels = Channels(ours, V5)
    data = os.urandom(3_000_000)
    channels.send(0, data)
    assert channels.unsent_bytes > 1_000_000
    received = b""
    while channels.unsent_bytes:
        received += theirs.recv(1 << 20)
        channels.flush()
    ours.shutdown(socket.SHUT_WR)
    while rest := theirs.recv(1 << 20):
        received += rest
    text = []
    while received:
        opcode, payload, received = unmasked(received)
        assert (opcode, payload[0]) == (2, 0)
        text.append(payload[1:])
    assert b"".join(text) == data


def test_close_channel_is_sent_in_protocol_v5_only(pair: Pair) -> None:
    ours, theirs = pair
    assert Channels(ours, V5).close_channel(0)
    assert unmasked(theirs.recv(100))[1] == b"\xff\x00"
    assert not Channels(ours, V4).close_channel(0)


def test_frame_above_16_mib_is_refused(pair: Pair) -> None:
    """A peer cannot fill the memory by announcing 2^40 bytes."""
    ours, theirs = pair
    channels = Channels(ours, V5)
    theirs.sendall(frame(b"\x01abc") + b"\x82\x7f" + (2**40).to_bytes(8, "big") + bytes(1000))
    assert channels.receive() == [Message(1, b"abc")]
    assert channels.closed
    assert str(channels.failure) == "the connection to the pod broke: it announced a message of more than 16 MiB"


def test_fragmented_message_above_16_mib_is_refused(pair: Pair) -> None:
    ours, theirs = pair
    channels = Channels(ours, V5)

    def send() -> None:
        with contextlib.suppress(OSError):
            theirs.sendall(frame(b"\x01", last=False) + frame(bytes(2**20), 0, last=False) * 17)

    thread = threading.Thread(target=send)
    thread.start()
    while not channels.closed:
        assert channels.receive() == []
    channels.close()
    thread.join()
    assert "more than 16 MiB" in str(channels.failure)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"\x03\xf3server died", "the connection to the pod broke: it was closed with code 1011: server died"),
        (b"\x03\xe9", "the connection to the pod broke: it was closed with code 1001"),
        (b"\x03\xf3\x1b[2J", "the connection to the pod broke: it was closed with code 1011: \\x1b[2J"),
        (b"\x03\xe8done", None),
        (b"", None),
    ],
)
def test_close_code_and_reason_are_reported(pair: Pair, payload: bytes, text: str | None) -> None:
    ours, theirs = pair
    channels = Channels(ours, V5)
    theirs.sendall(frame(payload, 0x8))
    assert channels.receive() == []
    assert channels.closed
    assert (str(channels.failure) if channels.failure else None) == text


def test_exec_reports_the_close_reason(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(frame(b"\x03\xf3server died", 0x8))
    with pytest.raises(ConnectionFailed, match="code 1011: server died"):
        _run(Channels(ours, V5), ExecStreams(None, lambda data: None, lambda data: None))


def status(code: str) -> bytes:
    """Return the status by which the API server reports the exit code of a command."""
    details = {"causes": [{"reason": "ExitCode", "message": code}]}
    value = {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "details": details}
    return json.dumps({**value, "message": f"command terminated with non-zero exit code: {code}"}).encode()


def run_command(pair: Pair, *messages: tuple[int, bytes]) -> tuple[int, bytes, bytes]:
    """Return exit code and output of a command whose server sends these messages and closes the connection."""
    ours, theirs = pair
    theirs.sendall(b"".join(frame(bytes([channel]) + data) for channel, data in messages))
    theirs.shutdown(socket.SHUT_WR)
    out, err = bytearray(), bytearray()
    code = _run(Channels(ours, V5), ExecStreams(None, out.extend, err.extend))
    return code, bytes(out), bytes(err)


def test_exec_returns_exit_code_and_output(pair: Pair) -> None:
    messages = ((STDOUT, b""), (STDOUT, b"out"), (STDERR, b"err"), (STATUS, status("42")))
    assert run_command(pair, *messages) == (42, b"out", b"err")


def test_exec_returns_zero_on_success(pair: Pair) -> None:
    assert run_command(pair, (STATUS, b'{"metadata":{},"status":"Success"}')) == (0, b"", b"")


def test_exec_fails_if_the_connection_ends_first(pair: Pair) -> None:
    with pytest.raises(ConnectionFailed, match="ended before the command did"):
        run_command(pair, (STDOUT, b"half"))


def test_exec_reports_a_missing_executable(pair: Pair) -> None:
    words = "OCI runtime exec failed: exec failed: unable to start container process: "
    words += 'exec: "jupyter": executable file not found in $PATH: unknown'
    value = {"status": "Failure", "reason": "InternalError", "message": f"Internal error occurred: {words}"}
    with pytest.raises(NotStarted, match=r"^the container cannot run jupyter: executable file not found in \$PATH$"):
        run_command(pair, (STATUS, json.dumps(value).encode()))


# The end of a connection, after the status or without one.

SUCCESS = b'{"metadata":{},"status":"Success"}'
ENDED = frame(b"\x03\xe8", 0x8)
"""The server's close frame."""


@contextlib.contextmanager
def file_of_size(size: int) -> Iterator[int]:
    """Yield the descriptor of a file with this many bytes."""
    with tempfile.TemporaryFile() as file:
        file.write(bytes(size))
        file.seek(0)
        yield file.fileno()


def tcp_pair() -> Pair:
    """Return both ends of a TCP connection, which can be reset."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    # Like Go's connections, so that data is sent before a close.
    theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


def plain(ours: socket.socket, theirs: socket.socket) -> Pair:
    return ours, theirs


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Callable[[socket.socket, socket.socket], Pair]:
    """Return a function that wraps both ends of a connection in TLS."""
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = str(directory / "server.crt"), str(directory / "server.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*command, "-keyout", key, "-out", certificate, "-subj", "/CN=x"], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=certificate)
    client.check_hostname = False

    def secured(ours: socket.socket, theirs: socket.socket) -> Pair:
        with ThreadPoolExecutor(1) as threads:
            accepted = threads.submit(server.wrap_socket, theirs, server_side=True)
            return client.wrap_socket(ours), accepted.result()

    return secured


@pytest.mark.parametrize("closing", [b"", ENDED], ids=["", "closing-frame"])
@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("way", ["plain", "tls"])
@pytest.mark.parametrize("told", [(), (SUCCESS,), (status("42"),)], ids=["nothing", "success", "42"])
def test_exec_uses_the_status_however_the_connection_ends(
    request: pytest.FixtureRequest, told: tuple[bytes, ...], way: str, end: str, closing: bytes
) -> None:
    """The command does not read its input: the server sends the status and closes while the client still sends."""
    wrapped = request.getfixturevalue("tls") if way == "tls" else plain
    ours, theirs = wrapped(*tcp_pair())
    theirs.sendall(b"".join(frame(bytes([STATUS]) + data) for data in told) + closing)
    if end == "reset":
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # No close_notify; data that the client sent before this is answered with a reset.
    theirs.close()
    # Wait until the close or reset has arrived, so that the order is fixed.
    select.select([ours], [], [], 10)
    out = bytearray()
    channels = Channels(ours, V5)
    with file_of_size(3_000_000) as stdin, ours:
        for _ in range(3):
            # More than once: the first one provokes the reset.
            channels.send(STDIN, bytes(PORTION))
            time.sleep(0.01)
        ends = ExecStreams(stdin, out.extend, out.extend)
        if told:
            assert _run(channels, ends) == (0 if told == (SUCCESS,) else 42)
        else:
            with pytest.raises(ConnectionFailed, match=r"^the connection to the pod (broke: |ended before)"):
                _run(channels, ends)


def test_exec_ends_after_the_status_without_a_close(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load balancer, for instance, may lose the close."""
    monkeypatch.setattr("gpuctl.kube.pod_exec._LAST", 0.2)
    ours, theirs = pair
    theirs.sendall(frame(bytes([STATUS]) + SUCCESS))
    assert _run(Channels(ours, V5), ExecStreams(None, print, print)) == 0


def test_port_forward_delivers_data_sent_before_the_close() -> None:
    """A web server that refuses an upload answers before it has read the request."""
    ours, theirs = tcp_pair()
    client, near = socket.socketpair()
    head = frame(b"\x00\x90\x1f") + frame(b"\x01\x90\x1f")
    theirs.sendall(head + frame(b"\x00413 too large") + ENDED)
    theirs.close()
    client.sendall(bytes(100_000))
    channels = Channels(ours, V4)
    with client, near, ours:
        channels.send(0, bytes(PORTION))
        time.sleep(0.05)
        assert _join(channels, near) == ""
        assert channels.failure is None
        assert client.recv(100) == b"413 too large"


def test_port_forward_reports_a_broken_connection() -> None:
    ours, theirs = tcp_pair()
    client, near = socket.socketpair()
    theirs.sendall(frame(b"\x00\x90\x1fhalf"))
    channels = Channels(ours, V4)
    with client, near, ours:
        channels.send(0, bytes(PORTION))
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        assert _join(channels, near) == ""
        assert isinstance(channels.failure, ConnectionFailed)
        assert client.recv(100) == b"half"
