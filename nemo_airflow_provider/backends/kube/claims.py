"""Volumes of one claim → one volume of it: pure.

The kubelet mounts each claim of a pod once, and waits for ever for a second volume of the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_SOURCE, _READ_ONLY = "persistentVolumeClaim", "readOnly"

Bodies = list[dict[str, Any]]


def merged(volumes: Sequence[Mapping[str, Any]], mounts: Sequence[Mapping[str, Any]]) -> tuple[Bodies, Bodies]:
    """Volumes and mounts of a pod, in which the first volume of a claim stands for all of it.

    What mounts a volume that is read-only stays so.
    """
    claims = {each["name"]: each[_SOURCE] for each in volumes if _SOURCE in each}
    first: dict[str, str] = {}
    for name, claim in claims.items():
        first.setdefault(claim["claimName"], name)
    written = {claim["claimName"] for claim in claims.values() if not claim.get(_READ_ONLY)}
    kept: Bodies = []
    for volume in volumes:
        claim = volume.get(_SOURCE)
        if claim is None:
            kept.append(dict(volume))
        elif first[claim["claimName"]] == volume["name"]:
            source = {"claimName": claim["claimName"]} if claim["claimName"] in written else claim
            kept.append({**volume, _SOURCE: source})
    return kept, [_mount(each, claims.get(each["name"]), first) for each in mounts]


def _mount(mount: Mapping[str, Any], claim: Mapping[str, Any] | None, first: Mapping[str, str]) -> dict[str, Any]:
    if claim is None:
        return dict(mount)
    read_only = {_READ_ONLY: True} if claim.get(_READ_ONLY) else {}
    return {**mount, "name": first[claim["claimName"]], **read_only}
