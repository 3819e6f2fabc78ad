"""What chapter 08 alone needs."""
