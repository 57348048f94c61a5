"""The pods this node should run, and the mirrors of its static pods."""
