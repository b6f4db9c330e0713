//! When requests are sent: the offered rate over time and think times (`schedule`), the moments of an open loop, fixed in advance
//! (`arrivals`), when a connection's next request is due and what it is behind with (`pace`), what a thread has to do when (`agenda`).

pub(crate) mod agenda;
pub(crate) mod arrivals;
pub(crate) mod pace;
pub(crate) mod schedule;
