"""The bits that sums lose before the DPU, in the registers of chips that tell them twice."""

from __future__ import annotations

from ..registers.core import CoreClip
from ..registers.fields import bits
from .base import unknown

_BITS, _AGAIN = CoreClip.CLIP_TRUNCATE, bits(5, 9)


def truncation(word: int) -> int:
    """RK3576's register as RK3588's, which tells them once."""
    if word != _BITS.put(_BITS.of(word)) | _AGAIN.put(_BITS.of(word)):
        raise unknown(CoreClip, word)
    return _BITS.put(_BITS.of(word))


def told_as_of_features(word: int, *, is_picture: int) -> int:
    """The register of RV1106 and RK3562 as RK3576's: of pictures of int8 they tell one more."""
    # RV1103 computes pictures with 0 and 1 exactly: the first is what counts.
    if not is_picture or _AGAIN.of(word) != _BITS.of(word) + 1:
        return word
    return word & ~_AGAIN.put(_AGAIN.mask) | _AGAIN.put(_BITS.of(word))
