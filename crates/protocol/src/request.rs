//! Requests: what clients send.
//!
//! ```text
//!   bytes ─▶ line ─▶ words ─▶ family (retrieval, storage, …) ─▶ Request, or Refusal
//!                                └ storage: and a data block of the stated length
//! ```
//!
//! `parser` goes this way. Each family has a file and knows no other; `command` is the one type over them, `parsed` what is said of
//! bytes that may be less, or worse, than a request. `login` reads what comes before all that where clients must log in.

mod admin;
mod arithmetic;
mod change;
mod command;
mod data_block;
mod deletion;
mod line;
mod login;
mod meta;
mod parsed;
mod parser;
mod refused;
mod retrieval;
mod storage;
mod touch;
mod words;

pub use arithmetic::{Arithmetic, ArithmeticVerb};
pub use command::Request;
pub use deletion::Deletion;
pub use login::{LOGIN_BYTES_MAX, login_words, parse_login};
pub use meta::{Meta, MetaVerb};
pub use parsed::{Limits, Parsed};
pub use parser::RequestParser;
pub use retrieval::{Keys, Retrieval, RetrievalVerb};
pub use storage::{Storage, StorageVerb};
pub use touch::Touch;
