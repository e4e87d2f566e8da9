"""Which profiles there are, how they merge, and what they say about a job."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_airflow_provider.backends.registry import BackendEntry
from nemo_airflow_provider.errors import InvalidJob
from nemo_airflow_provider.model.spec import PlatformSpec
from nemo_airflow_provider.profiles import PlatformConfig, Probe, Profile, ProfileSet, load_profiles

Load = Callable[..., ProfileSet]


class Engines:
    """Engines that answer or do not, by their connection (None: the host's own), and may have no GPUs."""

    def __init__(self, *silent: str | None, gpus: bool = True) -> None:
        self.silent = silent
        self.has_gpus = gpus
        self.asked: list[str] = []

    def answers(self, profile: Profile, platform: PlatformConfig) -> bool:
        self.asked.append(str(profile))
        return getattr(profile.config, "docker_conn_id", None) not in self.silent

    def lacks_gpus(self, profile: Profile, platform: PlatformConfig) -> bool:
        self.asked.append(f"gpus of {profile}")
        return not self.has_gpus


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a text as the configuration file."""

    def load_text(text: str, environ: dict[str, str] | None = None, probe: Probe | None = None) -> ProfileSet:
        path = tmp_path / "jobs.yaml"
        path.write_text(text)
        return load_profiles(path, environ=environ or {}, probe=probe)

    return load_text


@pytest.fixture
def provided(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Says which backends this installation provides, whatever is really installed."""

    def provide(*names: str) -> None:
        monkeypatch.setattr(BackendEntry, "provided", property(lambda entry: entry.name in names))

    provide("docker", "kubernetes_job", "volcano_job", "subprocess")
    return provide


def listing(profiles: ProfileSet) -> list[str]:
    return [f"{profile} {profile.backend}" for profile in profiles.profiles]


def spec(*executors: dict[str, Any], environment: list[dict[str, str]] | None = None) -> PlatformSpec:
    steps = [
        {"name": f"step{index}", "executor": executor, "environment": environment}
        for index, executor in enumerate(executors, 1)
    ]
    return PlatformSpec.model_validate({"steps": steps})


def container(provider: str = "cpu", profile: str = "default", **rest: Any) -> dict[str, Any]:
    return {"provider": provider, "profile": profile, "container": {"image": "busybox"}, **rest}


PROCESS = {"provider": "subprocess", "profile": "default", "command": ["true"]}
STORAGE = [{"name": "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", "value": "/data"}]
REMOTE = "platform: {runtime: kubernetes}\n"


class TestBuiltIns:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "platform: {runtime: docker}",
                ["cpu/default docker", "gpu/default docker", "subprocess/default subprocess"],
            ),
            (
                "platform: {runtime: kubernetes}",
                [
                    "cpu/default kubernetes_job",
                    "gpu/default kubernetes_job",
                    "cpu/gpu kubernetes_job",
                    "gpu/gpu kubernetes_job",
                    "gpu_distributed/default volcano_job",
                ],
            ),
            ("platform: {runtime: none}", ["subprocess/default subprocess"]),
            (
                "jobs: {enable_subprocess_executor: false}",
                ["cpu/default docker", "gpu/default docker"],
            ),
        ],
    )
    def test_of_a_runtime_in_contract_order(self, load: Load, text: str, expected: list[str]) -> None:
        assert listing(load(text)) == expected

    def test_subprocess_comes_last_where_it_is_forced(self, load: Load) -> None:
        names = listing(load(REMOTE + "jobs: {enable_subprocess_executor: true}"))
        assert names[-2:] == ["gpu_distributed/default volcano_job", "subprocess/default subprocess"]

    def test_no_file_is_the_docker_runtime(self) -> None:
        profiles = load_profiles(None, environ={}, probe=None)
        assert profiles.runtime == "docker"
        assert len(profiles.profiles) == 3

    def test_nothing_left_is_a_warning(self, load: Load) -> None:
        profiles = load("{platform: {runtime: none}, jobs: {enable_subprocess_executor: false}}")
        assert profiles.profiles == ()
        assert profiles.warnings == ("No default executors defined for runtime type: none",)

    def test_have_the_defaults_merged_deeply(self, load: Load) -> None:
        profiles = load(
            "jobs: {executor_defaults: {docker: {storage: {additional_volume_mounts:"
            " [{volume_name: models, mount_path: /models}]}}}}"
        )
        for provider in ("cpu", "gpu"):
            shown = profiles.resolve(provider, "default").public()["config"]["storage"]  # type: ignore[union-attr]
            assert shown["volume_name"] == "nemo-jobs-storage"
            assert shown["additional_volume_mounts"][0]["mount_path"] == "/models"


