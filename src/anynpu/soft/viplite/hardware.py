"""vip_query_hardware and vip_power_management."""

from __future__ import annotations

import ctypes

from ...viplite.abi import HardwareProperty, PowerFrequency, PowerProperty
from .answers import put
from .driver import DRIVER, answering_chip, needs_driver
from .failure import invalid, require
from .networks import NETWORKS

DEVICES = 1
_WORD = ctypes.sizeof(ctypes.c_uint32)


@needs_driver
def vip_query_hardware(property: int, size: int, value: int | None) -> None:
    """The NPU's customer id, how many devices there are, and how many cores each has."""
    chip = answering_chip()
    answers = {
        HardwareProperty.CID: (chip.target,),
        HardwareProperty.DEVICE_COUNT: (DEVICES,),
        HardwareProperty.CORE_COUNT_EACH_DEVICE: (chip.cores,) * DEVICES,
    }
    if property not in answers:
        raise invalid(f"the hardware has no property {property}")
    words = answers[HardwareProperty(property)]
    if size != len(words) * _WORD:
        raise invalid(f"property {property} takes {len(words) * _WORD} bytes, not {size}")
    put(value, ctypes.c_uint32 * len(words), words)


@needs_driver
def vip_power_management(device: int, property: int, value: int | None) -> None:
    """Turn the NPU on and off, stop and start it, set its frequency."""
    check_device(device)
    power = DRIVER.power
    if property == PowerProperty.SET_FREQUENCY:
        require(value, "value")
        assert value is not None, "it was required"
        percent = PowerFrequency.from_address(value).fscale_percent
        if not 0 < percent <= 100:
            raise invalid(f"a frequency of {percent} per cent is not in 1..100")
        power.frequency = percent
    elif property in (PowerProperty.OFF, PowerProperty.ON):
        power.is_on = property == PowerProperty.ON
    elif property in (PowerProperty.STOP, PowerProperty.START):
        power.is_stopped = property == PowerProperty.STOP
    else:
        raise invalid(f"power has no property {property}")


@needs_driver
def vip_power_management_of_network(network: int | None, property: int, value: int | None) -> None:
    """V85x's form: the device is that of a network."""
    NETWORKS.find(network)
    vip_power_management(0, property, value)


def check_device(number: int) -> None:
    """INVALID_ARGUMENTS for a device that isn't there."""
    if not 0 <= number < DEVICES:
        raise invalid(f"there is no device {number}; there are {DEVICES}")
