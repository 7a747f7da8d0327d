"""Why the soft NPU differs from the vendor's runtime 1.5.2, wherever it does."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "ends": "the vendor's library ends the process; ours returns the documented code and says why",
}
