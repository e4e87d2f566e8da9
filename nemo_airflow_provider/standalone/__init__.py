"""A whole Airflow on this machine, for trying things out and for tests: environment, processes, one job.

Airflow itself is only ever started as child processes, never imported, so this starts at once.
"""
