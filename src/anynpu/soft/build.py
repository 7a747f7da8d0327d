"""Prepare an ONNX model for the soft NPU: what a vendor's compiler would be told, and int8.

`build` returns the model with its metadata as an ONNX file, or as a soft `.rknn` file. Quantising
is ONNX Runtime's own work.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from .. import soc as socs
from .._version import __version__
from ..errors import ModelError, OptionError
from .calibration import CalibrationFolder
from .engines import ModelSource, Program, load
from .engines.onnx_boundary import fix_shapes
from .engines.onnx_custom import node_keys
from .engines.onnx_weights import remove_weights
from .formats.rknn import write_soft
from .metadata import Metadata, Shapes, pair_normalizations

PRODUCER = f"anynpu {__version__}"
_OLDEST_QUANTIZABLE_OPSET = 13


@dataclass(frozen=True)
class BuildOptions:
    """What a vendor's compiler would be told.

    `soc` is the chip's name. `mean` and `std` give, for an input's name, a number for each channel:
    the runtime computes (x - mean) / std. `shapes` lists sets of input shapes: one fixes the
    model's shapes, several make it dynamic, the first being the default. `quantize` is a folder
    of images or arrays to calibrate int8 with (None leaves the model in float16), read as BGR
    where `bgr` says so. `custom_string` is what RKNN_QUERY_CUSTOM_STRING answers. `remove_weights`
    leaves the weights out: such a model runs on those of another one that differs from it in its
    shapes alone (RKNN_FLAG_SHARE_WEIGHT_MEM).
    """

    soc: str = socs.DEFAULT.name
    mean: Mapping[str, Sequence[float]] = field(default_factory=dict)
    std: Mapping[str, Sequence[float]] = field(default_factory=dict)
    shapes: Sequence[Shapes] = ()
    quantize: str | os.PathLike[str] | None = None
    bgr: bool = False
    custom_string: str = ""
    remove_weights: bool = False


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
    """Write what `build` returns to a `.onnx` file, or to a soft `.rknn` file; by the name's end.

    Returns the program that the soft NPU makes of it.
    """
    target = Path(output)
    if target.suffix not in (".onnx", ".rknn"):
        raise OptionError(f"{target.name}: the output is a .onnx or a .rknn file")
    data, program = _build(source, options)
    if target.suffix == ".rknn":
        data = write_soft(
            data,
            target=socs.find(options.soc).name,
            toolkit=PRODUCER,
            inputs=[(port.name, port.shape) for port in program.variant(0).inputs],
            outputs=[(port.name, port.shape) for port in program.variant(0).outputs],
        )
    target.write_bytes(data)
    return program


def _build(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto, options: BuildOptions
) -> tuple[bytes, Program]:
    """The file's bytes, and the program that the soft NPU makes of the whole model."""
    metadata = _metadata(options)
    model = _load(source)
    if len(options.shapes) == 1:
        fix_shapes(model, options.shapes[0])
    if options.quantize is not None:
        model = _quantize(model, Path(options.quantize), options, metadata)
    _store(model, metadata)
    data: bytes = model.SerializeToString()
    program = load(ModelSource.of(data))
    program.variant(0)
    if options.remove_weights:
        remove_weights(model)
        data = model.SerializeToString()
    return data, program


def _metadata(options: BuildOptions) -> Metadata:
    try:
        normalization = pair_normalizations(options.mean, options.std)
    except ModelError as error:
        raise OptionError(str(error)) from None
    return Metadata(
        soc=socs.find(options.soc).name,
        custom_string=options.custom_string,
        normalization=normalization,
        shapes=tuple(options.shapes) if len(options.shapes) > 1 else (),
    )


def _load(source: str | os.PathLike[str] | bytes | onnx.ModelProto) -> onnx.ModelProto:
    if isinstance(source, onnx.ModelProto):
        return source
    try:
        if isinstance(source, bytes):
            return onnx.load_from_string(source)
        return onnx.load(os.fspath(source))
    except OSError:
        raise
    except Exception as error:  # protobuf's DecodeError has moved between versions
        raise ModelError(f"not an ONNX file: {error}") from None


def _quantize(
    model: onnx.ModelProto, folder: Path, options: BuildOptions, metadata: Metadata
) -> onnx.ModelProto:
    """The model with int8 QuantizeLinear/DequantizeLinear pairs, weights quantised by channel."""
    custom = sorted({key.op_type for key in node_keys(model) if key.is_foreign})
    if custom:
        raise ModelError(
            f"a model with the custom operators {custom} can't be quantised: calibrating runs it, "
            f"and nobody computes them; quantise it before they are put in"
        )
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if opset < _OLDEST_QUANTIZABLE_OPSET:
        model = onnx.version_converter.convert_version(model, _OLDEST_QUANTIZABLE_OPSET)
    data = CalibrationFolder(folder, model, metadata.normalization, bgr=options.bgr)
    with tempfile.TemporaryDirectory() as work:
        plain, prepared, quantized = (Path(work, f"{stage}.onnx") for stage in "012")
        onnx.save(model, plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            quantized,
            data,
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,  # the pair that ONNX Runtime is fastest at
            weight_type=QuantType.QInt8,
        )
        return onnx.load(quantized)


def _store(model: onnx.ModelProto, metadata: Metadata) -> None:
    entries = {entry.key: entry.value for entry in model.metadata_props}
    entries = {key: value for key, value in entries.items() if not Metadata.is_ours(key)}
    onnx.helper.set_model_props(model, entries | metadata.properties())
