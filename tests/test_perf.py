"""The runtime's table of layers, as librknnrt 1.5 and 2.x write it: cells of any width."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anynpu
from anynpu.perf import LayerRow, parse_perf_detail

from .shared import SAMPLES, SHARED

OLD = (
    "ID OpType DataType Target InputShape OutputShape DDR Cycles NPU Cycles Total Cycles Time(us) "
    "MacUsage(%) WorkLoad(0/1/2)-ImproveTherical Task Number Lut Number RW(KB) FullName "
)
NEW = (
    "ID OpType DataType Target InputShape OutputShape Cycles(DDR/NPU/Total) Time(us) MacUsage(%) "
    "WorkLoad(0/1/2) RW(KB) FullName"
)
WORDS = st.text("abcXYZ_09", min_size=1, max_size=12)
SHAPE = st.lists(st.integers(0, 9999), max_size=5).map(lambda d: f"({','.join(map(str, d))})")
SHAPES = st.one_of(
    st.just("\\"),
    st.lists(SHAPE, min_size=1, max_size=6).map(",".join),
    SHAPE.map(lambda shape: f"{shape},..."),
)
NUMBER = st.integers(0, 10**8)
MAC = st.one_of(st.just("\\"), st.sampled_from(["0.17", "99.00", "2.41/0.00/0.00"]))
KILOBYTES = st.one_of(st.integers(0, 10**7).map(str), st.sampled_from(["16.75", "0.00"]))
NAMES = st.one_of(
    st.text("abc/._:09 ", max_size=20).map(str.strip),
    st.just("Conv:/model.0/conv/Conv"),
)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, str]:
    """A row's cells by their columns' names; both versions' columns."""
    cycles = [str(draw(NUMBER)) for _ in range(3)]
    return {
        "OpType": draw(WORDS),
        "DataType": draw(st.sampled_from(["INT8", "FLOAT16", "UINT8"])),
        "Target": draw(st.sampled_from(["CPU", "NPU", "GPU"])),
        "InputShape": draw(SHAPES),
        "OutputShape": draw(SHAPES),
        "DDR Cycles": cycles[0],
        "NPU Cycles": cycles[1],
        "Total Cycles": cycles[2],
        "Cycles(DDR/NPU/Total)": "/".join(cycles),
        "Time(us)": str(draw(NUMBER)),
        "MacUsage(%)": draw(MAC),
        "WorkLoad(0/1/2)": "100.0%/0.0%/0.0%",
        "WorkLoad(0/1/2)-ImproveTherical": "33.3%/33.3%/33.4% - Up:12.5%",
        "Task Number": str(draw(NUMBER)),
        "Lut Number": str(draw(NUMBER)),
        "RW(KB)": draw(KILOBYTES),
        "FullName": draw(NAMES),
    }


OLD_COLUMNS = [
    "OpType", "DataType", "Target", "InputShape", "OutputShape", "DDR Cycles", "NPU Cycles",
    "Total Cycles", "Time(us)", "MacUsage(%)", "WorkLoad(0/1/2)-ImproveTherical", "Task Number",
    "Lut Number", "RW(KB)", "FullName",
]  # fmt: skip
NEW_COLUMNS = NEW.split()[1:]


def line(number: int, row: dict[str, str], columns: Sequence[str], widths: Sequence[int]) -> str:
    cells = [str(number), *(row[name] for name in columns)]
    # A list of shapes that is wider than its column touches the next one.
    return "".join(
        f"{cell:<{width}}" + ("" if cell.endswith(")") and len(cell) > width else " ")
        for cell, width in zip(cells, widths, strict=True)
    )


def expected(number: int, row: dict[str, str]) -> LayerRow:
    return LayerRow(
        number=number,
        op_type=row["OpType"],
        name=row["FullName"].partition(":")[2] or row["FullName"],
        dtype=row["DataType"],
        target=row["Target"],
        input_shapes=row["InputShape"],
        output_shape=row["OutputShape"],
        microseconds=int(row["Time(us)"]),
        read_write_kilobytes=float(row["RW(KB)"]),
    )


