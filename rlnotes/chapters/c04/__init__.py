"""What chapter 04 alone needs."""
