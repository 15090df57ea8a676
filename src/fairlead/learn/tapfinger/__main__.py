"""`python -m fairlead.learn.tapfinger`: the training for machines that have torch, NumPy, Numba and onnx alone."""

import sys

from fairlead.domain.errors import UserError
from fairlead.learn.tapfinger.training import main

try:
    sys.exit(main())
except UserError as wrong:
    print(f"tapfinger: {wrong}", file=sys.stderr)
    sys.exit(wrong.exit_code)
