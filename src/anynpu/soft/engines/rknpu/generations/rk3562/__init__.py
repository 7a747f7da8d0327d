"""RK3562, which writes RK3576's registers in a notation of its own."""
