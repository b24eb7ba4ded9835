"""What every room uses: files, errors, and how a process starts."""
