"""Real memcached, the real binary and public clients over real sockets; and tests of the repository's own checks."""
