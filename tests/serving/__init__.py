"""`anynpu serve`, its protocol and its clients."""
