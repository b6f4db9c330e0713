//! Choices that a whole process makes.

use weir_dataplane::words;

words! {
    /// The way of serving (`docs/understand/engines.md`). Protocol, placement, rules, stamps and reports are the same under all.
    pub enum Engine {
        /// Event loops, each with few pipelined connections per server
        #[default]
        Event = "event",
        /// One network thread, one queue, and workers, each with a connection of its own to every server
        Pool = "pool",
        /// One network thread; for each server a queue of reads with readers, and a queue of writes with one writer
        Split = "split",
    }
}

words! {
    /// How many of a queue's workers serve at once.
    pub enum CrewPolicy {
        /// Where threads wait for processors, as few as bring as much
        #[default]
        Adaptive = "adaptive",
        /// Always all of them
        Fixed = "fixed",
    }
}

words! {
    /// How lines of the log look.
    pub enum LogFormat {
        /// For people
        #[default]
        Text = "text",
        /// One object of JSON in each line
        Json = "json",
    }
}

words! {
    /// From which level on lines of the log are written.
    pub enum LogLevel {
        /// What ends the proxy, or needs somebody to do something
        Error = "error",
        /// And what clients may notice
        Warn = "warn",
        /// And everything else
        #[default]
        Info = "info",
    }
}