class TestEngineProbe:
    def test_silent_engine_turns_docker_into_none(self, load: Load, provided: object) -> None:
        profiles = load(
            "jobs: {executors: [{provider: cpu, profile: mine, config: {}},"
            " {provider: gpu, profile: far, backend: kubernetes_job, config: {}}]}",
            probe=Engines(None),
        )
        assert profiles.runtime == "none"
        assert listing(profiles) == ["subprocess/default subprocess"]
        skipping = "Skipping executor profile"
        assert profiles.warnings == (
            "platform.runtime is 'docker' but Docker does not answer: treated as 'none'.",
            f"{skipping} cpu/default using backend 'docker' because Docker is unavailable.",
            f"{skipping} gpu/default using backend 'docker' because Docker is unavailable.",
            f"{skipping} cpu/mine using backend 'docker' because Docker is unavailable.",
            f"{skipping} gpu/far using backend 'kubernetes_job' because platform runtime is NONE.",
        )

    @pytest.mark.parametrize(
        ("profile", "more"),
        [
            ("mine", " It is configured, and left out because Docker is unavailable; see `airflow nemo check`."),
            ("other", ""),
        ],
    )
    def test_a_job_for_a_profile_that_is_left_out_is_told_why(
        self, load: Load, provided: object, profile: str, more: str
    ) -> None:
        profiles = load("jobs: {executors: [{provider: cpu, profile: mine, config: {}}]}", probe=Engines(None))
        executor = {"provider": "cpu", "profile": profile, "container": {}}
        with pytest.raises(InvalidJob) as caught:
            profiles.check(PlatformSpec.model_validate({"steps": [{"name": "one", "executor": executor}]}))
        told = f"The execution profile 'cpu/{profile}' specified in step 'one' does not exist."
        assert str(caught.value) == told + more

    def test_answering_engine_keeps_everything(self, load: Load, provided: object) -> None:
        profiles = load("platform: {runtime: docker}", probe=Engines())
        assert profiles.runtime == "docker"
        assert len(profiles.profiles) == 3
        assert profiles.warnings == ()

    @pytest.mark.parametrize("runtime", ["kubernetes", "none"])
    def test_docker_entries_stay_under_other_runtimes(self, load: Load, provided: object, runtime: str) -> None:
        text = f"platform: {{runtime: {runtime}}}\njobs: {{executors: [{{provider: gpu, config: {{}}}}]}}"
        assert load(text, probe=Engines()).resolve("gpu", "default").backend == "docker"  # type: ignore[union-attr]
        silent = load(text, probe=Engines(None))
        assert "because Docker is unavailable." in " ".join(silent.warnings)
        assert silent.runtime == runtime

    def test_nobody_asks_when_it_does_not_matter(self, load: Load, provided: object) -> None:
        engines = Engines(None)
        load("platform: {runtime: none}", probe=engines)
        assert engines.asked == []

    def test_an_engine_of_a_connection_answers_for_itself(self, load: Load, provided: object) -> None:
        text = (
            "jobs: {executors: [{provider: cpu, profile: far, config: {docker_conn_id: far}},"
            " {provider: gpu, config: {docker_conn_id: gone}}]}"
        )
        silent_here = load(text, probe=Engines(None, "gone"))
        assert listing(silent_here) == ["subprocess/default subprocess", "cpu/far docker"]
        silent_there = load(text, probe=Engines("far", "gone"))
        assert silent_there.runtime == "docker"
        assert listing(silent_there) == ["cpu/default docker", "subprocess/default subprocess"]

    def test_what_an_entry_inherits_does_not_hang_on_an_engines_mood(self, load: Load, provided: object) -> None:
        text = (
            "jobs: {executor_defaults: {docker: {num_gpus: 3}},"
            " executors: [{provider: gpu, config: {docker_conn_id: far}}]}"
        )
        shown = [load(text, probe=engines).resolve("gpu", "default") for engines in (None, Engines(None))]
        assert shown[0] == shown[1]
        assert shown[1] is not None
        assert shown[1].public()["config"]["num_gpus"] == 3

    def test_a_backend_that_is_not_provided_is_listed_unprobed(self, load: Load, provided: Callable[..., None]) -> None:
        provided("subprocess")
        profiles = load("platform: {runtime: docker}", probe=Engines(None))
        assert profiles.runtime == "docker"
        assert len(profiles.profiles) == 3


