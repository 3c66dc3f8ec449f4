"""Log lines: parsed from a stream, ordered by timestamp, and deduplicated when a stream is resumed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

import pytest

from gpuctl.cli.commands.logs import LogWriter
from gpuctl.cli.options.connection_options import ClusterFailure
from gpuctl.cli.output.log_lines import LinePrinter, strip_controls
from gpuctl.kube.api_errors import ApiError, ConnectionFailed
from gpuctl.reading.jobs.job_objects import Identity
from gpuctl.reading.jobs.pod_selection import short_name
from gpuctl.reading.logs.log_parsing import LONGEST, LogLine, Position, instant, parse
from gpuctl.reading.logs.log_streams import log_error_text
from gpuctl.usecases.queries.service_logs import PresentServiceLogs, ServiceBatch, ServiceSource


def stamp(number: int, second: int = 0) -> str:
    """Return a timestamp; ``number`` is in nanoseconds."""
    return f"2026-01-31T08:00:{second:02d}.{number:09d}Z"


def as_sent(lines: list[LogLine]) -> bytes:
    """Return lines as the API server sends them."""
    return b"".join(line.stamp.encode() + b" " + line.text + b"\n" for line in lines)


def random_chunks(data: bytes, sizes: random.Random) -> list[bytes]:
    """Cut data at random places."""
    result = []
    while data:
        size = sizes.randint(1, 50)
        result.append(data[:size])
        data = data[size:]
    return result


def lines_of(batches: object) -> list[LogLine]:
    return [line for batch in batches for line in batch]  # type: ignore[attr-defined]


def test_lines_do_not_depend_on_chunk_boundaries() -> None:
    texts = [
        b"",
        b"a",
        b" indented ",
        b"\xff\xfe\x00 binary",
        b"50%\r100%\r",
        "损失 0.5".encode(),
        b"2026-01-31T08:00:00Z",
    ]
    lines = [LogLine(stamp(number), text) for number, text in enumerate(texts)]
    for seed in range(50):
        assert lines_of(parse(random_chunks(as_sent(lines), random.Random(seed)))) == lines


def test_unterminated_last_line_is_kept_at_a_regular_end() -> None:
    assert lines_of(parse([f"{stamp(1)} begun".encode()])) == [LogLine(stamp(1), b"begun")]


def test_unterminated_last_line_is_dropped_when_the_stream_breaks() -> None:
    def broken() -> object:
        yield f"{stamp(1)} whole\n{stamp(2)} hal".encode()
        raise ConnectionResetError

    batches = parse(broken())  # type: ignore[arg-type]
    assert next(batches) == [LogLine(stamp(1), b"whole")]
    with pytest.raises(ConnectionResetError):
        next(batches)


def test_kubelet_message_has_no_timestamp() -> None:
    message = b"unable to retrieve container logs for containerd://0123\n"
    assert lines_of(parse([message])) == [LogLine("", message.strip())]


def test_line_of_a_megabyte_stays_whole() -> None:
    line = LogLine(stamp(1), b"x" * 1_000_000)
    data = as_sent([line])
    assert lines_of(parse(data[at : at + 65536] for at in range(0, len(data), 65536))) == [line]


def test_longer_line_is_split_between_characters() -> None:
    text = ("损" * LONGEST).encode()
    data = as_sent([LogLine(stamp(1), text)])
    pieces = lines_of(parse(data[at : at + 65536] for at in range(0, len(data), 65536)))
    assert b"".join(piece.text for piece in pieces) == text
    assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len(pieces) > 2
    assert max(len(piece.text) for piece in pieces) < LONGEST + 65536
    for piece in pieces:
        assert piece.stamp == stamp(1)
        piece.text.decode()


def test_progress_bar_is_passed_on_before_its_line_ends() -> None:
    def bar() -> object:
        yield f"{stamp(1)} ".encode()
        for percent in range(100):
            yield b"%d%% " % percent + b"#" * 300 + b"\r"

    first = next(parse(bar()))  # type: ignore[arg-type]
    assert first[0].text.startswith(b"0% #")
    assert first[0].text.endswith(b"\r")
    assert not first[0].ends


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00.000000001Z"),
        ("2026-01-31T08:00:00.9Z", "2026-01-31T08:00:00.91Z"),
        ("2026-01-31T16:00:00.5+08:00", "2026-01-31T08:00:00.6Z"),
        ("2026-01-31T08:00:00.6Z", "2026-01-31T03:00:01-05:00"),
    ],
)
def test_timestamps_are_compared_as_instants(earlier: str, later: str) -> None:
    assert 0 < instant(earlier) < instant(later)


def resumed_after_break(lines: list[LogLine], first: int, begin: int = 0) -> list[LogLine]:
    """Return the lines passed on if a stream breaks at line ``first`` and the server resends from `sinceTime`."""
    position = Position()
    seen = position.fresh(lines[begin:first])
    since = position.since
    position.resume()
    again = [line for line in lines if since is None or instant(line.stamp) >= instant(since)]
    return seen + position.fresh(again)


def test_resumed_stream_loses_and_repeats_no_line() -> None:
    # Equal timestamps, and stdout and stderr slightly out of order.
    stamps = [stamp(5), stamp(5), stamp(5), stamp(9), stamp(8), stamp(1, 1), stamp(1, 1), stamp(0, 1), stamp(0, 3)]
    lines = [LogLine(text, b"%d" % number) for number, text in enumerate(stamps)]
    for first in range(len(lines) + 1):
        assert resumed_after_break(lines, first) == lines, first


def test_resumed_stream_omits_lines_before_the_tail() -> None:
    lines = [LogLine(stamp(number), b"%d" % number) for number in range(100)]
    assert resumed_after_break(lines, first=95, begin=90) == lines[90:]


def test_resumes_within_a_second_of_more_lines_than_remembered() -> None:
    lines = [LogLine(stamp(number), b"%d" % number) for number in range(30_000)]
    assert resumed_after_break(lines, first=25_000) == lines


def test_resumes_after_log_rotation() -> None:
    lines = [LogLine(stamp(number), b"%d" % number) for number in range(10)]
    position = Position()
    seen = position.fresh(lines[:6])
    position.resume()
    assert seen + position.fresh(lines[8:]) == lines[:6] + lines[8:]


def test_resumes_within_a_long_line() -> None:
    position = Position()
    begun = position.fresh([LogLine(stamp(1), b"before"), LogLine(stamp(2), b"abc", ends=False)])
    assert position.since == "2026-01-31T07:59:59Z"
    position.resume()
    again = [
        LogLine(stamp(1), b"before"),
        LogLine(stamp(2), b"ab", ends=False),
        LogLine(stamp(2), b"cdef"),
        LogLine(stamp(3), b"!"),
    ]
    rest = position.fresh(again)
    assert b"".join(line.text for line in begun + rest) == b"beforeabcdef!"
    assert [line.ends for line in rest] == [True, True]


@pytest.mark.parametrize(
    ("pod", "name", "short"),
    [
        ("train-abcde", "train", "abcde"),
        ("train-0-abcde", "train", "0-abcde"),
        ("serve-748f4d7d5-x62v7", "serve", "x62v7"),
        ("note-0", "note", "0"),
        ("wide-workers-0-1-abcde", "wide", "workers-0-1-abcde"),
    ],
)
def test_short_name_drops_the_job_name(pod: str, name: str, short: str) -> None:
    assert short_name(pod, Identity("ns", name, "training")) == short


def test_prefixes_are_padded_to_one_width() -> None:
    printer = LinePrinter()
    printer.text("long-name", [LogLine(stamp(1), b"a")])
    assert printer.text("0", [LogLine(stamp(2), b"b"), LogLine(stamp(3), b"")]) == b"0         | b\n0         | \n"


def test_printer_keeps_arbitrary_bytes() -> None:
    text = bytes(range(256)).replace(b"\n", b"")
    assert LinePrinter().text("", [LogLine(stamp(1), text)]) == text + b"\n"
    assert LinePrinter(re.compile("A")).text("", [LogLine(stamp(1), text)]) == text + b"\n"


def test_matching_lines_are_selected_and_coloured() -> None:
    lines = [LogLine(stamp(1), b"loss 0.5"), LogLine(stamp(2), b"step 1"), LogLine(stamp(3), "损失 NaN".encode())]
    pattern = re.compile(r"loss|损.", re.IGNORECASE)
    assert LinePrinter(pattern).text("", lines) == "loss 0.5\n损失 NaN\n".encode()
    shown = LinePrinter(pattern, terminal=True, coloured=True).text("", lines).decode()
    assert shown.splitlines()[0] == "\x1b[1;31mloss\x1b[22;39m 0.5\x1b[0m"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2J\x1b[Hclear", "clear"),
        ("\x1b[?1049hscreen", "screen"),
        ("\x1bcreset", "reset"),
        ("\x9b2Jc1", "2Jc1"),
        ("bell\x07 and \x00", "bell and "),
        ("tab\tstays", "tab\tstays"),
    ],
)
def test_terminal_control_sequences_are_stripped(text: str, shown: str) -> None:
    assert strip_controls(text) == shown


def test_progress_bar_with_a_prefix_shows_its_last_state() -> None:
    line = LogLine(stamp(1), b"10%\r50%\r100%\r")
    assert LinePrinter(terminal=True).text("0", [line]) == b"0 | 100%\n"
    assert LinePrinter(terminal=True).text("", [line]) == b"10%\r50%\r100%\r\n"


def test_json_replaces_invalid_utf8() -> None:
    value = LinePrinter().json("pod", "main", [LogLine(stamp(1), b"\xff ok")])
    assert value == [{"pod": "pod", "container": "main", "timestamp": stamp(1), "text": "\ufffd ok"}]


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_missing_log_of_an_earlier_run_is_not_a_missing_log(phase: str) -> None:
    """The log of a failed pod without restarts exists; only `--previous` finds none."""
    pod = {"metadata": {"name": "train-x"}, "spec": {"containers": [{"name": "main"}]}, "status": {"phase": phase}}
    refused = ApiError(400, "BadRequest", 'previous terminated container "main" in pod "train-x" not found')
    assert log_error_text(refused, pod) == "it has not been restarted: there is no run before this one"


class CutLogs(PresentServiceLogs):
    """The logs of a job through a service that fails after the first line."""

    def __init__(self) -> None:
        self.pods, self.missing, self.problems = {"train-x1"}, [], []

    def batches(self) -> Iterator[ServiceBatch]:
        yield ServiceBatch(ServiceSource("train-x1", "main"), [LogLine(stamp(1), b"first")])
        raise ConnectionFailed("the service cannot be reached")


def test_json_of_logs_that_are_cut_is_whole_and_names_the_problem(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    writer = LogWriter(Identity("n", "train", "training"), LinePrinter(None), None, as_json=True)
    with pytest.raises(ClusterFailure, match="the service cannot be reached") as caught:
        writer.now(CutLogs())
    assert caught.value.exit_code == 3
    value = json.loads(capsysbinary.readouterr().out)
    assert [line["text"] for line in value["logs"]] == ["first"]
    assert value["lastTimestamp"] == stamp(1)
    assert value["problems"] == [{"pod": None, "message": "the service cannot be reached"}]
