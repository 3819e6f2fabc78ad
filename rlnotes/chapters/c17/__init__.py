"""What chapter 17 alone needs."""
