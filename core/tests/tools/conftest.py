"""Makes the tests' shared networks importable: pytest's importlib mode leaves test folders off the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
