"""What makes the site: its hooks, and the scripts that draw its pictures."""
