//! The proxy without sockets and without a clock.
