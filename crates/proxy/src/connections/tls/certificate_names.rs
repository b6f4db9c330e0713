//! Who a certificate is: its alternative names (DNS names and URIs), and behind them its common name.
//!
//! It is asked for certificates that were verified, of an authority of ours. What cannot be read of one is no name: nobody is let in by it.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// No certificate of a program has more names. What is behind them is not looked at.
const NAMES_MAX: usize = 64;

/// The names of a certificate, as they stand there.
pub(super) fn certificate_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let alternative = certificate.valid_dns_names().chain(certificate.valid_uri_names());
    let mut names: Vec<_> = alternative.take(NAMES_MAX).map(str::to_owned).collect();
    names.extend(common_names(certificate.subject()).take(NAMES_MAX));
    names
}

// ── the subject: a sequence of sets of (type, value), in DER ────────────────────────────────────────────────────────────────

/// 2.5.4.3 (X.520, `id-at-commonName`).
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// `UTF8String`, `PrintableString` and `IA5String`: texts that are UTF-8.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];

fn common_names(subject: &[u8]) -> impl Iterator<Item = String> {
    let sets = Elements(subject).filter(|(tag, _)| *tag == SET);
    let pairs = sets.flat_map(|(_, set)| Elements(set)).filter(|(tag, _)| *tag == SEQUENCE);
    pairs.filter_map(|(_, pair)| {
        let mut pair = Elements(pair);
        let (_, value) = match (pair.next()?, pair.next()?) {
            ((OBJECT_IDENTIFIER, COMMON_NAME), value) if TEXTS.contains(&value.0) => value,
            _ => return None,
        };
        String::from_utf8(value.to_vec()).ok()
    })
}

/// The elements of DER that stand one behind the other, each with its tag. It ends where something is none.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        // Names of more than 64 KiB are none.
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81 => (usize::from(*rest.first()?), &rest[1..]),
            0x82 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [String; 0] = [];

    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let value = parts.concat();
        let head = match value.len() {
            len @ 0..=0x7f => vec![tag, len as u8],
            len @ 0x80..=0xff => vec![tag, 0x81, len as u8],
            len => vec![tag, 0x82, (len >> 8) as u8, len as u8],
        };
        [head, value].concat()
    }

    fn pair(oid: &[u8], tag: u8, text: &str) -> Vec<u8> {
        let (oid, text) = (element(OBJECT_IDENTIFIER, &[oid]), element(tag, &[text.as_bytes()]));
        element(SET, &[&element(SEQUENCE, &[&oid, &text])])
    }

    fn names(subject: &[u8]) -> Vec<String> {
        common_names(subject).collect()
    }

    #[test]
    fn the_common_name_is_found_among_others_however_long_they_are() {
        let organization = pair(&[0x55, 0x04, 0x0a], 0x0c, "app");
        for text in ["app", &"x".repeat(200), &"y".repeat(300)] {
            for tag in TEXTS {
                let subject = [organization.clone(), pair(COMMON_NAME, tag, text)].concat();
                assert_eq!(names(&subject), [text.to_owned()]);
            }
        }
        assert_eq!(names(&organization), NONE);
        assert_eq!(names(&pair(COMMON_NAME, 0x1e, "app")), NONE, "UTF-16");
    }

    #[test]
    fn no_bytes_make_it_panic_and_what_is_cut_off_is_no_name() {
        let subject =
            [pair(&[0x55, 0x04, 0x06], 0x13, "CH"), pair(COMMON_NAME, 0x0c, &"n".repeat(130))].concat();
        for end in 0..subject.len() {
            assert_eq!(names(&subject[..end]), NONE, "cut at {end}");
        }
        for place in 0..subject.len() {
            for byte in 0..=u8::MAX {
                let mut changed = subject.clone();
                changed[place] = byte;
                let _ = names(&changed);
            }
        }
    }
}
