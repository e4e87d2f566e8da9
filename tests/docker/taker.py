"""A process that takes GPUs of an engine, gives them back and takes them again: `taker.py URL PLACE GPUS TIMES`.

Its containers are never started, since no GPU is there; their labels count as those of any others. Prints each GPU that
it saw in two containers.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path

from nemo_airflow_provider.backends.docker import labels
from nemo_airflow_provider.backends.docker.access import Access
from nemo_airflow_provider.backends.docker.gpus import GpuPool, leases
from nemo_airflow_provider.backends.docker.nvml import Device
from nemo_airflow_provider.backends.docker.tickets import Line
from nemo_airflow_provider.errors import CapacityError
from nemo_airflow_provider.model.names import WorkloadKey
from tests.stack import docker

TOTAL = 3


def main(url: str, place: str, gpus: int, times: int) -> None:
    pool = GpuPool(Line("host/E", Path(place)), lambda: [Device(number) for number in range(TOTAL)])
    with closing(Access(url=url).client()) as client:
        while times:
            key = WorkloadKey("default", "taker", str(os.getpid()), "work", 0, times)
            try:
                with pool.granted(client, key, gpus) as ids:
                    own = {labels.GPUS: ",".join(map(str, ids))}
                    body = {"Image": docker.IMAGE, "Cmd": ["never-started"], "Labels": own}
                    made = client.create_container_from_config(body)["Id"]
            except CapacityError:
                time.sleep(0.01)
                continue
            taken = [gpu for lease in leases(client) for gpu in lease.gpus]
            print(*{gpu for gpu in taken if taken.count(gpu) > 1}, flush=True)
            client.remove_container(made)
            times -= 1


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
