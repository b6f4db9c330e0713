//! From a key to its servers: hashes, distributions, replica sets.
