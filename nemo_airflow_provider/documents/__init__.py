"""What people wrote in files, read in bounded time and memory, whatever it turns out to be."""
