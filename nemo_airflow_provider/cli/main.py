"""The console script `nemo`. Nothing else is imported before Ctrl-C is taken care of."""

from __future__ import annotations

import gc
import sys

# Imports make many objects that stay; looking for garbage among them is a tenth of the start-up.
_OBJECTS_BEFORE_COLLECTION = 50_000
_INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave with its exit code."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    try:
        from nemo_airflow_provider.cli.app import run
        from nemo_airflow_provider.cli.terminal import buffer_output

        buffer_output()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        code = _INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
