//! When requests are sent. `schedule` has the offered rate over time, and think times. `arrivals` has the moments of an open loop, fixed in
//! advance. `pace` knows when a connection's next request is due, and what the connection is behind with. `agenda` knows what a thread has
//! to do, and when.

pub(crate) mod agenda;
pub(crate) mod arrivals;
pub(crate) mod pace;
pub(crate) mod schedule;
