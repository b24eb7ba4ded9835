"""`python -m xlnet`: the console command in a checkout that is not installed."""

from xlnet.commands.main import main

if __name__ == "__main__":
    main()
