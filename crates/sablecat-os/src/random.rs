//! Random bytes from the kernel: for identities and seeds, not for speed.

use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `bytes` with random bytes fit for cryptography. Waits, once per boot at most, until the kernel has
/// gathered enough.
///
/// # Panics
/// If the kernel has no `getrandom`, which every Linux since 3.17 has: an identity that is not random would
/// be worse.
pub fn bytes(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random bytes: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_part_of_a_long_buffer_is_filled() {
        let mut long = vec![0; 1 << 20];
        super::bytes(&mut long);
        // The chance that 64 random bytes are all zero is 2^-512.
        assert!(long.chunks(64).all(|chunk| chunk.iter().any(|byte| *byte != 0)));
        super::bytes(&mut []);
    }
}
