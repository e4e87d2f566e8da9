"""The GPUs of this host, as NVIDIA's management library sees them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU.

    :param id: its index
    """

    id: int
    name: str | None = None
    uuid: str | None = None


def devices() -> tuple[Device, ...] | None:
    """Every GPU of this host that can be used; None where the library is missing, so that nobody can tell."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        found = [_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return None
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
    return tuple(device for device in found if device is not None)


def _device(pynvml: Any, index: int) -> Device | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        return Device(index, _text(pynvml.nvmlDeviceGetName(handle)), _text(pynvml.nvmlDeviceGetUUID(handle)))
    except pynvml.NVMLError:
        return None  # it is broken, such as one that has fallen off the bus; the others are not


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def pool(reserved: tuple[int, ...] | None, found: tuple[Device, ...] | None) -> tuple[Device, ...]:
    """The GPUs that jobs may use.

    :param reserved: ids that the configuration names; None: all
    :param found: those of the host; None: nobody can tell, so what the configuration names is believed
    """
    if found is None:
        return tuple(Device(each) for each in reserved or ())
    return tuple(device for device in found if reserved is None or device.id in reserved)
