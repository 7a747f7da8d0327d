"""Ray Data: batches of a dataset through a model on the boards of a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..errors import ServerUnavailableError, TensorError
from ..session import InferenceSession
from .boards import RESOURCE, cores_of_nodes, ray_module, sent
from .stacks import FEWEST

_Batch = dict[str, NDArray[Any]]


class Dataset(Protocol):
    """What is used of a `ray.data.Dataset`, which has more."""

    def map_batches(self, fn: Any, /, **options: Any) -> Dataset: ...
    def take_all(self) -> list[dict[str, Any]]: ...


class NpuBatches:
    """What `ray.data.Dataset.map_batches` calls on a board: a batch with the model's outputs.

    Each input is a column of its name; a model with one input takes the only column of a dataset,
    too. A row has one sample, with or without the model's batch axis. The outputs are columns of
    their names, a sample a row.
    """

    def __init__(
        self,
        model: str | bytes,
        provider_options: Mapping[str, Any] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        self._session = InferenceSession(model, provider_options=provider_options)
        outputs = [output.name for output in self._session.get_outputs()]
        self._names = list(output_names or outputs)

    def __call__(self, batch: _Batch) -> _Batch:
        columns = [self._column(batch, arg.name, arg.shape) for arg in self._session.get_inputs()]
        results = list(self._session.map(zip(*columns, strict=True), output_names=self._names))
        taken = {arg.name: arg.shape for arg in self._session.get_outputs()}
        found = {
            name: np.stack([_sample(each[place], taken[name]) for each in results])
            for place, name in enumerate(self._names)
        }
        if clash := set(found) & set(batch):
            raise TensorError(
                f"the outputs {sorted(clash)} are columns of the dataset already: rename those"
            )
        return batch | found

    def _column(self, batch: _Batch, name: str, shape: Sequence[int]) -> NDArray[Any]:
        inputs = self._session.get_inputs()
        if name not in batch and len(inputs) == len(batch) == 1:
            (array,) = batch.values()
        elif name in batch:
            array = batch[name]
        else:
            raise TensorError(
                f"the model takes {[each.name for each in inputs]}; the dataset has the columns "
                f"{list(batch)}: give it a column for each input"
            )
        if array.dtype == object:
            array = np.stack(list(array))
        return array[:, None] if array.ndim == len(shape) and shape[0] == 1 else array


def is_dataset(feeds: object) -> TypeGuard[Dataset]:
    """Whether it is a `ray.data.Dataset`; where that isn't imported, nothing is one."""
    module = sys.modules.get("ray.data")
    return module is not None and isinstance(feeds, module.Dataset)


def mapped(
    dataset: Dataset,
    model: str | os.PathLike[str] | bytes,
    provider_options: Mapping[str, Any] | None,
    output_names: Sequence[str] | None,
    stack: int | None,
) -> Dataset:
    """The dataset with the model's outputs; the actors take the smallest board's cores each."""
    ray = ray_module()
    boards = [cores for cores in cores_of_nodes(ray).values() if cores]
    if not boards:
        raise ServerUnavailableError(
            f"no node of the cluster has {RESOURCE}: ray start --resources '{{\"{RESOURCE}\": 3}}'"
        )
    cores = min(boards)
    return dataset.map_batches(
        NpuBatches,
        fn_constructor_args=(sent(model), provider_options, output_names),
        batch_size=stack or 2 * FEWEST,
        batch_format="numpy",
        num_cpus=0,
        resources={RESOURCE: cores},
        compute=ray.data.ActorPoolStrategy(size=sum(each // cores for each in boards)),
    )


def _sample(array: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    return array[0] if len(shape) > 1 and shape[0] == 1 else array
