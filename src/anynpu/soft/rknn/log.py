"""The runtime's log: lines on stderr as the vendor's runtime writes them.

``RKNN_LOG_LEVEL`` chooses what is written (`anynpu.soft.log`). It is read at each `rknn_init`.
"""

from __future__ import annotations

from ..log import Log

ENVIRONMENT_VARIABLE = "RKNN_LOG_LEVEL"
LOG = Log("RKNN", ENVIRONMENT_VARIABLE)
read_environment = LOG.read_environment
error, warning, information, debug = LOG.error, LOG.warning, LOG.information, LOG.debug
notice = LOG.notice
is_debugging = LOG.is_debugging
