"""`exec` and `port-forward` through the real API server to the kubelet's own streaming code."""

from __future__ import annotations

import contextlib
import http.server
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from control_plane import ControlPlane
from control_plane.streams import Streams
from fault_tools.stream_cutter import StreamCutter
from gpuctl.kube.channels import STATUS, STDOUT
from support.cluster_tools import DOMAIN, Place, inference, notebook, training
from support.command import Command, Start


@pytest.fixture
def streams(plane: ControlPlane) -> Streams:
    return plane.start_streams()


@pytest.fixture
def note(place: Place, streams: Streams) -> Place:
    """A namespace with a running notebook."""
    place.apply(notebook())
    place.running("note")
    return place


def gpuctl(place: Place, *arguments: str, input: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "gpuctl", arguments[0], "-n", place.namespace, *arguments[1:]]
    stdin = subprocess.DEVNULL if input is None else None
    return subprocess.run(command, input=input, stdin=stdin, capture_output=True, timeout=120)


def test_exec_returns_output_and_exit_code(note: Place) -> None:
    result = gpuctl(note, "exec", "note", "--", "sh", "-c", "echo $POD/$CONTAINER; echo wrong >&2; exit 7")
    expected = f"{note.namespace}/note-0/main\n".encode()
    assert (result.returncode, result.stdout, result.stderr) == (7, expected, b"wrong\n")
    assert gpuctl(note, "exec", "notebook/note", "--", "true").returncode == 0
    killed = gpuctl(note, "exec", "note-0", "--", "sh", "-c", "exit 255")
    assert killed.returncode == 255


@pytest.mark.slow
def test_options_after_the_separator_belong_to_the_command(note: Place) -> None:
    result = gpuctl(note, "exec", "note", "--", "printf", "%s|", "-i", "--pod", "a b", "损失", "")
    assert result.stdout.decode() == "-i|--pod|a b|损失||"


@pytest.mark.slow
def test_exec_passes_binary_input_and_output(note: Place) -> None:
    data = os.urandom(3_000_000)
    assert gpuctl(note, "exec", "note", "-i", "--", "cat", input=data).stdout == data
    counted = gpuctl(note, "exec", "note", "-i", "--", "wc", "-c", input=b"x" * 70_000)
    assert counted.stdout.strip() == b"70000"
    # gpuctl does not block if the command exits without reading its input.
    assert gpuctl(note, "exec", "note", "-i", "--", "true", input=data).returncode == 0
    assert gpuctl(note, "exec", "note", "--", "cat", input=b"not passed on").stdout == b""


