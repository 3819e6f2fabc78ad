"""What chapter 13 alone needs."""
