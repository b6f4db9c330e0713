//! memcached's text protocols, classic and meta, without IO: bytes to messages, and messages to bytes.
//!
//! What is here: [`RequestParser`] reads what clients send, [`ReplyScanner`] reads what servers answer, and both can be
//! given their bytes in pieces cut anywhere. Messages are parsed by length, never by looking for `END`. [`Request`] is the
//! first type to read; one file per command family lies under `request/`. [`Refusal`] is every answer that memcached gives
//! to a client's own mistake.
//!
//! What is not here: sockets, clocks, queues, and any knowledge of servers. Nothing is allocated for a message whose bytes
//! lie in the caller's buffer.
//!
//! Source of the rules: `protocol.txt` as memcached 1.6.18 ships it, and that server's observed answers where the text is
//! silent (`docs/decisions/0003-answers-of-memcached.md`).

mod base64_key;
pub mod binary;
pub mod door;
mod near;
mod number;
mod refusal;
mod reply;
mod request;
mod tokens;

pub use base64_key::Base64Key;
pub use number::cas_token;
pub use refusal::{Denied, Refusal};
pub use reply::values::{Values, meta_value_len, values};
pub use reply::{Expected, Reply, ReplyScanner, Status, ValueSpan, Violation, Whose};
pub use request::{
    Arithmetic, ArithmeticVerb, Deletion, Keys, LOGIN_BYTES_MAX, Limits, Meta, MetaVerb, Parsed, Request,
    RequestParser, Retrieval, RetrievalVerb, Storage, StorageVerb, Touch, login_words, parse_login,
};

/// The longest key that memcached accepts, in bytes (`protocol.txt`, "Keys").
pub const KEY_BYTES_MAX: usize = 250;
