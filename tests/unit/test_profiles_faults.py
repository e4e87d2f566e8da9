"""Everything that can be wrong with the configuration file or a variable, and what is said about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_airflow_provider.errors import ConfigError
from nemo_airflow_provider.profiles import load_profiles


def faults(path: Path, content: str | bytes, environ: dict[str, str] | None = None) -> list[str]:
    """The lines of the error, without the directory of the file."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as error:
        load_profiles(path, environ=environ or {}, probe=None)
    return str(error.value).replace(f"{path.parent}/", "").split("\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.yaml"


class TestFile:
    def test_missing_names_the_setting(self, path: Path) -> None:
        with pytest.raises(ConfigError, match=r"does not exist\. \[nemo\] config_file names it"):
            load_profiles(path, environ={}, probe=None)
        with pytest.raises(ConfigError, match="NHX_CONFIG_FILE_PATH names it"):
            load_profiles(path, environ={"NHX_CONFIG_FILE_PATH": str(path)}, probe=None)

    def test_a_directory(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"cannot be read: Is a directory\."):
            load_profiles(tmp_path, environ={}, probe=None)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_unreadable(self, path: Path) -> None:
        path.write_text("jobs: {}")
        path.chmod(0)
        with pytest.raises(ConfigError, match=r"cannot be read: Permission denied\."):
            load_profiles(path, environ={}, probe=None)

    def test_not_utf8(self, path: Path) -> None:
        (line,) = faults(path, b"jobs: {}\n# caf\xe9\n")
        assert "is not UTF-8 text: byte 0xe9 in line 2" in line

    def test_a_byte_order_mark_is_fine(self, path: Path) -> None:
        path.write_bytes(b"\xef\xbb\xbfplatform: {runtime: none}")
        assert load_profiles(path, environ={}, probe=None).runtime == "none"

    @pytest.mark.parametrize(
        ("content", "beginning"),
        [
            ("", "NeMo Helix configuration file is empty: 'jobs.yaml'"),
            ("# only a comment\n", "NeMo Helix configuration file is empty: 'jobs.yaml'"),
            ("{}", "NeMo Helix configuration file is empty: 'jobs.yaml'"),
            ("[jobs]", "NeMo Helix configuration file 'jobs.yaml' does not contain a top-level dictionary."),
            ("jobs", "NeMo Helix configuration file 'jobs.yaml' does not contain a top-level dictionary."),
            ("jobs: []", "Settings for service 'jobs' must be a mapping. (jobs.yaml:1: jobs)"),
            ("a: 1\nplatform:\n", "Settings for service 'platform' must be a mapping. (jobs.yaml:2: platform)"),
            ("a: b\njobs: {", "Error parsing NeMo Helix configuration file as YAML: jobs.yaml:2: "),
            ("jobs: {}\n---\njobs: {}", "Error parsing NeMo Helix configuration file as YAML: jobs.yaml:2: "),
            ("a: b\njobs:\t\0", "Error parsing NeMo Helix configuration file as YAML: jobs.yaml:2: character"),
            ('jobs: "\\UFFFFFFFF"', "Error parsing NeMo Helix configuration file as YAML: jobs.yaml: "),
            ("jobs: !!set {a}", "Settings for service 'jobs' must be a mapping. (jobs.yaml:1: jobs)"),
            (
                "jobs: {executors: !!python/name:os.system x}",
                "Error parsing NeMo Helix configuration file as YAML: jobs.yaml:1: could not determine",
            ),
            ("jobs: " + "[" * 5000, "Error parsing NeMo Helix configuration file as YAML: jobs.yaml: nested"),
        ],
    )
    def test_not_a_configuration(self, path: Path, content: str, beginning: str) -> None:
        (line,) = faults(path, content)
        assert line.startswith(beginning)

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ("2026-02-31", "'2026-02-31' is no timestamp"),
            ("!!timestamp foo", "'foo' is no timestamp"),
            ("!!bool x", "'x' is no bool"),
            ("!!bool {=: x}", "this is no bool"),
            ("!!int ''", "'' is no int"),
            ("!!float ''", "'' is no float"),
            ("9" * 5000, "'999999999999...9999999999999' is no int"),
        ],
    )
    def test_a_value_that_is_not_of_its_type(self, path: Path, value: str, reason: str) -> None:
        beginning = "Error parsing NeMo Helix configuration file as YAML: jobs.yaml:3: "
        assert faults(path, f"jobs:\n  executors:\n  - profile: {value}\n") == [beginning + reason]

    def test_other_sections_are_not_read(self, path: Path) -> None:
        path.write_text("files: !vault {a: 1, a: 2}\nauth: []\nplatform: {runtime: none}")
        assert load_profiles(path, environ={}, probe=None).runtime == "none"

    def test_repeated_keys(self, path: Path) -> None:
        text = "jobs:\n  executors: []\n  executors: []\nplatform: {runtime: none, runtime: docker}\nplatform: {}\n"
        assert faults(path, text) == [
            "jobs.yaml:5: platform: key is given twice, first in line 4",
            "jobs.yaml:3: jobs.executors: key is given twice, first in line 2",
        ]

    def test_repeated_keys_behind_an_alias_are_told_once(self, path: Path) -> None:
        text = (
            "jobs:\n  executors:\n  - {profile: a, config: &c {num_gpus: 1, num_gpus: 2}}\n"
            "  - {profile: b, config: *c}\n"
        )
        assert faults(path, text) == [
            "jobs.yaml:3: jobs.executors[0].config.num_gpus: key is given twice, first in line 3"
        ]

    def test_an_alias_inside_itself(self, path: Path) -> None:
        assert faults(path, "jobs:\n  executors: &a [*a]\n") == [
            "jobs.yaml:2: jobs.executors[0]: an alias (`*name`) stands inside the value it refers to"
        ]

    def test_aliases_and_merge_keys_work(self, path: Path) -> None:
        path.write_text(
            "base: &base {num_gpus: 2, env: {A: b}}\njobs:\n  executors:\n"
            "  - {profile: a, config: {<<: *base, num_gpus: 3}}\n"
        )
        config = load_profiles(path, environ={}, probe=None).profiles[-1].public()["config"]
        assert (config["num_gpus"], config["env"]) == (3, {"A": "b"})

    def test_a_fault_behind_a_merge_key_has_its_own_line(self, path: Path) -> None:
        text = "base: &base\n  num_gpuss: 2\njobs:\n  executors:\n  - {profile: a, config: {<<: *base}}\n"
        assert faults(path, text) == [
            "jobs.yaml:2: jobs.executors[0].config.num_gpuss: unknown key; did you mean 'num_gpus'?"
        ]


