"""From commands to descriptions, a module for each unit."""
