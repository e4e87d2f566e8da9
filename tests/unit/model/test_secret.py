from __future__ import annotations

import pytest

from nemo_airflow_provider.model.secret import SecretName, secret_of


@pytest.mark.parametrize(
    ("reference", "secret"),
    [
        ("hf-token", SecretName("default", "hf-token")),
        ("HF_Token-2", SecretName("default", "HF_Token-2")),
        ("default/hf-token", SecretName("default", "hf-token")),
        ("shared/hf-token", SecretName("shared", "hf-token")),
        ("x" * 63, SecretName("default", "x" * 63)),
        ("x" * 64, None),
        ("", None),
        ("/", None),
        ("/hf-token", None),
        ("shared/", None),
        ("Shared/hf-token", None),
        ("a/b/c", None),
        ("shared.hf-token", None),
        ("hf token", None),
        ("hf-token\n", None),
        ("shared\n/hf-token", None),
        ("../hf-token", None),
    ],
)
def test_references(reference: str, secret: SecretName | None) -> None:
    assert secret_of(reference, "default") == secret


def test_names() -> None:
    secret = SecretName("shared", "hf-token")
    assert (secret.variable, str(secret)) == ("nemo_secret.shared.hf-token", "shared/hf-token")
