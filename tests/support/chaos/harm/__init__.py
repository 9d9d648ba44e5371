"""What the chaos run does to an installation, one module for each kind of target."""
