"""`python -m local.emulation`, which `lean-ops emulate` becomes."""

from __future__ import annotations

import sys

from lean_ops.program import imports

with imports():
    from local.emulation.command import main

sys.exit(main())
