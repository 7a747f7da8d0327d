"""Version 2.x of the `.nb` file, as far as files of the newest toolkit show its layout.

Behind magic, version and target lie a checksum (12), the file's size (16) and where the header
of the table of sections is (24): the table's offset, an entry's size and how many there are. An
entry is a type (0), an offset (4), a size (12) and the size of one item inside (32).
"""

from __future__ import annotations

import struct

from ....errors import ModelError
from .executable import Parts, read_executable
from .model import COMMAND_WORDS, Nbg, Section, Tensor
from .v1 import MAX_DIMS
from .view import View, checked_tensor, entries, read_layers, read_operations, text

_INPUTS, _OUTPUTS, _LAYERS, _OPERATIONS, _NETWORK, _POOL, _VIP_SRAM = 1, 2, 3, 4, 0x23, 0x25, 0x26
_NN, _TP, _SHADERS, _PATCHES = 7, 8, 9, 10
_SHADER_PROGRAMS, _SHADER_PROGRAM_TABLE = 0x13, 0x19
_CONSTANTS, _STATES, _COEFFICIENT_TABLE, _COEFFICIENTS = 0x14, 0x15, 0x17, 0x18
_CONSTANT_TABLE, _STATE_TABLE = 0x1A, 0x1B
_NAMES = {
    _INPUTS: "inputs",
    _OUTPUTS: "outputs",
    _LAYERS: "layers",
    _OPERATIONS: "operations",
    _NN: "NN operations",
    _TP: "TP operations",
    _SHADERS: "shader operations",
    _PATCHES: "patches",
    _SHADER_PROGRAMS: "shader programs",
    _CONSTANTS: "constants",
    _STATES: "states",
    _COEFFICIENT_TABLE: "coefficient table",
    _COEFFICIENTS: "coefficients",
    _SHADER_PROGRAM_TABLE: "shader program table",
    _CONSTANT_TABLE: "constant table",
    _STATE_TABLE: "state table",
    _NETWORK: "network",
    _POOL: "memory pool",
    _VIP_SRAM: "VIP SRAM",
}
_FILE_HEADER = struct.Struct("<4sIIIQI")
_TABLE_HEADER = struct.Struct("<III")
_ENTRY = struct.Struct("<IQQ12xI")
# As in the structures of the C API, a fixed-point position lies where the scale would be.
_TENSOR = struct.Struct("<I6IIII4si64s")
_MOST_SECTIONS = 256


def read_v2(view: View, version: int) -> Nbg:
    """Parse a file; raises `ModelError` with the offset of what is wrong."""
    header = view.unpack(_FILE_HEADER, 0, "the header")
    _, _, target, _, size, table = header
    if size != len(view.data):
        raise ModelError(
            f"truncated .nb file: offset 16 announces {size} bytes, {len(view.data)} are there"
        )
    sections = _sections(view, table)
    by_type = {section.number: (section, item) for section, item in sections}
    network, _ = by_type.get(_NETWORK, (None, 0))
    if network is None:
        raise ModelError(f"damaged .nb file: its table of sections at offset {table} has no header")
    name, cores = view.unpack("<64sI", network.offset, "the network's header")
    layers = read_layers(view, *_table(by_type, _LAYERS))
    operations = read_operations(view, *_table(by_type, _OPERATIONS), len(layers))
    return Nbg(
        name=text(name),
        version=version,
        target=target,
        size=size,
        cores=cores & 0xFFFF,
        memory_pool_size=_size_in(view, by_type, _POOL),
        vip_sram_size=_size_in(view, by_type, _VIP_SRAM),
        inputs=_tensors(view, by_type, _INPUTS),
        outputs=_tensors(view, by_type, _OUTPUTS),
        layers=layers,
        operations=operations,
        sections=tuple(section for section, _ in sections),
        executable=read_executable(view, version, _parts(by_type), operations, 4 * COMMAND_WORDS),
    )


def _parts(by_type: dict[int, tuple[Section, int]]) -> Parts:
    def section(kind: int) -> Section | None:
        return by_type[kind][0] if kind in by_type else None

    return Parts(
        nn=section(_NN),
        tp=section(_TP),
        patches=section(_PATCHES),
        coefficients=(section(_COEFFICIENT_TABLE), section(_COEFFICIENTS)),
        constants=(section(_CONSTANT_TABLE), section(_CONSTANTS)),
        states=(section(_STATE_TABLE), section(_STATES)),
        shaders=section(_SHADERS),
        programs=(section(_SHADER_PROGRAM_TABLE), section(_SHADER_PROGRAMS)),
    )


def _sections(view: View, header: int) -> list[tuple[Section, int]]:
    """The sections that aren't empty, each with the size of one item inside."""
    start, entry_size, count = view.unpack(_TABLE_HEADER, header, "the table of sections")
    if entry_size < _ENTRY.size or count > _MOST_SECTIONS:
        raise ModelError(
            f"damaged .nb file: offset {header} announces {count} sections in entries of "
            f"{entry_size} bytes"
        )
    found = []
    for offset in range(start, start + count * entry_size, entry_size):
        kind, begin, size, item = view.unpack(_ENTRY, offset, "a section's entry")
        name = _NAMES.get(kind, f"type {kind:#x}")
        view.need(begin, size, f"section {name!r}, which offset {offset} announces,")
        if size:
            found.append((Section(kind, name, begin, size), item))
    return found


def _table(by_type: dict[int, tuple[Section, int]], kind: int) -> tuple[Section | None, int]:
    """A section, and how many items its own entry says it has."""
    section, item = by_type.get(kind, (None, 0))
    return section, section.size // item if section and item else 0


def _size_in(view: View, by_type: dict[int, tuple[Section, int]], kind: int) -> int:
    """The size of a memory, which a section begins with; 0 where there is none."""
    section, _ = by_type.get(kind, (None, 0))
    if section is None:
        return 0
    size: int
    (size,) = view.unpack("<I", section.offset, f"section {section.name!r}")
    return size


def _tensors(view: View, by_type: dict[int, tuple[Section, int]], kind: int) -> tuple[Tensor, ...]:
    tensors = []
    for offset in entries(*_table(by_type, kind), (_TENSOR.size,)):
        fields = view.unpack(_TENSOR, offset, "a tensor's entry")
        count, sizes = fields[0], fields[1 : 1 + MAX_DIMS]
        fmt, _, quantization, union, zero_point, name = fields[1 + MAX_DIMS :]
        (position,), (scale,) = struct.unpack("<i", union), struct.unpack("<f", union)
        tensors.append(
            checked_tensor(
                offset, text(name), (count, sizes), fmt, quantization, position, scale, zero_point
            )
        )
    return tuple(tensors)
