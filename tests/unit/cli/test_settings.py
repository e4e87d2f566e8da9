from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nemo_airflow_provider.cli import contextfile
from nemo_airflow_provider.cli.session import Session
from nemo_airflow_provider.cli.show_config import masked
from tests.unit.cli.conftest import Nemo
from tests.unit.cli.fake_server import Answer, FakeServer
from tests.unit.cli.shapes import JOBS, job, page


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    chosen = tmp_path / "contexts.yaml"
    monkeypatch.setenv("NHX_CONFIG_FILE", str(chosen))
    return chosen


def content(base_url: str, **user: Any) -> dict[str, Any]:
    return {
        "current_context": "airflow",
        "clusters": [{"name": "af", "base_url": base_url, "certificate_authority": None}],
        "users": [{"name": "me", **(user or {"type": "no-auth"})}],
        "contexts": [{"name": "airflow", "cluster": "af", "user": "me", "workspace": "team"}],
        "telemetry_enabled": False,
    }


def oauth(**more: Any) -> dict[str, Any]:
    return {"type": "oauth", "token": "stored", **more}


class TestWhereTheFileIs:
    def test_in_order(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = tmp_path / "home/.config/nhx/config.yaml"
        assert contextfile.path() == home
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
        assert contextfile.path() == home
        (tmp_path / "xdg/nhx").mkdir(parents=True)
        assert contextfile.path() == tmp_path / "xdg/nhx/config.yaml"
        monkeypatch.setenv("NHX_CONFIG_FILE", "~/own.yaml")
        assert contextfile.path() == tmp_path / "home/own.yaml"


class TestOrder:
    def test_the_default(self, file: Path) -> None:
        session = Session()
        assert session.base_url.value == "http://localhost:8080"
        assert (session.workspace, session.token) == ("default", None)

    def test_flag_environment_context(
        self, server: FakeServer, nemo: Nemo, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.on("GET", "/apis/jobs/v2/workspaces/team/jobs", Answer(page()))
        server.on("GET", "/apis/jobs/v2/workspaces/env/jobs", Answer(page()))
        file.write_text(yaml.safe_dump(content(server.url, **oauth())))
        tokens = []

        def token_sent(*arguments: str) -> str | None:
            assert nemo(*arguments, "jobs", "list", base_url=None).code == 0
            tokens.append(server.seen[-1].headers.get("authorization"))
            return tokens[-1]

        assert token_sent() == "Bearer stored"
        monkeypatch.setenv("AIRFLOW_CLI_TOKEN", "airflow")
        assert token_sent() == "Bearer airflow"
        monkeypatch.setenv("NHX_ACCESS_TOKEN", "environment")
        monkeypatch.setenv("NHX_WORKSPACE", "env")
        assert token_sent() == "Bearer environment"
        assert token_sent("--access-token", "flag") == "Bearer flag"
        monkeypatch.setenv("NHX_BASE_URL", "http://127.0.0.1:1")
        assert nemo("jobs", "list", base_url=None).code == 3
        assert token_sent("--base-url", server.url) == "Bearer environment"

    def test_a_prefix_in_the_url(self, server: FakeServer, nemo: Nemo) -> None:
        server.on("GET", "/airflow" + JOBS, Answer(page()))
        assert nemo("jobs", "list", base_url=server.url + "/airflow/").code == 0

    def test_a_stored_token_goes_to_its_own_server_only(self, server: FakeServer, nemo: Nemo, file: Path) -> None:
        file.write_text(yaml.safe_dump(content("https://airflow.example", **oauth())))
        server.on("GET", "/apis/jobs/v2/workspaces/team/jobs", Answer({"detail": "no"}, 401))
        result = nemo("jobs", "list")
        assert "authorization" not in server.seen[0].headers
        assert "is for https://airflow.example and was not sent" in result.err

    def test_an_expired_token_is_not_sent(self, server: FakeServer, nemo: Nemo, file: Path) -> None:
        file.write_text(yaml.safe_dump(content(server.url, **oauth(expires_at=1.0))))
        result = nemo("jobs", "list", base_url=None)
        assert result.err.startswith("Error: Access token has expired and no refresh token is available. ")
        assert "nemo login" in result.err
        assert (result.code, server.seen) == (1, [])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a: [", "is not YAML"),
            ("a: 2026-02-31", "is not YAML: a value in it cannot be read (ValueError: day "),
            ("a: !!bool x", "is not YAML"),
            ("a: !!int ''", "is not YAML"),
            ("a: !!timestamp foo", "is not YAML"),
            ("[" * 9000, "is not YAML"),
            ("[]", "must hold a mapping"),
            ("current_context: x", "Context 'x' not found in"),
        ],
    )
    def test_a_file_that_makes_no_sense(self, nemo: Nemo, file: Path, text: str, message: str) -> None:
        file.write_text(text)
        result = nemo("jobs", "list")
        assert message in result.err
        assert (result.code, result.out) == (1, "")

    def test_an_unknown_context(self, nemo: Nemo, file: Path) -> None:
        file.write_text(yaml.safe_dump(content("http://x")))
        result = nemo("--context", "nope", "jobs", "list")
        assert result.err == f"Error: Context 'nope' not found in {file}. Available contexts: airflow\n"
        assert result.code == 1

    def test_preferences_and_their_variables(
        self, server: FakeServer, nemo: Nemo, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.on("GET", JOBS, Answer(page(job(description="d" * 60))))
        stored = content(server.url)
        stored["contexts"][0] |= {
            "workspace": "default",
            "preferences": {"output_format": "csv", "truncate": False, "timestamp_format": "relative"},
        }
        file.write_text(yaml.safe_dump(stored))
        row = nemo("jobs", "list").out.splitlines()[1]
        assert "d" * 60 in row
        assert row.endswith(("ago", "in 0s")) or ",in " in row
        monkeypatch.setenv("NHX_TRUNCATE", "true")
        monkeypatch.setenv("NHX_TIMESTAMP_FORMAT", "iso8601")
        row = nemo("jobs", "list").out.splitlines()[1]
        assert "d" * 47 + "...,completed,2026-12-01T" in row
        monkeypatch.setenv("NHX_OUTPUT_FORMAT", "raw")
        assert nemo("jobs", "list").out.startswith('{"data": ')
        monkeypatch.setenv("NHX_OUTPUT_FORMAT", "xml")
        assert "NHX_OUTPUT_FORMAT" in nemo("jobs", "list").err

    def test_no_colour(self, server: FakeServer, on_terminal: Nemo, monkeypatch: pytest.MonkeyPatch) -> None:
        assert on_terminal("jobs", "get", "x").err.startswith("\x1b[31m")
        monkeypatch.setenv("NHX_COLOR_OUTPUT", "false")
        assert "\x1b" not in on_terminal("jobs", "get", "x").err
        monkeypatch.setenv("NHX_COLOR_OUTPUT", "true")
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in on_terminal("jobs", "get", "x").err
        monkeypatch.setenv("NHX_COLOR_OUTPUT", "maybe")
        server.on("GET", JOBS, Answer(page(job())))
        result = on_terminal("jobs", "list")
        assert result.err == "Error: NHX_COLOR_OUTPUT is 'maybe'; it must be true or false\n"
        assert result.code == 1


class TestLogin:
    def test_with_a_password(self, server: FakeServer, nemo: Nemo, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import io

        token = jwt(exp=4102444800)
        server.on("POST", "/auth/token/cli", Answer({"access_token": token}, 201))
        monkeypatch.setattr("sys.stdin", io.StringIO("pa ss\nmore"))
        result = nemo("login", "--username", "ann", "--password-stdin")
        assert (result.code, result.out) == (0, "")
        assert server.seen[0].json() == {"username": "ann", "password": "pa ss"}
        assert yaml.safe_load(file.read_text()) == {
            "contexts": [{"name": "default", "workspace": "default", "cluster": "default", "user": "default"}],
            "clusters": [{"name": "default", "base_url": server.url}],
            "users": [{"name": "default", "type": "oauth", "token": token, "expires_at": 4102444800.0}],
            "current_context": "default",
        }
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "valid until 2100-01-01" in result.err

        server.on("GET", JOBS, Answer(page()))
        assert nemo("jobs", "list", base_url=None).code == 0
        assert server.seen[-1].headers["authorization"] == f"Bearer {token}"

    def test_where_everybody_is_admin(self, server: FakeServer, nemo: Nemo, file: Path) -> None:
        server.on("GET", "/auth/token", Answer({"access_token": "t"}, 201))
        assert nemo("login").code == 0
        assert yaml.safe_load(file.read_text())["users"][0]["token"] == "t"

    def test_a_wrong_password(
        self, server: FakeServer, nemo: Nemo, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import io

        server.on("POST", "/auth/token/cli", Answer({"detail": "Invalid credentials"}, 401))
        monkeypatch.setattr("sys.stdin", io.StringIO("x\n"))
        result = nemo("login", "-u", "ann", "--password-stdin")
        assert result.err == ("Authentication error: (401) Invalid credentials\nHint: Check user name and password.\n")
        assert (result.code, file.exists()) == (3, False)

    def test_nobody_to_ask(self, server: FakeServer, nemo: Nemo, file: Path) -> None:
        result = nemo("login")
        assert "--password-stdin" in result.err
        assert result.code == 2

    def test_a_password_stays_off_cleartext(self, nemo: Nemo, monkeypatch: pytest.MonkeyPatch) -> None:
        import io

        monkeypatch.setattr("sys.stdin", io.StringIO("x\n"))
        result = nemo("login", "-u", "ann", "--password-stdin", base_url="http://airflow.example")
        assert "cleartext remote endpoint" in result.err
        assert result.code == 1

    @pytest.mark.parametrize("status", [302, 307])
    def test_a_password_is_not_sent_on_by_a_redirect(
        self, server: FakeServer, nemo: Nemo, file: Path, monkeypatch: pytest.MonkeyPatch, status: int
    ) -> None:
        import io

        monkeypatch.setattr("sys.stdin", io.StringIO("x\n"))
        with FakeServer().running() as other:
            target = f"{other.url}/auth/token/cli"
            server.on("POST", "/auth/token/cli", Answer(status=status, headers={"location": target}))
            result = nemo("login", "-u", "ann", "--password-stdin")
        assert result.err.startswith(
            f"API response error: the server redirects to {target}, where this may not be sent"
        )
        assert (result.code, other.seen, file.exists()) == (3, [], False)

    def test_a_password_in_the_url_is_not_shown(self, server: FakeServer, nemo: Nemo, file: Path) -> None:
        server.on("GET", "/auth/token", Answer({"access_token": "t"}, 201))
        result = nemo("login", base_url=server.url.replace("//", "//ann:s3cret@"))
        assert result.code == 0
        assert "s3cret" not in result.err

    def test_a_context_that_is_new(self, server: FakeServer, nemo: Nemo, file: Path) -> None:
        file.write_text(yaml.safe_dump(content("https://airflow.example", **oauth())))
        server.on("GET", "/auth/token", Answer({"access_token": "t"}, 201))
        result = nemo("--context", "local", "login")
        assert result.code == 0
        assert "nemo --context local" in result.err
        written = yaml.safe_load(file.read_text())
        assert written["current_context"] == "airflow"
        assert written["users"][0] == {"name": "me", **oauth()}
        assert contextfile.select(written, "local", file).cluster["base_url"] == server.url  # type: ignore[union-attr]


def jwt(**claims: Any) -> str:
    import base64

    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.sig"


names = st.sampled_from(["a", "b", "c"])
free = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def record(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda given, extra: {**{f"x-{key}": value for key, value in extra.items()}, **given},
        st.fixed_dictionaries({"name": names, **known}),
        st.dictionaries(st.text(max_size=3), free, max_size=2),
    )


def section(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(record(**known), max_size=3, unique_by=lambda item: item["name"])


files = st.builds(
    lambda extra, sections: {**{f"x-{key}": value for key, value in extra.items()}, **sections},
    st.dictionaries(st.text(max_size=3), free, max_size=2),
    st.fixed_dictionaries(
        {
            "contexts": section(cluster=names, user=names),
            "clusters": section(base_url=st.sampled_from(["https://one", "https://two"])),
            "users": section(type=st.sampled_from(["no-auth", "oauth"]), token=st.just("old")),
        }
    ),
)


class TestMerge:
    @settings(max_examples=80, deadline=None)
    @given(before=files, name=names)
    def test_a_login_changes_its_context_and_nothing_else(self, before: dict[str, Any], name: str) -> None:
        file = Path("config.yaml")
        after = json.loads(json.dumps(before))
        contextfile.store_login(after, name, base_url="https://two", token="new", expires_at=None)
        selected = contextfile.select(after, name, file)
        assert selected is not None
        assert selected.cluster["base_url"] == "https://two"
        assert (selected.user["type"], selected.user["token"]) == ("oauth", "new")
        for other in contextfile.records(before, "contexts"):
            if other["name"] == name:
                continue
            was = contextfile.select(before, other["name"], file)
            now = contextfile.select(after, other["name"], file)
            assert was is not None
            assert now is not None
            assert was.context == now.context
            assert not was.cluster or was.cluster == now.cluster
            assert not was.user or was.user == now.user
        for key, value in before.items():
            if key.startswith("x-"):
                assert after[key] == value
        for key, value in (contextfile.find(before, "contexts", name) or {}).items():
            if key not in ("cluster", "user"):
                assert selected.context[key] == value

    @settings(max_examples=40, deadline=None)
    @given(before=files)
    @example(before={"x-\x85": "\x85 ä"})
    def test_what_is_saved_is_loaded(self, before: dict[str, Any]) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "deep/config.yaml"
            contextfile.save(file, before)
            assert contextfile.load(file) == before
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert os.listdir(file.parent) == ["config.yaml"]

    def test_a_link_is_written_through(self, tmp_path: Path) -> None:
        link = tmp_path / "link.yaml"
        link.symlink_to(tmp_path / "real.yaml")
        contextfile.save(link, {"a": 1})
        assert link.is_symlink()
        assert contextfile.load(tmp_path / "real.yaml") == {"a": 1}

    def test_a_place_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(contextfile.ContextFileError, match="Cannot write the context file"):
            contextfile.save(tmp_path / "file/config.yaml", {})


class TestView:
    def test_secrets_are_hidden(self, server: FakeServer, nemo: Nemo, file: Path) -> None:
        stored = content("https://u:pw@airflow.example/x", **oauth(refresh_token="r", expires_at=5))
        file.write_text(yaml.safe_dump(stored))
        out = nemo("config", "view", base_url=None).out
        assert not {"stored", "pw"} & set(out.replace('"', " ").split())
        answer = json.loads(out)
        assert answer["base_url"] == "https://airflow.example/x"
        assert answer["token"] == "context 'airflow'"
        assert answer["file"]["users"] == [
            {"expires_at": 5, "name": "me", "refresh_token": "***", "token": "***", "type": "oauth"}
        ]

    def test_at_any_depth(self) -> None:
        assert masked({"a": [{"api_key": "x", "token": None, "deep": {"client_secret": ["y", 1]}}]}) == {
            "a": [{"api_key": "***", "token": None, "deep": {"client_secret": ["***", "***"]}}]
        }
