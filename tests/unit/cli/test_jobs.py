from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Nemo
from tests.unit.cli.fake_server import Answer, FakeServer, Seen, detail
from tests.unit.cli.shapes import JOBS, PLATFORM_SPEC, PROFILES, job, page, status, step, task

JOB = f"{JOBS}/pz-1"
BODY = ("--source", "probe", "--spec", "{}", "--platform-spec", json.dumps(PLATFORM_SPEC))
BAD_NAME = (
    r"String should match pattern '^[a-z](?!.*--)[a-z0-9\-@.+_]{1,62}(?<!-)$' (2 to 63 characters: a lower-case "
    "letter, then lower-case letters, digits, - @ . + _; no --, and no - at the end)"
)


class TestList:
    def test_a_table_as_the_contract_draws_it(self, server: FakeServer, nemo: Nemo) -> None:
        row = job(created_at="2026-12-01T10:38:53.471518")
        server.on("GET", JOBS, Answer(page(row)))
        result = nemo("jobs", "list", "-f", "table")
        assert result.out == (
            "┏━━━━━━┳━━━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓\n"
            "┃ name ┃ description ┃ status    ┃ created_at                 ┃\n"
            "┡━━━━━━╇━━━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━┩\n"
            "│ pz-1 │             │ completed │ 2026-12-01T10:38:53.471518 │\n"
            "└──────┴─────────────┴───────────┴────────────────────────────┘\n"
        )
        assert result.err == "Warnings:\n  • Use --no-truncate to see full values.\n"
        assert result.code == 0

    def test_json_when_nobody_looks_a_table_when_somebody_does(
        self, server: FakeServer, nemo: Nemo, on_terminal: Nemo
    ) -> None:
        server.on("GET", JOBS, Answer(page(job())))
        assert json.loads(nemo("jobs", "list").out)["data"][0]["name"] == "pz-1"
        assert on_terminal("jobs", "list").out.startswith("┏━")

    def test_keys_that_the_server_leaves_out_are_null(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", JOBS, Answer(page(job())))
        assert json.loads(nemo("jobs", "list").out)["data"] == [job()]

    def test_an_empty_table_says_so(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", JOBS, Answer(page()))
        result = nemo("jobs", "list", "-f", "table")
        assert (result.out, result.err) == ("No data to display\n", "")
        assert nemo("jobs", "list", "-f", "csv").out == "name,description,status,created_at\n"

    def test_long_text_is_cut_names_are_not(self, server: FakeServer, nemo: Nemo) -> None:
        long_name = "n" * 60
        server.on("GET", JOBS, Answer(page(job(long_name, description="d" * 51))))
        columns = ("-f", "csv", "-c", "name,description")
        assert nemo("jobs", "list", *columns).out.splitlines()[1] == f"{long_name},{'d' * 47}..."
        whole = f"{long_name},{'d' * 51}"
        assert nemo("jobs", "list", *columns, "--no-truncate").out.splitlines()[1] == whole
        assert nemo("--no-truncate", "jobs", "list", *columns).out.splitlines()[1] == whole

    def test_markdown(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", JOBS, Answer(page(job(description="a|b"))))
        assert nemo("jobs", "list", "-f", "markdown", "-c", "name,description,spec").out == (
            "| name | description | spec |\n| ---- | ----------- | ---- |\n| pz-1 | a\\|b        | {}   |\n"
        )

    def test_raw_is_one_line_and_yaml_is_yaml(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", JOBS, Answer(page(job())))
        raw = nemo("jobs", "list", "-f", "raw").out
        assert raw.count("\n") == 1
        assert json.loads(raw) == yaml.safe_load(nemo("jobs", "list", "-f", "yaml").out)

    def test_all_columns_are_the_jobs_keys(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", JOBS, Answer(page(job())))
        assert nemo("jobs", "list", "-f", "csv", "-c", "all").out.splitlines()[0] == ",".join(job())

    def test_code_asks_nobody_and_shows_no_token(
        self, server: FakeServer, nemo: Nemo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NHX_ACCESS_TOKEN", "s3cret")
        result = nemo("jobs", "list", "--filter.status", "error", "-f", "code")
        compile(result.out, "snippet", "exec")
        assert "jobs.list_jobs(filter={'status': 'error'})" in result.out
        assert "s3cret" not in result.out
        assert server.seen == []

    @pytest.mark.parametrize(
        ("options", "filter"),
        [
            (("--filter.status", "error"), {"status": "error"}),
            (("--filter.status", "error", "--filter.status", "paused"), {"status": ["error", "paused"]}),
            (("--filter", '{"name": "x", "source": "y"}', "--filter.name", "z"), {"name": "z", "source": "y"}),
            (("--filter", 'status:"completed"'), 'status:"completed"'),
            ((), None),
        ],
    )
    def test_filters(self, server: FakeServer, nemo: Nemo, options: tuple[str, ...], filter: object) -> None:
        server.on("GET", JOBS, Answer(page()))
        assert nemo("jobs", "list", *options).code == 0
        sent = server.seen[0].query.get("filter")
        if filter is None:
            assert sent is None
        else:
            assert sent is not None
            assert (sent[0] if isinstance(filter, str) else json.loads(sent[0])) == filter

    def test_a_bad_filter_is_a_usage_error(self, server: FakeServer, nemo: Nemo) -> None:
        result = nemo("jobs", "list", "--filter", "{bad")
        assert result.err.startswith("Error: Invalid filter JSON: ")
        assert "Examples: " in result.err
        assert (result.code, server.seen) == (2, [])
        assert nemo("jobs", "list", "--filter", "name:a", "--filter.name", "b").code == 2

    def test_a_status_that_no_job_has_is_a_usage_error(self, server: FakeServer, nemo: Nemo) -> None:
        result = nemo("jobs", "list", "--filter.status", "error", "--filter.status", "complete")
        assert result.err.splitlines()[0] == (
            "Error: Invalid value for '--filter.status': 'complete' is not one of 'created', 'pending', 'active', "
            "'completed', 'error', 'cancelling', 'cancelled', 'pausing', 'paused', 'resuming'."
        )
        assert (result.code, server.seen) == (2, [])

    def test_page_options_travel(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", "/apis/jobs/v2/workspaces/team/jobs", Answer(page()))
        nemo("jobs", "list", "--workspace", "team", "--page", "2", "--page-size", "5", "--sort", "-source")
        assert server.seen[0].query == {"page": ["2"], "page_size": ["5"], "sort": ["-source"]}


class TestPages:
    @pytest.fixture
    def pages(self, server: FakeServer) -> FakeServer:
        def answer(seen: Seen) -> Answer:
            number = int(seen.query.get("page", ["1"])[0])
            return Answer(page(job(f"job-{number}"), number=number, pages=3, total=3))

        return server.on("GET", JOBS, answer)

    def test_a_further_page_is_told(self, pages: FakeServer, nemo: Nemo) -> None:
        assert nemo("jobs", "list").err == (
            "Warnings:\n  • More pages of results are available! Use --all-pages to fetch all results.\n"
        )

    def test_all_pages_are_one(self, pages: FakeServer, nemo: Nemo) -> None:
        result = nemo("jobs", "list", "--all-pages", "--filter.name", "job")
        answer = json.loads(result.out)
        assert [row["name"] for row in answer["data"]] == ["job-1", "job-2", "job-3"]
        assert answer["pagination"] == {
            "page": 1,
            "page_size": 10,
            "current_page_size": 3,
            "total_pages": 1,
            "total_results": 3,
        }
        assert result.err == ""
        assert all(seen.query["filter"] == ['{"name": "job"}'] for seen in pages.seen)

    def test_a_stream_is_an_object_a_line(self, pages: FakeServer, nemo: Nemo) -> None:
        lines = nemo("jobs", "list", "--all-pages", "--stream").out.splitlines()
        assert [json.loads(line)["name"] for line in lines] == ["job-1", "job-2", "job-3"]
        assert lines[0].startswith('{"id":"platform-job-job-1",')

    def test_a_stream_is_json_only(self, pages: FakeServer, nemo: Nemo) -> None:
        result = nemo("jobs", "list", "--stream", "-f", "csv")
        assert (result.code, pages.seen) == (2, [])


class TestEntities:
    def test_the_job_with_its_nulls(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", JOB, Answer(job()))
        result = nemo("jobs", "get", "pz-1")
        assert result.out == json.dumps(job(), indent=2) + "\n"
        assert (result.err, result.code) == ("", 0)

    def test_a_table_asked_for_here_is_refused_in_general_it_is_json(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", JOB, Answer(job()))
        refused = nemo("jobs", "get", "pz-1", "-f", "table")
        assert refused.code == 2
        assert refused.err.startswith("Error: Invalid value for '--output-format'")
        assert json.loads(nemo("-f", "table", "jobs", "get", "pz-1").out)["name"] == "pz-1"
        assert yaml.safe_load(nemo("-f", "yaml", "jobs", "get", "pz-1").out)["name"] == "pz-1"

    @pytest.mark.parametrize(
        ("arguments", "method", "path", "answer"),
        [
            (("jobs", "get-status", "pz-1"), "GET", f"{JOB}/status", status()),
            (("jobs", "cancel", "pz-1"), "POST", f"{JOB}/cancel", job(status="cancelling")),
            (("jobs", "pause", "pz-1"), "POST", f"{JOB}/pause", job(status="pausing")),
            (("jobs", "resume", "pz-1"), "POST", f"{JOB}/resume", job(status="resuming")),
            (("jobs", "steps", "get", "s-one", "--job", "pz-1"), "GET", f"{JOB}/steps/s-one", step()),
            (
                ("jobs", "tasks", "get", "t-1", "--job", "pz-1", "--step", "s-one"),
                "GET",
                f"{JOB}/steps/s-one/tasks/t-1",
                task(),
            ),
        ],
    )
    def test_the_answer_is_printed(
        self,
        server: FakeServer,
        nemo: Nemo,
        arguments: tuple[str, ...],
        method: str,
        path: str,
        answer: dict[str, object],
    ) -> None:
        server.on(method, path, Answer(answer))
        assert json.loads(nemo(*arguments).out) == answer
        assert server.requests() == [(method, path)]

    @pytest.mark.parametrize(
        ("verb", "state", "words"),
        [
            ("cancel", "error", "has ended (error): there is nothing to cancel."),
            ("pause", "completed", "has ended (completed): there is nothing to pause."),
            ("resume", "cancelled", "has ended (cancelled): there is nothing to resume."),
            ("resume", "active", "is active, not paused: there is nothing to resume."),
        ],
    )
    def test_a_request_that_does_not_concern_the_job(
        self, server: FakeServer, nemo: Nemo, verb: str, state: str, words: str
    ) -> None:
        server.on("POST", f"{JOB}/{verb}", Answer(job(status=state)))
        result = nemo("jobs", verb, "pz-1")
        assert (json.loads(result.out)["status"], result.code) == (state, 0)
        assert result.err == f"Job 'pz-1' {words}\n"

    def test_delete(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("DELETE", JOB, Answer(status=204))
        result = nemo("jobs", "delete", "pz-1")
        assert (result.out, result.code) == ("✓ Deleted successfully\n", 0)

    def test_odd_names_stay_one_part_of_the_path(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", f"{JOBS}/a@b+c", Answer(job("a@b+c")))
        assert nemo("jobs", "get", "a@b+c").code == 0
        nemo("jobs", "get", "../../x?y")
        assert server.seen[-1].path == f"{JOBS}/..%2F..%2Fx%3Fy"
        assert nemo("jobs", "get", "..").code == 2
        assert nemo("jobs", "delete", "").code == 2
        assert len(server.seen) == 2


class TestOtherLists:
    def test_profiles(self, server: FakeServer, nemo: Nemo) -> None:
        rows = [{"provider": "cpu", "profile": "default", "backend": "docker", "config": {"a": 1}}]
        server.on("GET", PROFILES, Answer(rows))
        assert json.loads(nemo("jobs", "list-execution-profiles").out) == rows
        csv = nemo("jobs", "list-execution-profiles", "-f", "csv").out
        assert csv == 'profile,backend,provider,config\ndefault,docker,cpu,"{""a"": 1}"\n'

    def test_steps_and_tasks(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", f"{JOB}/steps", Answer(page(step())))
        server.on("GET", f"{JOB}/steps/s-one/tasks", Answer({"data": [task()]}))
        steps = nemo("jobs", "steps", "list", "pz-1", "-f", "csv", "--filter.source", "x").out
        header, created = "name,workspace,status,created_at", "2026-12-01T10:38:53.471518+00:00"
        assert steps == f"{header}\ns-one,default,completed,{created}\n"
        assert server.seen[0].query == {"filter": ['{"source": "x"}']}
        tasks = ("jobs", "tasks", "list", "s-one", "--job", "pz-1")
        assert json.loads(nemo(*tasks).out) == {"data": [task()]}
        assert nemo(*tasks, "-f", "csv").out == f"{header}\ntask-c5cb00000000,default,completed,{created}\n"


class TestCreate:
    def test_options_are_the_body(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("POST", JOBS, Answer(job(status="created"), 201))
        result = nemo("jobs", "create", "pz-1", *BODY, "--description", "d")
        assert json.loads(result.out) == job(status="created")
        assert server.seen[0].json() == {
            "name": "pz-1",
            "platform_spec": PLATFORM_SPEC,
            "source": "probe",
            "spec": {},
            "description": "d",
        }

    def test_options_win_over_data_over_file(self, server: FakeServer, nemo: Nemo, tmp_path: Path) -> None:
        server.on("POST", JOBS, Answer(job(), 201))
        file = tmp_path / "job.yaml"
        file.write_text(
            yaml.safe_dump({"name": "from-file", "source": "file", "project": "file", "platform_spec": PLATFORM_SPEC})
        )
        result = nemo(
            *("jobs", "create", "from-flag", "-i", str(file)),
            *("--input-data", "spec: {when: 2026-01-02}\nproject: data"),
        )
        assert result.code == 0
        assert server.seen[0].json() == {
            "name": "from-flag",
            "source": "file",
            "project": "data",
            "spec": {"when": "2026-01-02"},
            "platform_spec": PLATFORM_SPEC,
        }

    def test_stdin(self, server: FakeServer, nemo: Nemo, monkeypatch: pytest.MonkeyPatch) -> None:
        import io

        server.on("POST", JOBS, Answer(job(), 201))
        text = json.dumps({"spec": {}, "source": "s"})
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert nemo("jobs", "create", "--input-file", "-", *BODY[-2:]).code == 0
        assert server.seen[0].json()["source"] == "s"

    @pytest.mark.parametrize(
        ("arguments", "first_line"),
        [
            (("--input-file", "/nowhere/job.yaml"), "Error: Cannot read --input-file /nowhere/job.yaml: No such"),
            (("--input-data", "[1, 2]"), "Error: --input-data must be a JSON or YAML object, not a list."),
            (
                ("--input-data", "{a: 2026-02-31}"),
                "Error: --input-data is neither JSON nor YAML: a value in it cannot ",
            ),
            (("--spec", "[" * 9000), "Error: --spec is neither JSON nor YAML: "),
            (("--spec", "{bad"), "Error: --spec is neither JSON nor YAML: while parsing a flow mapping"),
            (("--spec", "{a: .nan}"), "Error: --spec holds something that JSON cannot express: "),
            (("--spec", "&a {b: *a}"), "Error: --spec cannot be used: the alias *a in line 1 stands inside "),
            (("--wait", "--watch"), "Error: Cannot combine --wait and --watch."),
            ((), "Error: Missing required options:"),
            (("--timeout", "0", *BODY), "Error: Invalid value for '--timeout'"),
        ],
    )
    def test_refused_before_it_is_sent(
        self, server: FakeServer, nemo: Nemo, arguments: tuple[str, ...], first_line: str
    ) -> None:
        result = nemo("jobs", "create", "pz-1", *arguments)
        assert result.err.startswith(first_line)
        assert (result.code, result.out, server.seen) == (2, "", [])

    def test_what_is_missing(self, nemo: Nemo) -> None:
        assert nemo("jobs", "create", "--spec", "{}").err == (
            "Error: Missing required options:\n"
            "  --platform-spec JSON  the job's steps\n"
            "  --source TEXT         where the job comes from\n"
            "Hint: Provide via CLI flags or --input-file/--input-data.\n"
        )

    def test_the_bodys_own_check(self, server: FakeServer, nemo: Nemo) -> None:
        bad_name = nemo("jobs", "create", "Bad_Name", *BODY)
        assert bad_name.err == f"Invalid input:\n  name  {BAD_NAME}\n"
        bad_step = nemo("jobs", "create", "pz-1", *BODY[:-1], BODY[-1].replace("s-one", "S-One"))
        assert bad_step.err == f"Invalid input:\n  platform_spec.steps.0.name  {BAD_NAME}\n"
        no_steps = nemo("jobs", "create", "pz-1", *BODY[:-1], '{"steps": []}')
        assert no_steps.err == (
            "Invalid input:\n  platform_spec  Value error, At least one step is required in the job specification.\n"
        )
        assert (bad_name.code, no_steps.code, server.seen) == (2, 2, [])

    @pytest.mark.parametrize(
        ("step", "problem"),
        [
            (
                "{name: one, executer: {}}",
                "executor  Field required (did you mean 'executor' for 'executer'?)",
            ),
            (
                "{name: one, executor: {provider: cpu, contaner: {}}}",
                "executor.cpu.container  Field required (did you mean 'container' for 'contaner'?)",
            ),
            ("{name: one, executor: {provider: cpu}}", "executor.cpu.container  Field required"),
            (
                "{name: one, executor: {provder: cpu}}",
                "executor  Unable to extract tag using discriminator 'provider' "
                "(did you mean 'provider' for 'provder'?)",
            ),
            (
                "{name: one, executor: {profile: cpu}}",
                "executor  Unable to extract tag using discriminator 'provider'",
            ),
        ],
    )
    def test_a_misspelt_key_is_told_with_the_right_one(self, nemo: Nemo, step: str, problem: str) -> None:
        body = "{source: s, spec: {}, platform_spec: {steps: [" + step + "]}}"
        result = nemo("jobs", "create", "pz-1", "--input-data", body)
        assert result.err == f"Invalid input:\n  platform_spec.steps.0.{problem}\n"

    def test_a_misspelt_key_that_a_rule_of_its_own_asks_for(self, nemo: Nemo) -> None:
        step = "{name: one, executor: {provider: subprocess, comand: [x]}}"
        result = nemo(
            "jobs", "create", "a1", "--input-data", f"source: s\nspec: {{}}\nplatform_spec: {{steps: [{step}]}}"
        )
        assert result.err == (
            "Invalid input:\n  platform_spec.steps.0.executor.subprocess.command  Value error, subprocess execution "
            "requires command to be set (did you mean 'command' for 'comand'?)\n"
        )

    def test_a_file_in_the_place_of_the_name(self, nemo: Nemo, tmp_path: Path) -> None:
        file = tmp_path / "job.yaml"
        file.write_text("{}")
        result = nemo("jobs", "create", str(file))
        assert result.err == f"Error: '{file}' is a file, not a name. Did you mean --input-file {file}?\n"
        assert result.code == 2

    @pytest.mark.parametrize("prefix", ["", "@"])
    def test_a_file_in_the_place_of_json(self, nemo: Nemo, tmp_path: Path, prefix: str) -> None:
        file = tmp_path / "job.yaml"
        file.write_text("{}")
        result = nemo("jobs", "create", "pz-1", "--platform-spec", prefix + str(file))
        assert result.err == (
            f'Error: --platform-spec takes the JSON itself, not a file: --platform-spec "$(cat {file})". '
            "A file with the whole job goes to --input-file.\n"
        )
        assert result.code == 2

    def test_a_misspelt_key_at_the_top(self, nemo: Nemo) -> None:
        body = "{source: s, spec: {}, platfrom_spec: {steps: []}}"
        assert nemo("jobs", "create", "pz-1", "--input-data", body).err.splitlines()[1] == (
            "  --platform-spec JSON  the job's steps (did you mean 'platform_spec' for 'platfrom_spec'?)"
        )

    def test_a_file_that_is_no_yaml_is_named(self, nemo: Nemo, tmp_path: Path) -> None:
        file = tmp_path / "job.yaml"
        file.write_text("a: 1\nb: [\n")
        told = nemo("jobs", "create", "--input-file", str(file)).err
        assert f'in "{file}", line ' in told
        assert "unicode string" not in told
        assert 'in "--input-data", line ' in nemo("jobs", "create", "--input-data", "a: [").err

    def test_code_creates_nothing(self, server: FakeServer, nemo: Nemo) -> None:
        result = nemo("jobs", "create", "pz-1", *BODY, "-f", "code")
        compile(result.out, "snippet", "exec")
        assert server.seen == []

    def test_a_taken_name(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("POST", JOBS, detail(409, "Job 'pz-1' already exists.", x_should_retry="false"))
        result = nemo("jobs", "create", "pz-1", *BODY)
        assert result.err.splitlines()[0] == "Conflict: (409) Job 'pz-1' already exists."
        assert (result.code, len(server.seen)) == (3, 1)

    @pytest.mark.parametrize(
        ("last", "code", "end"),
        [
            ("completed", 0, "✓ Job completed!"),
            ("error", 1, "✗ Job entered error state"),
            ("paused", 1, "✗ Job entered paused state"),
        ],
    )
    def test_wait_leaves_stdout_to_the_job(
        self, server: FakeServer, nemo: Nemo, last: str, code: int, end: str
    ) -> None:
        server.on("POST", JOBS, Answer(job(status="created"), 201))
        server.on("GET", f"{JOB}/status", *(Answer(status(status=s)) for s in ("pending", "active", last)))
        result = nemo("jobs", "create", "pz-1", *BODY, "--wait", "-f", "json")
        assert json.loads(result.out) == job(status="created")
        lines = result.err.splitlines()
        assert lines[0] == "Waiting for job 'pz-1' to complete"
        assert [line.split("Status: ")[1] for line in lines[1:-1]] == ["pending", "active", last]
        assert (lines[-1], result.code) == (end, code)

    def test_wait_for_a_job_that_is_gone(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("POST", JOBS, Answer(job(status="created"), 201))
        result = nemo("jobs", "create", "pz-1", *BODY, "--wait")
        assert (result.err.splitlines()[-1], result.code) == ("✗ Job not found", 1)

    def test_watch_shows_lines_on_stderr(self, server: FakeServer, nemo: Nemo) -> None:
        from tests.unit.cli.shapes import line, logs

        server.on("POST", JOBS, Answer(job(status="created"), 201))
        server.on("GET", f"{JOB}/status", Answer(status()))
        server.on("GET", f"{JOB}/logs", Answer(logs(line("hi"))))
        result = nemo("jobs", "create", "pz-1", *BODY, "--watch", "-f", "raw")
        assert json.loads(result.out)["name"] == "pz-1"
        assert [text.split("] ", 1)[-1] for text in result.err.splitlines()] == [
            "s-one/task-c5cb00000000 | hi",
            "Status: completed",
            "Job 'pz-1' completed",
        ]
        assert result.code == 0
