"""From a step and its profile to the objects that the cluster is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.backends.kube.cluster import selector
from nemo_airflow_provider.backends.kube.metadata import key_of, own_of
from nemo_airflow_provider.errors import StartError
from nemo_airflow_provider.model import names
from nemo_airflow_provider.model.names import WorkloadKey
from tests.unit.backends.kube.make import KEY, container, job, pod_spec, prepared, profile, workload

STORAGE = {"NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH": "/job-storage"}
NAME = names.engine_name(KEY)


def test_the_whole_of_a_plain_step() -> None:
    given = workload(container={"image": "busybox", "entrypoint": ["sh", "-c"], "command": ["true"]}, step={"A": "b"})
    body = job(given)
    own = {
        "app": "nemo-job",
        "nhx.nvidia.com/managed_by": "nemo-airflow-provider",
        "nhx.nvidia.com/installation_id": "home",
        "nhx.nvidia.com/job_type": "job",
        "nhx.nvidia.com/job_workspace_id": "team-a",
        "nhx.nvidia.com/job_run_id": "trainA1P.x",
        "nhx.nvidia.com/job_run_key": "3xYzRunKey",
        "nhx.nvidia.com/job_id": "trainA1P.x",
        "nhx.nvidia.com/job_attempt_id": "platform-job-attempt-3xYzRunKey-0",
        "nhx.nvidia.com/job_step_id": "platform-job-step-3-1-2",
        "nhx.nvidia.com/job_step_name": "fitAhomeP1.0_x",
        "nhx.nvidia.com/job_generation": "2",
        "nhx.nvidia.com/job_start": "1",
        "nhx.nvidia.com/job_task_id": KEY.task,
        "nhx.nvidia.com/job_execution_backend": "kubernetes_job",
        "nhx.nvidia.com/job_execution_profile": names.label_value("cpu/default"),
        "nhx.nvidia.com/uses_persistent_storage": "false",
    }
    originals = {
        "nhx.nvidia.com/job_id": "train@1+.x",
        "nhx.nvidia.com/job_step_name": "fit@home+1.0_x",
        "nhx.nvidia.com/job_execution_profile": "cpu/default",
    }
    assert body == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME, "labels": own, "annotations": originals},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 3600,
            "template": {
                "metadata": {"labels": own, "annotations": originals},
                "spec": {
                    "restartPolicy": "Never",
                    "activeDeadlineSeconds": 1800 + 600 + 86400,
                    "terminationGracePeriodSeconds": 30,
                    "serviceAccountName": "default",
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "imagePullSecrets": [{"name": "platform-registry"}, {"name": "shared"}],
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [
                        {
                            "name": "nemo-job-task",
                            "image": "busybox",
                            "command": ["sh", "-c"],
                            "args": ["true"],
                            "env": [
                                {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
                                {"name": "A", "value": "b"},
                                {
                                    "name": "NEMO_JOB_STEP_CONFIG_FILE_PATH",
                                    "value": "/var/run/scratch/config/job_step_config.json",
                                },
                                {"name": "NEMO_JOB_STEP_CONFIG_STORAGE_PATH", "value": "/var/run/scratch/config"},
                                {"name": "NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH", "value": "/var/run/scratch/task"},
                            ],
                            "securityContext": {"allowPrivilegeEscalation": False},
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                            "volumeMounts": [
                                {"name": "task-storage", "mountPath": "/var/run/scratch/task"},
                                {
                                    "name": "job-step-config",
                                    "mountPath": "/var/run/scratch/config",
                                    "readOnly": True,
                                },
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "task-storage", "emptyDir": {}},
                        {
                            "name": "job-step-config",
                            "configMap": {
                                "name": NAME,
                                "items": [{"key": "job_step_config.json", "path": "job_step_config.json"}],
                            },
                        },
                    ],
                },
            },
        },
    }


job_names = st.from_regex(names.NAME_PATTERN, fullmatch=True).filter(names.is_name)


@settings(max_examples=50)
@given(job_names, job_names, st.integers(0, 10**6), st.integers(0, 10**6))
def test_what_a_workload_is_comes_back(name: str, step: str, generation: int, start: int) -> None:
    key = WorkloadKey("team-a", names.run_id_of(name, 2), "3xY", step, generation, start)
    body = job(workload(key), profile(pod_metadata={"labels": {"app": "mine"}, "annotations": {"x": "y"}}))
    assert key_of(body) == key_of(body["spec"]["template"]) == key
    assert body["spec"]["template"]["metadata"]["labels"]["app"] == "mine"
    for value in body["metadata"]["labels"].values():
        assert names.label_value(value) == value


@pytest.mark.parametrize("pair", [("a" * 62 + "b", "a" * 62 + "c"), ("a@" * 31 + "b", "a@" * 31 + "c"), ("ab.", "ab_")])
def test_names_that_differ_in_the_last_letter_are_told_apart(pair: tuple[str, str]) -> None:
    bodies = [job(workload(WorkloadKey("w", "r", "3xY", step, 0, 0))) for step in pair]
    assert len({body["metadata"]["name"] for body in bodies}) == 2
    assert len({body["metadata"]["labels"]["nhx.nvidia.com/job_step_name"] for body in bodies}) == 2


def test_a_selector_finds_encoded_names() -> None:
    assert selector({"nhx.nvidia.com/job_step_name": "a@b"}) == "nhx.nvidia.com/job_step_name=aAb"


def test_metadata_of_the_profile() -> None:
    queue = {"kai.scheduler/queue-name": "research"}
    config = profile(
        scheduler_name="kai-scheduler",
        job_metadata={"labels": queue, "annotations": {"on": "job"}},
        pod_metadata={"labels": queue, "annotations": {"on": "pod"}},
    )
    body = job(workload(), config)
    template = body["spec"]["template"]
    for metadata, place in ((body["metadata"], "job"), (template["metadata"], "pod")):
        assert metadata["labels"].items() >= queue.items()
        assert metadata["annotations"]["on"] == place
    assert template["spec"]["schedulerName"] == "kai-scheduler"


@pytest.mark.parametrize("text", ["$", "$$", "$(HOME)", "$$(HOME)", "a$b$(c)$$$"])
def test_the_kubelet_replaces_nothing(text: str) -> None:
    """What it makes of `$$` is `$`; everything else stays (Kubernetes API, `Container.args`)."""
    made = container(workload(container={"entrypoint": [text], "command": [text]}, step={"X": text}))
    values = [*made["command"], *made["args"], next(item["value"] for item in made["env"] if item["name"] == "X")]
    assert [value.replace("$$", "$") for value in values] == [text] * 3
    assert all(value.replace("$$", "").count("$") == 0 for value in values)


def test_without_entrypoint_and_command_the_images_own_count() -> None:
    assert container(workload()).keys().isdisjoint({"command", "args"})


def test_images() -> None:
    assert container(workload())["image"] == "registry/nhx-tasks:1"
    assert container(workload(), profile(default_task_image="mine"))["image"] == "mine"
    made = container(
        workload(container={"image": "own"}), profile(default_task_image="mine", image_pull_policy="Never")
    )
    assert (made["image"], made["imagePullPolicy"]) == ("own", "Never")


def test_secrets_stand_in_the_secret_alone() -> None:
    found = prepared(workload(secrets={"TOKEN": "s3cret$(X)", "b-c": "other"}, step={"TOKEN": "no", "PLAIN": "yes"}))
    assert found.secret is not None
    assert found.secret["stringData"] == {"secret-0": "s3cret$(X)", "secret-1": "other"}
    assert found.secret["immutable"] is True
    made = container(workload(secrets={"TOKEN": "s3cret", "b-c": "other"}, step={"TOKEN": "no"}))
    items = {item["name"]: item for item in made["env"]}
    assert items["TOKEN"] == {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": NAME, "key": "secret-0"}}}
    assert "s3cret" not in str(made)
    assert prepared(workload()).secret is None
    # The kubelet would copy the end of the output into the pod's status.
    assert "terminationMessagePolicy" not in made
    assert container(workload())["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_the_configuration_is_a_config_map() -> None:
    found = prepared(workload(config={"epochs": 3}))
    assert found.config_map["data"] == {"job_step_config.json": '{"epochs": 3}'}
    assert own_of(found.config_map) == own_of(job(workload()))


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("config", workload(config={"x": "y" * 2**20})),
        ("secrets", workload(secrets={f"S{number}": "x" * 100_000 for number in range(11)})),
    ],
)
def test_what_no_object_can_hold(what: str, given: Any) -> None:
    with pytest.raises(
        StartError, match=rf"The step's {what} are \d+ bytes; a Kubernetes object holds at most 1048576"
    ):
        prepared(given)


def test_a_configuration_elsewhere() -> None:
    inside = {
        "NEMO_JOB_STEP_CONFIG_STORAGE_PATH": "/cfg",
        "NEMO_JOB_STEP_CONFIG_FILE_PATH": "/cfg/deep/own.json",
    }
    spec = pod_spec(workload(step=inside))
    assert spec["volumes"][1]["configMap"]["items"] == [{"key": "job_step_config.json", "path": "deep/own.json"}]
    outside = {"NEMO_JOB_STEP_CONFIG_FILE_PATH": "/etc/own.json"}
    mounts = container(workload(step=outside))["volumeMounts"]
    one_file = {"mountPath": "/etc/own.json", "subPath": "job_step_config.json", "readOnly": True}
    assert mounts[2] == {"name": "job-step-config", **one_file}


def test_precedence_of_a_pods_environment() -> None:
    layers = ["system", "principal", "platform", "step"]
    for number in range(len(layers)):
        groups = {layer: {"X": layer} for layer in layers[: number + 1]}
        items = container(workload(**groups), profile(env={"X": "profile"}))["env"]
        assert {"name": "X", "value": layers[number]} in items
        assert sum(item["name"] == "X" for item in items) == 1


def test_loopback_hosts_are_called_what_the_platform_says() -> None:
    items = container(workload(platform={"NHX_BASE_URL": "http://localhost:8080/x"}))["env"]
    assert {"name": "NHX_BASE_URL", "value": "http://gateway.example:8080/x"} in items


def test_gpus() -> None:
    spec = pod_spec(workload(provider="gpu"), profile(num_gpus=2, tolerations=[{"key": "a", "operator": "Exists"}]))
    made = spec["containers"][0]
    assert made["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    assert "NVIDIA_VISIBLE_DEVICES" not in str(made["env"])
    assert {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}} in spec["volumes"]
    assert {"name": "dshm", "mountPath": "/dev/shm"} in made["volumeMounts"]
    assert spec["tolerations"] == [
        {"key": "a", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
    ]


@pytest.mark.parametrize(
    "given",
    [[], [{"key": "nvidia.com/gpu", "operator": "Exists"}], [{"operator": "Exists"}, {"key": "nvidia.com/gpu"}]],
)
def test_tolerations_that_need_none_for_gpus(given: list[dict[str, str]]) -> None:
    config = profile(tolerations=given)
    assert pod_spec(workload(provider="gpu"), config).get("tolerations", []) == given
    assert config.tolerations == given


def test_a_toleration_without_a_key_is_one() -> None:
    given = [{"operator": "Exists"}]
    config = profile(tolerations=given)
    assert len(pod_spec(workload(provider="gpu"), config)["tolerations"]) == 2
    assert pod_spec(workload(), config)["tolerations"] == given
    assert config.tolerations == given


def test_visible_devices_are_the_profiles_to_say() -> None:
    items = container(workload(), profile(env={"NVIDIA_VISIBLE_DEVICES": "all"}))["env"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in items


def test_job_storage() -> None:
    spec = pod_spec(workload(step=STORAGE), profile(storage={"pvc_name": "jobs"}))
    assert {"name": "job-storage", "persistentVolumeClaim": {"claimName": "jobs"}} in spec["volumes"]
    directory = {"mountPath": "/job-storage", "subPath": "jobs/team-a/trainA1P.x.3xYzRunKey"}
    assert {"name": "job-storage", **directory} in spec["containers"][0]["volumeMounts"]
    assert spec["securityContext"] == {
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": 2000,
        "fsGroupChangePolicy": "OnRootMismatch",
    }


def test_job_storage_without_a_claim() -> None:
    with pytest.raises(StartError) as told:
        prepared(workload(step=STORAGE))
    assert str(told.value) == (
        "Job step requests persistent job storage path, but storage configuration is missing pvc_name configuration."
    )


def test_security_contexts_are_the_profiles_to_change() -> None:
    config = profile(
        storage={"pvc_name": "jobs"},
        pod_security_context={"fsGroup": None, "runAsUser": 1000, "seccompProfile": {"type": "Unconfined"}},
        container_security_context={"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": True},
        automount_service_account_token=True,
        service_account_name="jobs",
    )
    spec = pod_spec(workload(step=STORAGE), config)
    assert spec["securityContext"] == {
        "seccompProfile": {"type": "Unconfined"},
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsUser": 1000,
    }
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": True,
        "readOnlyRootFilesystem": True,
    }
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("jobs", True)


@pytest.mark.parametrize("given", [{"privileged": True}, {"capabilities": {"add": ["CAP_SYS_ADMIN"]}}])
def test_a_container_with_all_rights_may_have_more(given: dict[str, Any]) -> None:
    """The API refuses one that must not (Kubernetes API, `SecurityContext.allowPrivilegeEscalation`)."""
    assert container(workload(), profile(container_security_context=given))["securityContext"] == given


def test_volumes_of_the_profile() -> None:
    volumes = [
        {"name": "models", "persistent_volume_claim": {"claim_name": "models", "read_only": True}},
        {"name": "memory", "empty_dir": {"medium": "Memory", "size_limit": "1Gi"}},
        {"name": "disk", "empty_dir": {}},
        {
            "name": "licence",
            "secret": {"secret_name": "l", "default_mode": 0o400, "items": [{"key": "a", "path": "b"}]},
        },
        {"name": "settings", "config_map": {"name": "s", "optional": True}},
    ]
    mounts = [
        {"name": "models", "mount_path": "/models", "read_only": True, "sub_path": "v1"},
        {"name": "memory", "mount_path": "/dev/shm"},
    ]
    config = profile(storage={"additional_volumes": volumes, "additional_volume_mounts": mounts})
    spec = pod_spec(workload(provider="gpu"), config)
    assert spec["volumes"][2:] == [
        {"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "disk", "emptyDir": {}},
        {"name": "licence", "secret": {"secretName": "l", "defaultMode": 256, "items": [{"key": "a", "path": "b"}]}},
        {"name": "settings", "configMap": {"name": "s", "optional": True}},
    ]
    assert spec["containers"][0]["volumeMounts"][2:] == [
        {"name": "models", "mountPath": "/models", "subPath": "v1", "readOnly": True},
        {"name": "memory", "mountPath": "/dev/shm"},
    ]


def test_a_claim_is_one_volume_whoever_names_it() -> None:
    """The kubelet never gets ready with two of one claim."""
    volumes = [
        {"name": "data", "persistent_volume_claim": {"claim_name": "jobs", "read_only": True}},
        {"name": "out", "persistent_volume_claim": {"claim_name": "jobs"}},
        {"name": "models", "persistent_volume_claim": {"claim_name": "models", "read_only": True}},
        {"name": "again", "persistent_volume_claim": {"claim_name": "models", "read_only": True}},
    ]
    mounts = [
        {"name": "data", "mount_path": "/data", "sub_path": "data"},
        {"name": "out", "mount_path": "/out"},
        {"name": "again", "mount_path": "/models"},
    ]
    storage = {"pvc_name": "jobs", "additional_volumes": volumes, "additional_volume_mounts": mounts}
    spec = pod_spec(workload(step=STORAGE), profile(storage=storage))
    assert spec["volumes"][2:] == [
        {"name": "job-storage", "persistentVolumeClaim": {"claimName": "jobs"}},
        {"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
    ]
    assert spec["containers"][0]["volumeMounts"][3:] == [
        {"name": "job-storage", "mountPath": "/data", "subPath": "data", "readOnly": True},
        {"name": "job-storage", "mountPath": "/out"},
        {"name": "models", "mountPath": "/models", "readOnly": True},
    ]
    first, second = pod_spec(workload(), profile(storage=storage))["volumes"][2:]
    assert first == {"name": "data", "persistentVolumeClaim": {"claimName": "jobs"}}
    assert second["name"] == "models"


def test_pull_secrets_are_the_platforms_then_the_profiles_each_once() -> None:
    config = profile(image_pull_secrets=[{"name": "own"}, {"name": "shared"}])
    found = pod_spec(workload(), config)["imagePullSecrets"]
    assert [each["name"] for each in found] == ["platform-registry", "shared", "own"]


def test_where_pods_run() -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
    spec = pod_spec(workload(), profile(node_selector={"gpu": "a100"}, affinity=affinity))
    assert (spec["nodeSelector"], spec["affinity"]) == ({"gpu": "a100"}, affinity)


def test_times() -> None:
    config = profile(
        ttl_seconds_before_active=1,
        ttl_seconds_image_pull=0,
        ttl_seconds_active=2**31,
        ttl_seconds_after_finished=0,
        graceful_shutdown_timeout_seconds=7,
    )
    body = job(workload(), config)
    spec = body["spec"]["template"]["spec"]
    assert spec["activeDeadlineSeconds"] == 2**31 - 1
    assert spec["terminationGracePeriodSeconds"] == 7
    assert body["spec"]["ttlSecondsAfterFinished"] == 600


def test_a_profile_does_not_change_what_a_job_is_found_by() -> None:
    for place in ("labels", "annotations"):
        with pytest.raises(ValueError, match=r"By nhx.nvidia.com/job_run_key jobs are found again"):
            profile(pod_metadata={place: {"nhx.nvidia.com/job_run_key": "x"}})


def test_a_token_is_not_covered() -> None:
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    with pytest.raises(StartError, match="is the engine's own"):
        prepared(workload(step={"NEMO_JOB_EPHEMERAL_TASK_STORAGE_PATH": path}))