class TestMerge:
    def test_a_new_key_is_appended_and_inherits_nothing(self, load: Load) -> None:
        profiles = load(
            REMOTE + "jobs: {executor_defaults: {kubernetes_job: {storage: {pvc_name: jobs}, namespace: a}},"
            " executors: [{provider: gpu, profile: a100, backend: kubernetes_job, config: {num_gpus: 2}}]}"
        )
        added = profiles.profiles[-1]
        assert str(added) == "gpu/a100"
        assert not added.config.supports_persistent_storage()
        assert profiles.resolve("cpu", "gpu").config.supports_persistent_storage()  # type: ignore[union-attr]
        (hint,) = profiles.hints
        assert "'gpu/a100' does not inherit namespace, storage from executor_defaults.kubernetes_job" in hint

    def test_another_backend_replaces_wholly_and_keeps_the_place(self, load: Load) -> None:
        profiles = load(
            REMOTE + "jobs: {executors: [{provider: gpu, profile: new, backend: kubernetes_job, config: {}},"
            " {provider: gpu, backend: docker, config: {num_gpus: 4}}]}"
        )
        assert listing(profiles)[1] == "gpu/default docker"
        assert listing(profiles)[-1] == "gpu/new kubernetes_job"

    def test_same_backend_merges_top_level_keys_only(self, load: Load) -> None:
        profiles = load(
            REMOTE + "jobs: {executor_defaults: {kubernetes_job: {namespace: a, ttl_seconds_active: 5,"
            " storage: {pvc_name: old, volume_permissions_image: tools}}},"
            " executors: [{provider: cpu, backend: kubernetes_job,"
            " config: {ttl_seconds_active: 9, storage: {pvc_name: new}}}]}"
        )
        config = profiles.resolve("cpu", "default").public()["config"]  # type: ignore[union-attr]
        assert config["namespace"] == "a"
        assert config["ttl_seconds_active"] == 9
        assert config["storage"]["pvc_name"] == "new"
        assert config["storage"]["volume_permissions_image"] != "tools"
        assert profiles.profiles[1].public()["config"]["storage"]["volume_permissions_image"] == "tools"
        (hint,) = profiles.hints
        assert "config.storage: replaces executor_defaults.kubernetes_job.storage as a whole" in hint

    def test_a_value_written_like_the_default_still_wins(self, load: Load) -> None:
        profiles = load(
            "jobs: {executor_defaults: {docker: {ttl_seconds_active: 5}}, executors:"
            " [{provider: cpu, backend: docker, config: {ttl_seconds_active: 86400}}]}"
        )
        assert [profile.config.ttl_seconds_active for profile in profiles.profiles[:2]] == [86400, 5]

    def test_left_out_backends_are_skipped_with_a_warning(self, load: Load) -> None:
        profiles = load(
            "platform: {runtime: none}\n"
            "jobs: {executors: [{provider: cpu, backend: openshell, config: {x: 1}}, {backend: e2e}]}"
        )
        assert listing(profiles) == ["subprocess/default subprocess"]
        assert [warning.split(" because")[0] for warning in profiles.warnings] == [
            "Skipping executor profile cpu/default using backend 'openshell'",
            "Skipping executor profile cpu/default using backend 'e2e'",
        ]

    @pytest.mark.parametrize(
        ("entry", "expected"),
        [
            ("{profile: a, config: {}}", "cpu/a docker"),
            ("{profile: a, backend: subprocess}", "subprocess/a subprocess"),
            ("{profile: a, backend: kubernetes_job, config: {}}", "cpu/a kubernetes_job"),
        ],
    )
    def test_defaults_of_an_entry(self, load: Load, entry: str, expected: str) -> None:
        assert listing(load(f"jobs: {{executors: [{entry}]}}"))[-1] == expected

    def test_what_has_no_effect_is_listed(self, load: Load) -> None:
        profiles = load(
            "platform:\n  base_url: http://a\n  sandbox_server_domain: b\n  something_of_upstream: 1\n"
            "files: not even a mapping\n"
            "jobs:\n  reconcile_interval_seconds: 9\n  executors:\n"
            "  - backend: kubernetes_job\n    config:\n      launcher_image: c\n      workload_identity: {}\n",
            environ={"NHX_BASE_URL": "http://d"},  # the command's own
        )
        places = [place.rpartition("/")[2] for place in profiles.without_effect]
        assert places == [
            "jobs.yaml:2: platform.base_url",
            "jobs.yaml:3: platform.sandbox_server_domain",
            "jobs.yaml:7: jobs.reconcile_interval_seconds",
            "jobs.yaml:11: jobs.executors[0].config.launcher_image",
            "jobs.yaml:12: jobs.executors[0].config.workload_identity",
        ]
        assert ["sandbox_server_domain" in profiles.warnings[0], len(profiles.warnings)] == [True, 2]

    def test_a_probable_typo_in_the_shared_section_is_a_warning(self, load: Load) -> None:
        (warning,) = load("platform: {runtme: none}").warnings
        assert warning.endswith("jobs.yaml:1: platform.runtme: unknown key, ignored; did you mean 'runtime'?")


