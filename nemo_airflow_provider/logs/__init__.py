"""The log store: from the bytes of an engine to pages of lines. Knows no Airflow and no backend."""
