//! What the device says of itself: one line of JSON.

use serde::Serialize;

use crate::lateness::Summary;

/// `weir.delay/1`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) schema: &'static str,
    /// Priority of the thread, and why it is not real-time if it is not.
    pub(crate) priority: String,
    pub(crate) ports: Vec<PortReport>,
    /// Of frames that left since the last report; `None` if none did.
    pub(crate) lateness: Option<Summary>,
    /// How much earlier than due the device wakes, in microseconds.
    pub(crate) early_us: f64,
    /// Whether frames are later than the device may make up for: the machine is too busy for these delays.
    pub(crate) correction_is_spent: bool,
    /// CPU time of the device so far.
    pub(crate) cpu_ns: u64,
    /// How often it slept so far.
    pub(crate) sleeps: u64,
    /// Frames without a stamp of the kernel, which count from when they were read.
    pub(crate) unstamped: u64,
    /// Frames too short or too long to be handed on.
    pub(crate) unusable: u64,
    /// Frames from Ethernet addresses for which the table had no room; answers to them go to all ports.
    pub(crate) unremembered: u64,
}

/// One port since the start; packets and bytes as on a wire.
#[derive(Debug, Serialize)]
pub(crate) struct PortReport {
    pub(crate) name: String,
    pub(crate) delay_us: f64,
    pub(crate) rate_mbit_s: Option<f64>,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    /// Packets that came faster than the rate for too long.
    pub(crate) dropped_at_rate: u64,
    /// Packets for which no room was left to wait.
    pub(crate) dropped_at_lane: u64,
    /// Frames that came while the device was too slow to look.
    pub(crate) missed: u64,
    /// Frames that the kernel did not take for this port.
    pub(crate) refused: u64,
    pub(crate) waiting_bytes: u64,
    pub(crate) waiting_bytes_max: u64,
}
