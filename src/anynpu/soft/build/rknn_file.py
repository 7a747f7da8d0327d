"""Prepare an ONNX model for the soft NPU: what a vendor's compiler would be told, and int8.

`build` returns the model with its metadata as an ONNX file; `build_file` writes that, or a soft
`.rknn` or `.nb` file round it. Quantising is ONNX Runtime's own work.
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx

from ... import soc as socs
from ..._version import __version__
from ...errors import ModelError, OptionError
from ..engines import ModelSource, Program, load
from ..engines.onnx.boundary import fix_shapes
from ..engines.onnx.external import take_in
from ..engines.onnx.weights import remove_weights
from ..formats.rknn import write_soft
from .calibration import CalibrationFolder
from .metadata import Metadata, pair_normalizations
from .options import BuildOptions
from .quantization import quantize

PRODUCER = f"anynpu {__version__}"


def build(source: str | os.PathLike[str] | bytes | onnx.ModelProto, options: BuildOptions) -> bytes:
    """The bytes of an ONNX file that the soft NPU takes, from a path, bytes or a loaded model.

    Raises `ModelError` for a model that the soft NPU can't run, `OptionError` for options that
    don't fit it.
    """
    return _build(source, options)[0]


def build_file(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    output: str | os.PathLike[str],
    options: BuildOptions,
) -> Program:
    """Write what `build` returns to a `.onnx` file, or a soft `.rknn` or `.nb`; by the name's end.

    Returns the program that the soft NPU makes of it. Allwinner's chips take `.nb` files,
    Rockchip's the others.
    """
    target = Path(output)
    if target.suffix not in (".onnx", ".rknn", ".nb"):
        raise OptionError(f"{target.name}: the output is a .onnx, a .rknn or a .nb file")
    if target.suffix == ".nb":
        return _build_nbg(source, target, options)
    data, program = _build(source, options)
    if target.suffix == ".rknn":
        shapes = program.variant(program.largest)
        data = write_soft(
            data,
            target=_rockchip(options),
            toolkit=PRODUCER,
            inputs=[(port.name, port.shape) for port in shapes.inputs],
            outputs=[(port.name, port.shape) for port in shapes.outputs],
        )
    target.write_bytes(data)
    return program


def _build_nbg(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto, target: Path, options: BuildOptions
) -> Program:
    """Write a soft `.nb` file; returns the program that the soft NPU makes of it."""
    from ..engines.nbg import vip
    from ..formats.nbg import read
    from .nbg_file import check_options, fixed_points, soft_file

    chip = socs.find_vip(options.soc or socs.VIP_DEFAULT.name)
    check_options(options)
    model = _prepare(source, options)
    edges = {}
    if options.quantize is not None and options.quantize_type == "int16":
        normalization = _metadata(options).normalization
        data = CalibrationFolder(Path(options.quantize), model, normalization, bgr=options.bgr)
        edges = fixed_points(model, data)
    target.write_bytes(soft_file(model.SerializeToString(), chip, edges))
    return vip.load(read(target.read_bytes()))


def _build(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto, options: BuildOptions
) -> tuple[bytes, Program]:
    """The file's bytes, and the program that the soft NPU makes of the whole model."""
    if options.quantize_type != "int8":
        raise OptionError(f"the type {options.quantize_type} is for .nb files")
    _rockchip(options)
    model = _prepare(source, options)
    data: bytes = model.SerializeToString()
    program = load(ModelSource.of(data))
    program.variant(program.largest)
    if options.remove_weights:
        remove_weights(model)
        data = model.SerializeToString()
    return data, program


def _prepare(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto, options: BuildOptions
) -> onnx.ModelProto:
    """The model with its shapes fixed, quantised, and with its metadata."""
    metadata = _metadata(options)
    model = load_onnx(source)
    if len(options.shapes) == 1:
        fix_shapes(model, options.shapes[0])
    if options.quantize is not None and options.quantize_type == "int8":
        model = quantize(model, Path(options.quantize), metadata, bgr=options.bgr)
    _store(model, metadata)
    return model


def _rockchip(options: BuildOptions) -> str:
    return socs.find(options.soc or socs.DEFAULT.name).name


def _metadata(options: BuildOptions) -> Metadata:
    try:
        normalization = pair_normalizations(options.mean, options.std)
    except ModelError as error:
        raise OptionError(str(error)) from None
    return Metadata(
        soc=socs.find_any(options.soc or socs.DEFAULT.name).name,
        custom_string=options.custom_string,
        normalization=normalization,
        shapes=tuple(options.shapes) if len(options.shapes) > 1 else (),
    )


def load_onnx(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    """A model with the values that it keeps in files beside it; `ModelError` for other files."""
    if isinstance(source, onnx.ModelProto):
        return source
    try:
        model: onnx.ModelProto
        if isinstance(source, bytes):
            model, path = onnx.load_from_string(source), None
        else:
            path = Path(source)
            model = onnx.load(path, load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # protobuf's DecodeError has moved between versions
        name = "the model" if isinstance(source, bytes) else os.fspath(source)
        raise ModelError(f"{name} is not an ONNX file: {error}") from None
    take_in(model, path)
    return model


def _store(model: onnx.ModelProto, metadata: Metadata) -> None:
    entries = {entry.key: entry.value for entry in model.metadata_props}
    entries = {key: value for key, value in entries.items() if not Metadata.is_ours(key)}
    onnx.helper.set_model_props(model, entries | metadata.properties())
