"""Base URLs: where a secret may go, and how one with a password in it is shown."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from nemo_airflow_provider.client.errors import CleartextToken, ConnectionFailed

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: The scheme, and what ends with the last @: whether that is a password only its writer knows.
_BEFORE_HOST = re.compile(r"^(\w+://)?.*@", re.DOTALL)


def check_address(base_url: str, *, has_secret: bool) -> None:
    """Whether requests may go there.

    :param has_secret: whether a token or password goes along
    :raises ClientError: no http(s) URL with a host, or a secret in the clear
    """
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        shown = without_credentials(base_url)
        raise ConnectionFailed(f"the base URL {shown!r} is not of the form http(s)://host[:port][/prefix]")
    if (has_secret or parts.username) and parts.scheme == "http" and not is_loopback(host):
        raise CleartextToken(
            "JobsClient cannot send Authorization to cleartext remote endpoint "
            f"'{without_credentials(base_url)}'; use https:// or loopback HTTP for local development"
        )


def without_credentials(url: str) -> str:
    """The URL without user and password; of what is no URL, without anything that may be meant as one."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    if parts is None or not parts.netloc:
        return _BEFORE_HOST.sub(r"\1", url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is that of this machine."""
    if host in _LOOPBACK:
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
