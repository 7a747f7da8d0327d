"""The three tables: what differs from the vendor's runtime is listed, with its reason.

`make conformance` compares everything and prints the tables; every run of the tests a handful.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import api_answers, attributes, results, samples
from .differences import Row, Table
from .reasons import REASONS
from .vendor import UnavailableError

TABLES = (api_answers.TABLE, attributes.TABLE, results.TABLE)


@contextmanager
def skipping() -> Iterator[None]:
    """Skip where the library, the tools for it or samples aren't here."""
    try:
        yield
    except UnavailableError as reason:
        pytest.skip(str(reason))


def check(table: Table, rows: list[Row], *, is_whole: bool) -> None:
    assert "\n".join(table.problems(rows, is_whole=is_whole)) == ""


def test_answers_of_a_handful_of_calls(tmp_path: Path) -> None:
    with skipping():
        found = api_answers.compare(tmp_path, api_answers.SMALL_WALKS)
    assert found.same > 30
    check(api_answers.TABLE, found.rows, is_whole=False)


def test_attributes_of_a_handful_of_files(tmp_path: Path) -> None:
    names = ("conv3x3_rgb_i8_ms", "concat_i8", "matmul_fp16", "yolov3_tiny_416_i8")
    with skipping():
        files = [samples.file("rk3588", name) for name in names]
        found = attributes.compare(tmp_path, {"rk3588": files})
    assert found.files == len(names)
    assert found.same > 300
    check(attributes.TABLE, found.rows, is_whole=False)


def test_results_of_a_handful_of_files(tmp_path: Path) -> None:
    names = {"rk3588": ("conv3x3_fp16", "smallcnn_i8"), "rk3566": ("conv_silu_fp16",)}
    with skipping():
        files = {chip: results.with_inputs(chip, words) for chip, words in names.items()}
        found = results.compare(tmp_path, files)
    assert found.outputs == 6
    check(results.TABLE, found.rows, is_whole=False)


@pytest.mark.conformance
def test_all_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with skipping():
        found = api_answers.compare(tmp_path)
    with capsys.disabled():
        print(api_answers.text(found))
    check(api_answers.TABLE, found.rows, is_whole=True)


@pytest.mark.conformance
def test_all_attributes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with skipping():
        files = {chip: samples.files(chip) for chip in attributes.CHIPS}
        found = attributes.compare(tmp_path, files)
    with capsys.disabled():
        print(attributes.text(found))
    check(attributes.TABLE, found.rows, is_whole=True)


@pytest.mark.conformance
def test_all_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with skipping():
        files = {chip: results.with_inputs(chip) for chip in results.CHIPS}
        found = results.compare(tmp_path, files)
    with capsys.disabled():
        print(results.text(found))
    check(results.TABLE, found.rows, is_whole=True)


def test_every_reason_is_needed() -> None:
    used = {row.reason for table in TABLES for row in table.rows()}
    assert used == set(REASONS)


def test_a_table_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.conformance.vendor_runtime.differences.DATA", tmp_path)
    table = Table("numbers", ("vendor", "ours"))
    first, second = Row(("1", "2"), ("here", "there")), Row(("3", "4"), ("here",))
    known, other = list(REASONS)[:2]
    table.write([Row(first.key, first.places, known), Row(second.key, second.places, other)])
    assert table.problems([first, second]) == []
    assert table.problems([first], is_whole=False) == []
    assert table.problems([first]) == ["no longer found: 3 | 4 | here"]
    less = Row(first.key, ("here",))
    assert table.problems([less, second], is_whole=False) == []
    assert table.problems([less, second]) == ["no longer found: 1 | 2 | there"]
    more = Row(first.key, ("here", "there", "elsewhere"))
    assert table.problems([more, second]) == ["not listed: 1 | 2 | elsewhere"]
    third = Row(("5", "6"), ("here",))
    assert table.problems([first, second, third]) == ["not listed: 5 | 6 | here"]
    table.write([more, second, third])
    assert table.problems([more, second, third]) == [
        "without a reason: 1 | 2 | elsewhere",
        "without a reason: 5 | 6 | here",
    ]
    assert [(row.places, row.reason) for row in table.rows()] == [
        (("here", "there"), known),
        (("elsewhere",), "?"),
        (("here",), other),
        (("here",), "?"),
    ]
    assert "WITHOUT A REASON" in table.text([more, second, third])
