"""What chapter 18 alone needs."""
