"""RV1103, RV1106 and their sisters ("RKNPU t3")."""
