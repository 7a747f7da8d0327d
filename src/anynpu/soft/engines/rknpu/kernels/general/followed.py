"""Plans whose floats may go through the stages of another task as well."""

from __future__ import annotations

from copy import copy

from ...tasks import Dpu
from ..steps import Plan
from .arguments import DpuArguments
from .targets import Target


class FollowedPlan(Plan):
    """A plan with stages, whose results go to a target."""

    _dpu: DpuArguments
    _target: Target

    def followed_by(self, target: Target, after: Dpu) -> FollowedPlan:
        """The same with stages behind its own, and results that go elsewhere."""
        result = copy(self)
        result._target, result._dpu = target, self._dpu.followed_by(after)
        result.shared_bytes = self.shared_bytes - self._target.shared_bytes + target.shared_bytes
        return result
