"""What chapter 05 alone needs."""
