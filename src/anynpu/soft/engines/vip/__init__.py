"""The engine for compiled `.nb` files: executes their commands one by one."""
