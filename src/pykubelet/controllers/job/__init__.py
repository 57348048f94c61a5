"""The Job controller: runs pods until enough have succeeded or too many have failed."""