ENTRY = "jobs:\n  executors:\n  - profile: a\n    backend: {backend}\n    config:\n      {config}\n"
KUBERNETES_ENTRY = ENTRY.replace("{backend}", "kubernetes_job")
AT = "jobs.yaml:6: jobs.executors[0].config."


class TestKeys:
    @pytest.mark.parametrize(
        ("content", "line"),
        [
            ("jobs: {executers: []}", "jobs.yaml:1: jobs.executers: unknown key; did you mean 'executors'?"),
            ("jobs: {zzz: []}", "jobs.yaml:1: jobs.zzz: unknown key"),
            ("jobs: {1: 2}", "jobs.yaml:1: jobs.1: Keys should be strings"),
            ("jobs:\n  executors: {}", "jobs.yaml:2: jobs.executors: Input should be a valid list"),
            (
                "jobs: {executor_defaults: {dockr: {}}}",
                "jobs.yaml:1: jobs.executor_defaults.dockr: unknown key; did you mean 'docker'?",
            ),
            (
                "jobs: {executor_defaults: {docker: []}}",
                "jobs.yaml:1: jobs.executor_defaults.docker: Input should be a mapping",
            ),
            (
                "jobs: {executor_defaults: {docker: {storage: {volume: a}}}}",
                "jobs.yaml:1: jobs.executor_defaults.docker.storage.volume: unknown key; did you mean 'volume_name'?",
            ),
            ("jobs: {executors: [text]}", "jobs.yaml:1: jobs.executors[0]: Input should be a mapping"),
            (
                "jobs:\n  executors:\n  - {profil: a, config: {}}",
                "jobs.yaml:3: jobs.executors[0].profil: unknown key; did you mean 'profile'?",
            ),
            (
                "platform: {runtime: bogus}",
                "jobs.yaml:1: platform.runtime: Input should be 'kubernetes', 'docker' or 'none'",
            ),
            (
                "platform: {image_pull_secrets: [{name: a, key: b}]}",
                "jobs.yaml:1: platform.image_pull_secrets[0].key: unknown key",
            ),
            (
                "platform: {docker: {reserved_gpu_device_ids: [0, 1]}}",
                "jobs.yaml:1: platform.docker.reserved_gpu_device_ids: reserved_gpu_device_ids must be a string. "
                "Use 'all', 'none', or comma-separated integers in quotes, such as '0,1'.",
            ),
            (
                "platform: {docker: {reserved_gpu_device_ids: '0,'}}",
                "jobs.yaml:1: platform.docker.reserved_gpu_device_ids: reserved_gpu_device_ids must be 'all', "
                "'none', or comma-separated integers, got: '0,'",
            ),
        ],
    )
    def test_of_the_sections(self, path: Path, content: str, line: str) -> None:
        assert faults(path, content) == [line]

    @pytest.mark.parametrize(
        ("config", "line"),
        [
            ("node_selectr: {}", "node_selectr: unknown key; did you mean 'node_selector'?"),
            (
                "node_selector: {pool: 1}",
                "node_selector.pool: Input should be a valid string; write the value in quotes",
            ),
            (
                "storage: {additional_volume_mounts: [{name: a}]}",
                "storage.additional_volume_mounts[0].mount_path: this key is required",
            ),
            (
                "storage: {additional_volumes: [{name: a, empty_dir: {}, secrt: {}}]}",
                "storage.additional_volumes[0].secrt: unknown key; did you mean 'secret'?",
            ),
            (
                "storage: {additional_volumes: [{name: a, empty_dir: {mediun: a}}]}",
                "storage.additional_volumes[0].empty_dir.mediun: unknown key; did you mean 'medium'?",
            ),
            (
                "storage: {additional_volumes: [{name: a}]}",
                "storage.additional_volumes[0]: Exactly one of 'persistent_volume_claim', 'empty_dir', 'secret', or "
                "'config_map' must be specified.",
            ),
            ("ttl_seconds_active: -1", "ttl_seconds_active: Input should be greater than or equal to 0"),
            (
                "ttl_seconds_active: soon",
                "ttl_seconds_active: Input should be a valid integer, unable to parse string as an integer",
            ),
            ("pause: freeze", "pause: Input should be 'stop'"),
            ("tolerations: [text]", "tolerations[0]: Input should be a valid dictionary"),
            (
                "workload_identity: {token_expiration_seconds: 10}",
                "workload_identity.token_expiration_seconds: Input should be greater than or equal to 600",
            ),
            ("airflow: {que: a}", "airflow.que: unknown key; did you mean 'queue'?"),
            (f"airflow: {{queue: {'q' * 257}}}", "airflow.queue: String should have at most 256 characters"),
            (f"airflow: {{pool: {'q' * 257}}}", "airflow.pool: String should have at most 256 characters"),
            (
                "airflow: {priority_weight: 99999999999}",
                "airflow.priority_weight: Input should be less than or equal to 2147483647",
            ),
            ("resources: {limits: {cpus: '1'}}", "resources.limits.cpus: unknown key; did you mean 'cpu'?"),
            (
                "resources: {shm_size: '1Ki'}",
                "resources.shm_size: shm_size must use a megabyte/gigabyte-scale "
                "suffix: Mi, Gi, M, or G (e.g. '1Gi', '512Mi', '2G').",
            ),
        ],
    )
    def test_of_a_profile(self, path: Path, config: str, line: str) -> None:
        assert faults(path, KUBERNETES_ENTRY.replace("{config}", config)) == [AT + line]

    def test_a_character_that_nothing_can_hold(self, path: Path) -> None:
        entry = '{provider: subprocess, profile: a, backend: subprocess, config: {working_directory: "/tmp/a\\0b"}}'
        line = faults(path, f"jobs:\n  executors:\n    - {entry}\n")[-1]
        assert line.endswith("config: 'working_directory' holds the character NUL (\\u0000)")

    def test_all_are_told_at_once(self, path: Path) -> None:
        text = (
            "platform: {runtime: x}\n"
            "jobs:\n"
            "  schedule_interval_seconds: often\n"
            "  executor_defaults: {docker: {num_gpu: 1}}\n"
            "  executors:\n"
            "  - {profile: a, naem: b, config: {envs: {}}}\n"
            "  - {profile: c, backend: nope}\n"
            "  - {profile: d, config: {num_gpus: many}}\n"
        )
        assert [line.split(": ")[1] for line in faults(path, text)] == [
            "platform.runtime",
            "jobs.schedule_interval_seconds",
            "jobs.executor_defaults.docker.num_gpu",
            "jobs.executors[0].naem",
            "jobs.executors[0].config.envs",
            "jobs.executors[1].backend",
            "jobs.executors[2].config.num_gpus",
        ]


