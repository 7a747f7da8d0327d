"""RK3566 and RK3568 ("RKNPU lite"), the first generation."""
