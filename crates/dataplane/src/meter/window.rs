//! What one dataplane tells about one second.

use crate::{meter::counters::Counters, meter::server_window::ServerWindow};
use weir_timing::Measurements;

/// One second of one dataplane. Requests belong to the second in which they were answered. Counters, and the messages of servers, belong to
/// the one that ended last before they were handed out, which is in the first turn after its end.
#[derive(Debug)]
pub struct LoopWindow {
    /// The window covers this second of the proxy's clock, counted from 0.
    pub index: u64,
    /// Histograms and counts of requests; a server's times are in `servers`.
    pub measured: Measurements,
    /// What was counted.
    pub counters: Counters,
    /// Client connections that are open.
    pub sessions: u64,
    /// Requests in service.
    pub in_service: u64,
    /// One entry per server of the table in force, in its order.
    pub servers: Vec<ServerWindow>,
}
