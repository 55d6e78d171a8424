"""`python -m tf_memsafe`: see `tf_memsafe.command`."""

import sys

from tf_memsafe.command import main

sys.exit(main())
