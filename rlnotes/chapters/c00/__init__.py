"""What chapter 00 alone needs."""
