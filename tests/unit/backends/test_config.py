"""Keys of the backends' configs, and the public view of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nemo_airflow_provider.backends.docker.config import DockerConfig
from nemo_airflow_provider.backends.kube.config import PodConfig
from nemo_airflow_provider.backends.kubernetes_job.config import KubernetesJobConfig
from nemo_airflow_provider.backends.registry import BACKENDS
from nemo_airflow_provider.backends.reserved import RESERVED
from nemo_airflow_provider.backends.subprocess.config import SubprocessConfig
from nemo_airflow_provider.backends.volcano_job.config import VolcanoJobConfig

ALL = [entry.config_class for entry in BACKENDS.values()]


def test_the_reserved_names_are_those_of_the_contract() -> None:
    jobs = (
        "ID ATTEMPT_ID STEP TASK WORKSPACE FILESET SECRETS STEP_CONFIG_FILE_PATH STEP_CONFIG_STORAGE_PATH "
        "EPHEMERAL_TASK_STORAGE_PATH PERSISTENT_JOB_STORAGE_PATH"
    )
    platform = (
        "TASK_CONFIG PRINCIPAL WORKLOAD_IDENTITY_TOKEN_FILE JOB_LOGS_ENDPOINT CONFIG_WARNINGS_DISABLED BASE_URL "
        "AUTH_URL JOBS_URL FILES_URL MODELS_URL SECRETS_URL"
    )
    telemetry = "EXPORTER_OTLP_LOGS_ENDPOINT LOGS_EXPORTER SERVICE_NAME EXPORTER_OTLP_LOGS_HEADERS"
    assert {
        f"{prefix}{name}"
        for prefix, names in (("NEMO_JOB_", jobs), ("NHX_", platform), ("OTEL_", telemetry))
        for name in names.split()
    } == RESERVED


@pytest.mark.parametrize("config", ALL)
class TestEveryBackend:
    @pytest.mark.parametrize("name", sorted(RESERVED))
    def test_refuses_names_of_the_platform(self, config: Any, name: str) -> None:
        with pytest.raises(ValidationError) as error:
            config(env={name: "x", "MINE": "y"})
        assert f"Profile environment keys must not conflict with platform-reserved names: ['{name}']" in str(
            error.value
        )

    @pytest.mark.parametrize(
        "name",
        [
            "NHX_ACCESS_TOKEN",
            "NEMO_WORKLOAD_TOKEN",
            "NEMO_WORKLOAD_X",
            "NHX_WORKLOAD_X",
            "NEMO_WORKFLOW_X",
            "NHX_WORKFLOW_X",
        ],
    )
    def test_refuses_names_of_credentials(self, config: Any, name: str) -> None:
        with pytest.raises(ValidationError) as error:
            config(env={name: "x"})
        assert (
            "Profile environment keys must not conflict with platform-reserved auth environment keys: "
            f"['{name}']" in str(error.value)
        )

    def test_tells_both_at_once_and_sorted(self, config: Any) -> None:
        with pytest.raises(ValidationError) as error:
            config(env={"NEMO_JOB_STEP": "", "NEMO_JOB_ID": "", "NHX_ACCESS_TOKEN": ""})
        assert "names: ['NEMO_JOB_ID', 'NEMO_JOB_STEP']; Profile" in str(error.value)

    def test_takes_other_names(self, config: Any) -> None:
        assert config(env={"LOG_LEVEL": "debug", "NEMO_JOB": "x"}).env == {"LOG_LEVEL": "debug", "NEMO_JOB": "x"}

    def test_has_the_common_keys(self, config: Any) -> None:
        shown = config().public()
        assert shown["ttl_seconds_before_active"] == 1800
        assert shown["ttl_seconds_active"] == 86400
        assert shown["ttl_seconds_after_finished"] == 3600
        assert shown["pause"] == "stop"
        assert set(shown["airflow"]) == {"queue", "pool", "priority_weight", "executor"}

    @pytest.mark.parametrize("key", ["ttl_seconds_before_active", "ttl_seconds_active", "ttl_seconds_after_finished"])
    def test_refuses_negative_times(self, config: Any, key: str) -> None:
        with pytest.raises(ValidationError):
            config(**{key: -1})

    def test_does_not_change_after_loading(self, config: Any) -> None:
        with pytest.raises(ValidationError):
            config().ttl_seconds_active = 1

    def test_says_which_keys_have_no_effect_by_their_names(self, config: Any) -> None:
        assert config.unsupported <= config.without_effect <= set(config.model_fields)


class TestSubprocess:
    def test_defaults(self) -> None:
        config = SubprocessConfig()
        assert config.working_directory == "/tmp/nhx-subprocess-jobs"
        assert config.graceful_shutdown_timeout_seconds == 10
        assert not config.cleanup_completed_jobs_immediately
        assert "platform_retries" not in config.public()
        assert config.supports_persistent_storage()

    def test_freezes(self) -> None:
        assert SubprocessConfig(pause="freeze").pause == "freeze"

    def test_refuses_a_relative_directory(self) -> None:
        with pytest.raises(ValidationError, match="must be an absolute path, got 'jobs'"):
            SubprocessConfig(working_directory="jobs")


class TestContainers:
    @pytest.mark.parametrize("config", [DockerConfig, KubernetesJobConfig, VolcanoJobConfig])
    def test_defaults(self, config: Any) -> None:
        shown = config().public()
        assert shown["platform_retries"] == 3
        assert shown["num_gpus"] == 1
        assert shown["ttl_seconds_image_pull"] == 600
        assert shown["graceful_shutdown_timeout_seconds"] == 30
        assert shown["cleanup_completed_jobs_immediately"] is True

    @pytest.mark.parametrize("config", [KubernetesJobConfig, VolcanoJobConfig])
    def test_storage_needs_a_claim(self, config: Any) -> None:
        assert not config().supports_persistent_storage()
        assert config.model_validate({"storage": {"pvc_name": "a"}}).supports_persistent_storage()

    def test_storage_of_docker_can_be_switched_off(self) -> None:
        assert DockerConfig().supports_persistent_storage()
        assert not DockerConfig.model_validate({"storage": {"volume_name": ""}}).supports_persistent_storage()

    def test_volcano_defaults(self) -> None:
        shown = VolcanoJobConfig().public()
        assert (shown["queue"], shown["scheduler_name"], shown["max_retry"]) == ("default", "volcano", 0)
        assert (shown["plugins"], shown["enable_multi_node_networking"]) == ({}, True)

    def test_structures_of_kubernetes_are_passed_on(self) -> None:
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
        config = KubernetesJobConfig(affinity=affinity, pod_security_context={"runAsUser": 1})
        assert config.public()["affinity"] == affinity
        assert config.public()["pod_security_context"] == {"runAsUser": 1}


class TestPublicView:
    VOLUMES = (
        {"name": "claim", "persistent_volume_claim": {"claim_name": "c"}},
        {"name": "hidden", "secret": {"secret_name": "s"}},
        {"name": "dir", "empty_dir": {}},
        {"name": "map", "config_map": {"name": "m"}},
    )

    def test_leaves_out_what_the_client_cannot_read(self) -> None:
        config = KubernetesJobConfig.model_validate(
            {
                "storage": {
                    "additional_volumes": list(self.VOLUMES),
                    "additional_volume_mounts": [
                        {"name": volume["name"], "mount_path": f"/{volume['name']}"} for volume in self.VOLUMES
                    ],
                }
            }
        )
        storage = config.public()["storage"]
        assert storage["additional_volumes"] == [
            {
                "name": "claim",
                "persistent_volume_claim": {"claim_name": "c", "read_only": False},
                "empty_dir": None,
            },
            {
                "name": "dir",
                "persistent_volume_claim": None,
                "empty_dir": {"medium": None, "size_limit": None},
            },
        ]
        assert [mount["name"] for mount in storage["additional_volume_mounts"]] == ["claim", "dir"]
        assert len(config.storage.additional_volumes) == 4

    def test_every_pod_config_hides_them(self) -> None:
        for config in ALL:
            if "kubernetes_conn_id" in config.model_fields:
                assert issubclass(config, PodConfig)
                assert config.public is PodConfig.public
