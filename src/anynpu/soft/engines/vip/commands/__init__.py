"""The units' commands: which bits are which field, declared once."""
