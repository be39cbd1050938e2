"""The program `weir`, also as `python -m weir`."""

from broker.start import main

if __name__ == "__main__":
    main()
