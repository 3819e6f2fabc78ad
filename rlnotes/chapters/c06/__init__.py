"""What chapter 06 alone needs."""
