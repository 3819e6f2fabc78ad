"""What chapter 01 alone needs."""
