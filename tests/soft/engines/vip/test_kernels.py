"""The C kernels give the reference's bytes, on tasks of every kind that they take."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import anynpu.soft.engines.vip.units  # noqa: F401
from anynpu.native import compiler, forms
from anynpu.soft.engines.vip.coefficients import Kernels
from anynpu.soft.engines.vip.kernels import native
from anynpu.soft.engines.vip.kernels.compile import Calls, Compiled, plans_of
from anynpu.soft.engines.vip.memory import Circle, Memory, MemoryMap, Space
from anynpu.soft.engines.vip.planes import Planes
from anynpu.soft.engines.vip.reference.compute import compute
from anynpu.soft.engines.vip.tasks import Convolution, MaxPooling, Second, Sums, Task
from anynpu.soft.formats.nbg.model import Executable, Nbg, Source

from .... import native as native_tests
from ....native.test_forms_agree import SIMDE

SIZE = 192 << 10
PLACES = {"source": 0, "second": 64 << 10, "target": 128 << 10}


def layout() -> MemoryMap:
    nothing = np.zeros((0, 48), np.uint32)
    executable = Executable(nothing, nothing, (), (), (), (), has_offsets_in_commands=False)
    model = Nbg("", 0x20005, 0, 0, 1, SIZE, 0, (), (), (), (), (), executable=executable)
    return MemoryMap(model, executable)


@st.composite
def planes(draw: st.DrawFn, place: str, channels: int, height: int, width: int) -> Planes:
    """Somewhere in a part of the pool, with gaps, groups of channels and sometimes a circle."""
    group = draw(st.sampled_from([1, 1, 1, 2, 4, 9, 16]))
    row = width + draw(st.sampled_from([0, 0, 1, 3]))
    plane = row * group * height + draw(st.integers(0, 5))
    size = -(-channels // group) * plane
    base = PLACES[place]
    start = base + draw(st.integers(0, 64))
    circle = None
    if draw(st.booleans()):
        start = base + draw(st.integers(0, size))
        circle = Circle(base + size, size)
    return Planes(Space(Source.POOL), start, circle, channels, height, width, row, plane, group)


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    channels = draw(st.one_of(st.integers(1, 9), st.sampled_from([16, 19, 33])))
    is_depthwise = draw(st.booleans())
    depth = channels if is_depthwise else draw(st.one_of(st.integers(1, 7), st.just(21)))
    kernel = draw(st.one_of(st.just((1, 1)), st.tuples(st.integers(1, 5), st.integers(1, 9))))
    top, left = draw(st.integers(0, kernel[0] - 1)), draw(st.integers(0, kernel[1] - 1))
    height, width = draw(st.integers(1, 15)), draw(st.integers(1, 21))
    stride = draw(st.sampled_from([1, 2]))
    rows, pixels = -(-height // stride), -(-width // stride)
    way = draw(st.sampled_from(["plain", "leaky", "pooled", "added", "product", "shuffled"]))
    pooling = None
    final = rows, pixels
    if way == "pooled" and min(rows, pixels) >= 3:
        size, step = draw(st.sampled_from([2, 3])), draw(st.sampled_from([1, 2]))
        pads = draw(st.tuples(*(st.integers(0, 1),) * 4))
        pooling = MaxPooling(size, step, *pads)
        final = (
            (rows + pads[1] + pads[3] - size) // step + 1,
            (pixels + pads[0] + pads[2] - size) // step + 1,
        )
    shuffle = 1, 1
    if way == "shuffled":
        shuffle = draw(st.sampled_from([(2, 2), (1, 2), (1, 3), (3, 3)]))
        count = shuffle[0] * shuffle[1]
        channels = depth = count * -(-channels // count) if is_depthwise else channels
        channels = count * -(-channels // count)
    seed = draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    form = (channels, 1 if is_depthwise else depth, *kernel)
    scales = draw(st.booleans())
    zero_points = random.choice(np.array([0, 128, 255, seed % 256]), channels)
    bytes_of_weights = random.choice(np.array([0, 255, seed // 4]), form)
    if draw(st.booleans()):
        bytes_of_weights = random.integers(0, 256, form)
    # Beyond 2^24 float32 doesn't hold every sum.
    largest_bias = draw(st.sampled_from([9999, 9999, 40_000_000]))
    kernels = Kernels.of_content(
        bytes_of_weights.astype(np.uint8),
        zero_points,
        is_depthwise,
        random.integers(-largest_bias, largest_bias, channels).astype(np.int32),
        random.uniform(1e-4, 1e-2, channels).astype(np.float32) if scales else None,
        random.uniform(1e-5, 1e-2, channels).astype(np.float32) if scales else None,
        0,
    )
    sums = Sums(
        source=draw(
            planes(
                "source", depth,
                draw(st.integers(1, height + kernel[0] - 1)),
                draw(st.integers(1, width + kernel[1] - 1)),
            )
        ),
        is_signed=draw(st.booleans()),
        kernels=kernels,
        bias=0,
        is_depthwise=is_depthwise,
        kernel_height=kernel[0],
        kernel_width=kernel[1],
        top=top,
        left=left,
        border=draw(st.integers(0, 255)),
        channels=channels,
        height=height,
        width=width,
    )  # fmt: skip
    second = None
    if way in ("added", "product"):
        second = Second(
            draw(planes("second", channels, *final)),
            draw(st.sampled_from([0.37, 1.0, 0.01])),
            draw(st.sampled_from([0.0, -12.5, -0.37])),
        )
    shape = (channels, *final)
    if way == "shuffled":
        shape = (
            channels // (shuffle[0] * shuffle[1]), shuffle[0] * final[0], shuffle[1] * final[1]
        )  # fmt: skip
    low, high = draw(st.sampled_from([(-np.inf, np.inf), (-20.0, 99.5), (0.0, 60.25)]))
    return Convolution(
        sums=sums,
        target=draw(planes("target", *shape)),
        is_signed=draw(st.booleans()),
        is_half=False,
        table=None,
        # A command's scale has 24 bits: a product with a sum is exact.
        scale=float(np.float32(draw(st.sampled_from([0.001, 0.0123, 0.25, 17.5])))),
        negative_scale=float(np.float32(0.0004)) if way == "leaky" else None,
        low=low,
        high=high,
        has_relu=draw(st.booleans()),
        stride=stride,
        pooling=pooling,
        addition=second if way == "added" else None,
        has_short_sums=draw(st.booleans()),
        product=second if way == "product" else None,
        zero_point=draw(st.sampled_from([0, 128, 77])),
        shuffle=shuffle,
    )


def filled(seed: int) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, layout().size).astype(np.uint8)


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Kernels whose products of bytes are SIMDe's functions."""
    output = tmp_path_factory.mktemp("emulated") / "libvip.so"
    header = Path(native_tests.__file__).parent / "emulated.h"
    # SIMDe's functions take a compiler four times as long where it looks for more.
    options = "-O1", "-mavx2", "-mfma", "-mf16c", "-Wno-psabi", f'-DANYNPU_EMULATED="{header}"'
    compiler.compile_shared(compiler.SOURCES / "vip.c", output, options)
    return ctypes.CDLL(str(output))


