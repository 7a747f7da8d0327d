"""The declarations against numbers measured with a C compiler, and against Tables 4-1 and 4-2."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anynpu.declarations import symbol_of
from anynpu.rknn import abi, header
from anynpu.soc import Family

MEASURED = json.loads((Path(__file__).parents[1] / "data" / "rknn_abi.json").read_text())
MINI_RUNTIME = {
    "rknn_init", "rknn_destroy", "rknn_query", "rknn_inputs_set", "rknn_run", "rknn_wait",
    "rknn_outputs_get", "rknn_outputs_release", "rknn_dup_context", "rknn_create_mem",
    "rknn_create_mem2", "rknn_create_mem_from_fd", "rknn_create_mem_from_phys",
    "rknn_destroy_mem", "rknn_set_weight_mem", "rknn_set_internal_mem", "rknn_set_io_mem",
    "rknn_set_input_shape", "rknn_set_input_shapes", "rknn_mem_sync",
}  # fmt: skip
OLD_NAMES = {"rknn_matmul_create_dyn_shape"}


def measured(column: int) -> dict[str, Any]:
    return {
        name: (entry["size"][column], {f: o[column] for f, o in entry["fields"].items()})
        for name, entry in MEASURED["structures"].items()
    }


def arm32_extent(kind: Any) -> tuple[int, int]:
    """(size, alignment) of a ctypes type under the 32-bit ARM ABI."""
    if issubclass(kind, ctypes.Array):
        size, alignment = arm32_extent(kind._type_)
        return size * kind._length_, alignment
    if issubclass(kind, ctypes.Structure):
        size, alignment, _ = arm32_layout(kind)
        return size, alignment
    # What isn't a scalar here is a pointer to a structure or to a function.
    is_scalar = issubclass(kind, ctypes._SimpleCData)
    is_pointer = not is_scalar or kind in (ctypes.c_void_p, ctypes.c_char_p)
    return (4, 4) if is_pointer else (ctypes.sizeof(kind), ctypes.sizeof(kind))


def arm32_layout(structure: type[ctypes.Structure]) -> tuple[int, int, dict[str, int]]:
    """(size, alignment, offsets) of a structure under the 32-bit ARM ABI."""
    end, widest, offsets = 0, 1, {}
    names = {kind: name for name, kind in abi.STRUCTURES.items()}
    for name, kind, *_ in structure._fields_:
        is_handle = f"{names.get(structure)}.{name}" in abi.HANDLE_FIELDS
        size, alignment = (4, 4) if is_handle else arm32_extent(kind)
        offsets[name] = end = -(-end // alignment) * alignment
        end += size
        widest = max(widest, alignment)
    return -(-end // widest) * widest, widest, offsets


def test_sizes_and_offsets_are_those_of_64_bit_c() -> None:
    declared = {
        name: (
            ctypes.sizeof(structure),
            {field[0]: getattr(structure, field[0]).offset for field in structure._fields_},
        )
        for name, structure in abi.STRUCTURES.items()
    }
    assert declared == measured(0)


def test_sizes_and_offsets_are_those_of_32_bit_arm() -> None:
    declared = {}
    for name, structure in abi.STRUCTURES.items():
        size, _, offsets = arm32_layout(structure)
        declared[name] = (size, offsets)
    assert declared == measured(1)


def test_enumerations_have_the_measured_names_and_values() -> None:
    declared = {
        name: {symbol_of(members, n): m.value for n, m in members.__members__.items()}
        for name, members in abi.ENUMERATIONS.items()
    }
    limits = dict(abi.LIMITS)
    for name, values in MEASURED["enumerations"].items():
        expected = dict(values)
        for symbol in [symbol for symbol in expected if symbol in limits]:
            assert limits[symbol] == expected.pop(symbol)
        found = dict(declared.pop(name))
        found.pop("RKNN_MEM_FLAG_ALLOC_NO_CONTEXT", None)  # a #define in C
        assert found == expected, name
    assert not declared


def test_constants_have_the_measured_names_and_values() -> None:
    declared = dict(abi.LIMITS)
    for members in (abi.ErrorCode, abi.InitFlag, abi.MemoryFlag):
        declared |= {m.symbol: m.value for m in members.__members__.values()}
    for name, value in MEASURED["defines"].items():
        assert declared[name] == value, name


def test_every_function_is_declared() -> None:
    assert set(abi.FUNCTIONS) == set(MEASURED["functions"]) | OLD_NAMES
    assert len(MEASURED["functions"]) == 35


def test_the_small_runtime_exports_its_twenty_functions() -> None:
    assert {n for n, f in abi.FUNCTIONS.items() if f.in_librknnmrt} == MINI_RUNTIME


def rejected_by(family: Family) -> Iterator[str]:
    """What Table 4-1 crosses out, plus what the reference calls deprecated."""
    yield from ("rknn_wait", "rknn_create_mem_from_mb_blk", "rknn_set_input_shape")
    if family is not Family.RK3588:
        yield from (
            "rknn_set_core_mask", "rknn_set_batch_core_num", "rknn_matmul_set_core_mask",
        )  # fmt: skip
    if family is Family.RV1106:
        yield from (
            "rknn_dup_context", "rknn_inputs_set", "rknn_outputs_get", "rknn_set_input_shapes",
            "rknn_register_custom_ops", "rknn_custom_op_get_op_attr",
            "rknn_B_normal_layout_to_native_layout",
        )  # fmt: skip
        yield from (name for name in abi.FUNCTIONS if name.startswith("rknn_matmul_"))


@pytest.mark.parametrize("family", list(Family))
def test_functions_are_supported_where_table_4_1_says(family: Family) -> None:
    unsupported = {n for n, f in abi.FUNCTIONS.items() if family not in f.families}
    assert unsupported == set(rejected_by(family))


def test_queries_are_supported_where_table_4_2_says() -> None:
    """Nineteen rows, two of which are second names; seven are crossed out for RV1106."""
    unsupported = {q.name for q, rule in abi.QUERIES.items() if Family.RV1106 not in rule.families}
    assert unsupported == {
        "PERF_DETAIL", "PERF_RUN", "INPUT_DYNAMIC_RANGE", "CURRENT_INPUT_ATTR",
        "CURRENT_OUTPUT_ATTR", "CURRENT_NATIVE_INPUT_ATTR", "CURRENT_NATIVE_OUTPUT_ATTR",
    }  # fmt: skip
    rows = [name for name in abi.Query.__members__ if name != "DEVICE_MEM_INFO"]
    assert len(rows) == 19
    assert {abi.Query[name] for name in rows} == set(abi.QUERIES)


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++11"])
def test_the_header_gives_c_the_same_layout(compiler: str, tmp_path: Path, c_compiler: str) -> None:
    lines = [header.text(), "#include <stddef.h>", "#ifndef __cplusplus", "#include <assert.h>"]
    lines += ["#endif"]
    for name, (size, offsets) in measured(0).items():
        lines.append(f'static_assert(sizeof({name}) == {size}, "{name}");')
        lines += [
            f'static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");'
            for field, offset in offsets.items()
        ]
    for values in (*MEASURED["enumerations"].values(), MEASURED["defines"]):
        lines += [f'static_assert({s} == {v}, "{s}");' for s, v in values.items()]
    file = tmp_path / ("check.cc" if "++" in compiler else "check.c")
    file.write_text("\n".join(lines) + "\n")
    subprocess.run([*compiler.split(), "-Wall", "-Werror", "-fsyntax-only", file], check=True)


def test_the_header_stands_for_the_vendor_s(tmp_path: Path, c_compiler: str) -> None:
    """A copy of the vendor's that is included as well declares nothing."""
    copies = ["_RKNN_API_H", "_RKNN_MATMUL_API_H", "_RKNN_CUSTOM_OP_H"]
    lines = [header.text(), *(f"#ifndef {guard}\n#error\n#endif" for guard in copies)]
    file = tmp_path / "copies.c"
    file.write_text("\n".join(lines) + "\n")
    subprocess.run([c_compiler, "-fsyntax-only", file], check=True)


