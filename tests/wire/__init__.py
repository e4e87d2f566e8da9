"""The wire: our server as plain HTTP and as the unmodified upstream client (nemo-helix 0.8.1) see it.

Tests named `test_a<n>_` and `test_l<n>_` hold what upstream's own server gets wrong and ours must not:
a1 a list as filter value finds nothing; a2 pages are filtered after they are cut; a4 an id is not as good as a name;
a6 time ranges are an error; a7 `updated_at` stands still; a13 times have no zone; a16 typing errors pass unseen;
l1 a job ends before its last lines can be read; l2 pages skip or repeat lines; l4 stdout and stderr are one;
l5 empty and very long lines are lost.
"""
