"""The airflow DAG file of job shapes. To serve it from a DAG folder instead, put these two lines there."""

from nemo_airflow_provider.dags.shapes import define_dags

define_dags(globals())
