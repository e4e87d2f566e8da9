"""Measurements of this product, and of upstream's own server on the same machine; `make bench`."""
