"""`python -m labelfree` is the command `labelfree`."""

from _labelfree_command import main

if __name__ == "__main__":
    main()
