//! What memcached repeats of a meta request that was not carried out.

use weir_protocol::{Meta, MetaVerb};

/// A line of memcached's that repeats what it repeats of a request that was not carried out. It repeats the key and the opaque, in the
/// order in which they were asked for, and for `ms` that there is no token.
pub(crate) fn meta_line(word: &[u8], meta: Meta<'_>) -> Vec<u8> {
    let mut line = word.to_vec();
    for flag in meta.flags() {
        match flag[0] {
            b'O' => line.extend([b" ", flag].concat()),
            b'k' => {
                line.extend([b" k", meta.key].concat());
                line.extend_from_slice(if meta.is_base64() { b" b" } else { b"" });
            }
            b'c' if meta.verb == MetaVerb::Set => line.extend_from_slice(b" c0"),
            _ => {}
        }
    }
    line.extend_from_slice(b"\r\n");
    line
}
