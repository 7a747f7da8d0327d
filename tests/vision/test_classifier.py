"""Classifiers on the soft NPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from skimage import data

import anynpu
from anynpu.errors import OptionError, TensorError
from anynpu.vision import Classifier
from anynpu.vision.classifier import probabilities

from .models import constant

Shared = Callable[[str], Path]


@pytest.mark.parametrize("output_dtype", ["float32", "model"])
def test_photographs_are_told_apart(
    compiled_sample: Shared, shared_model: Shared, output_dtype: str
) -> None:
    """EfficientNet-Lite0 compiled for RK3588 in int8."""
    path, names = (
        compiled_sample("rk3588/efficientnet_lite0_224_i8"),
        shared_model("imagenet_synset.txt"),
    )
    options = {"library": "soft", "output_dtype": output_dtype}
    with anynpu.InferenceSession(path, provider_options=options) as session:
        classifier = Classifier(session, names=names, top=3)
        pictures = [data.coffee(), data.chelsea(), data.camera()]
        found = list(classifier.stream(pictures))
        assert [classifier(pictures[0]).names] == [found[0].names]
    for result, name in zip(found, ("espresso", "cat", "tripod"), strict=True):
        assert name in result.names[0]
        assert len(result.names) == 3
        assert (np.diff(result.scores) <= 0).all()
        assert result.as_dicts()[0]["name"] == result.names[0]


def test_scores_become_probabilities_once() -> None:
    logits = np.array([1.0, 3.0, -2.0], np.float32)
    done = probabilities(logits)
    assert done.sum() == pytest.approx(1)
    np.testing.assert_allclose(done, np.exp(logits) / np.exp(logits).sum(), rtol=1e-6)
    np.testing.assert_array_equal(probabilities(done), done)


def test_mistakes_say_what_was_expected() -> None:
    scores = constant([np.arange(4, dtype=np.float32)[None]])
    with anynpu.InferenceSession(scores) as session:
        found = Classifier(session, names=["a", "b", "c", "d"], top=9, std=1)(
            np.zeros((2, 9), np.uint8)
        )
        assert found.names == ("d", "c", "b", "a")
        with pytest.raises(OptionError, match="4 classes apart, and 2 names"):
            Classifier(session, names=["a", "b"])
        for mistake in ({"crop": 0.0}, {"top": 0}):
            with pytest.raises(OptionError, match=next(iter(mistake))):
                Classifier(session, **mistake)
        with pytest.warns(anynpu.errors.InputWarning, match="has no normalisation"):
            Classifier(session)
    boxes = constant([np.zeros((1, 84, 21), np.float32)])
    with anynpu.InferenceSession(boxes) as session, pytest.raises(TensorError, match="a detector"):
        Classifier(session)