def check(task: Convolution, seed: int) -> None:
    """The kernel's bytes are the reference's."""
    places = layout()
    for side in (task.sums.source, task.target):
        side.check(places)
    _check_bytes(task, Memory(places, filled(seed)), Memory(places, filled(seed)))


def check_kernel(task: Task, expected: Memory, found: Memory) -> None:
    """There is a kernel, and it gives the reference's bytes in memory of the same content."""
    assert plans_of(found.layout, [task])[0] is not None
    _check_bytes(task, expected, found)


def _check_bytes(task: Task, expected: Memory, found: Memory) -> None:
    computing = Calls(Compiled.of(found.layout, [task]), found)
    for call in computing.calls:
        call()
    compute(task, expected)
    assert (found.array == expected.array).all()


_no_check = [HealthCheck.function_scoped_fixture]


@pytest.mark.skipif(native.library() is None, reason="there is no build of the kernels")
@pytest.mark.usefixtures("kernel_form")
@settings(max_examples=150, suppress_health_check=_no_check)
@given(task=convolutions(), seed=st.integers(0, 9))
def test_convolutions(task: Convolution, seed: int) -> None:
    check(task, seed)


@pytest.mark.skipif(not SIMDE.is_file(), reason="needs SIMDe: apt install libsimde-dev")
@pytest.mark.skipif("avx2" not in forms.available(), reason="this processor has no AVX2")
@pytest.mark.parametrize("number", [2, 3])
@settings(max_examples=60, suppress_health_check=_no_check)
@given(task=convolutions(), seed=st.integers(0, 9))
def test_convolutions_with_vnni(
    emulated: ctypes.CDLL, number: int, task: Convolution, seed: int
) -> None:
    assert emulated.anynpu_use_form(number) == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "library", lambda: emulated)
        check(task, seed)
