"""The sweep where the engines are: what jobs left behind is stopped, stored and removed (`docs/design/sweep.md`).

Who decides what is left behind is the *office*, where Airflow's database is: `service.sweep`.
"""

from __future__ import annotations

#: Its DAG, which is of no workspace.
SWEEP_DAG_ID = "nemo-sweep"
