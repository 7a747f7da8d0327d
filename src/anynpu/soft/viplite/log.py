"""The runtime's log: lines on stderr, and in a file once `vip_set_log_path` has named a folder.

``ANYNPU_VIPLITE_LOG_LEVEL`` chooses what is written (`anynpu.soft.log`). It is read at each
`vip_init`.
"""

from __future__ import annotations

from ..log import Log

LOG = Log("VIPLite", "ANYNPU_VIPLITE_LOG_LEVEL")
FILE_NAME = "viplite.log"
