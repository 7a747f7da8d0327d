"""RK3576 ("RKNPU f2")."""
