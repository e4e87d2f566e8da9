"""What Airflow asks a provider package about itself. Imported by every `airflow` command: keep it light."""

from __future__ import annotations

from typing import Any

from nemo_airflow_provider import __version__


def _option(description: str, kind: str, default: str | None, example: str | None = None) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": example,
        "default": default,
    }


_JOBS_CONNECTION: dict[str, Any] = {
    "connection-type": "nemo_jobs",
    "hook-class-name": "nemo_airflow_provider.hooks.nemo_jobs.NemoJobsHook",
    "hook-name": "NeMo jobs API",
    "conn-fields": {
        "workspace": {
            "label": "Workspace",
            "schema": {"type": ["string", "null"]},
            "description": "Where jobs are looked for and made when a task does not say. Default: default.",
        },
        "certificate_authority": {
            "label": "Certificate authority",
            "schema": {"type": ["string", "null"]},
            "description": "Path of a PEM file on the workers, of what signed the server's certificate.",
        },
    },
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "port"],
        "relabeling": {
            "host": "Base URL",
            "login": "User of that Airflow",
            "password": "Token, or the user's password",
        },
        "placeholders": {"host": "https://airflow.example.com"},
    },
}


def get_provider_info() -> dict[str, Any]:
    """Provider metadata (Airflow documentation, "How to create your own provider")."""
    return {
        "package-name": "nemo-airflow-provider",
        "name": "NVIDIA NeMo Helix jobs",
        "description": "Runs NeMo Helix jobs on Airflow: operators by execution profile, a jobs REST API and CLI.",
        "versions": [__version__],
        "cli": ["nemo_airflow_provider.airflow_cli.definition.get_provider_cli_commands"],
        "connection-types": [_JOBS_CONNECTION],
        "config": {
            "nemo": {
                "description": "NeMo Helix jobs.",
                "options": {
                    "config_file": _option(
                        "Path of the YAML file with the `jobs:` and `platform:` sections. Empty: the path in the "
                        "environment variable NHX_CONFIG_FILE_PATH, else the runtime's built-in profiles.",
                        "string",
                        "",
                        "/etc/nemo/jobs.yaml",
                    ),
                    "storage": _option(
                        "Directory for job logs and files, shared by workers and API server. "
                        "Empty: {AIRFLOW_HOME}/nemo.",
                        "string",
                        "",
                        "/mnt/shared/nemo",
                    ),
                    "workspaces": _option(
                        "JSON list of workspace names, or of {name, access_control} objects whose access control "
                        "is copied to the workspace's DAGs.",
                        "string",
                        '["default"]',
                        '["default", {"name": "research", "access_control": {"Users": {"DAG Runs": ["can_read"]}}}]',
                    ),
                    # A brace in a default would be taken for a placeholder by Airflow.
                    "secret_grants": _option(
                        "JSON list of pairs: a workspace, and a secret of another workspace that its jobs may use. "
                        "A workspace's own secrets need no entry.",
                        "string",
                        "",
                        '[["research", "shared/hf-token"]]',
                    ),
                    "max_shapes": _option(
                        "Most job shapes (ordered step names and profiles) kept as DAGs at once.",
                        "integer",
                        "500",
                    ),
                    "sweep_seconds": _option(
                        "Seconds between two runs of the DAG nemo-sweep, which tidies up after jobs. 0: only when "
                        "it is triggered by hand.",
                        "integer",
                        "60",
                    ),
                    "task_log_max_lines": _option(
                        "First and last lines of a step's output that are copied to Airflow's task log.",
                        "integer",
                        "5000",
                    ),
                    "pause_hold_seconds": _option(
                        "Seconds that a paused step keeps its worker slot before it gives the slot back.",
                        "float",
                        "10",
                    ),
                    "probe_engines": _option(
                        "Whether the API server asks engines if they are there: auto (only with LocalExecutor), "
                        "true or false.",
                        "string",
                        "auto",
                    ),
                    "task_base_url": _option(
                        "URL at which workloads reach this API. Empty: [api] base_url.", "string", ""
                    ),
                },
            }
        },
    }
