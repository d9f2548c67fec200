from stormcell.machine.console import LOG_BYTES, append, tail, visible


def test_an_endless_writer_keeps_the_end_only(tmp_path):
    log = tmp_path / "console.log"
    for number in range(40):
        append(log, b"%06d\n" % number + b"x" * 100_000 + b"\n")
    append(log, b"the last words\n")
    assert log.stat().st_size <= LOG_BYTES
    assert tail(log, 1) == "the last words"


def test_one_huge_piece_is_cut_too(tmp_path):
    log = tmp_path / "console.log"
    append(log, b"a" * (3 * LOG_BYTES) + b"\nend\n")
    assert log.stat().st_size <= LOG_BYTES
    assert tail(log, 1) == "end"


def test_a_guest_cannot_drive_the_terminal():
    shown = visible(b"\x1b]0;owned\x07\x1b[2J ok\r\nnext\xff")
    assert "\x1b" not in shown and "\x07" not in shown
    assert shown.splitlines()[1].startswith("next")


def test_a_console_that_is_not_there_is_empty(tmp_path):
    assert tail(tmp_path / "none", 5) == ""


def test_a_line_without_end_is_cut(tmp_path):
    log = tmp_path / "console.log"
    append(log, b"y" * 50_000)
    assert len(tail(log, 5)) <= 1000
