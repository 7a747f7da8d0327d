"""The declarations of VIPLite against numbers measured with a C compiler."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anynpu.declarations import symbol_of
from anynpu.viplite import abi, header
from anynpu.viplite.abi import Interface

from ..shared import SHARED

MEASURED = json.loads((Path(__file__).parents[1] / "data" / "viplite_abi.json").read_text())
FACTS = SHARED / "facts" / "vip_lite_abi_facts.h"


def offsets(structure: Any, prefix: str = "", start: int = 0) -> Iterator[tuple[str, int]]:
    """Where every field is, those of structures inside included."""
    for name, kind, *_ in structure._fields_:
        place = start + getattr(structure, name).offset
        yield prefix + name, place
        if issubclass(kind, ctypes.Structure | ctypes.Union):
            yield from offsets(kind, f"{prefix}{name}.", place)


def measured(column: int) -> dict[str, tuple[int, dict[str, int]]]:
    return {
        name: (entry["size"][column], {f: o[column] for f, o in entry["fields"].items()})
        for name, entry in MEASURED["structures"].items()
    }


def assertions(column: int) -> Iterator[str]:
    """C that is an error wherever the compiler disagrees."""
    for name, (size, fields) in measured(column).items():
        yield f'static_assert(sizeof({name}) == {size}, "{name}");'
        for field, offset in fields.items():
            yield f'static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");'
    for values in MEASURED["enumerations"].values():
        yield from (f'static_assert({s} == {v}, "{s}");' for s, v in values.items())


def compiles(text: str, tmp_path: Path, *command: str) -> None:
    file = tmp_path / ("check.cc" if "g++" in command else "check.c")
    file.write_text(text)
    subprocess.run([*command, "-Wall", "-Werror", "-fsyntax-only", file], check=True)


def test_sizes_and_offsets_are_those_of_c() -> None:
    declared = {n: (ctypes.sizeof(s), dict(offsets(s))) for n, s in abi.STRUCTURES.items()}
    assert declared == measured(0)


def test_enumerations_have_the_measured_names_and_values() -> None:
    assert set(abi.ENUMERATIONS) == set(MEASURED["enumerations"])
    for name, members in abi.ENUMERATIONS.items():
        declared = {symbol_of(members, n): m.value for n, m in members.__members__.items()}
        expected = dict(MEASURED["enumerations"][name])
        for symbol in [symbol for symbol in expected if symbol in abi.LIMITS]:
            assert abi.LIMITS[symbol] == expected.pop(symbol)
        assert declared == expected, name


def test_every_function_is_declared() -> None:
    assert set(abi.FUNCTIONS) == set(MEASURED["functions"])
    exported = {name for name, f in abi.FUNCTIONS.items() if not f.is_optional}
    assert len(exported) == 40
    assert set(abi.FUNCTIONS) - exported == {"vip_set_log_path"}


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++11"])
def test_the_header_gives_c_the_same_layout(
    compiler: str, bits: int, tmp_path: Path, c_compiler: str
) -> None:
    # A macro instead of <stdint.h> and <stddef.h>, which a compiler without 32-bit headers lacks.
    prelude = [
        "#define offsetof(structure, field) __builtin_offsetof(structure, field)",
        *(
            f"typedef __{kind}{width}_TYPE__ {kind.lower()}{width}_t;"
            for kind in ("INT", "UINT")
            for width in (8, 16, 32, 64)
        ),
        "#ifndef __cplusplus\n#define static_assert _Static_assert\n#endif",
    ]
    text = header.text().replace("#include <stdint.h>", "")
    lines = [*prelude, text, *assertions(0 if bits == 64 else 1)]
    compiles("\n".join(lines) + "\n", tmp_path, *compiler.split(), f"-m{bits}")


@pytest.mark.parametrize("interface", list(Interface))
def test_every_interface_and_libawnn_have_a_header(
    interface: Interface, tmp_path: Path, c_compiler: str
) -> None:
    compiles(header.text(interface) + header.awnn_text(), tmp_path, "gcc", "-std=c11")
    compiles(header.text(interface) + header.awnn_text(), tmp_path, "g++", "-std=c++11")


def test_a_program_written_to_the_interface_compiles(tmp_path: Path, c_compiler: str) -> None:
    program = """
    int main(void) {
        vip_network network = VIP_NULL;
        vip_buffer buffer = VIP_NULL;
        vip_buffer_create_params_t param = {1, {4}, VIP_BUFFER_FORMAT_UINT8};
        vip_uint32_t timeout = 10;
        vip_status_e status = vip_init();
        param.quant_format = VIP_BUFFER_QUANTIZE_TF_ASYMM;
        param.quant_data.affine.scale = 1.0f;
        param.quant_data.affine.zeroPoint = 3;
        status = vip_create_network("a.nb", 0, VIP_CREATE_NETWORK_FROM_FILE, &network);
        status = vip_set_network(network, VIP_NETWORK_PROP_SET_TIME_OUT, &timeout);
        status = vip_create_buffer(&param, sizeof(param), &buffer);
        status = vip_power_management(0, VIP_POWER_PROPERTY_ON, VIP_NULL);
        float *values = (float *)vip_map_buffer(buffer);
        return status == VIP_SUCCESS && values ? 0 : 1;
    }
    """
    for command in (("gcc", "-std=c11"), ("g++", "-std=c++11")):
        compiles(header.text() + program, tmp_path, *command)


@pytest.mark.skipif(not FACTS.is_file(), reason=f"{FACTS} is not there")
def test_the_numbers_are_those_of_the_facts(tmp_path: Path, c_compiler: str) -> None:
    lines = [f'#include "{FACTS}"', "#include <stddef.h>", "#include <assert.h>", *assertions(0)]
    compiles("\n".join(lines) + "\n", tmp_path, "gcc", "-std=c11")


@pytest.mark.skipif(not FACTS.is_file(), reason=f"{FACTS} is not there")
def test_prototypes_are_those_of_the_facts(tmp_path: Path, c_compiler: str) -> None:
    """A redeclaration must have the same types."""
    prototypes = [line for line in header.text().splitlines() if line.endswith(");")]
    assert len(prototypes) == len(abi.FUNCTIONS)
    text = "\n".join([f'#include "{FACTS}"', "#include <stdint.h>", *prototypes])
    compiles(text + "\n", tmp_path, "gcc", "-std=c11")


@pytest.mark.parametrize(
    ("version", "interface"),
    [
        (0x00020003, Interface.V2_0),
        (0x00010D00, Interface.V1_13),
        (0x00010300, Interface.V85X),
        (0x00020200, None),
        (0x00020100, None),
        (0x00010E00, None),
        (0x00030000, None),
        (0, None),
    ],
)
def test_the_interface_follows_from_the_version(version: int, interface: Interface | None) -> None:
    assert Interface.of_version(version) is interface


def test_versions_are_written_as_people_do() -> None:
    assert abi.version_text(0x00020003) == "2.0.3"
    assert abi.version_text(0x00010D00) == "1.13.0"


def test_what_an_interface_has() -> None:
    old, middle, new = Interface
    assert not old.has("VIP_ERROR_CANCELED")
    assert middle.has("VIP_ERROR_CANCELED")
    assert not middle.has("VIP_ERROR_NAN_INF")
    assert new.has("VIP_ERROR_NAN_INF")
    assert middle.has("VIP_NETWORK_PROP_READ_REG_IRQ")
    assert not new.has("VIP_NETWORK_PROP_READ_REG_IRQ")
    assert old.has("VIP_ERROR_TIMEOUT")
    assert "vip_create_buffer_cache" not in abi.functions(old)
    assert set(abi.functions(middle)) == set(abi.functions(new)) == set(abi.FUNCTIONS)


def test_old_forms_are_declared() -> None:
    old, new = abi.functions(Interface.V85X), abi.functions(Interface.V2_0)
    assert [name for name, _ in old["vip_init"].arguments] == ["video_mem_size"]
    assert new["vip_init"].arguments == ()
    assert old["vip_power_management"].argument_types[0] is ctypes.c_void_p
    assert new["vip_power_management"].argument_types[0] is ctypes.c_uint32


def test_values_are_declared_for_every_property() -> None:
    assert set(abi.BUFFER_VALUES) == set(abi.BufferProperty)
    assert set(abi.GROUP_VALUES) == set(abi.GroupProperty)
    assert set(abi.HARDWARE_VALUES) == set(abi.HardwareProperty)
    unknown = {abi.NetworkProperty.ADDRESS_INFO, abi.NetworkProperty.READ_REG_IRQ}
    assert set(abi.NETWORK_VALUES) == set(abi.NetworkProperty) - unknown


def test_chips_name_their_libraries() -> None:
    assert Interface.V1_13.libraries == ("libVIPuser.so", "libVIPlite.so")
    assert Interface.V2_0.libraries == ("libVIPhal.so", "libNBGlinker.so")
    targets = {interface.target for interface in Interface}
    assert targets == {0xEE, 0x10000016, 0x1000003B}
