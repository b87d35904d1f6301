"""How long tests run: PLEACH_THOROUGH is a factor on numbers of examples and seeds."""

import os

FACTOR = max(1, int(os.environ.get("PLEACH_THOROUGH", "1")))
