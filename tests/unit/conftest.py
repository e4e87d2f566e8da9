"""How properties are tried out."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is no fault of what is tested.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
