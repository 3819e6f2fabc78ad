"""What chapter 12 alone needs."""
