"""`python -m tacit` is the same program as `tacit`."""

import sys

from tacit.cli import main

sys.exit(main())
