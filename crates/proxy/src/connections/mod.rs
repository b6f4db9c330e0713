//! Sockets, addresses and descriptors: what lies between the kernel and whoever serves.
//!
//! | file | holds |
//! |---|---|
//! | `listener` | where clients connect: a port, or a socket in the file system |
//! | `listener_counts` | how many clients came in at each |
//! | `inherited` | ports that the service manager holds open |
//! | `client_limit` | how many clients may be connected |
//! | `descriptors` | how many descriptors there are, for what, and those that are held (`reserve`) |
//! | `sockets` | a connection: a TCP stream, or one in the file system |
//! | `transport` | the seam between it and the loop that serves it |
//! | `tls` | a connection whose bytes are encrypted |
//! | `reads` | how one thread reads |
//! | `tcp_timeouts` | what the kernel watches where nothing comes |
//! | `names` | the addresses of servers that are given by name |

pub(crate) mod client_limit;
pub(crate) mod descriptors;
pub(crate) mod inherited;
pub(crate) mod listener;
pub(crate) mod listener_counts;
pub(crate) mod names;
pub(crate) mod reads;
pub(crate) mod sockets;
pub(crate) mod tcp_timeouts;
pub(crate) mod tls;
pub(crate) mod transport;
