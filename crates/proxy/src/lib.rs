//! Drivers that move bytes and time for the dataplane; the admin port; shutdown.
