"""The contexts of a network's workers, and the cores that they run on."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property

from ... import soc as socs
from ...errors import CallError, LibraryError, MissingFunctionError, ModelError, OptionError
from ...rknn.abi import CoreMask, ErrorCode, InitFlag
from ...rknn.context import Context
from ...rknn.custom_ops import CustomOp
from ...rknn.library import RknnLibrary, load
from ...rknn.model_check import check_rknn
from ...rknn.model_file import target_of
from ..base import ModelSource
from .options import RknnOptions


class WorkerContexts:
    """A context for each worker, and a second one where inputs come in two kinds.

    `cores` has each one's core, None where the runtime chooses. `chip` is known by the device tree,
    ``$ANYNPU_SOC`` or the model's file, else None.
    """

    def __init__(
        self, model: ModelSource, options: RknnOptions, weights: Context | None = None
    ) -> None:
        self.model, self._options, self._weights = model, options, weights
        self._shares = _may_share(options, weights)
        self.chip = chip_for(model)
        self._operators: list[CustomOp] | None = None
        self.all: list[Context] = []
        self._serving: dict[bool, list[Context]] = {}
        self._unused: Context | None = None
        self._lock = threading.RLock()
        try:
            self.all.append(self._first())
            # RV1103 and RV1106 duplicate no contexts (table 4-1 of the API reference), nor can
            # those of dynamic models be duplicated (user guide 5.4.4.1).
            if not self.has_general_api or self.all[0].dynamic_shapes():
                self._shares = False
            self.cores = tuple(self._worker_cores())
            while len(self.all) < len(self.cores):
                self.all.append(self.another())
            for context, core in zip(self.all, self.cores, strict=True):
                _choose_core(context, core, options, self.chip)
        except BaseException:
            self.close()
            raise

    @cached_property
    def has_general_api(self) -> bool:
        """Whether the runtime sets inputs and gets outputs: RV1103's and RV1106's doesn't."""
        return has_general_api(self.all[0].library, self.model)

    def serving(self, worker: int, *, has_bytes: bool) -> Context:
        """A worker's context for pictures that are bytes, or for others.

        What comes first has `all`, the other its own: once a context was given a picture as bytes,
        librknnrt 1.5.2 goes on taking bytes, also in duplicates that are made of it then.
        """
        with self._lock:
            if has_bytes not in self._serving:
                self._serving[has_bytes] = self._more() if self._serving else self.all
            return self._serving[has_bytes][worker]

    def close(self) -> None:
        """Destroy the contexts, the first one last."""
        for contexts in self._serving.values():
            if contexts is not self.all:
                _close(contexts)
        if self._unused is not None:
            self._unused.close()
        _close(self.all)

    def unused(self) -> Context:
        """A context that no worker uses and that gets no inputs: for queries and duplicates.

        Where requests ran before, it has the weights of its own.
        """
        with self._lock:
            if self._unused is None:
                self._unused = self._first() if self._serving else self._copy(self.all[0])
            return self._unused

    def another(self) -> Context:
        """One more context for the caller, on the same weights where that is possible."""
        with self._lock:
            return self._copy(self.unused() if self._serving else self.all[0])

    def _copy(self, source: Context) -> Context:
        if not self._shares:
            return self._first()
        try:
            return source.dup()
        except (CallError, MissingFunctionError) as error:
            warnings.warn(
                f"contexts can't be duplicated here, so each worker has the weights of its own: "
                f"{error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return self._first()

    def _first(self) -> Context:
        has_weights = self._weights is None
        flags = self._options.priority_flag
        if not has_weights:
            flags |= InitFlag.SHARE_WEIGHT_MEM
        library = load(self._options.library)
        if not self.all:
            check_rknn(self.model, library, has_weights_from=not has_weights)
        context = Context(self.model, library=library, flags=flags, share_with=self._weights)
        try:
            if self._operators is None:
                self._operators = _load_operators(self._options, context.library)
            # All at once, as the vendor's library wants it.
            context.register_custom_ops(self._operators)
        except BaseException:
            context.close()
            raise
        return context

    def _more(self) -> list[Context]:
        """One more context for each worker, on its core."""
        made: list[Context] = []
        try:
            for core in self.cores:
                made.append(self.another())
                _choose_core(made[-1], core, self._options, self.chip)
        except BaseException:
            _close(made)
            raise
        return made

    def _worker_cores(self) -> Iterator[int | None]:
        options = self._options
        if options.schedule is not None:
            places: list[int | None] = list(dict.fromkeys(options.schedule))
        elif options.mask is CoreMask.AUTO:
            places = [None] * _count_cores(self.all[0], self.chip)
        else:
            places = [None]
        for place in places:
            yield from [place] * options.threads_per_core


def _close(contexts: Sequence[Context]) -> None:
    for context in reversed(contexts):
        context.close()


def _load_operators(options: RknnOptions, library: RknnLibrary) -> list[CustomOp]:
    operators = list(options.custom_ops)
    operators += [CustomOp.load(path, library=library) for path in options.custom_op_paths]
    if options.custom_op_default_path:
        operators += CustomOp.load_default(library=library)
    _check_names(operators)
    return operators


def _may_share(options: RknnOptions, weights: Context | None) -> bool:
    """Whether workers' contexts are duplicates of the first one."""
    if options.wants_custom_ops and not options.disable_dup_context:
        warnings.warn(
            "custom operators need contexts that aren't duplicates: disable_dup_context is in "
            "force",
            UserWarning,
            stacklevel=2,
        )
    return not options.disable_dup_context and not options.wants_custom_ops and weights is None


def _check_names(operators: Sequence[CustomOp]) -> None:
    seen = set()
    for operator in operators:
        key = (operator.op_type, operator.version, operator.target)
        if key in seen:
            raise LibraryError(f"there are two operators {operator.op_type!r} to register")
        seen.add(key)


def _choose_core(
    context: Context, core: int | None, options: RknnOptions, chip: socs.Soc | None
) -> None:
    mask = options.mask if core is None else 1 << core
    if mask == CoreMask.AUTO:
        return
    if mask == CoreMask.ALL and chip is not None and context.sdk_version()[0].startswith("1."):
        # These versions know no mask for all cores, and say so in their log.
        mask = (1 << chip.cores) - 1
    try:
        context.set_core_mask(CoreMask(mask))
    except (CallError, MissingFunctionError) as error:
        if isinstance(error, CallError) and error.code in _NO_SUCH_CORE:
            what = f"mask {mask}" if core is None else f"{core} of the schedule"
            raise OptionError(f"core {what}; the chip has {_cores_of(chip)}: {error}") from error
        _accept_one_core(error, mask)
    except ValueError:
        raise OptionError(
            f"schedule names core {core}; the chip has {_cores_of(chip)}: leave it out"
        ) from None


_NO_SUCH_CORE = (ErrorCode.FAIL, ErrorCode.PARAM_INVALID)
"""What versions of the runtime answer to a mask with a core that the chip hasn't."""


def _cores_of(chip: socs.Soc | None) -> str:
    count = chip.cores if chip is not None else 3
    return "core 0 only" if count == 1 else f"cores 0 to {count - 1}"


def _accept_one_core(error: CallError | MissingFunctionError, mask: int) -> None:
    """Chips of one core refuse every mask; whoever wants that core gets it all the same."""
    if isinstance(error, CallError) and error.code != ErrorCode.TARGET_PLATFORM_UNMATCH:
        raise error
    if mask != CoreMask.CORE_0:
        warnings.warn(
            f"this chip has one core, so core mask {mask} is ignored: {error}",
            UserWarning,
            stacklevel=2,
        )


def _count_cores(context: Context, chip: socs.Soc | None) -> int:
    """Those of the chip; where it is unknown, by the masks that the runtime accepts."""
    if chip is not None:
        return chip.cores
    for cores, mask in ((3, CoreMask.CORE_2), (2, CoreMask.CORE_1)):
        try:
            context.set_core_mask(mask)
        except (CallError, MissingFunctionError):
            continue
        context.set_core_mask(CoreMask.AUTO)
        return cores
    return 1


def chip_for(model: ModelSource) -> socs.Soc | None:
    """The chip that a model runs on, by the device tree, ``$ANYNPU_SOC`` or its file, else None."""
    return socs.detect() or socs.chosen() or _chip_of(model)


def has_general_api(library: RknnLibrary, model: ModelSource) -> bool:
    """Whether the runtime sets inputs and gets outputs: RV1103's and RV1106's doesn't."""
    chip = chip_for(model)
    if chip is not None:
        return chip.family is not socs.Family.RV1106
    return not library.is_small


def _chip_of(model: ModelSource) -> socs.Soc | None:
    try:
        return socs.find(target_of(model))
    except (ModelError, OptionError):
        return None
