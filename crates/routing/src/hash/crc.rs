//! Cyclic redundancy checks in their three dialects.

const CRC32: [u32; 256] = crc32_table();
const CRC16: [u32; 256] = crc16_table();

/// CRC-32 (IEEE 802.3).
pub(crate) fn crc32a(key: &[u8]) -> u32 {
    !key.iter().fold(u32::MAX, |crc, byte| crc >> 8 ^ CRC32[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

/// Fifteen bits of CRC-32: what libmemcached calls CRC.
pub(super) fn crc32(key: &[u8]) -> u32 {
    crc32a(key) >> 16 & 0x7fff
}

/// CRC-16 (XMODEM) in a register of 32 bits whose upper half is never cleared, as in twemproxy 0.5.0.
pub(super) fn crc16(key: &[u8]) -> u32 {
    key.iter().fold(0, |crc: u32, byte| crc << 8 ^ CRC16[((crc >> 8 ^ u32::from(*byte)) & 0xff) as usize])
}

/// Remainders by the reflected polynomial 0xedb88320.
const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut remainder = index as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 1 == 1 { remainder >> 1 ^ 0xedb8_8320 } else { remainder >> 1 };
            bit += 1;
        }
        table[index] = remainder;
        index += 1;
    }
    table
}

/// Remainders by the polynomial 0x1021.
const fn crc16_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut remainder = (index as u32) << 8;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 0x8000 != 0 { remainder << 1 ^ 0x1021 } else { remainder << 1 };
            bit += 1;
        }
        table[index] = remainder & 0xffff;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_catalogue() {
        assert_eq!(crc32a(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc16(b"123456789") & 0xffff, 0x31c3);
        assert_eq!(crc32a(b""), 0);
    }
}
