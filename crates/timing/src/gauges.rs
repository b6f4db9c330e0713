//! How many are in a place over time: a queue, as those meet it who come (`queue`), and a station, with how long each has been there
//! (`station`).

pub(crate) mod queue;
pub(crate) mod station;
