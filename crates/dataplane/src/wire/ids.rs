//! The numbers by which rooms know each other's things: each space of numbers is a type of its own.
//!
//! A number of one space cannot be used in another, and the compiler says so: nothing makes one of these types into another, and only
//! [`from_index`](SessionId::from_index) makes one of a plain number. Who has a list by such a number reaches into it by
//! [`index`](SessionId::index).

/// A type for the numbers of one space.
macro_rules! number {
    ($(#[$what:meta])* $name:ident) => {
        $(#[$what])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(usize);

        impl $name {
            /// The one with this place in a list.
            #[inline(always)]
            pub const fn from_index(index: usize) -> Self {
                Self(index)
            }

            /// Its place in a list.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0
            }
        }
    };
}

number! {
    /// Names one client connection until [`crate::Dataplane::handle_client_closed`] was called for it and its requests are done; the
    /// number is used again after that.
    SessionId
}

number! {
    /// Names one request in service until it is answered and no server owes it a reply; the number is used again after that.
    RequestKey
}

number! {
    /// Names one event loop of a proxy, and its dataplane, for as long as the proxy runs.
    LoopId
}

/// Names a server in this dataplane and at its driver, or a further connection to one, until it is free (`servers/slots.rs`). A server
/// keeps its slot while tables change, wherever it stands in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Slot(u16);

impl Slot {
    /// The first one: what lists hold before they are filled.
    pub(crate) const FIRST: Self = Self(0);

    /// The one with this place in a list.
    ///
    /// # Panics
    ///
    /// If the place does not fit into 16 bits.
    #[inline(always)]
    pub const fn from_index(index: usize) -> Self {
        assert!(index <= u16::MAX as usize, "there are no more slots than SLOTS_MAX");
        Self(index as u16)
    }

    /// Its place in a list.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The one with this number, as [`weir_routing::Balance`] gives it back.
    #[inline(always)]
    pub(crate) const fn from_number(number: u16) -> Self {
        Self(number)
    }

    /// Its number, as [`weir_routing::Balance`] takes it.
    #[inline(always)]
    pub(crate) const fn number(self) -> u16 {
        self.0
    }
}

/// The slot with this number.
#[cfg(test)]
pub(crate) const fn slot(index: usize) -> Slot {
    Slot::from_index(index)
}