def test_fields_of_an_enumeration_s_type_are_ints_here() -> None:
    for key, name in abi.ENUMERATED.items():
        structure, field = key.split(".")
        kinds = {f: kind for f, kind, *_ in abi.STRUCTURES[structure]._fields_}
        assert kinds[field] is ctypes.c_int
        assert name in abi.ENUMERATIONS


def test_the_header_s_fields_have_enumerations_types(tmp_path: Path, c_compiler: str) -> None:
    """C++ gives these fields to functions that take the enumeration, which an int can't be."""
    lines = [header.text(), "#include <type_traits>"]
    for key, name in abi.ENUMERATED.items():
        kind = f"decltype({key.replace('.', '::')})"
        lines.append(f'static_assert(std::is_same<{kind}, {name}>::value, "{key}");')
    file = tmp_path / "fields.cc"
    file.write_text("\n".join(lines) + "\n")
    subprocess.run(["g++", "-std=c++11", "-Wall", "-Werror", "-fsyntax-only", file], check=True)


@pytest.mark.parametrize(
    "call",
    [
        "rknn_query(0, %s, nullptr, 0)",
        "rknn_set_core_mask(0, %s)",
        "rknn_matmul_set_core_mask(0, %s)",
        "rknn_mem_sync(0, nullptr, %s)",
    ],
)
def test_c_plus_plus_gives_no_int_for_an_enumeration(
    call: str, tmp_path: Path, c_compiler: str
) -> None:
    """As with the vendor's header: what compiles here compiles for a board."""
    kinds = {"rknn_query": "query_cmd", "rknn_mem_sync": "mem_sync_mode"}
    kind = f"rknn_{kinds.get(call.partition('(')[0], 'core_mask')}"
    for number, argument in enumerate((f"static_cast<{kind}>(1)", "1")):
        file = tmp_path / f"call{number}.cc"
        file.write_text(f"{header.text()}\nint main() {{ return {call % argument}; }}\n")
        result = subprocess.run(["g++", "-std=c++11", "-fsyntax-only", file], check=False)
        assert (result.returncode == 0) == (number == 0)


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++11"])
def test_the_header_names_values(compiler: str, tmp_path: Path, c_compiler: str) -> None:
    """Nearly every published example prints tensors with these functions of the header."""
    calls = {
        "get_type_string(RKNN_TENSOR_FLOAT32)": "FP32",
        "get_type_string(RKNN_TENSOR_FLOAT16)": "FP16",
        "get_type_string(RKNN_TENSOR_INT8)": "INT8",
        "get_qnt_type_string(RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC)": "AFFINE",
        "get_qnt_type_string(RKNN_TENSOR_QNT_NONE)": "NONE",
        "get_format_string(RKNN_TENSOR_NC1HWC2)": "NC1HWC2",
        "get_matmul_type_string(RKNN_INT8_MM_INT8_TO_INT32)": "INT8_MM_INT8_TO_INT32",
        "get_format_string((rknn_tensor_format)77)": "UNKNOW",
    }
    file = tmp_path / ("names.cc" if "++" in compiler else "names.c")
    lines = [header.text(), "#include <stdio.h>", "int main(void) {"]
    file.write_text("\n".join([*lines, *(f"puts({call});" for call in calls), "}", ""]))
    program = tmp_path / "names"
    options = ["-Wall", "-Wextra", "-Werror", "-o", str(program)]
    subprocess.run([*compiler.split(), *options, str(file)], check=True)
    result = subprocess.run([program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == list(calls.values())


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++11"])
def test_the_header_declares_plugins_of_operators(
    compiler: str, tmp_path: Path, c_compiler: str
) -> None:
    """A program that opens a plugin, and a plugin that hides all but what it exports."""
    file = tmp_path / ("plugin.cc" if "++" in compiler else "plugin.c")
    prefix = 'extern "C" ' if "++" in compiler else ""
    lines = [
        header.text(),
        f"{prefix}RKNN_CUSTOM_OP_EXPORT rknn_custom_op *get_rknn_custom_op(void) {{ return 0; }}",
        "get_custom_op_func find(void) { return get_rknn_custom_op; }",
    ]
    file.write_text("\n".join(lines) + "\n")
    library = tmp_path / "plugin.so"
    options = ["-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-shared", "-fPIC"]
    subprocess.run([*compiler.split(), *options, "-o", str(library), str(file)], check=True)
    assert ctypes.CDLL(str(library)).get_rknn_custom_op() == 0
    with pytest.raises(AttributeError):
        ctypes.CDLL(str(library)).find()
