"""What chapter 16 alone needs."""
