"""Regular expressions as Go has them, whose matching takes linear time."""
