"""Other packages' interfaces on anynpu: existing scripts run with one changed import."""
