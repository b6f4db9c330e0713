//! A command line, cut into words as memcached cuts it: at spaces only, runs of spaces count as one, and the line ends
//! at its first NUL.

use crate::near;

/// A fixed number of words, and one that may be there.
type WordsAndOne<'a, const N: usize> = ([&'a [u8]; N], Option<&'a [u8]>);

/// The words of one command line, without its line ending.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Self {
        let end = near::find(0, line).unwrap_or(line.len());
        Self { rest: &line[..end] }
    }

    /// What has not been cut yet, without leading spaces.
    pub(crate) fn rest(mut self) -> &'a [u8] {
        self.skip_spaces();
        self.rest
    }

    fn skip_spaces(&mut self) {
        while let [b' ', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// The next `N` words and perhaps one more, if the line ends after them.
    pub(crate) fn with_optional<const N: usize>(mut self) -> Option<WordsAndOne<'a, N>> {
        let mut words = [&[] as &[u8]; N];
        for word in &mut words {
            *word = self.next()?;
        }
        let last = self.next();
        self.next().is_none().then_some((words, last))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.skip_spaces();
        if self.rest.is_empty() {
            return None;
        }
        let end = near::find(b' ', self.rest).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(word)
    }

    /// Not word by word: a line may have a million.
    fn count(self) -> usize {
        near::count_words(self.rest, usize::MAX).unwrap_or(0)
    }

    /// Nor this.
    fn last(self) -> Option<&'a [u8]> {
        let end = self.rest.iter().rposition(|&byte| byte != b' ')? + 1;
        let before = self.rest[..end].iter().rposition(|&byte| byte == b' ');
        Some(&self.rest[before.map_or(0, |space| space + 1)..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Vec<&[u8]> {
        Tokens::new(line).collect()
    }

    #[test]
    fn lines_are_cut_at_spaces_alone() {
        assert_eq!(words(b"  get  a\tb c "), [&b"get"[..], b"a\tb", b"c"]);
        assert_eq!(words(b"get a\0b c"), [&b"get"[..], b"a"]);
        assert!(words(b"   ").is_empty());
    }

    #[test]
    fn words_are_counted_and_the_last_is_found_without_a_look_at_each() {
        for text in
            ["", " ", "a", " a", "a ", "a b", "  one  and another ", "a b c d e f g h i j k l m n o p"]
        {
            let words: Vec<_> = text.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect();
            let mut tokens = Tokens::new(text.as_bytes());
            for left in (0..=words.len()).rev() {
                assert_eq!(
                    (tokens.count(), tokens.last()),
                    (left, words.last().copied().filter(|_| left > 0))
                );
                tokens.next();
            }
        }
    }

    #[test]
    fn counts_are_strict() {
        assert_eq!(Tokens::new(b"a").with_optional::<1>(), Some(([&b"a"[..]], None)));
        assert_eq!(Tokens::new(b"a b c").with_optional::<1>(), None);
    }
}