@pytest.fixture
def cutting(note: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that routes later commands through a :class:`StreamCutter`, which cuts connections to pods."""
    with contextlib.ExitStack() as stack:

        def start(channel: int, *, deaf: bool = False) -> None:
            cutter = stack.enter_context(StreamCutter(note.plane, channel, deaf=deaf))
            monkeypatch.setenv("KUBECONFIG", str(cutter.kubeconfig(tmp_path / "cut", note.namespace)))

        yield start


@pytest.mark.slow
def test_exit_code_received_before_a_broken_connection_is_returned(note: Place, cutting: Callable[..., None]) -> None:
    """The connection breaks after the status has arrived, with and without unsent input."""
    cutting(STATUS, deaf=True)
    result = gpuctl(note, "exec", "note", "-i", "--", "sh", "-c", "exit 7", input=bytes(20_000_000))
    assert (result.returncode, result.stderr) == (7, b"")
    result = gpuctl(note, "exec", "note", "--", "sh", "-c", "echo said; exit 8")
    assert (result.returncode, result.stdout, result.stderr) == (8, b"said\n", b"")
    terminal = Terminal("exec", "note", "-n", note.namespace, "-it", "--", "sh", "-c", "exit 9")
    assert terminal.process.wait(120) == 9
    assert terminal.is_restored()
    terminal.close()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-i",)])
def test_connection_that_breaks_before_the_exit_code_is_an_error(
    note: Place, cutting: Callable[..., None], options: tuple[str, ...]
) -> None:
    cutting(STDOUT, deaf=True)
    command = ["exec", "note", *options, "--", "sh", "-c", "echo said; sleep 1"]
    result = gpuctl(note, *command, input=bytes(20_000_000))
    assert (result.returncode, result.stdout) == (3, b"said\n")
    assert re.fullmatch(rb"error: the connection to the pod (broke: .*|ended before the command did)\n", result.stderr)


@pytest.mark.slow
def test_exec_reports_what_cannot_be_run(note: Place) -> None:
    missing = gpuctl(note, "exec", "note", "--", "nvidia-smi")
    words = b"error: the container cannot run nvidia-smi: executable file not found in $PATH\n"
    assert (missing.returncode, missing.stderr) == (3, words)
    assert gpuctl(note, "exec", "note").returncode == 2
    other = gpuctl(note, "exec", "note", "-c", "side", "--", "ls")
    assert (other.returncode, other.stderr) == (1, b"error: pod note-0 has no container side\n  = it has main\n")
    note.apply(training("done"))
    [pod] = note.running("done")
    note.plane.annotate(note.namespace, pod, outcome="complete")
    note.until(lambda: note.get("Pod", pod)["status"]["phase"] == "Succeeded", "the end of the training")
    over = gpuctl(note, "exec", "done", "--", "ls")
    hint = f"`gpuctl logs done -n {note.namespace}` shows what it printed"
    text = f"error: pod {pod} of training/done does not run: Succeeded\n  = {hint}\n"
    assert (over.returncode, over.stderr.decode()) == (1, text)


@pytest.mark.slow
def test_exec_selects_one_of_several_pods(place: Place, streams: Streams) -> None:
    place.apply(training(resources={"nodes": 3}))
    pods = sorted(place.running("train", pods=3))
    first = gpuctl(place, "exec", "train", "--", "sh", "-c", "echo $POD")
    assert first.stdout.decode() == f"{place.namespace}/{pods[0]}\n"
    assert first.stderr.decode() == f"note: in pod {pods[0]}, one of 3; --pod names another\n"
    third = gpuctl(place, "exec", "train", "--pod", "2", "--", "sh", "-c", "echo $POD")
    assert (third.stdout.decode(), third.stderr) == (f"{place.namespace}/{pods[2]}\n", b"")


def test_exec_needs_the_right_to_pods_exec(note: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    note.plane.grant("bob", note.namespace, "view")
    monkeypatch.setenv("KUBECONFIG", str(note.plane.kubeconfig("bob")))

    def ran() -> subprocess.CompletedProcess[bytes]:
        return gpuctl(note, "exec", "note", "--", "true")

    note.until(lambda: b"pods/exec" in ran().stderr, "the right to look")
    denied = ran()
    assert denied.returncode == 3
    assert re.search(rb"error: user bob may not (get|create) pods/exec in namespace ", denied.stderr)
    note.plane.grant("bob", note.namespace, "edit")
    note.until(lambda: ran().returncode == 0, "the right to run commands")


class Terminal:
    """A command attached to a pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        self.descriptor, theirs = pty.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpuctl", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self.seen = b""

    def resize(self, rows: int, columns: int) -> None:
        ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: bytes) -> None:
        os.write(self.descriptor, text)

    def until(self, text: bytes, timeout: float = 120) -> None:
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self.seen!r}"
            if select.select([self.descriptor], [], [], 0.1)[0]:
                self.seen += os.read(self.descriptor, 65536)

    def is_restored(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.descriptor)
        os.close(self._theirs)


@pytest.fixture
def shell(note: Place) -> Iterator[Terminal]:
    """`gpuctl exec NAME` without a command: a shell in the pod."""
    terminal = Terminal("exec", "note", "-n", note.namespace)
    yield terminal
    terminal.close()


def test_shell_has_a_terminal_that_is_resized_and_restored(shell: Terminal) -> None:
    shell.type(b"stty size; tty\n")
    shell.until(b"24 80\r\n/dev/")
    assert not shell.is_restored()
    shell.resize(40, 123)
    shell.process.send_signal(28)  # SIGWINCH; a real terminal sends it to the foreground process.
    # The new size arrives independently of the input, so wait for it.
    shell.type(b"until stty size | grep 123; do sleep 0.1; done\n")
    shell.until(b"40 123")
    # Ctrl-C interrupts the remote program, not gpuctl.
    shell.type(b"echo begun $((1+1)); sleep 100; echo code $?\n")
    shell.until(b"begun 2")
    time.sleep(0.3)
    shell.type(b"\x03")
    shell.type(b"echo still here; exit 5\n")
    shell.until(b"still here\r\n")
    assert shell.process.wait(120) == 5
    assert shell.is_restored()