class TestEntries:
    @pytest.mark.parametrize(
        ("entry", "line"),
        [
            (
                "{backend: kubernetes, config: {}}",
                ".backend: unknown backend 'kubernetes', allowed are docker, kubernetes_job, volcano_job, "
                "subprocess; did you mean 'kubernetes_job'?",
            ),
            (
                "{provider: cpu}",
                ": 'backend' is required, one of docker, kubernetes_job, volcano_job, subprocess",
            ),
            ("{backend: 3}", ".backend: Input should be a valid string; write the value in quotes"),
            (
                "{backend: docker}",
                ": 'config' is required with backend 'docker'; write 'config: {}' for its defaults",
            ),
            (
                "{backend: volcano_job, config: }",
                ": 'config' is required with backend 'volcano_job'; write 'config: {}' for its defaults",
            ),
            ("{backend: docker, config: []}", ".config: Input should be a valid dictionary"),
            (
                "{provider: weird, config: {}}",
                ".provider: backend 'docker' does not accept provider 'weird', only cpu, gpu (no 'backend' is "
                "given, so 'docker' is assumed)",
            ),
            (
                "{provider: cpu, backend: volcano_job, config: {}}",
                ".provider: backend 'volcano_job' does not accept provider 'cpu', only gpu_distributed",
            ),
            (
                "{provider: cpu, backend: subprocess}",
                ".provider: backend 'subprocess' does not accept provider 'cpu', only subprocess",
            ),
        ],
    )
    def test_that_cannot_work(self, path: Path, entry: str, line: str) -> None:
        assert faults(path, f"jobs:\n  executors:\n  - {entry}") == [f"jobs.yaml:3: jobs.executors[0]{line}"]

    def test_twice_the_same(self, path: Path) -> None:
        text = (
            "jobs:\n  executors:\n  - {profile: a, config: {}}\n  - {profile: a, backend: kubernetes_job, config: {}}"
        )
        assert faults(path, text) == [
            "jobs.yaml:4: jobs.executors[1]: Duplicate executor profile found for provider 'cpu' and profile 'a'"
        ]


