//! Development only: simulated clock, network and memcached servers, all from one seed.
