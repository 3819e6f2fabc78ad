"""What chapter 11 alone needs."""
