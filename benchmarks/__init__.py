"""Speed and learning, measured. ``python -m benchmarks`` runs all of it and writes what it found."""
