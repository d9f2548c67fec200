"""`python -m stormcell ...` is `stormcell ...`."""

from stormcell.cli.main import main

if __name__ == "__main__":
    main()
