//! Keys that are noted one behind the other.

/// Keys, each after its length.
pub(crate) struct Names<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Names<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (&len, rest) = self.0.split_first()?;
        let (name, rest) = rest.split_at(usize::from(len));
        self.0 = rest;
        Some(name)
    }
}
