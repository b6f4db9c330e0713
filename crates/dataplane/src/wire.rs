//! Keys, requests, questions and faults as they are written on the wire, and the types of the numbers that all rooms use.

pub(crate) mod doubt;
pub(crate) mod fault;
pub(crate) mod hash;
pub(crate) mod ids;
pub(crate) mod kept;
pub(crate) mod key;
pub(crate) mod meta_line;
pub(crate) mod names;
pub(crate) mod secret;
pub(crate) mod stats;
pub(crate) mod tagged;
pub(crate) mod version;
pub(crate) mod write;
pub(crate) mod written;
