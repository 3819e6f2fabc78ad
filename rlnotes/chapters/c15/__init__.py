"""What chapter 15 alone needs."""
