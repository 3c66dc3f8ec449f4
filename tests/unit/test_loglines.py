"""Lines of logs: cut out of a stream, in order of time, and known again when a stream goes on."""

from __future__ import annotations

import random
import re

import pytest

from gpuctl.cli.output.log_lines import LinePrinter, strip_controls
from gpuctl.reading.job_rows import Identity
from gpuctl.reading.log_parsing import LONGEST, LogLine, Position, instant, parse
from gpuctl.reading.log_streams import short_name


def stamp(number: int, second: int = 0) -> str:
    """A time; numbers count nanoseconds."""
    return f"2026-01-31T08:00:{second:02d}.{number:09d}Z"


def written(lines: list[LogLine]) -> bytes:
    """Lines as the API sends them."""
    return b"".join(line.stamp.encode() + b" " + line.text + b"\n" for line in lines)


def portions(data: bytes, sizes: random.Random) -> list[bytes]:
    """Data cut anywhere."""
    result = []
    while data:
        size = sizes.randint(1, 50)
        result.append(data[:size])
        data = data[size:]
    return result


def flat(batches: object) -> list[LogLine]:
    return [line for batch in batches for line in batch]  # type: ignore[attr-defined]


def test_lines_do_not_depend_on_how_a_stream_is_cut() -> None:
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
        assert flat(parse(portions(written(lines), random.Random(seed)))) == lines


def test_a_last_line_without_an_end_counts_when_the_stream_ended_in_order() -> None:
    assert flat(parse([f"{stamp(1)} begun".encode()])) == [LogLine(stamp(1), b"begun")]


def test_a_last_line_without_an_end_does_not_count_when_the_stream_broke() -> None:
    def broken() -> object:
        yield f"{stamp(1)} whole\n{stamp(2)} hal".encode()
        raise ConnectionResetError

    batches = parse(broken())  # type: ignore[arg-type]
    assert next(batches) == [LogLine(stamp(1), b"whole")]
    with pytest.raises(ConnectionResetError):
        next(batches)


def test_what_a_node_says_has_no_stamp() -> None:
    said = b"unable to retrieve container logs for containerd://0123\n"
    assert flat(parse([said])) == [LogLine("", said.strip())]


def test_a_line_of_a_megabyte_stays_whole() -> None:
    line = LogLine(stamp(1), b"x" * 1_000_000)
    data = written([line])
    assert flat(parse(data[at : at + 65536] for at in range(0, len(data), 65536))) == [line]


def test_a_longer_line_comes_in_pieces_that_cut_no_character() -> None:
    text = ("损" * LONGEST).encode()
    data = written([LogLine(stamp(1), text)])
    pieces = flat(parse(data[at : at + 65536] for at in range(0, len(data), 65536)))
    assert b"".join(piece.text for piece in pieces) == text
    assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len(pieces) > 2
    assert max(len(piece.text) for piece in pieces) < LONGEST + 65536
    for piece in pieces:
        assert piece.stamp == stamp(1)
        piece.text.decode()


def test_a_progress_bar_is_passed_on_before_its_line_ends() -> None:
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
def test_order_of_times(earlier: str, later: str) -> None:
    assert 0 < instant(earlier) < instant(later)


def resumed(lines: list[LogLine], first: int, begin: int = 0) -> list[LogLine]:
    """What is passed on when a stream breaks after some lines, and the server then sends from the second on."""
    position = Position()
    seen = position.fresh(lines[begin:first])
    since = position.since
    position.resume()
    again = [line for line in lines if since is None or instant(line.stamp) >= instant(since)]
    return seen + position.fresh(again)


def test_nothing_is_lost_or_repeated_wherever_a_stream_breaks() -> None:
    # Equal stamps, and two streams of a container that are not quite in order.
    stamps = [stamp(5), stamp(5), stamp(5), stamp(9), stamp(8), stamp(1, 1), stamp(1, 1), stamp(0, 1), stamp(0, 3)]
    lines = [LogLine(text, b"%d" % number) for number, text in enumerate(stamps)]
    for first in range(len(lines) + 1):
        assert resumed(lines, first) == lines, first


def test_lines_before_a_tail_do_not_come_with_the_rest() -> None:
    lines = [LogLine(stamp(number), b"%d" % number) for number in range(100)]
    assert resumed(lines, first=95, begin=90) == lines[90:]


def test_a_break_in_a_second_with_more_lines_than_are_remembered() -> None:
    lines = [LogLine(stamp(number), b"%d" % number) for number in range(30_000)]
    assert resumed(lines, first=25_000) == lines


def test_a_log_that_was_rotated_meanwhile() -> None:
    lines = [LogLine(stamp(number), b"%d" % number) for number in range(10)]
    position = Position()
    seen = position.fresh(lines[:6])
    position.resume()
    assert seen + position.fresh(lines[8:]) == lines[:6] + lines[8:]


def test_a_break_within_a_long_line() -> None:
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
def test_prefixes(pod: str, name: str, short: str) -> None:
    assert short_name(pod, Identity("ns", name, "training")) == short


def test_prefixes_are_as_wide_as_each_other() -> None:
    printer = LinePrinter()
    printer.text("long-name", [LogLine(stamp(1), b"a")])
    assert printer.text("0", [LogLine(stamp(2), b"b"), LogLine(stamp(3), b"")]) == b"0         | b\n0         | \n"


def test_bytes_pass_as_they_are() -> None:
    text = bytes(range(256)).replace(b"\n", b"")
    assert LinePrinter().text("", [LogLine(stamp(1), text)]) == text + b"\n"
    assert LinePrinter(re.compile("A")).text("", [LogLine(stamp(1), text)]) == text + b"\n"


def test_matches_are_chosen_and_coloured() -> None:
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
def test_a_terminal_is_not_taken_over(text: str, shown: str) -> None:
    assert strip_controls(text) == shown


def test_of_a_progress_bar_behind_a_prefix_the_last_state_is_shown() -> None:
    line = LogLine(stamp(1), b"10%\r50%\r100%\r")
    assert LinePrinter(terminal=True).text("0", [line]) == b"0 | 100%\n"
    assert LinePrinter(terminal=True).text("", [line]) == b"10%\r50%\r100%\r\n"


def test_json_of_what_is_no_text() -> None:
    value = LinePrinter().json("pod", "main", [LogLine(stamp(1), b"\xff ok")])
    assert value == [{"pod": "pod", "container": "main", "timestamp": stamp(1), "text": "\ufffd ok"}]
