//! How long a client may say nothing, take to log in and over one request, and leave its replies unread.

with_defaults! {
    /// What is expected of clients. A time of 0 means for ever.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ClientTimeouts {
        /// How long a client may send nothing while it is owed nothing. Nanoseconds.
        pub idle_ns: u64 = 0,
        /// How long a request may take from its first byte until it is complete; as long again for each `progress_bytes` of it that
        /// have arrived. Nanoseconds.
        pub request_ns: u64 = 10_000_000_000,
        /// How long a client may take to log in, from its connection, where it must. Nanoseconds.
        pub login_ns: u64 = 10_000_000_000,
        /// How long a client may take nothing of the replies that wait for it. Nanoseconds.
        pub unread_ns: u64 = 30_000_000_000,
        /// What of a long request must arrive within each `request_ns`.
        pub progress_bytes: usize = 64 << 10,
    }
}