class TestVariables:
    @pytest.mark.parametrize(
        ("variable", "value", "line"),
        [
            (
                "NHX_JOBS_RECONCILE_INTERVAL_SECONDS",
                "x",
                "reconcile_interval_seconds: Input should be a valid integer, unable to parse string as an integer",
            ),
            (
                "NHX_JOBS_SCHEDULE_INTERVAL_SECONDS",
                "1.5",
                "schedule_interval_seconds: Input should be a valid integer, unable to parse string as an integer",
            ),
            (
                "NHX_JOBS_ENABLE_SUBPROCESS_EXECUTOR",
                "perhaps",
                "enable_subprocess_executor: Input should be a valid boolean, unable to interpret input",
            ),
            (
                "NHX_JOBS_INCLUDE_JOB_LOGS_IN_DIAGNOSTICS",
                "perhaps",
                "include_job_logs_in_diagnostics: Input should be a valid boolean, unable to interpret input",
            ),
            (
                "NEMO_JOBS_DEFAULT_DOCKER_STOP_TIMEOUT",
                "-1",
                "graceful_shutdown_timeout_seconds: Input should be greater than or equal to 0",
            ),
            ("NHX_JOBS_EXECUTORS", "[", "not JSON: Expecting value: line 1 column 2 (char 1)"),
            ("NHX_JOBS_EXECUTORS", "{}", "must be a JSON list of profile entries"),
            (
                "NHX_JOBS_EXECUTORS",
                '[{"config": {"num_gpuss": 1}}]',
                "[0].config.num_gpuss: unknown key; did you mean 'num_gpus'?",
            ),
            (
                "NHX_DOCKER_RESERVED_GPU_DEVICE_IDS",
                "0;1",
                "docker.reserved_gpu_device_ids: reserved_gpu_device_ids must be 'all', 'none', or "
                "comma-separated integers, got: '0;1'",
            ),
        ],
    )
    def test_are_named(self, path: Path, variable: str, value: str, line: str) -> None:
        assert faults(path, "platform: {}", {variable: value}) == [f"{variable}: {line}"]
