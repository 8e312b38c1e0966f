"""`python -m local`: the stack, which `lean-ops local up` becomes."""

from __future__ import annotations

import sys

from lean_ops.program import imports

with imports():
    from local.supervisor import main

sys.exit(main())
