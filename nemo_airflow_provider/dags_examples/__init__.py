"""Example DAGs: each is a file to copy into a DAG folder. All but `nemo_docker` and `nemo_kubernetes` run on the
subprocess profile."""
