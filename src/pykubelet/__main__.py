"""`python -m pykubelet` is the command `pykubelet`."""

from pykubelet.cli.main import main

if __name__ == "__main__":
    main()
