//! The primitives: an authenticated cipher with a key, and keys derived from others. All that is known of the
//! crates which have them is in this file.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{AeadInOut, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::Cipher;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;
/// Bytes of a nonce.
pub(super) const NONCE_BYTES: usize = 12;
/// Bytes of a tag.
pub(super) const TAG_BYTES: usize = 16;

/// The bytes of a key, wiped when they are dropped.
pub(super) type SecretBytes = Zeroizing<[u8; KEY_BYTES]>;

/// A cipher with its key, which is wiped when it is dropped.
#[expect(clippy::large_enum_variant, reason = "made for each block, and boxed for none")]
pub(super) enum Aead {
    Aes(Aes256Gcm),
    ChaCha(ChaCha20Poly1305),
}

impl Aead {
    pub(super) fn new(cipher: Cipher, key: &[u8; KEY_BYTES]) -> Aead {
        match cipher {
            Cipher::Aes256Gcm => Aead::Aes(Aes256Gcm::new(key.into())),
            Cipher::ChaCha20Poly1305 => Aead::ChaCha(ChaCha20Poly1305::new(key.into())),
        }
    }

    /// Enciphers bytes in place; the tag that proves them and `known`, which stays in the clear. The caller
    /// gives no nonce twice.
    pub(super) fn seal(&self, nonce: &[u8; NONCE_BYTES], known: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let tag = match self {
            Aead::Aes(cipher) => cipher.encrypt_inout_detached(nonce.into(), known, bytes.into()),
            Aead::ChaCha(cipher) => cipher.encrypt_inout_detached(nonce.into(), known, bytes.into()),
        };
        tag.expect("both ciphers take gigabytes at once, and nobody has as much").into()
    }

    /// Deciphers bytes in place. False, and they mean nothing, if they or what is known were not sealed with
    /// this key, nonce and tag.
    #[must_use]
    pub(super) fn open(
        &self,
        nonce: &[u8; NONCE_BYTES],
        known: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        let opened = match self {
            Aead::Aes(cipher) => cipher.decrypt_inout_detached(nonce.into(), known, bytes.into(), tag.into()),
            Aead::ChaCha(cipher) => {
                cipher.decrypt_inout_detached(nonce.into(), known, bytes.into(), tag.into())
            }
        };
        opened.is_ok()
    }
}

/// The key that one has for a purpose: HMAC-SHA256 of what it is for.
pub(super) fn derive(key: &[u8; KEY_BYTES], purpose: &[u8], of: &[u8]) -> SecretBytes {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(purpose);
    mac.update(of);
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    sablecat_os::random::bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST's GCM test case 16 (AES-256 with known data), and RFC 8439, section 2.8.2.
    #[test]
    fn the_ciphers_are_those_of_the_standards() {
        let hex = |text: &str| -> Vec<u8> {
            let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
            digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
        };
        let key = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        let known = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let mut text = hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
             1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
        let aes = Aead::new(Cipher::Aes256Gcm, &key.try_into().expect("32 bytes"));
        let nonce = hex("cafebabefacedbaddecaf888").try_into().expect("12 bytes");
        let tag = aes.seal(&nonce, &known, &mut text);
        assert_eq!(tag[..], hex("76fc6ece0f4e1768cddf8853bb2d551b"));
        assert_eq!(text[..8], hex("522dc1f099567d07"));

        let key: Vec<u8> = (0x80..0xa0).collect();
        let nonce = hex("070000004041424344454647").try_into().expect("12 bytes");
        let mut text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for \
                         the future, sunscreen would be it."
            .to_vec();
        let chacha = Aead::new(Cipher::ChaCha20Poly1305, &key.try_into().expect("32 bytes"));
        let tag = chacha.seal(&nonce, &hex("50515253c0c1c2c3c4c5c6c7"), &mut text);
        assert_eq!(tag[..], hex("1ae10b594f09e26a7e902ecbd0600691"));
        assert_eq!(text[..8], hex("d31a8d34648e60db"));
        assert!(chacha.open(&nonce, &hex("50515253c0c1c2c3c4c5c6c7"), &mut text, &tag));
        assert!(text.starts_with(b"Ladies"));
    }

    #[test]
    fn a_derived_key_is_the_hmac_of_what_it_is_for() {
        let key = [7; KEY_BYTES];
        let one = derive(&key, b"block", &1u64.to_le_bytes());
        // As Python's hmac makes it.
        assert_eq!(one[..8], [0x69, 0xa1, 0xf3, 0x76, 0x80, 0xff, 0x34, 0xcd]);
        assert_ne!(*one, *derive(&key, b"block", &2u64.to_le_bytes()));
    }
}