@given(st.data(), st.lists(rows(), min_size=1, max_size=5), st.booleans())
def test_cells_of_any_width(
    data: st.DataObject, given_rows: list[dict[str, str]], is_old: bool
) -> None:
    header, columns = (OLD, OLD_COLUMNS) if is_old else (NEW, NEW_COLUMNS)
    size = len(columns) + 1
    widths = data.draw(st.lists(st.integers(0, 24), min_size=size, max_size=size))
    total = sum(int(row["Time(us)"]) for row in given_rows)
    lines = [line(n, row, columns, widths) for n, row in enumerate(given_rows, 1)]
    if is_old:
        text = [header, *lines, f"Total Operator Elapsed Time(us): {total}"]
    else:
        rule, title = "-" * 80, " " * 20 + "Network Layer Information Table"
        end = f"Total Operator Elapsed Per Frame Time(us): {total}"
        text = [rule, title, rule, header, rule, *lines, rule, end, rule, "OpType CallNumber"]
    table = parse_perf_detail("\n".join(text) + "\n")
    assert list(table) == [expected(n, row) for n, row in enumerate(given_rows, 1)]
    assert table.microseconds == total
    assert table.title == ("" if is_old else "Network Layer Information Table")


ROW = "1    Conv   INT8  NPU  (1,3,4,4) (1,8,4,4)  1/2/3  40  \\  100.0%/0.0%/0.0%  7  Conv:c"
TABLE = f"{NEW}\n{ROW}\n---\nTotal Operator Elapsed Per Frame Time(us): 40\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no table of layers"),
        ("Total Operator Elapsed Time(us): 3", "no table of layers"),
        (TABLE.replace(": 40", ": 97"), "take 40 us together, but it states a total of 97 us"),
        (TABLE.replace("  40  ", "  "), "can't be read"),
        (TABLE.replace(" NPU ", " "), "can't be read"),
        (TABLE.replace("1/2/3  40", "40  1/2/3"), "can't be read"),
        (TABLE[: TABLE.index("---")], "breaks off after 1 rows"),
        (TABLE[: TABLE.index("100.0%")], "can't be read"),
        (TABLE[: TABLE.index("Total Operator")], "breaks off after 1 rows"),
    ],
)
def test_other_texts_are_refused(text: str, what: str) -> None:
    assert len(parse_perf_detail(TABLE)) == 1
    with pytest.raises(anynpu.ModelError, match=what):
        parse_perf_detail(text)


def test_a_log_with_the_table() -> None:
    log = "".join(f"D RKNN: [05:07:06.566] {line}\n" for line in TABLE.splitlines())
    assert parse_perf_detail(log).rows == parse_perf_detail(TABLE).rows


def test_what_librknnrt_1_5_wrote() -> None:
    """Texts that end in the middle of a row are refused; the others' rows make their totals."""
    folder = SHARED / "samples" / "vendor-perf-1.5.2"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    read = 0
    for file in sorted(folder.glob("*.txt")):
        text = file.read_text()
        if "Total Operator" not in text:
            with pytest.raises(anynpu.ModelError):
                parse_perf_detail(text)
            continue
        table = parse_perf_detail(text)
        read += 1
        assert table.rows[0].op_type == "InputOperator"
        assert table.microseconds == int(text.split("Time(us): ")[1].split()[0])
    assert read > 100


@pytest.mark.parametrize("clock", ["host", "model"])
def test_a_model_s_own_table(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", clock)
    for name in ("m_yolov8tail_fp16", "m_lstm_i8", "op_batchmm_i8"):
        _check_table(SAMPLES / "rk3588" / f"{name}.rknn")


@pytest.mark.nightly
@pytest.mark.parametrize("clock", ["host", "model"])
def test_every_sample_s_table(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYNPU_SOFT_CLOCK", clock)
    files = sorted(SAMPLES.glob("rk35*/*.rknn"))
    if not files:
        pytest.skip(f"no compiled samples in {SHARED}")
    for file in files:
        _check_table(file)


def _check_table(file: Path) -> None:
    """A run's layers can be read, which checks their sum; each has an operator and a target."""
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    if file.stem.endswith("_rw"):  # it has no weights
        return
    with anynpu.Model(file, profile=True) as model:
        model.run(*(np.zeros(info.shape, np.float32) for info in model.input_attrs))
        table = model.perf()
    assert len(table) >= 3
    assert all(row.op_type and row.target in ("CPU", "NPU") for row in table)