class TestVariables:
    def test_the_list_replaces_the_files(self, load: Load) -> None:
        entries = [{"provider": "subprocess", "profile": "zz", "backend": "subprocess"}]
        profiles = load(
            "platform: {runtime: none}\njobs: {executors: [{profile: gone, config: {}}]}",
            environ={"NHX_JOBS_EXECUTORS": json.dumps(entries)},
        )
        assert listing(profiles) == ["subprocess/default subprocess", "subprocess/zz subprocess"]

    def test_beat_the_file(self, load: Load) -> None:
        profiles = load(
            "platform: {runtime: none, loopback_address: a}\n"
            "jobs: {enable_subprocess_executor: true, reconcile_interval_seconds: 1}",
            environ={
                "NHX_JOBS_ENABLE_SUBPROCESS_EXECUTOR": "false",
                "NHX_JOBS_RECONCILE_INTERVAL_SECONDS": "9",
                "NHX_LOOPBACK_ADDRESS": "b",
            },
        )
        assert profiles.profiles == ()
        assert profiles.platform.loopback_address == "b"

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("platform: {}", (3,)),
            ("platform: {docker: {reserved_gpu_device_ids: }}", (3,)),
            ('platform: {docker: {reserved_gpu_device_ids: "0, 1"}}', (0, 1)),
            ("platform: {docker: {reserved_gpu_device_ids: all}}", None),
            ("platform: {docker: {reserved_gpu_device_ids: none}}", ()),
        ],
    )
    def test_the_gpu_list_counts_where_the_file_has_none(
        self, load: Load, text: str, expected: tuple[int, ...] | None
    ) -> None:
        profiles = load(text, environ={"NHX_DOCKER_RESERVED_GPU_DEVICE_IDS": "3"})
        assert profiles.platform.docker.gpu_device_ids == expected

    def test_a_blank_gpu_list_means_none(self, load: Load) -> None:
        profiles = load("platform: {}", environ={"NHX_DOCKER_RESERVED_GPU_DEVICE_IDS": ""})
        assert profiles.platform.docker.gpu_device_ids == ()

    def test_docker_network_is_a_default_only(self, load: Load) -> None:
        profiles = load(
            "jobs: {executor_defaults: {docker: {storage: {volume_name: v}}}, executors:"
            " [{profile: a, config: {}}, {profile: b, config: {networking: {job_container_network: own}}},"
            " {provider: gpu, config: {num_gpus: 2}}]}",
            environ={"NEMO_JOBS_DEFAULT_DOCKER_NETWORK": "shared"},
        )
        networks = {
            str(profile): profile.public()["config"].get("networking", {}).get("job_container_network")
            for profile in profiles.profiles
        }
        assert networks == {
            "cpu/default": "shared",
            "gpu/default": "shared",
            "subprocess/default": None,
            "cpu/a": "shared",
            "cpu/b": "own",
        }

    def test_docker_stop_timeout_is_a_default_only(self, load: Load) -> None:
        profiles = load(
            "jobs: {executors: [{profile: a, config: {graceful_shutdown_timeout_seconds: 5}}]}",
            environ={"NEMO_JOBS_DEFAULT_DOCKER_STOP_TIMEOUT": "90"},
        )
        graces = {str(profile): profile.config.graceful_shutdown_timeout_seconds for profile in profiles.profiles}
        assert graces == {"cpu/default": 90, "gpu/default": 90, "subprocess/default": 10, "cpu/a": 5}

    def test_a_variable_without_effect_is_listed(self, load: Load) -> None:
        names = ("NHX_JOBS_INCLUDE_JOB_LOGS_IN_DIAGNOSTICS", "NHX_JOBS_SCHEDULE_INTERVAL_SECONDS")
        found = load("platform: {runtime: none}", environ=dict.fromkeys(names, "1")).without_effect
        assert sorted(found) == sorted(names)

    def test_a_variable_that_is_probably_misspelt_gives_a_warning(self, load: Load) -> None:
        environ = {"NHX_JOBS_EXECUTERS": "[]", "NHX_JOBS_URL": "http://a", "NHX_JOBS_DOCKER_OWNER_ID": "x"}
        assert load("platform: {runtime: none}", environ=environ).warnings == (
            "NHX_JOBS_EXECUTERS: unknown variable, ignored; did you mean 'NHX_JOBS_EXECUTORS'?",
        )

    def test_a_variable_that_is_not_read_gives_a_warning(self, load: Load) -> None:
        (warning,) = load("platform: {}", environ={"NHX_JOBS_EXECUTOR_DEFAULTS_DOCKER_STORAGE": "x"}).warnings
        assert warning.startswith("NHX_JOBS_EXECUTOR_DEFAULTS_DOCKER_STORAGE: ignored")


