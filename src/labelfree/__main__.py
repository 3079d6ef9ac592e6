"""`python -m labelfree` is the command `labelfree`."""

from labelfree.cli.app import main

if __name__ == "__main__":
    main()
