"""What `anynpu inspect` shows of an ONNX file, also of one inside a soft `.rknn` file."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import ModelError
from .output import Report, Shown
from .work import show_work, work_of

_Described = dict[str, Any]


def inspect_onnx(path: str, data: bytes, shown: Shown) -> None:
    """Print an ONNX file's producer, tensors, operators, and the device's view of it.

    No kernels of ours run it. Raises `ModelError` for what is no ONNX file.
    """
    from ..soft.formats import rknn

    described: _Described = {"kind": "ONNX", "size": len(data)}
    if rknn.is_rknn(data):
        from ..soft.formats.rknn.describe import describe

        described |= describe(data)
    described |= _graph(path, data) | _device(path, layers=shown.layers, macs=shown.macs)
    if shown.as_json:
        print(json.dumps(described, indent=2))
    else:
        _print(path, described, Report(as_markdown=shown.as_markdown))


def _graph(path: str, data: bytes) -> _Described:
    """What the ONNX file itself says."""
    import onnx

    from ..soft.formats.rknn import is_rknn, read

    inside = (read(data).onnx or b"") if is_rknn(data) else data
    try:
        model = onnx.load_from_string(inside)
    except Exception as error:  # protobuf's exception depends on its build
        if is_rknn(data):
            return {"problem": f"the ONNX file inside can't be read: {error}"}
        raise ModelError(
            f"{path} is neither a .rknn nor a .nb file, and no ONNX file: {error}"
        ) from None
    if not model.graph.node:
        raise ModelError(f"{path} is neither a .rknn nor a .nb file, and no ONNX file with nodes")
    weights = {tensor.name for tensor in model.graph.initializer}
    return {
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "opsets": {entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
        "metadata": {entry.key: entry.value for entry in model.metadata_props},
        "parameters": sum(math.prod(tensor.dims) for tensor in model.graph.initializer),
        "inputs": [_value(info) for info in model.graph.input if info.name not in weights],
        "outputs": [_value(info) for info in model.graph.output],
        "operators": dict(Counter(node.op_type for node in model.graph.node).most_common()),
    }


def _value(info: Any) -> _Described:
    import onnx

    tensor = info.type.tensor_type
    return {
        "name": info.name,
        "dtype": onnx.TensorProto.DataType.Name(tensor.elem_type).lower(),
        "shape": [size.dim_param or size.dim_value for size in tensor.shape.dim],
    }


def _device(path: str, *, layers: bool, macs: bool) -> _Described:
    """How the soft NPU takes the file: types on the device, quantisation, layers; or why not."""
    from ..soft.engines import ModelSource, load

    try:
        program = load(ModelSource.of(path))
        variant = program.variant(program.largest)
        lowered = program.lowered(program.largest)
    except ModelError as error:
        return {"problem": str(error)}
    found: _Described = {
        "device": {
            "chip": program.soc,
            "shapes": [list(map(list, shapes)) for shapes in program.input_shapes],
            "inputs": [_port(port) for port in variant.inputs],
            "outputs": [_port(port) for port in variant.outputs],
            "weight_bytes": lowered.weight_bytes,
        }
    }
    if layers or macs:
        found["layers"] = work_of(lowered.layers)
    return found


def _port(port: Any) -> _Described:
    given, norm = port.quantization, port.normalization
    return {
        "name": port.name,
        "dtype": port.dtype.name.lower(),
        "shape": list(port.shape),
        "scale": given.scale if given else None,
        "zero_point": given.zero_point if given else None,
        "mean": list(norm.mean) if norm else None,
        "std": list(norm.std) if norm else None,
    }


def _print(path: str, described: Mapping[str, Any], report: Report) -> None:
    report.facts(_rows(path, described))
    device = described.get("device")
    if device:
        _show_ports(report, "Inputs", device["inputs"])
        _show_ports(report, "Outputs", device["outputs"])
    else:
        for title, key in (("Inputs", "inputs"), ("Outputs", "outputs")):
            tensors = described.get(key) or (described["tensors"] if key == "inputs" else ())
            rows = [(t["name"], t.get("dtype", ""), _shape(t["shape"])) for t in tensors]
            report.table(title, ("name", "dtype", "shape"), rows)
    if "operators" in described:
        counts = [(count, op_type) for op_type, count in described["operators"].items()]
        report.table("Operators", ("count", "type"), counts, "r")
    if "layers" in described:
        show_work(report, described["layers"])
    if "problem" in described:
        report.line(f"The soft NPU can't run this file as it is: {described['problem']}")


def _rows(path: str, described: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    yield "file", f"{path} ({described['size']} bytes)"
    if described["kind"] == "soft":
        yield "kind", "soft: an ONNX file for the soft NPU; boards refuse it"
        yield "chip", described["target"]
        yield "made by", described["toolkit"]
        yield "ONNX file", f"{described['onnx']['size']} bytes"
    else:
        yield "kind", "ONNX: the soft NPU runs it, boards need it compiled"
        if described.get("device"):
            yield "chip", described["device"]["chip"] or "any"
    if described.get("producer"):
        yield "exported by", described["producer"]
    if "opsets" in described:
        yield "opsets", ", ".join(f"{name} {n}" for name, n in described["opsets"].items())
        yield "parameters", f"{described['parameters']:,}"
    if described.get("device"):
        yield "weights", f"{described['device']['weight_bytes']} bytes on the device"
        if len(described["device"]["shapes"]) > 1:
            yield "shapes", f"{len(described['device']['shapes'])} sets"
    for key, value in described.get("metadata", {}).items():
        yield key, value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."


_LONGEST = 200


def _show_ports(report: Report, title: str, ports: Sequence[Mapping[str, Any]]) -> None:
    headings = ("name", "on the device", "shape", "scale", "zero point", "mean", "std")
    rows = [
        [
            port["name"],
            port["dtype"],
            _shape(port["shape"]),
            "" if port["scale"] is None else f"{port['scale']:.6g}",
            "" if port["zero_point"] is None else port["zero_point"],
            " ".join(f"{value:g}" for value in port["mean"] or ()),
            " ".join(f"{value:g}" for value in port["std"] or ()),
        ]
        for port in ports
    ]
    report.table(title, headings, rows)


def _shape(shape: Iterable[object]) -> str:
    return "x".join(map(str, shape))