class TestTranslation:
    HOST = "platform: {runtime: none}\njobs: {executors: [{backend: subprocess}]}"

    def test_only_listed_profiles_translate(self, load: Load) -> None:
        built_in = load("platform: {runtime: none}")
        given = spec(container())
        assert built_in.translate(given) == (given, [])

    def test_a_container_becomes_a_process_with_a_warning(self, load: Load) -> None:
        given = spec(
            {
                **container(resources={"limits": {"cpu": "2"}}),
                "container": {"image": "img", "entrypoint": ["python"], "command": ["-V"]},
            },
            {**container("gpu"), "container": {"command": ["x"]}},
            {**container("cpu", "other"), "container": {"command": ["x"]}},
        )
        translated, warnings = load(self.HOST).translate(given)
        assert translated.shape() == [
            ("step1", "subprocess", "default"),
            ("step2", "gpu", "default"),
            ("step3", "cpu", "other"),
        ]
        assert translated.steps[0].executor.model_dump() == {
            "provider": "subprocess",
            "profile": "default",
            "command": ["python", "-V"],
        }
        assert warnings == [
            "Step 'step1' runs as a process of the host with execution profile 'subprocess/default'; dropped: "
            "container.image 'img' and resources."
        ]
        assert given.steps[0].executor.provider == "cpu"

    def test_nothing_dropped_no_warning(self, load: Load) -> None:
        given = spec({"provider": "cpu", "container": {"command": ["true"]}})
        assert load(self.HOST).translate(given)[1] == []

    def test_wins_over_a_container_profile_of_the_name(self, load: Load) -> None:
        both = "jobs: {executors: [{backend: subprocess}, {provider: cpu, config: {}}]}"
        given = spec({"provider": "cpu", "container": {"command": ["true"]}})
        assert load(both).translate(given)[0].steps[0].executor.provider == "subprocess"

    def test_no_command_is_refused(self, load: Load) -> None:
        with pytest.raises(InvalidJob) as refusal:
            load(self.HOST).translate(spec(container()))
        assert str(refusal.value) == (
            "Subprocess execution for step 'step1' requires container.entrypoint and/or container.command."
        )


