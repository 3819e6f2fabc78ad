"""What chapter 14 alone needs."""
