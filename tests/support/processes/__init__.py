"""The product as operating system processes: started, paused, killed."""