@pytest.mark.usefixtures("provided")
class TestCheck:
    def refusal(self, profiles: ProfileSet, given: PlatformSpec) -> str:
        with pytest.raises(InvalidJob) as refusal:
            profiles.check(given)
        return str(refusal.value)

    def test_a_known_profile_passes(self, load: Load) -> None:
        load("platform: {runtime: docker}").check(spec(container(), container("gpu"), PROCESS))

    def test_an_unknown_profile(self, load: Load) -> None:
        assert self.refusal(load("platform: {runtime: docker}"), spec(PROCESS, container("gpu", "x"))) == (
            "The execution profile 'gpu/x' specified in step 'step2' does not exist."
        )

    @pytest.mark.parametrize(
        ("text", "provider", "fits"),
        [
            ("platform: {runtime: docker}", "cpu", True),
            ("jobs: {executor_defaults: {docker: {storage: {volume_name: ''}}}}", "cpu", False),
            (REMOTE, "cpu", False),
            (REMOTE, "gpu_distributed", False),
            (
                REMOTE + "jobs: {executor_defaults: {volcano_job: {storage: {pvc_name: a}}}}",
                "gpu_distributed",
                True,
            ),
        ],
    )
    def test_persistent_storage(self, load: Load, text: str, provider: str, fits: bool) -> None:
        given = spec(container(provider), environment=STORAGE)
        if fits:
            load(text).check(given)
            return
        assert self.refusal(load(text), given) == (
            f"The selected execution profile 'default:{provider}' does not support persistent storage required "
            "by step 'step1'."
        )

    def test_processes_always_have_storage(self, load: Load) -> None:
        load("platform: {runtime: none}").check(spec(PROCESS, environment=STORAGE))

    @pytest.mark.parametrize("provider", ["cpu", "gpu", "gpu_distributed"])
    def test_several_nodes_on_a_backend_of_one(self, load: Load, provider: str) -> None:
        text = (
            "platform: {runtime: kubernetes}\n"
            "jobs: {executors: [{provider: gpu_distributed, backend: kubernetes_job, config: {}}]}"
        )
        two = {"resources": {"num_nodes": 2}}
        assert self.refusal(load(text), spec(container(provider, **two))) == (
            f"Step 'step1' asks for num_nodes: 2, and execution profile '{provider}/default' runs one node only "
            "(backend 'kubernetes_job'). Use a profile of a backend for several, or num_nodes: 1."
        )
        load(text).check(spec(container(provider, resources={"num_nodes": 1})))

    NO_GPUS = "platform: {runtime: %s, docker: {reserved_gpu_device_ids: none}}\n"

    @pytest.mark.parametrize(
        ("text", "refused"),
        [
            (NO_GPUS % "docker", True),
            (NO_GPUS % "kubernetes", False),
            (NO_GPUS % "none" + "jobs: {executors: [{provider: gpu, config: {}}]}", True),
            ("platform: {runtime: docker}", False),
        ],
    )
    def test_gpus_that_are_not_there(self, load: Load, text: str, refused: bool) -> None:
        profiles = load(text)
        if not refused:
            profiles.check(spec(container("gpu")))
            return
        assert self.refusal(profiles, spec(container("gpu"))) == (
            "Invalid job specification: this job requires GPU resources, but the platform is running on Docker "
            "with no GPUs configured. Configure GPUs in the platform config or choose a non-GPU execution "
            "profile."
        )
        profiles.check(spec(PROCESS))

    def test_gpus_that_the_host_does_not_have(self, load: Load) -> None:
        profiles = load(
            "jobs: {executors: [{provider: gpu, profile: far, backend: kubernetes_job, config: {}}]}",
            probe=Engines(gpus=False),
        )
        assert "with no GPUs configured" in self.refusal(profiles, spec(container("gpu")))
        # Steps without GPUs, and those of a cluster, have nothing to do with this host.
        profiles.check(spec(container(), container("gpu", "far"), PROCESS))

    def test_the_host_is_asked_for_its_gpus_only_by_steps_that_want_them(self, load: Load) -> None:
        engines = Engines()
        profiles = load("platform: {runtime: docker}", probe=engines)
        profiles.check(spec(container()))
        assert not [asked for asked in engines.asked if "gpus" in asked]
        profiles.check(spec(container("gpu")))
        assert "gpus of gpu/default" in engines.asked

    def test_a_backend_that_is_not_provided_comes_before_storage_and_gpus(
        self, load: Load, provided: Callable[..., None]
    ) -> None:
        provided("subprocess")
        text = self.NO_GPUS % "docker" + "jobs: {executor_defaults: {docker: {storage: {volume_name: ''}}}}"
        assert self.refusal(load(text), spec(container("gpu"), environment=STORAGE)) == (
            "Execution profile 'gpu/default' in step 'step1' needs backend 'docker', which this installation "
            "does not provide. Install nemo-airflow-provider[docker]."
        )
        assert "[kubernetes]." in self.refusal(load(REMOTE), spec(container("gpu_distributed")))
        assert "does not exist" in self.refusal(load(text), spec(container("gpu", "x")))


