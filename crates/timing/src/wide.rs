//! Sums wider than 64 bits at the border of a record.

use serde::Serializer;

/// Writes a whole number while it fits 64 bits, and the nearest float beyond. A sum of nanoseconds over many waiting requests leaves 64
/// bits after months. A record with fifteen right digits is better than one that cannot be written.
pub(crate) fn serialize<S: Serializer>(value: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    match u64::try_from(*value) {
        Ok(value) => serializer.serialize_u64(value),
        Err(_) => serializer.serialize_f64(*value as f64),
    }
}
