"""``python -m autofusion``."""

from autofusion.cli import main

if __name__ == "__main__":
    main()
