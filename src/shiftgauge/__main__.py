"""`python -m shiftgauge` is the command `shiftgauge`."""

from _shiftgauge_command import main

if __name__ == "__main__":
    main()
