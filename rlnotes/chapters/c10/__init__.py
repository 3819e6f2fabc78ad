"""What chapter 10 alone needs."""
