"""vip_get_version, vip_init, vip_destroy and vip_set_log_path."""

from __future__ import annotations

import os
from pathlib import Path

from ...viplite.abi import Interface, Status
from .driver import DRIVER, Power, close_everything, needs_driver
from .failure import Failure, require
from .log import FILE_NAME, LOG

_VERSIONS = {
    # No version of V85x's library is on record; what is known is that it is older than 1.13.
    Interface.V85X: 0x00010300,
    Interface.V1_13: 0x00010D00,
    Interface.V2_0: 0x00020003,
}


def vip_get_version(interface: Interface) -> int:
    """Major, minor and sub version of the library, a byte each."""
    return _VERSIONS[interface]


def vip_init() -> None:
    """Begin to use the driver; each call needs a `vip_destroy` of its own."""
    LOG.read_environment()
    with DRIVER.lock:
        DRIVER.users += 1


def vip_init_with_heap(video_mem_size: int) -> None:
    """V85x's form; how much memory to set aside is a matter of real hardware."""
    vip_init()


@needs_driver
def vip_destroy() -> None:
    """Give the driver back; the last call destroys what is still alive."""
    with DRIVER.lock:
        DRIVER.require()
        DRIVER.users -= 1
        is_last = not DRIVER.users
    if is_last:
        close_everything()
        DRIVER.power = Power()
        LOG.file = None


@needs_driver
def vip_set_log_path(path: bytes | None) -> None:
    """Write the log into a file of a folder as well."""
    require(path, "path")
    assert path is not None, "it was required"
    folder = Path(os.fsdecode(path))
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise Failure(Status.IO, f"{folder} isn't a folder that can be written to")
    LOG.file = folder / FILE_NAME
