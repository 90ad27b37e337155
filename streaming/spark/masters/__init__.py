"""What cluster managers say of applications: which there are, and whether a driver of one has ended. One file each."""
