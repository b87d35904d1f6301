"""`python -m pleach`: the command line, for where the script is not on the path."""

from pleach.cli.main import run

if __name__ == "__main__":
    run()
