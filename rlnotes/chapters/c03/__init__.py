"""What chapter 03 alone needs."""
