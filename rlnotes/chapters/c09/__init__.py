"""What chapter 09 alone needs."""
