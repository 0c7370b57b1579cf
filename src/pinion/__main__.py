"""`python -m pinion` is the `pinion` command."""

from pinion.cli import main

main()
