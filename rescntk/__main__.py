"""``python -m rescntk``, the same as the command ``rescntk``."""

from .cli import main

raise SystemExit(main())
