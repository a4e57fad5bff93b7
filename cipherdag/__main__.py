"""``python -m cipherdag`` is the ``cipherdag`` command."""

from cipherdag.cli.main import main

if __name__ == "__main__":
    main()
