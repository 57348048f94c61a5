"""What the machine is short of: measured, judged, told as conditions, relieved by evicting pods."""
