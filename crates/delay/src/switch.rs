//! Which port an Ethernet address is behind. Owns the table; learns where frames come from, and answers where they go.

use std::collections::HashMap;

use crate::frame::{Address, Frame};

/// Addresses that are remembered: as many machines as a network of the laboratory has, several times. Later ones are flooded, and
/// counted.
const ADDRESSES_MAX: usize = 1_024;

/// Where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// To one port.
    Port(usize),
    /// To all ports but the one that it came from: nobody knows the address, or it is everybody's.
    Flood,
    /// Nowhere: it is behind the port that it came from.
    Stay,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    ports: HashMap<Address, usize>,
    unremembered: u64,
}

impl Switch {
    /// Learns where the sender is, and says where the receiver is.
    pub(crate) fn way(&mut self, frame: &Frame, came_from: usize) -> Way {
        self.learn(frame.from(), came_from);
        match self.ports.get(&frame.to()) {
            Some(&port) if port == came_from => Way::Stay,
            Some(&port) => Way::Port(port),
            None => Way::Flood,
        }
    }

    /// Frames from addresses for which there was no room.
    pub(crate) fn unremembered(&self) -> u64 {
        self.unremembered
    }

    fn learn(&mut self, from: Address, port: usize) {
        let is_group = from[0] & 1 != 0;
        if is_group {
            return;
        }
        if let Some(known) = self.ports.get_mut(&from) {
            *known = port;
        } else if self.ports.len() < ADDRESSES_MAX {
            self.ports.insert(from, port);
        } else {
            self.unremembered += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::example;

    #[test]
    fn a_frame_goes_where_its_receiver_was_heard_last() {
        let mut switch = Switch::default();
        assert_eq!(switch.way(&example(4, 2, 60), 0), Way::Flood);
        assert_eq!(switch.way(&example(2, 4, 60), 1), Way::Port(0));
        assert_eq!(switch.way(&example(4, 2, 60), 0), Way::Port(1));
        assert_eq!(switch.way(&example(2, 6, 60), 0), Way::Stay);
        assert_eq!(switch.way(&example(8, 2, 60), 2), Way::Flood);
        assert_eq!(switch.way(&example(2, 4, 60), 1), Way::Port(2), "it has moved");
    }

    #[test]
    fn what_is_for_all_goes_to_all_and_nobody_is_everybody() {
        let mut switch = Switch::default();
        switch.way(&example(4, 0xff, 60), 1);
        assert_eq!(switch.way(&example(0xff, 2, 60), 0), Way::Flood);
    }
}
