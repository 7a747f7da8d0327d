"""What a vendor's compiler would have been told, kept in an ONNX file's `metadata_props`.

The builder writes these entries and the ONNX engine reads them, so the file stays valid ONNX.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import ModelError
from ..engines.program import Normalization

_PREFIX = "anynpu."
_SOC = _PREFIX + "soc"
_MEAN = _PREFIX + "mean"
_STD = _PREFIX + "std"
_SHAPES = _PREFIX + "shapes"
_CUSTOM_STRING = _PREFIX + "custom_string"

MAX_SHAPES = 512
Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Metadata:
    """The entries, parsed.

    `normalization` has an entry for each input whose values it changes; `shapes` lists the sets of
    input shapes that a dynamic model runs with (empty: the shapes are fixed).
    """

    soc: str | None = None
    custom_string: str = ""
    normalization: Mapping[str, Normalization] = field(default_factory=dict)
    shapes: tuple[Shapes, ...] = ()

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> Metadata:
        """Read the entries of `metadata_props`; raises `ModelError` for malformed ones."""
        means, stds = _channels(_MEAN, properties), _channels(_STD, properties)
        return cls(
            soc=properties.get(_SOC),
            custom_string=properties.get(_CUSTOM_STRING, ""),
            normalization=pair_normalizations(means, stds),
            shapes=_shapes(properties),
        )

    @staticmethod
    def is_ours(key: str) -> bool:
        """Whether an entry's key is one of these."""
        return key.startswith(_PREFIX)

    def properties(self) -> dict[str, str]:
        """The entries to write; defaults are left out."""
        entries: dict[str, str] = {}
        if self.soc:
            entries[_SOC] = self.soc
        if self.custom_string:
            entries[_CUSTOM_STRING] = self.custom_string
        if self.normalization:
            entries[_MEAN] = json.dumps({n: v.mean for n, v in self.normalization.items()})
            entries[_STD] = json.dumps({n: v.std for n, v in self.normalization.items()})
        if self.shapes:
            entries[_SHAPES] = json.dumps([{n: list(s) for n, s in x.items()} for x in self.shapes])
        return entries


def _load(key: str, properties: Mapping[str, str]) -> object:
    try:
        return json.loads(properties[key])
    except (ValueError, RecursionError) as error:
        raise ModelError(f"metadata {key} is not JSON: {error}") from None


def _channels(key: str, properties: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
    if key not in properties:
        return {}
    value = _load(key, properties)
    if not (
        isinstance(value, dict)
        and all(isinstance(v, list) and v and all(_is_number(x) for x in v) for v in value.values())
    ):
        raise ModelError(
            f"metadata {key} is {properties[key][:80]!r}; expected a list of numbers for each "
            f'input, such as {{"images": [0, 0, 0]}}'
        )
    return {name: tuple(map(float, numbers)) for name, numbers in value.items()}


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def pair_normalizations(
    means: Mapping[str, Sequence[float]], stds: Mapping[str, Sequence[float]]
) -> dict[str, Normalization]:
    """What is to be done to each input that is named; what changes nothing is left out.

    Raises `ModelError` for lists of different lengths and deviations that aren't positive.
    """
    found = {}
    for name in sorted({*means, *stds}):
        channels = len(means.get(name) or stds[name])
        mean = tuple(map(float, means.get(name) or [0] * channels))
        std = tuple(map(float, stds.get(name) or [1] * channels))
        if len(mean) != len(std):
            raise ModelError(f"input {name!r}: {len(mean)} means, {len(std)} standard deviations")
        if not all(value > 0 for value in std):
            raise ModelError(f"input {name!r}: the standard deviations {std} aren't all positive")
        if not (normalization := Normalization(mean, std)).is_identity:
            found[name] = normalization
    return found


def _shapes(properties: Mapping[str, str]) -> tuple[Shapes, ...]:
    if _SHAPES not in properties:
        return ()
    value = _load(_SHAPES, properties)
    if not (
        isinstance(value, list)
        and 0 < len(value) <= MAX_SHAPES
        and all(isinstance(entry, dict) and entry for entry in value)
        and all(_is_shape(shape) for entry in value for shape in entry.values())
    ):
        raise ModelError(
            f"metadata {_SHAPES} must list 1 to {MAX_SHAPES} sets of input shapes, such as "
            f'[{{"images": [1, 3, 640, 640]}}]'
        )
    return tuple({name: tuple(shape) for name, shape in entry.items()} for entry in value)


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and all(type(size) is int and size > 0 for size in value)
