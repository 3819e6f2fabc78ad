"""What chapter 02 alone needs."""