@pytest.mark.slow
@pytest.mark.parametrize("number", [15, 1])
def test_the_terminal_is_restored_when_gpuctl_is_ended(shell: Terminal, number: int) -> None:
    shell.type(b"echo ready $((1+1))\n")
    shell.until(b"ready 2\r\n")
    assert not shell.is_restored()
    shell.process.send_signal(number)
    assert shell.process.wait(120) == 128 + number
    assert shell.is_restored()


@pytest.mark.slow
def test_the_terminal_is_restored_when_the_connection_ends(shell: Terminal, note: Place) -> None:
    shell.type(b"kill -9 $$\n")
    shell.process.wait(120)
    assert shell.is_restored()


# Ports.


@contextlib.contextmanager
def website(text: bytes) -> Iterator[int]:
    """Run a local web server and yield its port. It serves ``text`` and echoes posted bodies."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _say(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._say(text)

        def do_POST(self) -> None:
            self._say(self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


def forwarded_url(command: Command) -> str:
    """Return the URL that a port-forward printed."""
    command.until(b"(Ctrl-C ends it)\n")
    match = re.search(rb"(http://127\.0\.0\.1:\d+) -> port \d+ of pod \S+ ", command.out)
    assert match is not None
    return match[1].decode()


def fetch(url: str, data: bytes | None = None) -> bytes:
    with urllib.request.urlopen(url, data, timeout=120) as response:
        return bytes(response.read())


def test_port_forward_serves_a_notebook_locally(note: Place, streams: Streams, start: Start) -> None:
    data = os.urandom(2_000_000)
    with website(b"jupyter") as port:
        streams.connect(note.namespace, "note-0", 8888, port)
        command = start("port-forward", "note", ":8888", "-n", note.namespace)
        url = forwarded_url(command)
        assert fetch(url) == b"jupyter"
        answers: list[bytes] = []
        threads = [threading.Thread(target=lambda: answers.append(fetch(url, data))) for _ in range(5)]
        # An idle connection does not block the others.
        with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
        assert [answer == data for answer in answers] == [True] * 5
        streams.connect(note.namespace, "note-0", 8888, None)
        with pytest.raises((urllib.error.URLError, ConnectionError, http.client.RemoteDisconnected)):
            fetch(url)
        command.until(b"error: nothing listens on port 8888 of pod note-0\n")
        streams.connect(note.namespace, "note-0", 8888, port)
        assert fetch(url) == b"jupyter"
    command.process.send_signal(2)
    assert command.end() == 130
    assert command.err == b"error: nothing listens on port 8888 of pod note-0\n"


@pytest.mark.slow
def test_port_forward_to_a_job_without_app_label(note: Place, streams: Streams, start: Start) -> None:
    """The selector `!app` also matches other jobs without the label."""
    spec = {"containers": [{"name": "web", "image": "registry.example.com/i:v1"}], "restartPolicy": "Never"}
    for name in ("another", "theirs"):
        labels = {f"{DOMAIN}/job-type": "training"}
        metadata = {"name": name, "namespace": note.namespace, "labels": labels}
        template = {"metadata": {"labels": labels}, "spec": spec}
        note.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}})
    note.gpuctl("wait", "another", "theirs", "--for=running")
    (pod,) = (item["pod"] for item in note.gpuctl("get", "jobs", "theirs", "-o", "json").value["items"])
    with website(b"theirs") as port:
        streams.connect(note.namespace, pod, 8888, port)
        command = start("port-forward", "theirs", ":8888", "-n", note.namespace)
        assert fetch(forwarded_url(command)) == b"theirs"


def test_open_resumes_a_paused_notebook_and_forwards_its_port(note: Place, streams: Streams, start: Start) -> None:
    note.gpuctl("pause", "note")
    note.until(lambda: not note.pods("note"), "the pod to go")
    with website(b"jupyter") as port:
        streams.connect(note.namespace, "note-0", 8888, port)
        command = start("open", "note", "-n", note.namespace)
        assert fetch(forwarded_url(command)) == b"jupyter"
        assert b"is resumed with 1 replica" in command.out
    command.process.send_signal(2)
    assert command.end() == 130
    assert note.exists("Pod", "note-0"), "the notebook keeps running"


@pytest.mark.slow
def test_response_sent_before_a_broken_connection_arrives(
    note: Place, streams: Streams, start: Start, cutting: Callable[..., None]
) -> None:
    """The server responds before it has read the whole request, for example to reject an upload."""
    cutting(0, deaf=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        streams.connect(note.namespace, "note-0", 8888, server.getsockname()[1])
        url = forwarded_url(start("port-forward", "note", ":8888", "-n", note.namespace))
        with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=60) as client:
            sender = threading.Thread(target=_send, args=(client, bytes(20_000_000)))
            sender.start()
            pod, _ = server.accept()
            with pod:
                pod.sendall(b"413 too large")
                said = bytearray()
                # The client is still sending, so the response is followed by a reset.
                with contextlib.suppress(ConnectionResetError):
                    while data := client.recv(100):
                        said += data
            sender.join(120)
    assert said == b"413 too large"


def _send(client: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        client.sendall(data)


@pytest.mark.slow
def test_port_forward_chooses_local_and_pod_port(note: Place, streams: Streams, start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = note.gpuctl("port-forward", "note", f"{port}:8888", code=1)
        assert refused.err.startswith(f"error: cannot listen on 127.0.0.1, port {port}: address already in use")
    own = start("port-forward", "note", "-n", note.namespace)
    other = start("port-forward", "note", f"{port}:", "-n", note.namespace)
    with website(b"own") as web:
        streams.connect(note.namespace, "note-0", 8888, web)
        assert fetch(forwarded_url(own)) == b"own"
        assert forwarded_url(other) == f"http://127.0.0.1:{port}"
        assert fetch(forwarded_url(other)) == b"own"
    assert b"-> port 8888 of pod note-0" in own.out
    assert "`x` is not PORT" in note.gpuctl("port-forward", "note", "x", code=2).err
    assert "`70000` is not PORT" in note.gpuctl("port-forward", "note", "70000", code=2).err
    note.apply(training())
    note.running("train")
    assert "training/train has no port: name one" in note.gpuctl("port-forward", "train", code=2).err


@pytest.mark.slow
def test_port_forward_connects_to_the_replacement_of_a_deleted_pod(
    place: Place, streams: Streams, start: Start
) -> None:
    place.apply(inference())
    [old] = place.running("serve")
    with website(b"old") as first, website(b"new") as second:
        streams.connect(place.namespace, old, 8000, first)
        url = forwarded_url(start("port-forward", "serve", ":8000", "-n", place.namespace))
        assert fetch(url) == b"old"
        place.kubectl("delete", "pod", old)
        place.until(lambda: set(place.pods("serve")) - {old}, "another pod")
        [new] = place.running("serve")
        streams.connect(place.namespace, new, 8000, second)
        assert fetch(url) == b"new"


@pytest.mark.slow
def test_kubectl_agrees_with_the_simulated_kubelet(note: Place, streams: Streams) -> None:
    """kubectl verifies that the simulated kubelet, the other side of these tests, behaves like a real one."""
    kubectl = str(note.plane.binaries / "kubectl")
    config = f"--kubeconfig={note.plane.kubeconfig()}"
    script = "cat; exit 9"
    command = [kubectl, config, "exec", "-n", note.namespace, "-i", "note-0", "--", "sh", "-c", script]
    result = subprocess.run(command, input=b"abc", capture_output=True, timeout=120)
    assert (result.returncode, result.stdout) == (9, b"abc")
    with website(b"jupyter") as port:
        streams.connect(note.namespace, "note-0", 8888, port)
        command = [kubectl, config, "port-forward", "-n", note.namespace, "note-0", ":8888"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
            assert forward.stdout is not None
            local = re.search(r":(\d+) ->", forward.stdout.readline())
            assert local is not None
            assert fetch(f"http://127.0.0.1:{local[1]}") == b"jupyter"
            forward.kill()
