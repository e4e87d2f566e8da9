"""What went wrong between here and the other server, and what to do, in one sentence."""

from __future__ import annotations

from nemo_airflow_provider.client.errors import (
    ApiError,
    BadAnswer,
    CleartextToken,
    ClientError,
    ConnectionFailed,
    Unsendable,
)
from nemo_airflow_provider.errors import NemoJobsError


class RemoteTrouble(NemoJobsError):
    """The other server cannot be reached or used as the connection says. A later try may go on."""

    code = "remote_trouble"


#: What a server says that does not know the route at all.
_NO_ROUTE = ("Not Found", "Method Not Allowed", "")


def sentence(error: ClientError, connection: str, url: str) -> str:
    """For people.

    :param connection: id of the Airflow connection
    :param url: the server, without credentials
    """
    where = f"connection '{connection}' ({url})"
    if isinstance(error, ApiError):
        return _refused(error, where)
    if isinstance(error, ConnectionFailed):
        if not error.url:
            return f"The host of connection '{connection}' is wrong: {error}."
        return f"The server of {where} does not answer: {error}. Check the host, or start the server."
    if isinstance(error, BadAnswer):
        return f"The server of {where} is not a jobs API: {error}. The host must be its base URL, without /apis/jobs."
    if isinstance(error, CleartextToken):
        return f"The token of {where} would travel unencrypted: give an https:// URL as the host."
    if isinstance(error, Unsendable):
        return f"What {where} is asked cannot be sent: {error}."
    return f"{where}: {error}"


def is_no_jobs_api(error: ClientError) -> bool:
    """Whether the server does not know the route: it is another server, or an older one."""
    return isinstance(error, ApiError) and error.status in (404, 405) and error.text in _NO_ROUTE


def _refused(error: ApiError, where: str) -> str:
    if error.status == 401:
        return f"The server of {where} refuses its token: get a new one and store it as the connection's password."
    if error.status == 403:
        # Airflow says this too of a token that it cannot read.
        return f"The server of {where} does not allow that: {error.text}. Check its token, and what its user may do."
    if is_no_jobs_api(error):
        return f"The server of {where} has no jobs API there: the host must be its base URL, without /apis/jobs."
    return f"The server of {where} says: {error}"
