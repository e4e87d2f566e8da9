"""The engines that profiles name, as this host finds them. Nothing here fails, and none is waited for long."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from nemo_airflow_provider.backends.powers import EngineReport, SupportsProbe
from nemo_airflow_provider.backends.registry import BACKENDS, create_backend
from nemo_airflow_provider.doctor.facts import Engine
from nemo_airflow_provider.errors import BackendError
from nemo_airflow_provider.hooks.site import site_of
from nemo_airflow_provider.profiles import Profile, ProfileSet
from nemo_airflow_provider.service.questions import Questions

#: A person waits, and an engine with much to do is no engine that is gone.
_SECONDS = 10.0
_AT_ONCE = 8


def of(profiles: ProfileSet) -> tuple[Engine, ...]:
    """Every engine that can be asked, once for all profiles that need the same of it."""
    groups: dict[tuple[str, str, bool], list[Profile]] = {}
    for profile in profiles.profiles:
        backend = BACKENDS[profile.backend]
        if backend.provided and backend.has(SupportsProbe):
            backend.load_packages()
            asked = create_backend(profile, site_of(profiles))
            assert isinstance(asked, SupportsProbe), "its class has the power"
            needs = (asked.scope(), str(asked.examined()), profile.gives_gpus)
            groups.setdefault(needs, []).append(profile)
    questions = Questions(wait_seconds=_SECONDS)

    def ask(group: Sequence[Profile]) -> Engine:
        names = tuple(str(profile) for profile in group)
        return Engine(names, _report(group[0], profiles, questions, key=", ".join(names)))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return _merged(list(pool.map(ask, groups.values())))


def _report(profile: Profile, profiles: ProfileSet, questions: Questions, *, key: str) -> EngineReport | str:
    backend = create_backend(profile, site_of(profiles))
    assert isinstance(backend, SupportsProbe), "only such are asked"
    try:
        return questions.ask(
            key, f"the engine ({backend.scope()})", lambda: backend.examine(for_gpus=profile.gives_gpus)
        )
    except BackendError as error:
        return str(error)


def _merged(engines: Sequence[Engine]) -> tuple[Engine, ...]:
    """Of which the same is to be said, that is said once."""
    found: dict[EngineReport | str, tuple[str, ...]] = {}
    for engine in engines:
        found[engine.report] = (*found.get(engine.report, ()), *engine.profiles)
    return tuple(Engine(profiles, report) for report, profiles in found.items())
