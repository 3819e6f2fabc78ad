"""What chapter 07 alone needs."""
