use super::*;
use md5::{Digest as _, Md5};
use proptest::prelude::*;

fn hex(digest: [u8; 16]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 1321, section A.5.
#[test]
fn digests_are_those_of_rfc_1321() {
    for (text, expected) in [
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("abc", "900150983cd24fb0d6963f7d28e17f72"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
        (
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "d174ab98d277d9f5a5611c2c9f419d9f",
        ),
        (
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        ),
    ] {
        assert_eq!(hex(digest(text.as_bytes())), expected, "{text:?}");
        // Twice, so that it is hashed beside another.
        let [alone, first, second] = [
            low(text.as_bytes()),
            low_of_each(&[text.as_bytes(); 2])[0],
            low_of_each(&[text.as_bytes(); 2])[1],
        ];
        assert_eq!((first, second), (alone, alone), "{text:?}");
    }
}

#[test]
fn points_are_the_little_endian_quarters_of_a_digest() {
    let points: Vec<u32> = points(digest(b"server1-8")).collect();
    assert_eq!((points[0], points[3]), (3_853_726_576, 2_667_054_752));
}

proptest! {
    /// What servers hold was placed by the function of another library.
    #[test]
    fn digests_are_those_of_another_library(text in prop::collection::vec(any::<u8>(), 0..600)) {
        let expected: [u8; 16] = Md5::digest(&text).into();
        prop_assert_eq!(digest(&text), expected);
    }
}
