"""`python -m fairlead` is the `fairlead` command."""

import sys

from fairlead.cli.main import main

sys.exit(main())
