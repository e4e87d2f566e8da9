"""Example DAGs: each is a file to copy into a DAG folder. They run on the subprocess profile."""
