"""RK3562 ("RKNPU t4")."""
