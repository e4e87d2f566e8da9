"""Who asks a cluster's API: a client, and what it shows, which is read anew when the API does not know it any more.

Tokens and certificates expire, and a step may run for days.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from nemo_airflow_provider.errors import BackendError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

#: A connection on which nothing comes is looked at after half a minute, and given up within two.
_KEEP_ALIVE = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
        if hasattr(socket, name)
    ),
)
Renew = Callable[[], "Configuration | None"]
#: Between two times that what is shown is read anew.
_RENEWAL_SECONDS = 5.0
_UNKNOWN = 401


class Caller:
    """One for all threads of a process.

    :param renew: reads anew what is shown, or says None where that must be left to another thread; None: nobody can
    """

    def __init__(self, configuration: Configuration, renew: Renew | None = None) -> None:
        self._renew = renew
        self._lock = Lock()
        self._client = _client_of(configuration)
        self._renewed_at = float("-inf")

    def call(self, *words: Any, **given: Any) -> Any:
        """As `ApiClient.call_api`; once more with what is shown read anew, where the API does not know us."""
        from kubernetes.client.exceptions import ApiException

        client = self._client
        try:
            return client.call_api(*words, **given)
        except ApiException as error:
            if error.status != _UNKNOWN or not self._renewed(client):
                raise
        return self._client.call_api(*words, **given)

    def _renewed(self, used: ApiClient) -> bool:
        """Have another client than the one that was used, if that can be; whether there is one."""
        with self._lock:
            due = time.monotonic() >= self._renewed_at + _RENEWAL_SECONDS
            if self._client is used and self._renew is not None and due:
                self._take(self._renew)
            return self._client is not used

    def _take(self, renew: Renew) -> None:
        before, self._renewed_at = self._renewed_at, time.monotonic()
        try:
            found = renew()
        except BackendError:
            return  # the refusal itself is told
        if found is None:
            self._renewed_at = before
            return
        # Of another cluster nothing would be found, and who shows nothing is told what he may not, not who he is.
        if found.host == self._client.configuration.host and (found.api_key or found.cert_file or found.username):
            self._client = _client_of(found)


def _client_of(configuration: Configuration) -> ApiClient:
    from kubernetes.client import ApiClient
    from urllib3 import Retry

    # Once more, for a connection that was kept open and has been closed by the other side.
    configuration.retries = Retry(total=1, connect=0, redirect=0, status=0)
    configuration.socket_options = list(_KEEP_ALIVE)
    return ApiClient(configuration)