class TestChange:
    def test_a_changed_file_counts_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "jobs.yaml"
        path.write_text("platform: {runtime: none}  ")
        os.utime(path, (1, 1))
        assert load_profiles(path, environ={}, probe=None).runtime == "none"
        path.write_text("platform: {runtime: docker}")  # as long as before
        os.utime(path, (1, 1))
        assert load_profiles(path, environ={}, probe=None).runtime == "docker"

    def test_warnings_are_logged_once_for_each_text(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        path = tmp_path / "jobs.yaml"
        path.write_text("platform: {runtimee: none}\n")
        for _ in range(3):
            (warning,) = load_profiles(path, environ={}, probe=None).warnings
        assert caplog.messages == [warning]
        path.write_text("\nplatform: {runtimee: none}\n")
        load_profiles(path, environ={}, probe=None)
        assert [message.split(": unknown")[0] for message in caplog.messages] == [
            f"{path}:1: platform.runtimee",
            f"{path}:2: platform.runtimee",
        ]

    def test_a_changed_environment_counts_at_once(self, load: Load) -> None:
        text = "platform: {runtime: none}"
        assert load(text).profiles
        assert not load(text, environ={"NHX_JOBS_ENABLE_SUBPROCESS_EXECUTOR": "no"}).profiles


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_load_without_complaint(path: Path) -> None:
    profiles = load_profiles(path, environ={}, probe=None)
    assert profiles.profiles
    assert (profiles.warnings, profiles.without_effect, profiles.hints) == ((), (), ())


def test_there_is_an_example_for_every_backend() -> None:
    used = {
        profile.backend
        for path in EXAMPLES.glob("*.yaml")
        for profile in load_profiles(path, environ={}, probe=None).profiles
    }
    assert used == {"docker", "kubernetes_job", "volcano_job", "subprocess"}
