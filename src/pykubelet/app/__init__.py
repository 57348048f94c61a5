"""Where the parts are put together: straight-line code that makes each and hands it to the others."""
