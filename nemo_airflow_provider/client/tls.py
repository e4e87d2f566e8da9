"""Whom a connection trusts."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

from nemo_airflow_provider.client.errors import ConnectionFailed


def trust(base_url: str, certificate_authority: str | None) -> ssl.SSLContext:
    """The TLS context for a server.

    :param certificate_authority: path of a PEM bundle to trust instead of the usual ones
    :raises ConnectionFailed: the bundle cannot be read
    """
    if certificate_authority:
        try:
            return ssl.create_default_context(cafile=certificate_authority)
        except OSError as error:
            raise ConnectionFailed(
                f"the certificate authority {certificate_authority} cannot be read: {error}"
            ) from error
    if base_url.startswith("https:"):
        return httpx.create_ssl_context()
    return _OnDemand(ssl.PROTOCOL_TLS_CLIENT)


class _OnDemand(ssl.SSLContext):
    """For a server that is spoken to in the clear, and may yet redirect to https.

    Reading the usual certificates is a tenth of the command line's start-up.
    """

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """As the usual context would."""
        return httpx.create_ssl_context().wrap_socket(*args, **kwargs)
