"""What one chapter alone needs, a folder each: its exercises, its explorers and their scripts, its stored tables."""
