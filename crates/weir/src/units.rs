//! Units on the command line.

pub(crate) use weir_load::units::{duration, unix_time};
