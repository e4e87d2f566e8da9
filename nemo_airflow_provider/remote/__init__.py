"""A job of another server, run from here: its name, who it belongs to, its log as far as it was written.

Imports no Airflow; the hook and the operator hold the wiring.
"""
